"""The command theory prints a table or JSON, and says what is wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from netgrain.cli import app as cli
from netgrain.experiments.theory.measuring import STATEMENTS, measure_statements
from netgrain.runtime.errors import NetgrainError


def run(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, ["theory", *args])
    return result.exit_code, result.stdout, result.stderr


def test_command_prints_a_table_and_json(tmp_path: Path) -> None:
    code, text, _ = run("moments")
    assert code == 0
    assert "fails" in text
    assert "holds" in text
    assert "docs/theory.md" in text
    code, text, _ = run("moments", "--json", "--out", str(tmp_path))
    found = json.loads(text)
    assert code == 0
    assert {"name", "measured", "predicted", "stderr", "verdict", "basis", "covers"} <= set(found[0])
    assert (found[0]["basis"], found[0]["covers"]) == ("paper", [26])
    assert [s["verdict"] for s in found] == ["fails", "holds", "fails"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fig15.png", "fig7.png", "theory.json"]


def test_the_help_names_every_statement_and_paper_scale_runs() -> None:
    text = " ".join(run("--help")[1].split())
    assert all(name in text for name in STATEMENTS)
    code, text, _ = run("moments", "--scale", "paper")
    assert code == 0
    assert "what they rest on: 3 statements of the sources" in text


def test_command_says_what_is_wrong() -> None:
    assert run("theorem-3-1")[0] == 2
    assert "did you mean 'theorem-3.1'?" in run("theorem-3-1")[2]
    assert "expected one of mean-gradient" in run("xyzzy")[2]
    assert "scale 'huge' is not known" in run("moments", "--scale", "huge")[2]
    assert "netgrain theory theorem-3.1" in run("--help")[1]
    with pytest.raises(NetgrainError, match="statement 'lemma' is not known; did you mean"):
        measure_statements("lemma")
