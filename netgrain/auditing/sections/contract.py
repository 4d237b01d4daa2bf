"""What a section of an audit is: it measures, says what was found, and lists its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

import torch
from torch import Tensor, nn

from netgrain.auditing.axes import Axes
from netgrain.auditing.label_relevance import Relevance
from netgrain.auditing.places import Place
from netgrain.families.members import Family
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.value import Geometry

Report = Mapping[str, Any]  # plain values by key, as in the JSON file


@dataclass(frozen=True, eq=False)
class Subject:
    """What every section may look at: a family, a data set, and the geometry between them."""

    make: Family
    X: Tensor  # (samples, *input_shape), float32 on the CPU
    y: Tensor  # (samples,) labels
    classes: tuple[str, ...]
    features: tuple[str, ...]  # names of the columns of a table, where they are known
    G: Geometry
    place: Place  # where G was taken, and how precisely
    axes: Axes
    relevance: Relevance
    weights: Mapping[str, Tensor] | None  # of a trained network
    swaps: Mapping[str, nn.Module]  # changes to try, each alone
    keep: float  # share of the samples that pruning keeps
    seed: int
    device: torch.device

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.X.shape[1:])


class Sentence(TypedDict):
    """One finding: its level, the finding itself, and what it means."""

    level: Literal["good", "note", "warn", "bad"]
    text: str
    more: str


class Figure(NamedTuple):
    """One number for the tables: where it is in the report, and how it is written."""

    group: str
    label: str
    kind: Literal["number", "share", "text"]
    path: tuple[str, ...]
    meaning: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the audit.

    `order` is its place in the report and on the page. `measure` returns parts of the report by their keys; parts of
    several sections under one key are joined. The body of the page is templates/sections/KEY.html.jinja, KEY being the
    name of the file; it stands in the tab `panel` (KEY unless another is given), whose name is `title`. A section
    without a template has its `figures` only.
    """

    order: int
    measure: Callable[[Subject], dict[str, Any]]
    sentences: Callable[[Report], list[Sentence]] = lambda _: []
    figures: Callable[[Report], list[Figure]] = lambda _: []
    panel: str = ""
    title: str = ""


# --- numbers of the report, and how sentences write them --------------------------------------------------------------


def estimate(value: Estimate) -> dict[str, Any]:
    """Value, standard error and count as plain values; what is not finite is None."""
    found = value.as_dict()
    return {k: found[k] for k in ("value", "stderr", "n")}


def number(value: float) -> float | None:
    """Six digits; None where it is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def numbers(values: Tensor) -> list[float | None]:
    """The same for a vector."""
    return [number(v) for v in values.double().tolist()]


def percent(e: Mapping[str, Any]) -> str:
    """A share with its error, in per cent."""
    if e["value"] is None:
        return "an unknown share"
    error = "" if not e["stderr"] or e["stderr"] < 5e-4 else f" ± {100 * e['stderr']:.1f}"
    return f"{100 * e['value']:.1f}{error} %"
