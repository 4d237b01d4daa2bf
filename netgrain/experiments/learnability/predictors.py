"""What is said of a task and a network before training: ours, and everything it is compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from netgrain.auditing.axes import axes_of
from netgrain.experiments.difficulty import difficulty
from netgrain.experiments.learnability import proxies
from netgrain.families.members import Family, member
from netgrain.families.probes import Data
from netgrain.geometry.average import average_geometry
from netgrain.learning.predictions import GRAIN_MEMBERS, GRAIN_POINTS, kernel_score, learnability
from netgrain.learning.trial_gains import combined
from netgrain.runtime.errors import NetgrainError

OURS, COMBINED = "kernel", "combined"
SAYS = {
    OURS: "layers or tangent, by squared error",
    "layers": "all layers",
    "tangent": "tangent kernel",
    "last": "last layer",
    "trial": "trial training",
    COMBINED: "kernel and trial",
    "difficulty": "reaction to the label's directions",
    "linear rule": "linear rule",
    "neighbours": "5 nearest neighbours",
    "NASWOT": "NASWOT",
    "jacob_cov": "jacob_cov",
    "synflow": "synflow",
    "gradient norm": "gradient norm",
    "parameters": "number of parameters",
    "fixed ranking": "mean over the other tasks",
}  # predictors and how tables call them; the last one is made from what networks reached on other tasks
SCORES = (OURS, "layers", "tangent", "last", "trial", COMBINED, "linear rule", "neighbours", "fixed ranking")
BATCH = 64  # samples that proxies see


def pair_predictions(make: Family, X: Tensor, y: Tensor, *, seed: int = 0, trial: bool = True) -> dict[str, Any]:
    """Every number for one family on one task, None where it is not defined, and what our prediction warns of."""
    found = learnability(make, X, y, target="classes", grain=False, trial=trial, seed=seed, progress=False)
    last = kernel_score(make, X, y, "last", target="classes", seed=seed)
    numbers: dict[str, float | None] = {
        OURS: float(found.score),
        **{kind: float(score.score) for kind, score in found.kernels.items()},
        "last": float(last.score),
        "trial": None if found.trial is None else float(found.trial.score),
        "difficulty": _ease(make, X, y, seed),
        **proxy_numbers(make, X, y, seed),
    }
    return {
        "numbers": {name: _finite(value) for name, value in numbers.items()},
        "taken": found.kernel,
        "gain": None if found.trial is None or found.trial.gain is None else found.trial.gain.as_dict(),
        "warned": found.features_learnt,
        "error": found.score.stderr,
    }


def combined_of(found: Mapping[str, Any]) -> float | None:
    """The kernel's and the trial's score in one, from what `pair_predictions` found."""
    numbers, gain = found["numbers"], found["gain"]
    if numbers["trial"] is None or gain is None:
        return None
    return combined(numbers[OURS], numbers["trial"], gain["value"])


def proxy_numbers(make: Family, X: Tensor, y: Tensor, seed: int) -> dict[str, float | None]:
    """Published scores of one fresh network."""
    model, some, labels = member(make, seed, 0), X[:BATCH], y[:BATCH]
    found = {
        "NASWOT": proxies.naswot(model, some),
        "jacob_cov": proxies.jacob_cov(model, some),
        "synflow": proxies.synflow(model, X.shape[1:]),
        "gradient norm": proxies.gradient_norm(model, some, labels),
        "parameters": proxies.parameters(model),
    }
    return {name: _finite(value) for name, value in found.items()}


def task_predictions(X: Tensor, y: Tensor) -> dict[str, float | None]:
    """What knows the samples and no network."""
    return {"linear rule": _finite(proxies.linear_rule(X, y)), "neighbours": _finite(proxies.neighbours(X, y))}


def _ease(make: Family, X: Tensor, y: Tensor, seed: int) -> float | None:
    """Minus the difficulty, as a reaction that an audit measures; None where it cannot."""
    try:
        points = Data(X[:GRAIN_POINTS])
        shape: Sequence[int] = X.shape[1:]
        G = average_geometry(make, shape, probe=points, members=GRAIN_MEMBERS, seed=seed, progress=False)
        return -difficulty(axes_of(G), X, y, seed=seed)
    except NetgrainError:  # too few samples, or a family that reacts to nothing
        return None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
