"""A folder with a file of models, and commands that run in it."""

from pathlib import Path
from textwrap import dedent

import pytest
from typer.testing import CliRunner

from netgrain.cli import app as cli
from tests.cli.commands import MODELS, Run

runner = CliRunner()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line in an empty folder with a file of models."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(dedent(MODELS), encoding="utf-8")

    def command(*words: str) -> tuple[int, str, str]:
        result = runner.invoke(cli.app, list(words))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return command
