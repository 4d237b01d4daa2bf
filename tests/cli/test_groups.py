"""`netgrain group` and `netgrain limit`: tables, JSON, files and messages."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from netgrain.cli import app as cli
from netgrain.cli.app import app
from netgrain.equivariant import limit
from netgrain.groups import quaternion
from tests.equivariant.known_limits import D8, teacher


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["group", *arguments])


def test_the_command_prints_classes_characters_and_types() -> None:
    result = command("A5")
    assert result.exit_code == 0, result.output
    words = result.output.replace("\n", " ").split()
    assert " ".join(words[:6]) == "group A5, order 60, not abelian"
    assert "1×1 + 2×3 + 1×4 + 1×5" in result.output
    assert "φ = (1 + √5)/2" in result.output
    line = next(line for line in result.output.splitlines() if line.startswith("ρ1"))
    assert line.split() == ["ρ1", "real", "3", "0", "-1", "φ", "-1/φ"]
    assert "15  (elements of order 2" in result.output


def test_the_command_shows_a_part_of_a_large_group() -> None:
    result = command("C28xC28xD8")
    assert result.exit_code == 0, result.output
    assert "3136×1 + 784×2" in result.output
    assert "of 3920 irreps" in result.output
    assert len(result.output.splitlines()) < 60


def test_the_command_gives_json() -> None:
    report = json.loads(command("Q8", "--json").stdout)
    assert report["order"] == 8
    assert [c["size"] for c in report["classes"]] == [1, 2, 2, 2, 1]
    assert [c["element_order"] for c in report["classes"]] == [1, 4, 4, 4, 2]
    assert report["irreps"][-1] == {"dimension": 2, "type": "quaternionic"}
    table = torch.view_as_complex(torch.tensor(report["character_table"], dtype=torch.float64))
    torch.testing.assert_close(table, quaternion().character_table)
    large = json.loads(command("C28xC28xD8", "--json").stdout)
    assert large["character_table"] is None
    assert "left out" in large["note"]


def test_the_command_writes_the_quilt(tmp_path: Path) -> None:
    result = command("C5xC5:Q8", "--out", str(tmp_path / "new"))
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["cayley.png", "group.json"]
    assert (tmp_path / "new/cayley.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "new/group.json").read_text())["order"] == 200


def test_bad_names_end_the_command_with_one_sentence(tmp_path: Path) -> None:
    for arguments, words in (
        (["D61"], "positive multiple of 2"),
        (["nothing"], "not a group known by name"),
        (["S9"], "too large: 981.1 GiB"),
    ):
        result = command(*arguments)
        assert result.exit_code == 2
        assert words in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    (tmp_path / "file").write_text("")
    assert command("D8", "--out", str(tmp_path / "file")).exit_code == 2


def test_command_prints_and_writes(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["limit", "--group", "D8", "--depth", "3", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    for word in ("objective", "bracket", "KKT residual", "balancedness", "fully connected", "seconds"):
        assert word in result.output
    stored = json.loads((tmp_path / "out" / "limit.json").read_text())
    assert stored["depth"] == 3
    assert stored["kkt_residual"] < 1e-6
    assert len(stored["trajectory"]["ratios"]) == len(stored["trajectory"]["objectives"])
    assert (tmp_path / "out" / "limit.png").read_bytes().startswith(b"\x89PNG")


def test_command_speaks_json_and_is_the_library() -> None:
    result = CliRunner().invoke(app, ["limit", "--group", "D8", "--json"])
    stored = json.loads(result.stdout)
    assert stored["objective"] == limit(D8, *teacher(8, 10, 0)).objective
    assert stored["seconds"] < 3
    assert stored["fully_connected"]["group_objective"] > stored["objective"]


def test_command_reads_a_file(tmp_path: Path) -> None:
    X, y = teacher(8, 5, 1)
    np.savez(tmp_path / "a.npz", X=X.numpy(), y=y.numpy().astype(np.int64))
    args = ["limit", "--group", "D8", "--net", "diagonal", "--data", str(tmp_path / "a.npz"), "--json"]
    assert json.loads(CliRunner().invoke(app, args).stdout)["points"] == 5


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--group", "D7"], "error:"),
        (["--group", "D8", "--depth", "0"], "depth expects"),
        (["--group", "D8", "--points", "0"], "--points expects"),
        (["--group", "D8", "--seed", "-1"], "--seed expects"),
        (["--group", "D8", "--net", "mlp"], "net expects one of"),
        (["--group", "D8", "--data", "nowhere.npz"], "nowhere.npz is not a file"),
    ],
)
def test_command_refuses_in_one_sentence(args: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["limit", *args])
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
