"""What a section of an audit is: it measures, says what was found, and lists its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import torch
from torch import Tensor, nn

from netgrain.auditing.axes import Axes
from netgrain.auditing.label_relevance import Relevance
from netgrain.auditing.places import Place
from netgrain.families.members import Family
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.value import Geometry
from netgrain.learning.outcome import Learnability
from netgrain.runtime.randomness import generator_for

Report = Mapping[str, Any]  # plain values by key, as in the JSON file
TargetKind = Literal["classes", "numbers", "none"]


@dataclass(frozen=True, eq=False)
class Subject:
    """What every section may look at: a family, a data set, and the geometry between them."""

    make: Family
    X: Tensor  # (samples, *input_shape), float32 on the CPU
    y: Tensor | None  # (samples, …) labels: whole numbers are classes, floating-point ones numbers; None without labels
    classes: tuple[str, ...]  # names of the groups: the classes, ranges of the number, or one for all samples
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
    expected: Learnability | None = None  # the score that such networks will reach; None without labels
    parts: Tensor | None = None  # (samples,) group of each; None: the labels themselves
    rows: Tensor | None = None  # (samples,) places of the samples among those that were given; None: all of them
    given: int | None = None  # number of samples that were given; None: all were measured
    network: nn.Module | None = None  # the module that was given in place of a family
    test: tuple[Tensor, Tensor] | None = None  # samples and labels that a checkpoint has not seen
    advice: bool | None = None  # whether changes are tried: as many as the budget allows (None), all or none

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.X.shape[1:])

    @property
    def groups(self) -> Tensor:
        """The group of each sample, (samples,): its class, or the range that its number is in."""
        if self.parts is not None:
            return self.parts
        return torch.zeros(len(self.X), dtype=torch.int64) if self.y is None else self.y

    def some_samples(self, count: int, use: str) -> Tensor:
        """Random samples, chosen by the seed."""
        return self.X[self.some_rows(count, use)]

    def some_rows(self, count: int, use: str) -> Tensor:
        """Indices of random samples, chosen by the seed; all of them where there are no more."""
        return torch.randperm(len(self.X), generator=generator_for(self.seed, use))[:count]


Level = Literal["good", "note", "warn", "bad"]


class Sentence(TypedDict):
    """One finding: its level, the finding itself, what it means, and the tab that it stands in."""

    level: Level
    text: str
    more: str
    panel: NotRequired[str]


def said(text: str, more: str, level: Level = "note") -> Sentence:
    return {"level": level, "text": text, "more": more}


class Alert(TypedDict):
    """Something a person should act on: what it is, the number behind it, what to do, and the tab that shows more."""

    level: Literal["error", "warning", "note"]
    title: str
    evidence: str
    action: str
    panel: str
    weight: float  # order among alerts of one level: about how many points of accuracy it is worth


class Figure(NamedTuple):
    """One number for the tables: where it is in the report (keys with dots between), and how it is written."""

    label: str
    path: str
    kind: Literal["number", "share", "text"] = "number"
    meaning: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the audit.

    `order` is its place in the report and on the page. `measure` returns parts of the report by their keys; parts of
    several sections under one key are joined. The body of the page is templates/sections/KEY.html.jinja, KEY being the
    name of the file; it stands in the tab `panel` (KEY unless another is given), whose name is `title`. A section for
    which `shown` is false has no tab. One without a template has its `figures` only: the numbers of each group, by its
    name.
    """

    order: int
    measure: Callable[[Subject], dict[str, Any]]
    sentences: Callable[[Report], list[Sentence]] = lambda _: []
    alerts: Callable[[Report], list[Alert]] = lambda _: []
    figures: Mapping[str, tuple[Figure, ...]] = field(default_factory=dict)
    panel: str = ""
    title: str = ""
    shown: Callable[[Report], bool] = lambda _: True


def has_target(*kinds: TargetKind) -> Callable[[Report], bool]:
    """Whether the labels of a report are of one of these kinds."""
    return lambda report: (report.get("data") or {}).get("target", "classes") in kinds


# --- numbers of the report, and how sentences write them --------------------------------------------------------------


def estimate(value: Estimate) -> dict[str, Any]:
    """Value, standard error and count as plain values; what is not finite is None."""
    found = value.as_dict()
    return {k: found[k] for k in ("value", "stderr", "n")}


def number(value: float | Tensor) -> float | None:
    """Six digits; None where it is not finite."""
    return float(f"{float(value):.6g}") if math.isfinite(value) else None


def numbers(values: Tensor) -> list[float | None]:
    """The same for a vector."""
    return [number(v) for v in values.double().tolist()]


def with_error(value: float, stderr: float | None) -> str:
    """A number with its error, which has two digits; without it where there is none, or one below 0.0005.

    >>> with_error(-1.1317, 0.0871), with_error(93.4, 11.6), with_error(-0.0004, 0.0)
    ('−1.132 ± 0.087', '93 ± 12', '0.000')
    """
    if not stderr or stderr < 5e-4:
        return f"{round(value, 3) + 0.0:.3f}".replace("-", "−")  # adding zero: no minus before a zero
    decimals = min(3, max(0, 1 - math.floor(math.log10(stderr))))
    return f"{round(value, decimals) + 0.0:.{decimals}f} ± {stderr:.{decimals}f}".replace("-", "−")


def percent(e: Mapping[str, Any]) -> str:
    """A share with its error, in per cent.

    >>> percent({"value": 0.2337, "stderr": 0.0031}), percent({"value": 1.0, "stderr": 0.0})
    ('23.37 ± 0.31 %', '100.0 %')
    """
    if e["value"] is None:
        return "an unknown share"
    if not e["stderr"] or e["stderr"] < 5e-4:
        return f"{100 * e['value']:.1f} %"
    return f"{with_error(100 * e['value'], 100 * e['stderr'])} %"
