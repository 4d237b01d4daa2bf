"""What the studies of equivariant networks share: data, units of work, and numbers over seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from netgrain.equivariant.limits import limit, make_network
from netgrain.equivariant.schatten_norms import real_ratio, schatten_objective, schatten_ratio, stable_rank
from netgrain.equivariant.solution import Limit
from netgrain.geometry.estimate import Estimate, mean
from netgrain.groups.constructors import from_cayley
from netgrain.groups.group import Group
from netgrain.groups.parsing import parse
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome, Work

Case = TypeVar("Case", bound=Hashable)

NETS = {"group-cnn": "G-CNN", "circular": "CNN", "fully-connected": "FC"}
HUES = {"group-cnn": "#0072b2", "circular": "#e69f00", "fully-connected": "#cc79a7"}
METHODS = {"sgd": "descent, growing rate", "ngd": "normalised descent", "flow": "flow"}
RATIOS = {"ratio": "Fourier ratio |β̂|_{2/3} / |β|₂", "real": "real ratio |β|_{2/3} / |β|₂"}  # at depth 3
AUTHORS_D8 = "D8, authors' order"
BARE = "bare table of "
AUTHORS_MOST_LOSS = 0.1  # the authors start again when the final loss is above it
MOST_STARTS = 8
ANOTHER_START = 100_000  # between the seeds of two starts


@cache
def group_named(name: str) -> Group:
    """A group by name; "D8, authors' order" lists e, r², r, r³, s, sr², sr, sr³; "bare table of D8" knows only that."""
    if name == AUTHORS_D8:
        return parse("D8").reorder([0, 4, 2, 6, 1, 5, 7, 3])
    if name.startswith(BARE):
        known = parse(name.removeprefix(BARE))
        return from_cayley(known.cayley, name=known.name)
    return parse(name)


def points_of(data: Mapping[str, Any], order: int) -> tuple[Tensor, Tensor]:
    """The data of a unit and their labels, −1 and +1 in turn."""
    if data["kind"] == "columns":  # two one-dimensional characters of D8, in the authors' order
        X = torch.tensor([[1.0, 1, -1, -1, 1, 1, -1, -1], [1, 1, -1, -1, -1, -1, 1, 1]], dtype=torch.float64)
    elif data["kind"] == "seed-2":  # what the authors' torch.manual_seed(2) gives
        X = torch.randn(2, 8, generator=torch.Generator().manual_seed(2)).double()
    else:
        rng = np.random.default_rng([data["seed"], order, data["points"]])
        X = torch.from_numpy(rng.standard_normal((data["points"], order)))
    y = labels_in_turn(len(X))
    return X + data.get("offset", 0.0) * y[:, None], y


def gaussian_points(points: int, n: int, seed: int | torch.Generator) -> Tensor:
    """N(0, I), (points, n), by torch's generator."""
    generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
    return torch.randn(points, n, dtype=torch.float64, generator=generator)


def labels_in_turn(points: int) -> Tensor:
    """−1, +1, −1, …, (points,)."""
    return torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(points)[:points]


def seeded(seeds: int, /, **common: Any) -> list[dict[str, Any]]:
    """Units that differ in their seed alone: 0, 1, …"""
    return [{**common, "seed": seed} for seed in range(seeds)]


def trainings(
    group: str, data: Mapping[str, Any], seeds: Iterable[int], *, net: str, depth: int, **options: Any
) -> list[dict[str, Any]]:
    """Units of `train_one`, one per seed of the initial weights; Gaussian points are drawn anew for each.

    Options are those of `limit`, and keep="curve" stores the way there.
    """
    draws = ({"seed": i} if data["kind"] == "gaussian" else {} for i in itertools.count())
    return [
        {"group": group, "data": {**data, **draw}, "net": net, "depth": depth, "seed": seed, **options}
        for seed, draw in zip(seeds, draws, strict=False)
    ]


def narrow(net: str) -> dict[str, int]:
    """Options for the flow of a large network: the limit of a fully connected one is the same at any width."""
    return {"width": 2} if net == "fully-connected" else {}


def train_one(unit: Mapping[str, Any]) -> Outcome:
    """Train a network to its limit (or as far as the method goes) and measure where it began and where it ended."""
    group, depth = group_named(unit["group"]), unit["depth"]
    X, y = points_of(unit["data"], group.order)
    found, starts = _started(unit, group, X, y)
    first, last = found.initial, found.beta
    if unit["net"] == "fully-connected" and unit.get("width", group.order) != group.order:
        # a narrow network has the same limit, but the authors begin with one as wide as its input
        first = make_network(group, unit["net"], depth, seed=unit["seed"]).beta().detach()
        first = first / first.norm()
    numbers = {
        "ratio": found.ratio,
        "start_ratio": float(schatten_ratio(group, first, depth)),
        "real": found.real_ratio,
        "start_real": float(real_ratio(first, depth)),
        "ratio3": float(schatten_ratio(group, last, 3)),  # p = 2/3 whatever the depth
        "start_ratio3": float(schatten_ratio(group, first, 3)),
        "objective": float(schatten_objective(group, last, X, y, depth)),  # in the group's Fourier space for every net
        "own_objective": found.objective,  # what this network minimises
        "lower": found.lower,
        "gap": found.dual_gap,
        "kkt": found.kkt_residual,
        "balancedness": found.balancedness,
        "rank": found.weighted_rank,
        "stable_rank": float(stable_rank(group, last)),
        "start_stable_rank": float(stable_rank(group, first)),
        "reached": final_margin(found, group.order),
        "starts": starts,
    }
    arrays = {"beta": last, "start": first}
    if unit.get("keep") == "curve":
        path = found.trajectory
        growth = (path.log_norms - path.log_norms[0]).clamp(min=0)
        arrays["curve"] = torch.stack([growth, path.ratios, real_ratio(path.betas, depth)])
    return Outcome({k: v if v is None or math.isfinite(v) else None for k, v in numbers.items()}, arrays)


def _started(unit: Mapping[str, Any], group: Group, X: Tensor, y: Tensor) -> tuple[Limit, int]:
    """Gradient descent is started again, as by the authors, until it ends with a small loss."""
    options = {k: unit[k] for k in ("method", "epochs", "lr", "cap", "log_norm", "width") if k in unit}
    descends = options.get("method", "flow") != "flow"
    for again in range(MOST_STARTS if descends else 1):
        seed = unit["seed"] + again * ANOTHER_START
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # a descent that diverges is told by its error
                found = limit(group, X, y, depth=unit["depth"], net=unit["net"], seed=seed, **options)
        except NetgrainError:
            if not descends:
                raise
            continue
        if not descends or final_margin(found, group.order) >= -math.log(AUTHORS_MOST_LOSS):
            return found, again + 1
    raise NetgrainError(
        f"{unit['net']} did not learn the data from {MOST_STARTS} starts with {options}; use other ones."
    )


def final_margin(found: Limit, order: int) -> float:
    """min_i y_i NN(x_i) of the network as it ended: |w|^L times the margin at |w| = 1; infinite at the limit.

    At |w| = 1 the norm of the predictor is (balancedness · scale/L)^{L/2}, and `objective` is norm over margin.
    """
    L = found.depth
    scale = 1 if found.net == "fully-connected" else order
    log_margin = L * float(found.trajectory.log_norms[-1]) + L / 2 * math.log(found.balancedness * scale / L)
    return math.exp(log_margin) / found.objective if log_margin < 700 else math.inf


class Seeds(list[Outcome]):
    """The outcomes of one case, one per seed."""

    def each(self, number: str | Callable[[dict[str, Any]], float]) -> list[float]:
        """A number of every outcome."""
        return [float(o.numbers[number] if isinstance(number, str) else number(o.numbers)) for o in self]

    def mean(self, number: str | Callable[[dict[str, Any]], float]) -> Estimate:
        """Its mean over seeds, with its standard error."""
        return mean(self.each(number))

    def told(self, number: str) -> str:
        """Its mean as people write it."""
        return written(self.mean(number))

    def change(self, number: str) -> Estimate:
        """Mean over seeds of its change from initialisation."""
        return paired(self.each(number), self.each(f"start_{number}"))

    def minus(self, other: Seeds, number: str | Callable[[dict[str, Any]], float]) -> Estimate:
        """Mean over seeds of its difference from another case, seed by seed."""
        return paired(self.each(number), other.each(number))

    def seeds_used(self) -> list[int]:
        """The seeds from which trainings of seeds 0, 1, … succeeded, so that others can begin at the same weights."""
        return [seed + (o.numbers["starts"] - 1) * ANOTHER_START for seed, o in enumerate(self)]

    def stacked(self, array: str) -> Tensor:
        """An array of every outcome, (seeds, …)."""
        return torch.stack([o.arrays[array].double() for o in self])


def collected(
    runner: Runner, asked: Mapping[Case, Sequence[Mapping[str, Any]]], label: str, work: Work = train_one
) -> dict[Case, Seeds]:
    """The units of all cases through the engine at once, back in their cases."""
    outcomes = iter(runner.map(work, [unit for units in asked.values() for unit in units], label))
    return {case: Seeds(itertools.islice(outcomes, len(units))) for case, units in asked.items()}


def stacked(cases: Mapping[Case, Seeds], array: str) -> dict[Case, Tensor]:
    """An array of every outcome, case by case."""
    return {case: outcomes.stacked(array) for case, outcomes in cases.items()}


def paired(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Mean of a − b over the same seeds."""
    return mean([x - y for x, y in zip(a, b, strict=True)])


def written(value: Estimate) -> str:
    """The value to the precision of its standard error: 5.03 ± 0.24, 1360 ± 90.

    >>> written(Estimate(1358.9, 90.3, 5)), written(Estimate(5.0372, 0.238, 5)), written(Estimate(8.0, 0.0, 5))
    ('1359 ± 90', '5.04 ± 0.24', '8 ± 0')
    """
    if not value.stderr > 1e-4 * abs(value.value):
        return f"{value.value:.5g} ± {value.stderr:.0g}" if value.stderr > 0 else f"{value.value:.5g} ± 0"
    digits = max(0, 1 - math.floor(math.log10(value.stderr)))
    return f"{value.value:.{digits}f} ± {value.stderr:.{digits}f}"
