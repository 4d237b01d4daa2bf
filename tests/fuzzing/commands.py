"""Whole command lines, through the real parsers and checks, up to where long work would begin."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzzing.rules import Failure, Random, Reached, Target, contents
from tests.fuzzing.spoiling import SCRAPS, word
from tests.fuzzing.words import (
    ENGINES,
    LAYERS,
    MODELS,
    OUTPUTS,
    PROBES,
    SETS,
    SIZES,
    SMALL_GROUPS,
    lay_out,
)

NUMBERS = ("0", "1", "2", "3", "-1", "1.5", "nan", "inf", "1e400", "9" * 25, "9" * 5000, "", "x", "0x10", "1_0", " 2")
OUTS = ("out", "deep/er/out", "models.py", "models.py/x", "", ".", "/proc/nothing", "report.html", "a.json", "é.html")
VALUES: dict[str, tuple[str, ...]] = {
    "model": ("mlp:width=0.01", "models.py:Net", *MODELS),
    "models": ("mlp:width=0.01", "models.py:Net", *MODELS),
    "shape": SIZES,
    "input_shape": SIZES,
    "probe": PROBES,
    "method": ("auto", "closed-form", "sampled", "flow", "ngd", "sgd"),
    "output": OUTPUTS,
    "first_layer": ("auto", "never", "always"),
    "data": SETS,
    "data_dir": (".", "nowhere", "models.py"),
    "out": OUTS,
    "weights": ("w.pt", "x.npz", "nowhere", "photos"),
    "signal": ("s.npy", "x.npz", "nowhere"),
    "what_if": LAYERS,
    "group": SMALL_GROUPS,
    "experiment": ("fig1", "fig9", "eq-strips", "gc_l2", "_grain", "..", "figure"),
    "only": ("fig4", "geometry", "complexity", "nothing"),
    "scale": ("smoke", "laptop", "paper", "overnight"),
    "engine": ENGINES,
    "net": ("group-cnn", "circular", "diagonal", "fully-connected"),
    "estimator": ("auto", "exact", "hutchinson"),
    "folder": (".", "nowhere", "models.py", "photos"),
}


@cache
def _commands() -> dict[str, Any]:
    import typer.main

    from netgrain.cli.app import app

    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return commands


def draw_words(rng: Random) -> list[str]:
    """A command with its arguments, most of them sensible, and then perhaps one mistake more."""
    name = rng.choice(sorted(_commands()))
    words = [name]
    for parameter in _commands()[name].params:
        known = VALUES.get(parameter.name)
        if name == "group" and parameter.name == "name":
            known = SMALL_GROUPS
        if name == "theory" and parameter.name == "name":
            known = ("moments", "theorem-3.1", "lemma-a5")
        if not parameter.required and rng.random() < 0.75:
            continue
        if parameter.required and rng.random() < 0.03:
            continue
        if parameter.param_type_name == "option":
            words.append(rng.choice(parameter.opts))
            if parameter.is_flag:
                continue
        elif parameter.nargs == -1:
            words.append(_value(rng, known))
        words.append(_value(rng, known))
    if rng.random() < 0.15:
        words.insert(rng.randrange(len(words) + 1), rng.choice(("--nothing", "--json", "--", "-x", "--help", *SCRAPS)))
    if rng.random() < 0.05:
        rng.shuffle(words)
    return [w.replace("\0", "") for w in words]


def _value(rng: Random, known: tuple[str, ...] | None) -> str:
    if known is None:
        return rng.choice(NUMBERS)
    return rng.choice(known) if rng.random() < 0.75 else word(rng, *known)


def run_command(words: list[str], folder: Path) -> bool:
    """Exit code 0 or 2 (1 where a check failed); on 2 one sentence or click's usage, and no file made or changed."""
    from typer.testing import CliRunner

    from netgrain.cli.app import app

    lay_out(folder)
    before = contents(folder)
    with _light(), warnings.catch_warnings():
        warnings.simplefilter("default")
        result = CliRunner().invoke(app, words)
    error = result.exception
    if isinstance(error, Reached):
        return True
    if error is not None and not isinstance(error, SystemExit):
        raise error
    if result.exit_code not in (0, 1, 2) or (result.exit_code == 1 and words[0] not in ("geometry", "doctor")):
        raise Failure(f"exit code {result.exit_code}")
    if result.exit_code == 2:
        lines = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
        usage = lines and lines[0].startswith(("Usage: ", "Error: "))  # click's own words
        if not usage and (len(lines) != 1 or not lines[0].startswith("error: ")):
            raise Failure(f"not one sentence on stderr: {result.stderr[:400]!r}")
        after = contents(folder)
        if after != before:
            raise Failure(f"refused, and yet files changed: {sorted({*after} - {*before})[:5]}")
    return bool(result.exit_code != 2)


HEAVY = (
    "netgrain.geometry.agreement.check",
    "netgrain.auditing.audits.audit",
    "netgrain.auditing.signals.visible",
    "netgrain.experiments.registry.run_experiment",
    "netgrain.experiments.reproduction.reproduce",
    "netgrain.cli.doctor.examine",
    "netgrain.equivariant.limits.limit",
    "netgrain.complexity.variants.complexities",
    "netgrain.geometry.average.average_geometry",
    "netgrain.experiments.registry.plan_experiment",
    "netgrain.cli.plan.plan_geometry",
)


@contextmanager
def _light() -> Iterator[None]:
    """Inside, whatever computes for long stops the command where it would begin."""
    from unittest.mock import patch

    import netgrain.geometry.average
    from netgrain.experiments.theory.measuring import STATEMENTS

    real = netgrain.geometry.average.average_geometry

    def reached(*args: object, **options: object) -> Any:
        raise Reached

    def small(make: Any, input_shape: Any, **options: Any) -> Any:
        members = options.get("members")
        tiny = members is not None and members <= 3 and int(np.prod(input_shape)) <= 16
        if (members is not None and members < 1) or tiny:
            return real(
                make, input_shape, **{**options, "workers": options.get("workers") and min(1, options["workers"])}
            )
        raise Reached

    replaced: dict[str, Any] = dict.fromkeys(HEAVY, reached)
    replaced["netgrain.geometry.average.average_geometry"] = small
    statements = "netgrain.experiments.theory.measuring.STATEMENTS"
    replaced[statements] = dict.fromkeys(STATEMENTS, reached)
    patches = [patch(name, value) for name, value in replaced.items()]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


TARGETS = (Target("command", draw_words, run_command),)
