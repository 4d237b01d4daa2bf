"""Weak directions: can networks learn a label from directions to which they hardly react, or not at all?

Samples are projected on directions whose gain lies in a range, or that are lost before the first activation, and
networks are trained on that alone: with SGD and AdamW, with and without normalisation, three seeds. Where a linear rule
finds the label in the projection and no network does, an audit may call such directions invisible
(netgrain.auditing.words). Cost: smoke some seconds, laptop twelve minutes of one core (estimated).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from netgrain.auditing.words import CHANCE, FEWEST, FINDS, Cell, Threshold, as_stored, threshold
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.learnability.agreement import seed_variance
from netgrain.experiments.learnability.proxies import linear_rule
from netgrain.experiments.learnability.reaching import AdamW, Momentum, Optimizer, Recipe
from netgrain.experiments.learnability.tasks import TaskData
from netgrain.experiments.learnability.trainings import training_outcome
from netgrain.experiments.learnability.weak_blocks import Block, Grain, gain_of, projected
from netgrain.experiments.learnability.weak_networks import BODIES, PAIRS, family, pair_data
from netgrain.families.members import Family
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 700  # processor seconds at laptop scale: 8 of 18 pairs took 160, the others are estimated
OPTIMISERS: dict[str, Callable[[Sequence[Tensor]], Optimizer]] = {"SGD": Momentum, "AdamW": AdamW}


@dataclass(frozen=True)
class Config:
    """Pairs, the edges of the ranges of gain, and how networks are trained.

    The pilot (seed 100, five of the pairs, the same images) chose rates, edges and stems. After it epochs went from 40
    to 20 and patience from 15 to 8, to save time. The verdict has seeds 0, 1 and 2, and chose nothing.
    """

    pairs: tuple[str, ...] = ()  # names of PAIRS; empty: all
    edges: tuple[float, ...] = (1e-1, 1e-2, 1e-4, 1e-6, 1e-10)  # gains relative to an average direction
    first_seed: int = 0
    seeds: int = 3
    samples: int = 500
    tests: int = 1000
    points: int = 128  # samples at which G is taken
    members: int = 16
    weakest: int = 3  # blocks that are trained on, besides what is lost
    epochs: int = 20
    patience: int = 8
    cooling: int = 2
    sgd_rates: tuple[float, ...] = (3e-2, 2e-1)
    adamw_rates: tuple[float, ...] = (3e-3, 1e-2)

    def chosen(self) -> list[str]:
        """Names of the pairs."""
        return [known_name("pair", name, PAIRS) for name in self.pairs] or list(PAIRS)

    def rates(self, optimiser: str) -> list[float]:
        """The grid of an optimiser; the best is chosen on the first seed by validation accuracy."""
        return list(self.sgd_rates if optimiser == "SGD" else self.adamw_rates)


PRESETS = {
    "smoke": Config(
        pairs=("digits, 8 px: MLP behind means of 2 x 2",),
        edges=(10.0, 1.0),
        seeds=2,
        samples=150,
        tests=100,
        points=8,
        members=4,
        epochs=2,
        cooling=1,
        sgd_rates=(5e-2,),
        adamw_rates=(3e-3, 1e-2),
    ),
    "laptop": Config(),
    "overnight": Config(samples=1000, epochs=80, patience=20, seeds=5),
}


@dataclass(frozen=True, eq=False)
class Result:
    """Every trained cell."""

    config: Config
    cells: tuple[Cell, ...]

    @property
    def counted(self) -> list[Cell]:
        """Cells in which there is something to learn."""
        return [c for c in self.cells if c.counts]

    def some(self, **values: Any) -> list[Cell]:
        """Counted cells with these values of their fields."""
        return [c for c in self.counted if all(getattr(c, k) == v for k, v in values.items())]


# --- computed ---------------------------------------------------------------------------------------------------------


def run(config: Config, runner: Runner) -> Result:
    shared = {
        "experiment": "weak-directions",
        **{k: getattr(config, k) for k in ("samples", "tests", "points", "members", "first_seed")},
        "edges": list(config.edges),
    }
    places = [{**shared, "pair": name, "normed": normed} for name in config.chosen() for normed in (False, True)]
    measured = runner.map(_measured, places, "blocks")
    units, rows = [], []
    how = {k: getattr(config, k) for k in ("seeds", "epochs", "patience", "cooling")}
    for place, found in zip(places, measured, strict=True):
        blocks = found.numbers["blocks"]
        for number, scaled in trained_blocks(blocks, config.weakest):
            for optimiser in OPTIMISERS:
                rates = config.rates(optimiser)
                units.append(
                    {**place, **how, "block": number, "scaled": scaled, "optimiser": optimiser, "rates": rates}
                )
                rows.append((place, blocks[number]))
    trained = runner.map(_trained, units, "trainings")
    cells = [_cell(unit, block, outcome) for unit, (_, block), outcome in zip(units, rows, trained, strict=True)]
    return Result(config, tuple(cells))


def trained_blocks(blocks: Sequence[Mapping[str, Any]], weakest: int) -> list[tuple[int, bool]]:
    """(number, scaled): the weakest blocks with something to learn, and the very weakest in its own size, too.

    What is lost is trained on in any case.
    """
    counted = [i for i, b in enumerate(blocks) if b["linear"] >= FINDS]
    weak = [i for i in counted if not blocks[i]["lost"]][-weakest:]
    lost = [i for i in counted if blocks[i]["lost"]]
    return [*((i, True) for i in (*weak, *lost)), *((i, False) for i in weak[-1:])]


@lru_cache(maxsize=64)
def _grain(
    pair: str, normed: bool, samples: int, tests: int, points: int, members: int, seed: int
) -> tuple[TaskData, Grain]:
    """Samples and directions of a network on a task, kept because they take seconds to make."""
    data = pair_data(PAIRS[pair], samples, tests)
    make = family(PAIRS[pair], data.shape, data.outputs, normed=normed)
    return data, Grain.of(make, data.train[0][:points], members=members, seed=seed)


def _material(unit: Mapping[str, Any]) -> tuple[TaskData, Family, Grain, list[Block]]:
    """What all cells of a network on a task share.

    A fresh batch norm in eval mode does nothing but divide by √(1 + ε), so that G without it serves for both.
    """
    row = PAIRS[unit["pair"]]
    other = unit["normed"] and BODIES[row.body].norm != "batch"
    values = [unit[k] for k in ("samples", "tests", "points", "members", "first_seed")]
    data, grain = _grain(unit["pair"], other, *values)
    make = family(row, data.shape, data.outputs, normed=unit["normed"])
    return data, make, grain, grain.blocks(unit["edges"])


@one_thread()
def _measured(unit: Mapping[str, Any]) -> Outcome:
    """Blocks of a network on a task: their gain, what they hold, and what a linear rule finds there."""
    data, _, grain, blocks = _material(unit)
    whole = float((data.train[0] - data.train[0].mean(0)).square().sum())
    found = []
    for block in blocks:
        some = projected(data, block, scaled=False)
        X, y = some.train
        origin = grain.at_origin
        found.append(
            {
                "low": block.low,
                "high": block.high,
                "lost": block.lost,
                "directions": len(block.vectors),
                "variance": float(X.square().sum()) / whole,
                "gain": 0.0 if block.lost else gain_of(grain.at_data, X),
                "gain_at_origin": None if origin is None else 0.0 if block.lost else gain_of(origin, X),
                "linear": 100 * (linear_rule(X, y) - float(torch.bincount(y).max()) / len(y)),
            }
        )
    return Outcome({"blocks": found})


@one_thread()
def _trained(unit: Mapping[str, Any]) -> Outcome:
    """All seeds of one cell: the rate is chosen on the first."""
    data, make, _, blocks = _material(unit)
    some = projected(data, blocks[unit["block"]], scaled=unit["scaled"])
    recipe, optimizer = Recipe(unit["epochs"], unit["patience"], unit["cooling"]), OPTIMISERS[unit["optimiser"]]
    rates = unit["rates"]
    outcomes: list[Outcome] = []
    for seed in range(unit["first_seed"], unit["first_seed"] + unit["seeds"]):
        limits = (min(rates), max(rates))  # the grid is not left: where nothing is learnt the best rate is noise
        outcomes.append(training_outcome(make, some, rates, recipe, seed=seed, optimizer=optimizer, limits=limits))
        rates = [outcomes[0].numbers["rate"]]
    right = np.stack([o.arrays["right"].numpy().astype(bool) for o in outcomes])
    often = int(torch.bincount(some.train[1]).argmax())
    return Outcome(
        {
            "rate": rates[0],
            "validation": outcomes[0].numbers["rates"],
            "train": [o.numbers["train"] for o in outcomes],
            "end": [o.numbers["end"] for o in outcomes],
            "test": [float(r) for r in right.mean(1)],
            "chance": float((some.test[1] == often).double().mean()),
            "stderr": math.sqrt(float(right.mean(0).var(ddof=1)) / right.shape[1] + seed_variance(right)),
        }
    )


def _cell(unit: Mapping[str, Any], block: Mapping[str, Any], outcome: Outcome) -> Cell:
    row, numbers = PAIRS[unit["pair"]], outcome.numbers
    body = BODIES[row.body]
    return Cell(
        task=f"{row.task}, {row.size} px",
        network=row.network,
        kind=body.kind,
        norm=body.norm if unit["normed"] else "none",
        optimiser=unit["optimiser"],
        scaled=unit["scaled"],
        lost=block["lost"],
        gain=block["gain"],
        gain_at_origin=block["gain_at_origin"],
        linear=block["linear"],
        reached=100 * (sum(numbers["test"]) / len(numbers["test"]) - numbers["chance"]),
        stderr=100 * numbers["stderr"],
    )


def merged(folders: Iterable[str | Path]) -> Result:
    """The cells of finished runs of other pairs with the same settings, as one result."""
    results = []
    for path in folders:
        folder = RunFolder.open(path)
        results.append(run(Config(**folder.about["config"]), Runner(folder)))
    settings = {json.dumps({**asdict(r.config), "pairs": []}) for r in results}
    if len(settings) != 1:
        raise NetgrainError(f"expected runs with the same settings, found {len(settings)} different ones.")
    pairs = tuple(name for r in results for name in r.config.chosen())
    return Result(replace(results[0].config, pairs=pairs), tuple(c for r in results for c in r.cells))


def words(result: Result) -> str:
    """The text of ``netgrain/auditing/words.json``: every cell of a result, for the audit."""
    return as_stored(result.cells, asdict(result.config))


# --- judged -----------------------------------------------------------------------------------------------------------


def recipes_of(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Cells by optimiser and whether the network is normalised, and all of them."""
    found: dict[str, list[Cell]] = {}
    for c in cells:
        found.setdefault(f"{c.optimiser}, {'no normalisation' if c.norm == 'none' else 'normalised'}", []).append(c)
    return {**found, "all": list(cells)}


def claims(result: Result) -> list[Claim]:
    note = f"counted: a linear rule finds at least {FINDS:g} points; settings were chosen on seed 100"
    out = []
    lost = result.some(lost=True)
    if lost:
        pairs = sorted({c.pair for c in lost})
        most = max(lost, key=lambda c: c.reached)
        out.append(
            claim(
                "directions lost before the first activation are never learnt",
                f"mean over pairs at most {CHANCE:g} points above chance",
                mean([mean([c.reached for c in lost if c.pair == pair]).value for pair in pairs]),
                high=CHANCE,
                note=f"{sum(c.learnt for c in lost)} of {len(lost)} cells learnt, {len(pairs)} pairs, the most "
                f"{most.reached:.1f} ± {most.stderr:.1f} points ({most.network} on {most.task}); {note}",
            )
        )
    for name, cells in recipes_of(result.counted).items():
        weak = [c for c in cells if not c.lost]
        if not weak:
            continue
        found = threshold(cells)
        below = min(weak, key=lambda c: c.gain)
        out.append(
            claim(
                "the weakest directions in which there is something to learn are not learnt",
                f"at most {CHANCE:g} points above chance",
                Estimate(below.reached, below.stderr, result.config.tests),
                high=CHANCE,
                subject=name,
                note=f"gain {below.gain:.2g}, {below.network} on {below.task}; {said(found)}",
            )
        )
    return out


def said(found: Threshold) -> str:
    """A threshold in words."""
    if found.gain == 0:
        where = "no gain above zero up to which none learnt"
    else:
        where = f"none learnt up to a gain of {found.gain:.2g} [{found.low:.2g}, {found.high:.2g}]"
        where += "" if found.pairs >= FEWEST else f", with fewer than {FEWEST} pairs below"
    return f"{where}: 0 of {found.cells} cells of {found.pairs} pairs; above, {found.learnt} of {found.counted} learnt"


LEAST_DRAWN = 1e-11  # where lost directions, of gain 0, are drawn


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    from netgrain.geometry.plots import COLOURS, LARGE, MEDIUM, SMALL

    figure = Figure(figsize=(9.6, 5.8), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    kinds = ("convolutional", "attention", "dense")
    for row, normed in enumerate((False, True)):
        for column, optimiser in enumerate(OPTIMISERS):
            ax = axes[row, column]
            ax.axhspan(-CHANCE, CHANCE, color="#eeeeee", zorder=-1)
            for k, kind in enumerate(kinds):
                for scaled, marker in ((True, "o"), (False, "v")):
                    some = [c for c in result.some(optimiser=optimiser, kind=kind, scaled=scaled)
                            if (c.norm != "none") == normed]  # fmt: skip
                    if some:
                        label = kind if scaled else f"{kind}, not enlarged"
                        ax.errorbar([max(c.gain, LEAST_DRAWN) for c in some], [c.reached for c in some],
                                    yerr=[1.96 * c.stderr for c in some], fmt=marker, ms=4, color=COLOURS[k],
                                    label=label, lw=0.8)  # fmt: skip
            ax.set_xscale("log")
            ax.set_xlim(LEAST_DRAWN / 4, 10.0)
            ax.tick_params(labelsize=SMALL)
            what = "with batch or layer norm" if normed else "without normalisation"
            ax.set_title(f"{optimiser}, {what}", fontsize=MEDIUM)
    figure.supxlabel(f"gain of the projected data; 1 is an average direction, {LEAST_DRAWN:g} what the stem loses",
                     fontsize=MEDIUM)  # fmt: skip
    figure.supylabel("points of accuracy above chance (95 % intervals)", fontsize=MEDIUM)
    handles = {label: h for ax in axes.flat for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), fontsize=SMALL, frameon=False, loc="outside right upper")
    figure.suptitle("What networks learn from weak directions alone", fontsize=LARGE)
    return figure
