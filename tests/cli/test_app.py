"""The app: help, versions, and what is answered before torch is loaded."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import netgrain
from netgrain.cli.app import COMMANDS, DATA, NETWORKS, main
from netgrain.runtime.progress import Bar
from tests.cli.commands import NET, Run


@pytest.mark.parametrize("words", [("--help",), ("geometry", "--help"), ("doctor", "--help")])
def test_help_has_examples_line_by_line(run: Run, words: tuple[str, ...]) -> None:
    code, stdout, _ = run(*words)
    assert code == 0
    examples = [line.strip() for line in stdout.splitlines() if line.strip().startswith("netgrain ")]
    assert len(examples) >= 2
    assert "Examples:" in stdout


def test_every_option_is_explained(run: Run) -> None:
    _, stdout, _ = run("geometry", "--help")
    options = (
        "input",
        "probe",
        "method",
        "check",
        "members",
        "tolerance",
        "seed",
        "output",
        "first-layer",
        "workers",
        "out",
    )
    for option in (*options, "json"):
        assert re.search(rf"^  --{option}( [A-Z]+)? +\w", stdout, re.MULTILINE), option


def test_version(run: Run) -> None:
    code, stdout, _ = run("--version")
    assert code == 0
    assert stdout.startswith(f"netgrain {netgrain.__version__}, torch {torch.__version__.partition('+')[0]}")


def test_help_lists_every_command_on_one_line_under_its_group(run: Run) -> None:
    _, stdout, _ = run("--help")
    lines = stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "..." not in stdout.partition("COMMAND [ARGS]...")[2]
    assert lines.index(f"{DATA}:") < lines.index(f"{NETWORKS}:")
    for name, row in COMMANDS.items():
        assert any(line.split()[:1] == [name] and line.endswith(row.short) for line in lines), name


def test_the_script_writes_progress_as_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        with Bar("sheep", 1) as bar:
            bar.advance()

    monkeypatch.setattr("netgrain.runtime.progress.FIRST_LINE", -1.0)
    monkeypatch.setattr("netgrain.cli.app.app", work)
    main()
    assert capsys.readouterr().err.startswith("sheep: 1 of 1")


def test_shells_complete_commands() -> None:
    asked = {"_NETGRAIN_COMPLETE": "complete_bash", "COMP_WORDS": "netgrain learn", "COMP_CWORD": "1"}
    script = Path(sys.executable).with_name("netgrain")
    done = subprocess.run([script], env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["learnability"]


@pytest.mark.parametrize(
    "words", [("geometry",), ("geometry", "mlp"), ("geometry", *NET, "--members", "many"), ("geometri",), ("--nope",)]
)
def test_usage_errors_exit_with_two(run: Run, words: tuple[str, ...]) -> None:
    assert run(*words)[0] == 2


WITHOUT_TORCH = [
    ("geometry", "resnet81", "--input", "1x32x32"),
    ("audit", "resnet81", "--data", "digits"),
    ("compare", "lenet", "resnet81", "--data", "digits"),
    ("visible", "resnet81", "--signal", "a.npy"),
    ("card", "resnet81", "--input", "1x8x8"),
    ("score", "resnet81", "--data", "digits"),
    ("complexity", "resnet81", "--data", "digits"),
    ("plan", "geometry", "resnet81", "--input", "1x8x8"),
    ("geometry", "no_such_file.py:Net", "--input", "4"),
    ("audit", "mlp", "--data", "digitz"),
    ("audit", "mlp", "--data", "nowhere.npz"),
    ("audit", "mlp", "--data", "nowhere/"),
    ("compare", "mlp", "vit", "--data", "digitz"),
    ("score", "mlp", "--data", "digitz"),
    ("prune", "mlp", "--data", "table.csv", "--out", "k.csv"),
    ("complexity", "mlp", "--data", "digitz"),
    ("--help",),
    ("audit", "--help"),
    ("--version",),
]


def test_wrong_names_and_help_are_answered_without_torch(tmp_path: Path) -> None:
    code = f"""
import sys
from typer.testing import CliRunner
from netgrain.cli.app import app
for words in {WITHOUT_TORCH!r}:
    result = CliRunner().invoke(app, list(words))
    print(result.exit_code, "torch" in sys.modules, repr(result.stderr))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    for words, line in zip(WITHOUT_TORCH, done.stdout.splitlines(), strict=True):
        exit_code, torch_loaded, said = line.split(" ", 2)
        helped = words[-1] in ("--help", "--version")
        assert (exit_code, torch_loaded) == ("0" if helped else "2", "False"), words
        assert said == "''" if helped else "error: " in said and said.count("\\n") == 1, words
