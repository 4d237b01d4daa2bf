"""Trainings in cells and seeds: what a cell found, seeds that are added until claims are decided, words beside numbers.

A cell is what seeds are counted for: a network, say, or a curve. Whatever it compares is compared seed by seed, so a
seed leaves as a whole when one of its trainings diverged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from netgrain.experiments.claims import UNDECIDED, Claim
from netgrain.experiments.grain.grains import (
    device_named,
    make_of,
    model_config,
    pictures,
    shape_in,
)
from netgrain.experiments.image_sets import images_found
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome, Work
from netgrain.training.loop import accuracy
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

MORE = 1e-9  # "larger", "positive": a difference that is exactly zero for all seeds is none

R = TypeVar("R")
Cell = TypeVar("Cell", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class SeededConfig:
    """What every experiment with seeds has to know."""

    size: int
    seeds: int  # to begin with
    most_seeds: int  # where claims are undecided
    device: str = "cpu"

    def seeds_of(self, cells: Iterable[Cell]) -> dict[Cell, tuple[int, int]]:
        """The seeds of each cell, to begin with and at most."""
        return dict.fromkeys(cells, (self.seeds, self.most_seeds))

    def some(self, *names: str) -> dict[str, Any]:
        """These fields, for a unit."""
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class ImagesConfig(SeededConfig):
    """What figure 6 and tables 1 and 2 have to know: networks trained on images, from which something is taken."""

    networks: dict[str, dict[str, Any]]  # name → width, and what else differs between them
    images: str
    pool: int  # training images from which each seed draws
    samples: int  # so many, before any are dropped
    tests: int
    batch: int = 128
    lr: float = 0.1
    clip: float | None = 0.5

    def pool_of(self, runner: Runner) -> dict[str, Any]:
        """The images, as arguments of `pictures`."""
        name = images_found(runner, self.images)
        return {"name": name, "size": self.size, "samples": self.pool, "tests": self.tests}

    def model(self, pool: Mapping[str, Any], network: str, activation: str) -> dict[str, Any]:
        width, outputs = self.networks[network]["width"], 2 if pool.get("two") else 10
        return model_config(network, shape_in(pool), activation=activation, width=width, outputs=outputs)

    def unit(self, pool: Mapping[str, Any], network: str, seed: int) -> dict[str, Any]:
        """What all trainings of a network and a seed share. G is that of the GELU family, ReLU is trained."""
        model = self.model(pool, network, "relu")
        settings = self.some("samples", "batch", "lr", "clip", "device")
        return {"model": model, "geometry": "gelu", "images": dict(pool), "seed": seed, **settings}


@dataclass(frozen=True, eq=False)
class Trials:
    """The outcomes of a cell."""

    rows: Sequence[list[Outcome]]  # one for each seed

    @property
    def kept(self) -> dict[int, list[Outcome]]:
        """Seed → its outcomes, where none diverged."""
        return {seed: row for seed, row in enumerate(self.rows) if not any(o.numbers["diverged"] for o in row)}

    @property
    def left_out(self) -> int:
        return len(self.rows) - len(self.kept)

    def per_cent(self, name: str) -> dict[int, list[float]]:
        """A share among the numbers, by seed and unit."""
        return {seed: [100 * o.numbers[name] for o in row] for seed, row in self.kept.items()}

    def columns(self, name: str, among: Iterable[str]) -> dict[str, list[float]]:
        """The same by unit and seed, with these names for the units of a seed."""
        rows = self.per_cent(name).values()
        return {unit: [row[k] for row in rows] for k, unit in enumerate(among)}


def until_decided(
    runner: Runner,
    work: Work,
    units: Callable[[Cell, int], Sequence[Mapping[str, Any]]],
    cells: Mapping[Cell, tuple[int, int]],
    *,
    result: Callable[[dict[Cell, Trials]], R],
    undecided: Callable[[R], Iterable[Cell]],
    step: int = 1,
    images: Mapping[str, Any] | None = None,
) -> R:
    """Train all units of every cell and seed; add seeds where claims are undecided.

    units: those of one cell and one seed. cells: how many seeds each has to begin with and at most. images (arguments
    of `pictures`) are read before processes are forked. A folder that is only read gives what is in it.
    """

    def asked(count: Mapping[Cell, int]) -> list[Mapping[str, Any]]:
        return [u for cell, seeds in count.items() for seed in range(seeds) for u in units(cell, seed)]

    count = {cell: first for cell, (first, _) in cells.items()}
    while True:
        todo = asked(count)
        if images is not None and not runner.has(todo):
            pictures(**images)
        found = iter(runner.map(work, todo, "trainings"))
        trials = {
            cell: Trials([[next(found) for _ in units(cell, seed)] for seed in range(seeds)])
            for cell, seeds in count.items()
        }
        current = result(trials)
        open_ = set(undecided(current))
        more = {c: max(n, min(n + step, cells[c][1])) if c in open_ else n for c, n in count.items()}
        if more == count or (not runner.folder.writable and not runner.has(asked(more))):
            return current
        count = more


def open_subjects(claims: Iterable[Claim]) -> set[str]:
    """What undecided claims are about."""
    return {c.subject for c in claims if c.verdict == UNDECIDED}


def trained_accuracy(
    unit: Mapping[str, Any], X: Tensor, y: Tensor, settings: Settings, tests: Mapping[str, tuple[Tensor, Tensor]]
) -> dict[str, Any]:
    """Train the network of a unit; its accuracy on these tests and on its own samples, and how far it is from its
    initialisation, None if it diverged."""
    make, device = make_of(unit["model"]), device_named(unit["device"])
    trained = train_member(make, X, y, settings, seed=unit["seed"], i=0, device=device)
    if trained.diverged:
        return {"diverged": True, **dict.fromkeys(tests), "train": None, "distance": None}
    model = trained.model(make).to(device)
    right = {name: accuracy(model, *data) for name, data in tests.items()}
    return {"diverged": False, **right, "train": trained.train_accuracy, "distance": trained.distance}


def settings_of(unit: Mapping[str, Any], *, steps: int, weight_decay: float = 0.0) -> Settings:
    """How the network of a unit is trained, with momentum 0.9."""
    lr, batch, clip = unit["lr"], unit["batch"], unit["clip"]
    return Settings(lr=lr, batch=batch, clip=clip, steps=steps, weight_decay=weight_decay, decay="linear")


def drawn(X: Tensor, n: int, seed: int, label: str) -> Tensor:
    """Indices of n of these samples, others for every seed."""
    generator = torch.Generator().manual_seed(derived_seed(seed, label))
    return torch.randperm(len(X), generator=generator)[:n]


def images_of(unit: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels that the seed of a unit has drawn, test images and labels."""
    split = pictures(**unit["images"])
    mine = drawn(split.train.labels, unit["samples"], unit["seed"], "training images")
    return split.train.X[mine], split.train.labels[mine], split.test.X, split.test.labels


# --- numbers and words --------------------------------------------------------------------------------------------


def difference(values: Sequence[float]) -> Estimate:
    """The mean over seeds of a paired difference; differences that are all exactly zero say nothing about its sign.

    >>> difference([1.0, 3.0]), difference([0.0, 0.0]).stderr
    (2.0 ± 1 (n = 2), nan)
    """
    average = mean(values)
    return Estimate(0.0, math.nan, average.n) if average.value == average.stderr == 0 else average


def curve_of(rows: Iterable[Sequence[float]]) -> list[Estimate]:
    """Means over seeds (or members) of each column."""
    return [mean(column) for column in zip(*rows, strict=True)]


def joined(*notes: str) -> str:
    """Notes as one line, without the empty ones."""
    return "; ".join(filter(None, notes))


def left_out(count: int, what: str = "seeds") -> str:
    """The note that so many diverged."""
    return f"{count} diverged {what} left out" if count else ""
