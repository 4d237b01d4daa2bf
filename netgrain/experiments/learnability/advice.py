"""Advice followed: what a network reaches as it is, after the first advice, and after changes drawn at random.

Pairs of a task and a network that does poorly on it are listed in advice_pairs.toml. The catalogue is tried on the
training samples alone (`netgrain.auditing.advise`); then the network as it is, with the first advice, and with random
changes that were tried, too, are trained by one recipe: AdamW at the best of several rates until they fit. "More
samples" is no change here. Cost: smoke some seconds, laptop about two hours of one core, overnight five.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netgrain.auditing.advice import BUDGET, advise, to_try
from netgrain.auditing.finalists import BUDGET as TRAINED
from netgrain.experiments.claims import ROUNDING, Claim, claim
from netgrain.experiments.learnability.advice_networks import Pair, Part, family, listed, named
from netgrain.experiments.learnability.reaching import Recipe
from netgrain.experiments.learnability.tasks import TaskData
from netgrain.experiments.learnability.trainings import training_outcome
from netgrain.families.members import Family
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.randomness import generator_for
from netgrain.runtime.runners import Runner
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 7200  # processor seconds at laptop scale
RATES = (1e-3, 3.16e-3)  # to begin with
ENOUGH, POINTS = 0.75, 3.0  # of the pairs, and of accuracy on average
PLAIN, FIRST, RANDOM = "as it is", "first advice", "random"
TUNING = "tuning pairs: no verdict"

Right = NDArray[np.bool_]  # (seeds, tests)


@dataclass(frozen=True)
class Config:
    part: Part
    seeds: int
    epochs: int
    draws: int  # random changes of each pair
    patience: int = 5
    cooling: int = 3
    rates: tuple[float, ...] = RATES
    budget: float = BUDGET
    trained: float = TRAINED  # operations of the advice's short trainings
    samples: int | None = None  # at most so many to train with
    tests: int | None = None
    pairs: tuple[str, ...] = ()  # some of the part; empty: all

    def chosen(self) -> list[Pair]:
        if self.pairs:
            return [named(name) for name in self.pairs]
        return [pair for pair in listed().values() if pair.part == self.part]


PRESETS = {
    "smoke": Config(
        "tuning",
        seeds=2,
        epochs=1,
        draws=1,
        cooling=1,
        rates=(1e-3,),
        budget=1.5e8,
        trained=0.0,
        samples=60,
        tests=40,
        pairs=("digits, MLP with weak weights", "Friedman, features of many scales, MLP"),
    ),
    "laptop": Config("verdict", seeds=2, epochs=30, draws=3),
    "overnight": Config("verdict", seeds=3, epochs=80, draws=5, patience=10),
}


@dataclass(frozen=True, eq=False)
class Followed:
    """One pair: what was advised, and which tests every training got right.

    Attributes
    ----------
    pair : Pair
        The row of the list.
    advised, action : str
        The first advice; empty where none was given, so that the network stayed as it is.
    predicted, error : float
        Its gain in points, and the standard error of that.
    right : dict of str to array of shape (seeds, tests)
        By "as it is", "first advice" and the names of the random changes.
    """

    pair: Pair
    advised: str
    action: str
    predicted: float
    error: float
    right: dict[str, Right]

    def reached(self, change: str) -> float:
        """Test accuracy in points, mean over seeds."""
        return 100 * float(self.right[change].mean())

    @property
    def randoms(self) -> list[str]:
        return [change for change in self.right if change not in (PLAIN, FIRST)]

    @property
    def gain(self) -> float:
        """Points by following the first advice."""
        return self.reached(FIRST) - self.reached(PLAIN)

    @property
    def random_gain(self) -> float:
        """Points by a random change, mean over draws."""
        found = [self.reached(change) - self.reached(PLAIN) for change in self.randoms]
        return math.fsum(found) / len(found) if found else math.nan

    @property
    def stderr(self) -> float:
        """Standard error of the gain by tests and seeds."""
        a, b = self.right[FIRST], self.right[PLAIN]
        by_test = b.mean(0) - a.mean(0)
        by_seed = float(np.var(a.mean(1) - b.mean(1), ddof=1)) / len(a) if len(a) > 1 else 0.0
        return 100 * math.sqrt(float(by_test.var(ddof=1)) / len(by_test) + by_seed)


@dataclass(frozen=True, eq=False)
class Result:
    """What figure and claims need."""

    config: Config
    pairs: list[Followed]


def run(config: Config, runner: Runner) -> Result:
    pairs = config.chosen()
    told = runner.map(
        _advised, [_unit("advice", p, config, draws=config.draws, trained=config.trained) for p in pairs], "advice"
    )
    changes = {
        pair.name: [PLAIN, *dict.fromkeys([o.numbers["first"], *o.numbers["random"]])]
        for pair, o in zip(pairs, told, strict=True)
    }
    how: dict[str, Any] = {"epochs": config.epochs, "patience": config.patience, "cooling": config.cooling}
    cells = [(pair, change) for pair in pairs for change in dict.fromkeys(changes[pair.name])]
    searched = runner.map(
        _trained,
        [_unit("training", p, config, change=c, seed=0, rates=list(config.rates), **how) for p, c in cells],
        "rates",
    )
    again = [
        _unit("training", p, config, change=c, seed=seed, rates=[found.numbers["rate"]], **how)
        for (p, c), found in zip(cells, searched, strict=True)
        for seed in range(1, config.seeds)
    ]
    others = iter(runner.map(_trained, again, "trainings"))
    right: dict[tuple[str, str], Right] = {}
    for (pair, change), first in zip(cells, searched, strict=True):
        outcomes = [first, *(next(others) for _ in range(1, config.seeds))]
        right[pair.name, change] = np.stack([o.arrays["right"].numpy().astype(bool) for o in outcomes])
    return Result(config, [_followed(pair, o.numbers, right) for pair, o in zip(pairs, told, strict=True)])


def _followed(pair: Pair, told: Mapping[str, Any], right: Mapping[tuple[str, str], Right]) -> Followed:
    named_right = {PLAIN: right[pair.name, PLAIN], FIRST: right[pair.name, told["first"]]}
    named_right |= {change: right[pair.name, change] for change in told["random"]}
    advised = "" if told["first"] == PLAIN else told["first"]
    return Followed(pair, advised, told["action"], 100 * told["gain"], 100 * told["error"], named_right)


def _unit(kind: str, pair: Pair, config: Config, **values: Any) -> dict[str, Any]:
    sizes = {"samples": config.samples, "tests": config.tests, "budget": config.budget}
    return {"experiment": "advice", "kind": kind, "pair": pair.name, **sizes, **values}


def _subject(unit: Mapping[str, Any]) -> tuple[TaskData, Family]:
    pair = named(unit["pair"])
    data = pair.data(unit["samples"], unit["tests"])
    return data, family(pair.network, data.shape, data.outputs)


@one_thread()
def _advised(unit: Mapping[str, Any]) -> Outcome:
    """The first advice, and random changes of those that were tried; with nothing to advise the network stays."""
    data, make = _subject(unit)
    advice = advise(make, *data.train, target="classes", budget=unit["budget"], trained=unit["trained"], progress=False)
    first, rows = advice.first, list(advice.rows)
    generator = generator_for(0, "random changes", unit["pair"])
    order = np.random.default_rng(generator.initial_seed()).permutation(len(rows)).tolist()
    return Outcome(
        {
            "first": PLAIN if first is None else first.change,
            "action": "" if first is None else first.action,
            "gain": 0.0 if first is None else first.gain.value,
            "error": 0.0 if first is None else first.gain.stderr,
            "random": [rows[i].change for i in order[: unit["draws"]]],
            "tried": advice.tried,
            "left": advice.left,
            "rows": [
                {"change": r.change, "gain": r.gain.as_dict(), "chosen_by": r.gain.chosen_by, "trained": r.trained}
                for r in rows
            ],
        }
    )


@one_thread()
def _trained(unit: Mapping[str, Any]) -> Outcome:
    """One seed of a network with one change, at the best of its rates; one rate is taken as it is."""
    data, make = _subject(unit)
    if unit["change"] != PLAIN:
        _, known = to_try(make, *data.train, target="classes", budget=unit["budget"])
        make = next(change.family for change in known.changes if change.change == unit["change"])
    recipe = Recipe(unit["epochs"], unit["patience"], unit["cooling"])
    return training_outcome(make, data, unit["rates"], recipe, seed=unit["seed"])


def claims(result: Result) -> list[Claim]:
    pairs = result.pairs
    note = TUNING if result.config.part == "tuning" else "pairs, bounds and settings were fixed before the run"
    gains = [p.gain for p in pairs]
    raised = [float(g > 0) for g in gains]
    share = Estimate(sum(raised) / len(raised), _share_error(raised), len(raised))
    others = [p.gain - p.random_gain for p in pairs if math.isfinite(p.random_gain)]
    held = [float(abs(p.gain - p.predicted) <= 1.645 * math.hypot(p.error, p.stderr)) for p in pairs]
    inside = Estimate(sum(held) / len(held), _share_error(held), len(held))
    return [
        claim(
            "share of pairs in which the first advice raises what is reached",
            f"at least {ENOUGH:.0%}",
            share,
            low=ENOUGH - ROUNDING,
            note=note,
        ),
        claim("points gained by the first advice, mean over pairs", "above 0", mean(gains), low=0.0, note=note),
        claim(
            "size of that gain in points",
            f"at least {POINTS:g}",
            Estimate(sum(gains) / len(gains), 0.0, len(gains)),
            low=POINTS,
            note=f"{note}; the mean as it is, its interval is that of the claim above",
        ),
        claim("first advice minus a random change, in points", "above 0", mean(others), low=0.0, note=note),
        claim(
            "share of pairs whose gain lies in its 90 % interval",
            "at least 80%",
            inside,
            low=0.8 - ROUNDING,
            note=note,
        ),
        *(_of_pair(p, note) for p in pairs),
    ]


def _of_pair(p: Followed, note: str) -> Claim:
    said = f"{p.reached(PLAIN):.1f} → {p.reached(FIRST):.1f}, predicted {p.predicted:+.1f} ± {p.error:.1f}"
    changes = "; ".join(f"{change} {p.reached(change):.1f}" for change in p.randoms)
    advised = f"{p.advised or 'nothing was advised'}: {said}; at random: {changes}; {note}"
    return claim(
        "points by the first advice", "above 0", Estimate(p.gain, p.stderr, p.right[PLAIN].size), low=0.0,
        subject=p.pair.name, note=advised,
    )  # fmt: skip


def _share_error(hits: Sequence[float]) -> float:
    n = len(hits)
    # a share of 0 or 1 has the error of one more pair of the other kind
    inside = min(max(sum(hits) / n, 1 / (n + 2)), 1 - 1 / (n + 2))
    return math.sqrt(inside * (1 - inside) / n)


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    from netgrain.geometry.plots import COLOURS, LARGE, MEDIUM, SMALL

    pairs = sorted(result.pairs, key=lambda p: -p.gain)
    figure = Figure(figsize=(8.4, 1.5 + 0.4 * len(pairs)), layout="constrained")
    ax = figure.subplots()
    for i, p in enumerate(pairs):
        ax.plot([p.reached(PLAIN), p.reached(FIRST)], [i, i], color="#bbbbbb", lw=1.5, zorder=0)
        for change in p.randoms:
            ax.plot(p.reached(change), i, "|", ms=9, color=COLOURS[2], zorder=1)
    rows = range(len(pairs))
    ax.plot([p.reached(PLAIN) for p in pairs], rows, "o", ms=5, color=COLOURS[1], label=PLAIN)
    ax.plot([p.reached(FIRST) for p in pairs], rows, "D", ms=5, color=COLOURS[0], label=FIRST)
    ax.plot([], [], "|", ms=9, color=COLOURS[2], label="random changes")
    ax.set_yticks(list(rows), [f"{p.pair.name}\n{p.advised or 'nothing advised'}" for p in pairs], fontsize=SMALL)
    ax.invert_yaxis()
    ax.tick_params(labelsize=SMALL)
    ax.set_xlabel("accuracy reached by training (%)", fontsize=MEDIUM)
    figure.legend(fontsize=SMALL, frameon=False, loc="outside lower center", ncols=3)
    ax.set_title("Advice followed, and changes at random", fontsize=LARGE)
    return figure
