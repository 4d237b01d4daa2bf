"""When an audit may say "invisible": only where networks were trained on such directions alone, and none learnt.

``words.json`` holds what the experiment `weak-directions` measured: cells of a task, a network, a normalisation, an
optimiser and data projected on directions of some gain. A cell counts if a linear rule finds the label there, 10 points
above chance; it learnt if the network ends more than 5 points above chance.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from netgrain.families.members import Family, member
from netgrain.runtime.randomness import generator_for

Level = Literal["lost", "not learnt", "learnt", "not tried"]
STORED = Path(__file__).with_name("words.json")
FINDS, CHANCE = 10.0, 5.0  # points above chance: a linear rule finds the label; a network has learnt
FEWEST = 8  # pairs of task and network behind a threshold above zero, as many as the experiment must have
DRAWS = 2000  # of the bootstrap
KINDS = {"convolutional": "convolutional networks", "attention": "transformers", "dense": "dense networks"}
NORMS = {"none": "without normalisation", "batch": "with batch norm", "layer": "with layer norm"}


@dataclass(frozen=True)
class Cell:
    """One trained cell of the experiment, accuracies in points above chance."""

    task: str
    network: str
    kind: str  # "convolutional", "attention" or "dense"
    norm: str  # "none", "batch" or "layer"
    optimiser: str  # "SGD" or "AdamW"
    scaled: bool  # whether the projection was enlarged to the size of the data
    lost: bool  # directions that are lost before the first activation
    gain: float  # of the projected data at the data, relative to an average direction; 0 if lost
    gain_at_origin: float | None
    linear: float
    reached: float
    stderr: float

    @property
    def pair(self) -> tuple[str, str]:
        """Task and network."""
        return self.task, self.network

    @property
    def counts(self) -> bool:
        """Whether there is something to learn."""
        return self.linear >= FINDS

    @property
    def learnt(self) -> bool:
        """Whether it ended more than 5 points above chance."""
        return self.reached > CHANCE


@dataclass(frozen=True)
class Threshold:
    """The gain up to which none learnt.

    Attributes
    ----------
    gain : float
        The largest gain below every cell that learnt; 0 if only lost directions were never learnt.
    low, high : float
        95% of bootstraps over pairs, noise of the accuracies included, at the data and at the origin.
    pairs, cells : int
        Pairs and cells up to that gain, of which none learnt; lost directions count only where it is 0.
    learnt, counted : int
        Cells above it that learnt, and all cells above it.
    """

    gain: float
    low: float
    high: float
    pairs: int
    cells: int
    learnt: int
    counted: int

    @property
    def share(self) -> float:
        """Upper 95% bound of the share of further pairs that would learn: 1 − 0.05^(1 / pairs).

        >>> round(Threshold(0.0, 0.0, 0.0, 8, 16, 0, 0).share, 2)
        0.31
        """
        return 1 - 0.05 ** (1 / self.pairs) if self.pairs else 1.0


def threshold(cells: Iterable[Cell], *, seed: int = 0) -> Threshold:
    """The threshold of some cells; those in which there is nothing to learn are left out.

    Of gains 0 (lost), 1e-4, 1e-2 and 1 the last two learnt:

    >>> made = [
    ...     Cell("task", "net", "dense", "none", "SGD", True, g == 0, g, g, 20.0, r, 1e-9)
    ...     for g, r in ((0.0, 0.0), (1e-4, 1.0), (1e-2, 15.0), (1.0, 20.0))
    ... ]
    >>> found = threshold(made)
    >>> found.gain, found.cells, found.learnt, found.counted
    (0.0001, 1, 2, 2)
    """
    counted = [c for c in cells if c.counts]
    if not counted:
        return Threshold(0.0, 0.0, 0.0, 0, 0, 0, 0)
    gains = torch.tensor([c.gain for c in counted], dtype=torch.float64)
    learnt = torch.tensor([c.learnt for c in counted])
    gain = float(_largest(gains, learnt, torch.ones_like(learnt)))
    low, high = _interval(counted, seed)
    low_enough = [c for c in counted if c.gain <= gain and not c.learnt]
    below = [c for c in low_enough if c.lost == (gain == 0)]  # what is lost says nothing of weak directions
    above = (gains > gain) | learnt
    return Threshold(
        gain, min(low, gain), max(high, gain), len({c.pair for c in below}), len(below),
        int(learnt[above].sum()), int(above.sum()),
    )  # fmt: skip


def _largest(gains: Tensor, learnt: Tensor, drawn: Tensor) -> Tensor:
    """The largest gain of a drawn cell below all drawn ones that learnt, 0 if there is none; over the last axis."""
    least = torch.where(learnt & drawn, gains, math.inf).amin(-1, keepdim=True)
    return torch.where(drawn & (gains < least), gains, 0.0).amax(-1)


def _interval(cells: Sequence[Cell], seed: int) -> tuple[float, float]:
    """95% of bootstraps over pairs, with noise of the accuracies, at either place of G."""
    pairs = sorted({c.pair for c in cells})
    pair = torch.tensor([pairs.index(c.pair) for c in cells])
    generator = generator_for(seed, "words")
    rows = torch.randint(len(pairs), (DRAWS, len(pairs)), generator=generator)
    drawn = torch.zeros(DRAWS, len(pairs), dtype=torch.bool).scatter_(1, rows, True)[:, pair]
    reached, stderr = torch.tensor([[c.reached, c.stderr] for c in cells], dtype=torch.float64).T
    noise = torch.randn(DRAWS, len(cells), generator=generator, dtype=torch.float64)
    learnt = reached + stderr * noise > CHANCE
    ends = []
    for gains in ([c.gain for c in cells], [_at_origin(c) for c in cells]):
        found = _largest(torch.tensor(gains, dtype=torch.float64), learnt, drawn)
        ends.append(found.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist())
    return min(e[0] for e in ends), max(e[1] for e in ends)


def _at_origin(cell: Cell) -> float:
    return cell.gain if cell.gain_at_origin is None or cell.lost else cell.gain_at_origin


@cache
def trained_cells() -> tuple[Cell, ...]:
    """What the experiment measured, as stored."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    return tuple(Cell(**dict(zip(stored["columns"], row, strict=True))) for row in stored["cells"])


def as_stored(cells: Iterable[Cell], settings: Mapping[str, Any]) -> str:
    """The text of ``words.json``, numbers with three digits; settings: of the run."""
    rows = [[float(f"{v:.3g}") if isinstance(v, float) else v for v in asdict(c).values()] for c in cells]
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    head = {"settings": dict(settings), "columns": list(Cell.__dataclass_fields__)}
    opening = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items())
    return f'{{\n{opening},\n  "cells": [\n{lines}\n  ]\n}}\n'


@dataclass(frozen=True)
class Kind:
    """A kind of network, as the experiment tells them apart."""

    body: str  # "convolutional", "attention" or "dense"
    norm: str  # "none", "batch" or "layer"

    def __str__(self) -> str:
        return f"{KINDS[self.body]} {NORMS[self.norm]}"

    def cells(self, optimiser: str | None = None) -> list[Cell]:
        """The cells that were trained with networks of this kind and have something to learn."""
        return [
            c
            for c in trained_cells()
            if c.counts and (c.kind, c.norm) == (self.body, self.norm) and optimiser in (None, c.optimiser)
        ]


def kind_of(model: nn.Module) -> Kind | None:
    """The kind of a network by its layers; None if it is of another sort, as with recurrence.

    >>> kind_of(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2)))
    Kind(body='convolutional', norm='batch')
    >>> kind_of(nn.LSTM(2, 2)) is None
    True
    """
    modules = list(model.modules())
    norms = {_norm(m) for m in modules} - {""}
    attends = any("attention" in type(m).__name__.casefold() for m in modules)
    slides = any(isinstance(m, nn.Conv2d) and m.kernel_size != m.stride and m.kernel_size != (1, 1) for m in modules)
    others = any(isinstance(m, nn.RNNBase | nn.Conv1d | nn.Conv3d) for m in modules)
    if others or len(norms) > 1 or "other" in norms or (attends and slides):
        return None
    if attends:
        body = "attention"
    elif slides:
        body = "convolutional"
    elif any(isinstance(m, nn.Linear) for m in modules):
        body = "dense"
    else:
        return None
    return Kind(body, next(iter(norms), "none"))


def _norm(module: nn.Module) -> str:
    if isinstance(module, _BatchNorm):
        return "batch"
    if isinstance(module, nn.LayerNorm | nn.GroupNorm):
        return "layer"
    return "other" if "norm" in type(module).__name__.casefold() else ""


@dataclass(frozen=True)
class Said:
    """Whether directions may be called invisible, on which ground, and the evidence in a sentence.

    Attributes
    ----------
    may : bool
        Whether the word is used.
    level : {"lost", "not learnt", "learnt", "not tried"}
        Lost before the first activation; so weak that no trained network learnt from the like (which is enough for the
        word only with eight pairs or more); learnt by some; not covered by the experiment.
    sentence : str
        The evidence.
    """

    may: bool
    level: Level
    sentence: str


def may_say_invisible(
    kind: Kind | None, gain: float = 0.0, *, lost: bool = False, optimiser: str | None = None
) -> Said:
    """Whether an audit may call directions invisible to a kind of network, and on which evidence.

    gain: the largest of the directions, relative to an average one; lost: they are lost before the first activation.
    optimiser: "SGD" or "AdamW" if it is known which one will be used.
    """
    cells = kind.cells(optimiser) if kind is not None else []
    if not cells:
        return Said(False, "not tried", "Networks of this kind were not trained on weak directions, so netgrain does "
                    "not call any direction invisible to them.")  # fmt: skip
    if lost:
        some = [c for c in cells if c.lost]
        learnt = sum(c.learnt for c in some)
        if not some:
            return Said(False, "not tried", f"No {kind} were trained on lost directions.")
        sentence = f"Lost before the first activation. {_evidence(some, str(kind), learnt)}"
        return Said(not learnt, "learnt" if learnt else "lost", sentence)
    found = threshold(cells)
    may = 0 < gain <= found.low and found.pairs >= FEWEST
    upto = found.gain if may else gain  # weaker than what none learnt is as good
    some = [c for c in cells if not c.lost and c.gain <= upto]
    learnt = sum(c.learnt for c in some)
    if not some:
        return Said(False, "not tried", f"No {kind} were trained on directions as weak as this.")
    return Said(may, "learnt" if learnt else "not learnt", _evidence(some, str(kind), learnt))


def word_for_lost(make: Family, *, seed: int = 0) -> Said:
    """Whether directions that this family loses before the first activation may be called invisible.

    >>> word_for_lost(lambda: nn.Sequential(nn.AvgPool1d(2), nn.Flatten(), nn.Linear(1, 1))).level
    'lost'
    >>> word_for_lost(lambda: nn.LSTM(2, 2)).level
    'not tried'
    """
    return may_say_invisible(kind_of(member(make, seed, 0)), lost=True)


def _evidence(cells: Sequence[Cell], who: str, learnt: int) -> str:
    """How many of some cells learnt, as a sentence."""
    pairs, optimisers = len({c.pair for c in cells}), sorted({c.optimiser for c in cells}, reverse=True)
    strongest = max(c.gain for c in cells)
    what = "such directions" if not strongest else f"directions with at most {strongest:.1g} of an average gain"
    counted = (
        f"{pairs} {'pair' if pairs == 1 else 'pairs'} of task and network, {' and '.join(optimisers)}, small images"
    )
    ended = f"{learnt or 'none'} ended more than {CHANCE:g} points above chance"
    return f"Of {len(cells)} trainings of {who} on {what} alone ({counted}), {ended}."
