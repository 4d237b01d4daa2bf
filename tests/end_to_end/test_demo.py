"""The demo runs from start to end and its words follow from its numbers."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from netgrain import Geometry

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
NAMES = ("mlp", "lenet", "resnet18", "vit")


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(demo: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["demo.py", *words])
    code: int = demo.main()
    return code


def test_small_demo_writes_everything(
    demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rough = ("--small", "--width", "0.125", "--tolerance", "0.3")
    assert call(demo, monkeypatch, *rough, "--out", str(tmp_path / "out")) == 0
    said = capsys.readouterr()
    assert said.err == ""
    cases = [f"{name}{suffix}" for suffix in ("", "-relu-digits") for name in NAMES]
    expected = {f"{case}.safetensors" for case in cases} | {f"{case}-directions.png" for case in cases}
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == expected | {"geometry.png", "geometry-relu-digits.png", "table.md", "table.json"}
    rows = json.loads((tmp_path / "out/table.json").read_text(encoding="utf-8"))
    assert [row["network"].lower() for row in rows] == [*NAMES, *NAMES]
    assert [row["place"] for row in rows] == ["at the origin"] * 4 + ["at digits"] * 4
    assert {row["probe"] for row in rows[4:]} == {"digits (1000 samples)"}
    for case, row in zip(cases, rows, strict=True):
        G = Geometry.load(tmp_path / "out" / f"{case}.safetensors")
        assert row["effective_rank"] == G.effective_rank.as_dict()
        assert row["members"] == G.members
    table = (tmp_path / "out/table.md").read_text(encoding="utf-8")
    assert table.count("\n|") == 1 + 2 * len(NAMES)
    assert table.strip() in said.out
    assert f"look at {tmp_path / 'out/geometry.png'}" in said.out


def test_demo_overwrites_what_is_there(demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "NETWORKS", {"MLP": demo.MLP})
    for members in ("2", "3"):
        assert call(demo, monkeypatch, "--small", "--members", members, "--out", str(tmp_path)) == 0
        assert json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))[0]["members"] == int(members)
    assert len(list(tmp_path.iterdir())) == 8


def test_demo_says_what_is_wrong(
    demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert call(demo, monkeypatch, "--small", "--out", str(tmp_path / "file")) == 2
    assert "error: cannot write" in capsys.readouterr().err
    assert call(demo, monkeypatch, "--small", "--members", "-1", "--out", str(tmp_path / "new")) == 2
    assert "expected at least one member, found -1" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("diagonal", "first"),
    [
        ([1.0] * 64, "N (GELU here) has no grain: it reacts to all 64 directions of the input alike."),
        (
            [3.0] * 16 + [1.0] * 16 + [0.0] * 32,
            "N (GELU here) has 3 kinds of directions: 16 of 64, all equally strong, carry 75 % of the geometry. "
            "Along 32 directions its gain there is zero.",
        ),
        (
            [2.0**-i for i in range(64)],  # from 2⁻³⁴ on they count as zero
            "N (GELU here) has a grain: 4 of 64 directions carry 90 % of the geometry, and its effective rank is 3. "
            "Along 30 directions its gain there is zero.",
        ),
    ],
)
def test_sentences_follow_from_the_numbers(demo: ModuleType, diagonal: list[float], first: str) -> None:
    G = Geometry.from_matrix(torch.diag(torch.tensor(diagonal, dtype=torch.float64)), (1, 8, 8))
    found = demo.sentences({"network": "N", "activation": "gelu", "place": "here", **demo.numbers(G)})
    assert found[0] == first


def test_the_slope_of_sampling_noise_is_not_called_a_grain(demo: ModuleType) -> None:
    diagonal = torch.linspace(1.1, 0.9, 64, dtype=torch.float64)
    row = {"network": "N", "activation": "relu", "place": "here"}
    row |= demo.numbers(Geometry.from_matrix(torch.diag(diagonal), (1, 8, 8)))
    assert "N (ReLU here) has a grain" in demo.sentences(row)[0]  # these are exact numbers
    assert "no grain that these networks show" in demo.sentences({**row, "members": 500})[0]


def test_slow_patterns_are_the_low_frequencies(demo: ModuleType) -> None:
    constant, checkers = torch.ones(64, 1), torch.tensor([1.0, -1.0]).repeat(32)[:, None]
    shape = (1, 8, 8)
    assert demo.slow_part(constant @ constant.T, shape) == pytest.approx(64)
    assert demo.slow_part(checkers @ checkers.T, shape) == pytest.approx(0, abs=1e-9)
    assert demo.slow_part(torch.eye(64), shape) == pytest.approx(9)
