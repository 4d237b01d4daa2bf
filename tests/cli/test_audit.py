"""audit, compare, visible and card from the shell: what they write, and what they refuse in one line."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file
from typer.testing import CliRunner

from netgrain.cli import audit
from netgrain.cli.app import app

NETS = """
from torch import nn

def small():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 2))
"""


def _invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and data of one's own."""
    (tmp_path / "nets.py").write_text(NETS)
    X = np.random.default_rng(0).standard_normal((80, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "my.npz", X=X, y=np.where(X[:, 0, 2:4, 2:4].mean((1, 2)) > 0, "<script>x</script>", "no"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_audit_with_a_change(here: Path) -> None:
    what_if = ("--what-if", "2=MaxPool2d(2)")
    code, text, error = _invoke("audit", "nets.py:small", "--data", "my.npz", "--members", "8", "--no-trial", *what_if)
    assert code == 0, error
    text = " ".join(text.split())
    assert "verdict" in text.split()[0]
    assert "measured at the 80 samples" in text
    page = (here / "report.html").read_text()
    assert "<script>x" not in page
    assert "MaxPool2d" in page


@pytest.mark.parametrize(
    ("probe", "place"), [("origin", "at the origin x = 0"), ("gaussian:0.5", "at the probe gaussian:0.5")]
)
def test_the_probe(here: Path, probe: str, place: str) -> None:
    members = () if probe == "origin" else ("--members", "4")
    (here / "report.html").write_text("an earlier page")
    code, text, error = _invoke("audit", "nets.py:small", "--data", "my.npz", "--probe", probe, "--quick", *members)
    assert code == 0, error
    assert f"measured {place}" in " ".join(text.split())
    assert "an earlier page" not in (here / "report.html").read_text()  # a file of that name is replaced


def test_compare_as_json_and_as_a_page(here: Path) -> None:
    arguments = (
        "compare",
        "nets.py:small",
        "mlp",
        "--data",
        "my.npz",
        "--probe",
        "origin",
        "--quick",
        "--out",
        "c.html",
    )
    code, text, error = _invoke(*arguments, "--json")
    assert code == 0, error
    found = json.loads(text)
    assert [a["model"] for a in found["audits"]] == ["nets.py:small", "mlp"]
    assert {row["model"] for row in found["ranking"]} == {"nets.py:small", "mlp"}
    page = (here / "c.html").read_text()
    assert len(page) > 10_000
    assert "Operations for a prediction" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "my.npz/x.html"), "is a file"),
        (("--out", "."), "is a folder"),
        (("--out", "report.pdf"), "expects a name that ends in .html or .json, found 'report.pdf'"),
        (("--fail-if", "accuracy"), "expects a path, a comparison and a number"),
        (("--keep", "0"), "--keep expects a share"),
        (("--weights", "none.pt"), "is not a file"),
        (("--what-if", "pool1"), "is written NAME=LAYER"),
        (("--what-if", "pool1=AvgPol2d(2)"), "Did you mean 'AvgPool2d'"),
        (("--what-if", "pool1=AvgPool2d(open('x'))"), "plain arguments"),
        (("--probe", "far"), "probe 'far' is not known"),
    ],
)
def test_bad_arguments_are_told_and_nothing_is_written(here: Path, arguments: tuple[str, ...], said: str) -> None:
    before = sorted(p.name for p in here.iterdir())
    code, _, error = _invoke("audit", "mlp", "--data", "my.npz", *arguments)
    assert (code, said in error, len(error.strip().splitlines())) == (2, True, 1), error
    assert sorted(p.name for p in here.iterdir() if p.name != "__pycache__") == before


def test_conditions_set_the_exit_code(here: Path) -> None:
    arguments = ("audit", "nets.py:small", "--data", "my.npz", "--probe", "origin", "--quick")
    conditions = ("--fail-if", "accuracy < 2", "--fail-if", "network.parameters > 1e9")
    code, text, error = _invoke(*arguments, *conditions)
    assert code == 1, error
    assert text.count("condition holds: accuracy < 2: 0.") == 1
    assert "network.parameters" not in text
    assert (here / "report.html").exists()
    code, _, error = _invoke(*arguments, "--fail-if", "expected.trial.score < 1")
    assert (code, len(error.strip().splitlines())) == (2, 1)
    assert "was not measured" in error


def test_a_card(here: Path) -> None:
    code, text, error = _invoke("card", "nets.py:small", "--input", "1x8x8", "--out", "card")
    assert code == 0, error
    assert "The grain of nets.py:small" in text.replace("\\_", "_")
    assert (here / "card" / "grain.png").exists()


def test_signals(here: Path) -> None:
    stripes = np.ones((1, 8, 8), dtype=np.float32)
    stripes[..., ::2] = -1
    np.save("stripes.npy", stripes)
    np.save("flat.npy", np.ones((1, 8, 8), dtype=np.float32))
    found = {}
    for name in ("stripes", "flat"):
        code, text, error = _invoke("visible", "nets.py:small", "--signal", f"{name}.npy", "--json")
        assert code == 0, error
        found[name] = json.loads(text)
    assert found["flat"]["word"] == "strong"
    assert found["stripes"]["word"] in ("weak", "very weak", "zero")
    assert 10 * found["stripes"]["gain"]["value"] < found["flat"]["gain"]["value"]
    code, _, error = _invoke("visible", "nets.py:small", "--signal", "none.npy")
    assert (code, len(error.strip().splitlines())) == (2, 1)
    assert "is not a file" in error


@pytest.mark.parametrize("line", [*audit.AUDIT_EXAMPLES.splitlines(), *audit.COMPARE_EXAMPLES.splitlines()])
def test_every_example_of_the_help_runs(here: Path, line: str) -> None:
    """On 64 samples and few networks; data sets and packages that are not here are left to `make docs-lines`."""
    if "cifar10" in line or "mnist" in line or "timm" in line:
        pytest.skip("needs a data set or a package of its own")
    (here / "my_model.py").write_text(NETS.replace("def small", "def Net"))
    names: dict[str, object] = {}
    exec(NETS, names)
    save_file(names["small"]().state_dict(), "trained.safetensors")  # type: ignore[operator]
    code, text, error = _invoke(*shlex.split(line)[1:], "--limit", "64", *([] if "--quick" in line else ["--quick"]))
    assert code in (0, 1), error
    assert (code == 1) is ("condition holds" in text)
