"""What the experiments on linear equivariant networks share: data, one training as a unit of work, and its pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

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
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NETS = {"group-cnn": "G-CNN", "circular": "CNN", "fully-connected": "FC"}
HUES = {"group-cnn": "#0072b2", "circular": "#e69f00", "fully-connected": "#cc79a7"}
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


def ask(group: str, data: Mapping[str, Any], *, net: str, depth: int, seed: int, **options: Any) -> dict[str, Any]:
    """A unit: train one network; options are those of `limit`, and keep="curve" stores the way there."""
    return {"group": group, "data": dict(data), "net": net, "depth": depth, "seed": seed, **options}


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


def seeds_used(outcomes: Sequence[Outcome]) -> list[int]:
    """The seeds from which trainings of seeds 0, 1, … succeeded, so that others can begin at the same weights."""
    return [seed + (o.numbers["starts"] - 1) * ANOTHER_START for seed, o in enumerate(outcomes)]


def train_all(runner: Runner, asked: Mapping[Any, Sequence[Mapping[str, Any]]], label: str) -> dict[Any, list[Outcome]]:
    """Groups of units through the engine at once, back in their groups."""
    outcomes = iter(runner.map(train_one, [unit for units in asked.values() for unit in units], label))
    return {key: [next(outcomes) for _ in units] for key, units in asked.items()}


def over(outcomes: Sequence[Outcome], number: str | Callable[[dict[str, Any]], float]) -> Estimate:
    """Mean over seeds of a number of the outcomes, with its standard error."""
    read = (lambda n: float(n[number])) if isinstance(number, str) else number
    return mean([read(o.numbers) for o in outcomes])


def apart(low: Sequence[Outcome], high: Sequence[Outcome], number: str | Callable[[dict[str, Any]], float]) -> Estimate:
    """Mean over seeds of high − low, seed by seed."""
    read = (lambda n: float(n[number])) if isinstance(number, str) else number
    return mean([read(b.numbers) - read(a.numbers) for a, b in zip(low, high, strict=True)])


def rate(truths: Sequence[bool]) -> float:
    return sum(truths) / len(truths) if truths else math.nan


def written(value: Estimate) -> str:
    """The value to the precision of its standard error: 5.03 ± 0.24, 1360 ± 90.

    >>> written(Estimate(1358.9, 90.3, 5)), written(Estimate(5.0372, 0.238, 5)), written(Estimate(8.0, 0.0, 5))
    ('1359 ± 90', '5.04 ± 0.24', '8 ± 0')
    """
    if not value.stderr > 1e-4 * abs(value.value):
        return f"{value.value:.5g} ± {value.stderr:.0g}" if value.stderr > 0 else f"{value.value:.5g} ± 0"
    digits = max(0, 1 - math.floor(math.log10(value.stderr)))
    return f"{value.value:.{digits}f} ± {value.stderr:.{digits}f}"


def tidy(ax: Axes) -> None:
    from netgrain.geometry.plots import SMALL

    ax.tick_params(labelsize=SMALL)
    ax.grid(color="0.92", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def draw_curves(ax: Axes, outcomes: Mapping[str, Sequence[Outcome]], row: int) -> None:
    """One thin line per seed against the growth of the weights; row 1 the Fourier ratio, row 2 the real one."""
    from netgrain.geometry.plots import MEDIUM

    longest = 0.0
    for net, found in outcomes.items():
        for outcome in found:
            curve = outcome.arrays["curve"].numpy()
            longest = max(longest, float(curve[0, -1]))
            ax.plot(curve[0], curve[row], color=HUES[net], lw=1.1, alpha=0.6)
            ax.plot(curve[0, :1], curve[row, :1], "o", color="white", mec=HUES[net], ms=3.5, zorder=3)
            ax.plot(curve[0, -1:], curve[row, -1:], "o", color=HUES[net], ms=3.5, zorder=3)
    if longest > 20:
        ax.set_xscale("symlog", linthresh=1.0, linscale=1.2)
        ticks = [t for t in (0, 1, 10, 100, 1000, 10000) if t <= longest * 1.01]
        ax.set_xticks(ticks, [str(t) for t in ticks])
        ax.minorticks_off()
    ax.set_xlabel("growth of the weights, log |w| / |w₀|", fontsize=MEDIUM)
    tidy(ax)


def draw_changes(
    ax: Axes,
    rows: Sequence[tuple[str, str, Sequence[Outcome]]],  # label, network, outcomes
    start: str,
    end: str,
    *,
    text: bool = True,
) -> None:
    """From the level at initialisation (open) to the level at the end (filled): means over seeds, standard errors."""
    from netgrain.geometry.plots import SMALL

    for at, (_, net, outcomes) in enumerate(rows):
        a, b = over(outcomes, start), over(outcomes, end)
        change = apart_in(outcomes, start, end)
        ax.annotate(
            "",
            (b.value, at),
            (a.value, at),
            arrowprops={"arrowstyle": "-|>", "color": HUES[net], "lw": 1.2, "alpha": 0.7},
        )
        for value, filled in ((a, False), (b, True)):
            ax.errorbar(
                value.value, at, xerr=value.stderr, fmt="o", ms=5.5, capsize=2.5, color=HUES[net],
                mfc=HUES[net] if filled else "white", elinewidth=1.2, zorder=3,
            )  # fmt: skip
        if text:
            ax.annotate(
                ("+" if change > 0 else "") + written(change).replace("-", "−"), ((a.value + b.value) / 2, at), (0, 5),
                textcoords="offset points", ha="center", fontsize=SMALL - 1.5, color="0.3",
            )  # fmt: skip
    ax.set_yticks(range(len(rows)), [label for label, _, _ in rows])
    ax.set_ylim(len(rows) - 0.5, -0.6)
    tidy(ax)


def apart_in(outcomes: Sequence[Outcome], start: str, end: str) -> Estimate:
    """Mean over seeds of the change from initialisation."""
    return mean([float(o.numbers[end]) - float(o.numbers[start]) for o in outcomes])


def key_of_nets(ax: Axes, nets: Sequence[str], *extra: Any, **where: Any) -> None:
    """The legend that says which colour is which network, and what open and filled marks are."""
    from matplotlib.lines import Line2D

    from netgrain.geometry.plots import SMALL

    lines = [Line2D([], [], color=HUES[n], lw=2, label=NETS[n]) for n in nets]
    marks = [
        Line2D([], [], marker="o", color="none", mec="0.3", mfc=fill, ms=5, label=name)
        for fill, name in (("white", "initialisation"), ("0.3", "end"))
    ]
    ax.legend(handles=[*lines, *marks, *extra], fontsize=SMALL, frameon=False, **where)
