"""`netgrain limit`: what it prints, writes, reads and refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from netgrain.cli.app import app
from netgrain.equivariant import limit
from tests.equivariant.known_limits import D8, teacher


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
