"""Complexity and all heuristics side by side: every sweep of geometric complexity in one folder and one figure.

Cost: smoke half a minute, laptop six minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from netgrain.experiments.claims import Claim
from netgrain.experiments.heuristics import (
    gc_batch_size,
    gc_depth,
    gc_double_descent,
    gc_explicit,
    gc_flatness,
    gc_init,
    gc_input_noise,
    gc_l2,
    gc_label_corruption,
    gc_label_noise,
    gc_learning_rate,
    gc_regression,
    gc_spectral,
)
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS: tuple[ModuleType, ...] = (
    gc_l2,
    gc_spectral,
    gc_explicit,
    gc_flatness,
    gc_input_noise,
    gc_label_noise,
    gc_label_corruption,
    gc_learning_rate,
    gc_batch_size,
    gc_init,
    gc_depth,
    gc_regression,
    gc_double_descent,
)


@dataclass(frozen=True)
class Config:
    scale: str  # of every part


PRESETS = {scale: Config(scale) for scale in ("smoke", "laptop", "paper")}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    parts: tuple[Any, ...]  # results, in the order of PARTS


def run(config: Config, runner: Runner) -> Result:
    return Result(config, tuple(part.run(part.PRESETS[config.scale], runner) for part in PARTS))


def claims(result: Result) -> list[Claim]:
    return [c for part, found in zip(PARTS, result.parts, strict=True) for c in part.claims(found)]


def figure(result: Result) -> Figure:
    from netgrain.experiments.heuristics.drawing import overview

    return overview([p for part, found in zip(PARTS, result.parts, strict=True) for p in part.panels(found)])
