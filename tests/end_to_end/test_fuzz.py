"""Spoiled files, words and command lines: accepted, or refused with one sentence; never a traceback."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netgrain.runtime.errors import NetgrainError
from tests.fuzzing import TARGETS, Failure, Target, attempt, fuzz, guided, rules
from tests.fuzzing.commands import run_command
from tests.fuzzing.rules import Random, untouched

INPUTS = {"command": 160}  # of one target
USUAL = 45

settings.register_profile(
    "fuzz",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("name", TARGETS)
def test_spoiled_input_is_accepted_or_refused_in_one_sentence(name: str) -> None:
    target = TARGETS[name]
    outcomes = set()

    @settings(settings.get_profile("fuzz"), max_examples=INPUTS.get(name, USUAL))
    @given(st.randoms(use_true_random=False))
    def one(rng: Random) -> None:
        outcomes.add(attempt(target, target.draw(rng)))

    one()
    assert outcomes == {True, False}, "a target that always says the same tests nothing"


# --- the rules themselves can be broken -----------------------------------------------------------------------------


def breaks(run: Any) -> str:
    """What is said about a target that does this with its folder."""
    with pytest.raises(Failure) as caught:
        attempt(Target("broken", lambda rng: None, lambda value, folder: run(folder)), None)
    return str(caught.value)


def test_an_exception_that_is_no_sentence_is_a_failure() -> None:
    assert "KeyError: 'x'" in breaks(lambda folder: {}["x"])
    assert "RuntimeWarning" in breaks(lambda folder: np.array([1e300]).astype(np.float32))


def test_a_hang_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "SECONDS", 1)

    def endless(folder: Path) -> bool:
        while True:
            try:
                folder.exists()
            except Exception:
                continue

    assert "Hang: more than 1 s" in breaks(endless)


def test_too_much_memory_is_a_failure() -> None:
    assert "MemoryError" in breaks(lambda folder: bytearray(2 * rules.MEMORY))


def test_a_changed_file_is_a_failure() -> None:
    def careless(folder: Path) -> bool:
        with untouched(folder):
            (folder / ".a.tmp").touch()
            raise NetgrainError("a sentence, and a file left behind.")

    assert breaks(careless) == "files changed: ['.a.tmp']"


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("typer.echo('error: one\\nand two', err=True); raise typer.Exit(2)", "not one sentence"),
        ("raise typer.Exit(2)", "not one sentence"),
        ("raise typer.Exit(1)", "exit code 1"),
        ("raise typer.Exit(3)", "exit code 3"),
        ("raise KeyError('x')", "KeyError"),
        ("Path('half').touch(); typer.echo('error: one.', err=True); raise typer.Exit(2)", "files changed: ['half']"),
    ],
)
def test_a_command_that_breaks_a_rule_is_a_failure(ends: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    app = typer.Typer()
    names: dict[str, Any] = {"typer": typer, "Path": Path}
    exec(f"def list() -> None: {ends}", names)
    app.command()(names["list"])
    app.command("other")(lambda: None)
    monkeypatch.setattr("netgrain.cli.app.app", app)
    assert said in breaks(lambda folder: run_command(["list"], folder))


def test_the_tally_counts_and_tells_a_failure_once() -> None:
    def run(value: float, folder: Path) -> bool:
        if value < 0.3:
            raise NetgrainError("a sentence.")
        return {}["x"] if value < 0.6 else True

    target = Target("dice", lambda rng: rng.random(), run)
    tally = fuzz(target, 200, seed=1)
    assert (tally.inputs, tally.accepted + tally.refused + tally.failed) == (200, 200)
    assert min(tally.accepted, tally.refused, tally.failed) > 30
    assert len(tally.failures) == 1
    assert "KeyError" in tally.failures[0]
    again = fuzz(target, 200, seed=1)
    assert (again.accepted, again.refused, again.failures) == (tally.accepted, tally.refused, tally.failures)
    assert fuzz(target, 200, seed=2).accepted != tally.accepted


def test_guided_by_coverage() -> None:
    tally = guided("input shape", inputs=200)
    if tally is None:
        pytest.skip("atheris is not installed; it is optional")
    assert tally.failures == []
    assert tally.inputs == 200
