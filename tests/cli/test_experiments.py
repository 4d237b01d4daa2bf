"""The commands list, run and claims."""

import json
from pathlib import Path

from typer.testing import CliRunner

from netgrain.cli.app import app


def _invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_list_and_help() -> None:
    code, out, _ = _invoke("list")
    assert code == 0
    assert "fig9" in out
    for command in ("list", "run", "claims", "score", "prune"):
        code, out, _ = _invoke(command, "--help")
        assert code == 0
        assert "Examples:" in out


def test_run_and_claims_from_the_shell(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    code, out, err = _invoke("run", "gc-l2", "--scale", "smoke", "--out", folder, "--json")
    assert code == 0, err
    assert json.loads(out)["claims"]
    code, _, err = _invoke("run", "gc-l2", "--scale", "smoke", "--out", folder)
    assert code == 2
    assert "--resume" in err
    code, out, _ = _invoke("run", "gc-l2", "--scale", "smoke", "--out", folder, "--resume")
    assert code == 0
    assert "figure.png" in out
    code, out, _ = _invoke("claims", folder)
    assert code == 0
    assert "weight decay lowers complexity" in out
    for arguments, message in {
        ("run", "figg9"): "did you mean 'fig9'",
        ("run", "fig9", "--scale", "huge"): "expected one of smoke, laptop, paper",
        ("run", "fig9", "--engine", "cloud", "--out", str(tmp_path / "x")): "local, processes, ray, slurm",
        ("claims", str(tmp_path)): "is not a run",
        ("run", "fig9", "--variant", "code", "--out", str(tmp_path / "x")): "fig9 has no variants",
        ("run", "fig4", "--variant", "coed", "--out", str(tmp_path / "x")): "variant expects 'text' or 'code'",
    }.items():
        code, _, err = _invoke(*arguments)
        assert code == 2
        assert message in err
    assert not (tmp_path / "x").exists()
