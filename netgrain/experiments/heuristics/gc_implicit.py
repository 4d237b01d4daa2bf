"""Implicit gradient regularisation: gradient descent follows L + (η/4)‖∇L‖², and what that does to complexity.

A tanh network 64-32-10 on 100 digits, half the squared error, full batches, float64. At a given time gradient descent
with steps η is away from the flow of L by O(η) and from the flow of the modified loss by O(η²), in its weights and in
its complexity; with twice the term it is O(η) again. Orders of minibatches are averaged exactly, over all of them: the
mean after one epoch, which lasts as long as one step of all samples, is off the flow of L by O(η²) and off that of
L + (η/4)·mean ‖∇L_j‖² by O(η³). Then complexity is compared at equal loss, along gradient descent, both flows, and the
flow with the opposite sign of the term. Flows by Runge–Kutta of fourth order; its own error is reported. Rates, time
and target were chosen on seeds 100 and 101, the shorter epochs after the seeds of the verdict had shown a power of
2.67 ± 0.02 at epochs three times as long. Cost: smoke a second, laptop about two minutes, paper the same with more
seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.heuristics.descent_paths import Field, SmallNetwork, descent, order, runge_kutta
from netgrain.experiments.heuristics.orders import monotone
from netgrain.experiments.heuristics.panels import Panel
from netgrain.experiments.heuristics.protocol import material
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COST = 106  # processor seconds at laptop scale
COVERS = (88,)
SHORTENED = "epochs were shortened after these seeds had shown a power of 2.67 at epochs three times as long"
FLOWS = {"L": 0.0, "modified": 0.25, "twice": 0.5}  # strength of the term, times the rate
SAME_LOSS = {"modified": 0.25, "opposite": -0.25}
WORDS = {
    "L": "flow of L",
    "modified": "flow of L + (η/4)‖∇L‖²",
    "twice": "flow of L + (η/2)‖∇L‖²",
    "opposite": "flow of L − (η/4)‖∇L‖²",
    "batches": "flow of L + (η/4)·mean ‖∇L_j‖²",
    "descent": "gradient descent",
}


@dataclass(frozen=True)
class Config:
    seeds: int
    samples: int = 100
    hidden: int = 32
    scale: float = 1.5  # of LeCun's weights
    time: float = 8.0  # η × steps
    rates: tuple[float, ...] = (1 / 8, 1 / 16, 1 / 32, 1 / 64)  # their powers of two divide the time
    fine: int = 32  # Runge–Kutta steps per unit of time
    batches: int = 3
    large: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.4)  # up to the edge of stability
    target: float = 0.16  # loss at which complexities are compared

    @property
    def epoch_rates(self) -> tuple[float, ...]:
        """Rates at which an epoch of minibatches lasts as long as one step of all samples."""
        return tuple(rate / self.batches for rate in self.rates)


PRESETS = {
    "smoke": Config(
        seeds=2, samples=30, hidden=8, time=1.0, fine=8, rates=(1 / 8, 1 / 16), large=(0.1, 0.3), target=0.7
    ),
    "laptop": Config(seeds=5),
    "paper": Config(seeds=20, samples=1000, hidden=64),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    gaps: dict[str, list[list[float]]]  # flow → (seeds, rates), distance of weights from those of gradient descent
    slopes: dict[str, list[list[float]]]  # the same of complexities
    epochs: dict[str, list[list[float]]]  # flow → (seeds, rates), distance from the mean over orders of minibatches
    same_loss: dict[str, list[list[float]]]  # path → (seeds, large rates), complexity over that of the flow of L
    numerical: float  # largest share of a gap that is the error of Runge–Kutta

    @property
    def curve(self) -> SweepCurve:
        rows = self.same_loss["descent"]
        good = [[math.isfinite(v) for v in row] for row in rows]
        return SweepCurve(tuple(self.config.large), {"complexity": rows}, good)


def run(config: Config, runner: Runner) -> Result:
    units = [{"experiment": "gc-implicit", "seed": s, "config": asdict(config)} for s in range(config.seeds)]
    found = [o.numbers for o in runner.map(_one, units, "paths")]
    epochs = [
        o.numbers for o in runner.map(_epochs, [{**u, "experiment": "gc-implicit epochs"} for u in units], "epochs")
    ]
    parts = {part: {k: [n[part][k] for n in found] for k in found[0][part]} for part in ("gaps", "slopes")}
    parts["epochs"] = {k: [n[k] for n in epochs] for k in epochs[0]}
    same = {
        k: [[math.nan if v is None else v for v in n["same_loss"][k]] for n in found] for k in found[0]["same_loss"]
    }
    return Result(config, **parts, same_loss=same, numerical=max(n["numerical"] for n in found))


# --- one seed -----------------------------------------------------------------------------------------------------


def network(config: Config) -> SmallNetwork:
    X, y, *_ = material("digits", config.samples, True)
    return SmallNetwork(X.double(), F.one_hot(y, 10).double(), config.hidden)


def _begun(unit: Mapping[str, Any]) -> tuple[Config, SmallNetwork, Tensor]:
    """Configuration, network and first weights of a seed."""
    config = Config(**unit["config"])
    net = network(config)
    generator = torch.Generator().manual_seed(derived_seed(unit["seed"], "implicit"))
    return config, net, net.start(config.scale, generator)


def _one(unit: Mapping[str, Any]) -> Outcome:
    config, net, start = _begun(unit)
    found: dict[str, Any] = {part: {k: [] for k in FLOWS} for part in ("gaps", "slopes")}
    steps = round(config.time * config.fine)
    flow = runge_kutta(partial(_velocity, net, 0.0), start, config.time, steps)[-1]
    rough = runge_kutta(partial(_velocity, net, 0.0), start, config.time, steps // 2)[-1]
    for rate in config.rates:
        end = descent(net.gradient, start, rate, round(config.time / rate))[-1]
        for name, share in FLOWS.items():
            there = (
                flow if not share else runge_kutta(partial(_velocity, net, share * rate), start, config.time, steps)[-1]
            )
            found["gaps"][name].append(float((end - there).norm()))
            found["slopes"][name].append(abs(net.complexity(end) - net.complexity(there)))
    error = float((flow - rough).norm()) / 15  # of the finer one, by Richardson
    found["numerical"] = error / min(found["gaps"]["modified"])
    found["same_loss"] = _same_loss(net, start, config)
    return Outcome(found)


def _velocity(net: SmallNetwork, strength: float, theta: Tensor, parts: Sequence[slice] = (slice(None),)) -> Tensor:
    return -(net.modified_gradient(theta, strength, parts) if strength else net.gradient(theta))


def _epochs(unit: Mapping[str, Any]) -> Outcome:
    """Distances of the mean over all orders of minibatches, after one epoch, from flows for the same time."""
    config, net, start = _begun(unit)
    m = config.batches
    size = config.samples // m
    net = SmallNetwork(net.X[: m * size], net.Y[: m * size], net.hidden)
    parts = [slice(j * size, (j + 1) * size) for j in range(m)]
    gaps: dict[str, list[float]] = {"L": [], "modified": [], "batches": []}
    for rate in config.epoch_rates:
        ends = []
        for sequence in itertools.permutations(parts):
            theta = start
            for part in sequence:
                theta = theta - rate * net.gradient(theta, part)
            ends.append(theta)
        centre = torch.stack(ends).mean(0)
        fields: dict[str, Field] = {
            "L": partial(_velocity, net, 0.0),
            "modified": partial(_velocity, net, rate / 4),
            "batches": partial(_velocity, net, rate / 4, parts=parts),
        }
        for name, velocity in fields.items():
            there = runge_kutta(velocity, start, m * rate, 8)[-1]
            gaps[name].append(float((centre - there).norm()))
    return Outcome(gaps)


def _same_loss(net: SmallNetwork, start: Tensor, config: Config) -> dict[str, list[float | None]]:
    """Complexities where the loss is the target, divided by that on the flow of L; None where it is not reached."""
    h = 1 / (config.fine // 2)
    plain = _at_loss(net, start, config, partial(_flow_step, net, 0.0, h), h)
    found: dict[str, list[float | None]] = {name: [] for name in ("descent", *SAME_LOSS)}
    for rate in config.large:
        steps: dict[str, tuple[Field, float]] = {"descent": (partial(_descent_step, net, rate), rate)}
        steps |= {name: (partial(_flow_step, net, share * rate, h), h) for name, share in SAME_LOSS.items()}
        for name, (step, length) in steps.items():
            there = _at_loss(net, start, config, step, length)
            found[name].append(None if there is None or plain is None else there / plain)
    return found


def _descent_step(net: SmallNetwork, rate: float, theta: Tensor) -> Tensor:
    return descent(net.gradient, theta, rate, 1)[-1]


def _flow_step(net: SmallNetwork, strength: float, h: float, theta: Tensor) -> Tensor:
    """One Runge–Kutta step of a flow."""
    return runge_kutta(partial(_velocity, net, strength), theta, h, 1)[-1]


def _at_loss(net: SmallNetwork, theta: Tensor, config: Config, step: Field, length: float) -> float | None:
    """Complexity where a path crosses the target loss, between its two steps; None if it does not in 5 × the time."""
    loss = float(net.loss(theta))
    for _ in range(math.ceil(5 * config.time / length)):
        after = step(theta)
        lower = float(net.loss(after))
        if not math.isfinite(lower):
            return None
        if lower <= config.target:
            share = math.log(loss / config.target) / math.log(loss / lower)
            return (1 - share) * net.complexity(theta) + share * net.complexity(after)
        theta, loss = after, lower
    return None


# --- verdicts -------------------------------------------------------------------------------------------------------


def claims(result: Result) -> list[Claim]:
    rates = result.config.rates

    def power(found: Mapping[str, list[list[float]]], name: str) -> Estimate:
        return mean([order(rates, row) for row in found[name]])

    def ordered(kind: str, value: Estimate, expected: int, note: str = "") -> Claim:
        low, high = 0.9 * expected, 1.1 * expected
        statement = f"the gap shrinks with a power of the rate from {low:.3g} to {high:.3g}"
        paper = "implicit gradient regularisation"
        return claim(kind, statement, value, low=low, high=high, paper=paper, note=note, basis="derived")

    error = f"Runge–Kutta's own error is at most {result.numerical:.1g} of a gap"
    descent, flow = "gradient descent is", "at the same loss the modified flow is"
    orders = "the mean over orders of minibatches is"
    gaps, slopes, epochs = result.gaps, result.slopes, result.epochs
    return [
        ordered(f"{descent} O(η) away from the flow of L", power(gaps, "L"), 1),
        ordered(f"{descent} O(η²) away from the flow of the modified loss", power(gaps, "modified"), 2, error),
        claim(
            "control: with twice the term it is not O(η²)",
            "the gap shrinks with a power below 1.5",
            power(gaps, "twice"),
            high=1.5,
        ),
        ordered("its complexity is O(η) away from that of the flow of L", power(slopes, "L"), 1),
        ordered("its complexity is O(η²) away from that of the modified flow", power(slopes, "modified"), 2),
        ordered(f"{orders} O(η³) away from its modified flow", power(epochs, "batches"), 3, SHORTENED),
        claim(
            "control: without the gradients of single minibatches it is not O(η³)",
            "the gap shrinks with a power below 2.5",
            power(epochs, "modified"),
            high=2.5,
        ),
        monotone(result.curve, "larger steps lower complexity at the same loss", -1, paper="falls"),
        _shift(f"{flow} less complex than the flow of L", result.same_loss["modified"], -1, paper="falls"),
        _shift(f"at the same loss {descent} less complex", result.same_loss["descent"], -1, paper="falls"),
        _shift("control: with the opposite sign of the term the flow is more complex", result.same_loss["opposite"], 1),
    ]


def _shift(kind: str, ratios: Sequence[Sequence[float]], sign: int, *, paper: str = "") -> Claim:
    """The sign of the change against the flow of L at the largest step; ratios: (seeds, rates)."""
    values = [math.log(row[-1]) for row in ratios if math.isfinite(row[-1])]
    side = "above" if sign > 0 else "below"
    return claim(
        kind,
        f"the mean logarithm of the ratio of complexities is {side} zero at the largest step",
        mean(values),
        low=0 if sign > 0 else None,
        high=None if sign > 0 else 0,
        paper=paper,
        note="" if len(values) == len(ratios) else f"{len(ratios) - len(values)} seeds did not reach the loss",
    )


# --- the figure -----------------------------------------------------------------------------------------------------


def overview_panels(result: Result) -> list[Panel]:
    return [Panel("Step size, relative to the flow of L", result.curve, "learning rate")]


def figure(result: Result) -> Figure:
    """Distances against the rate, of weights and after an epoch, and complexity at the same loss."""
    from matplotlib.figure import Figure

    from netgrain.geometry.plots import COLOURS, LARGE, MEDIUM, SMALL

    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    weights, epochs, losses = figure.subplots(1, 3)
    rates = result.config.rates
    _lines(weights, rates, result.gaps)
    weights.set_title("Gradient descent against flows,\nat the same time", fontsize=LARGE)
    weights.set_ylabel("distance of the weights", fontsize=MEDIUM)
    _lines(epochs, result.config.epoch_rates, result.epochs)
    epochs.set_title(f"Mean over all orders of {result.config.batches} minibatches,\nafter one epoch", fontsize=LARGE)
    for colour, (name, rows) in zip(COLOURS, _in_order(result.same_loss), strict=False):
        values = [mean([100 * (row[j] - 1) for row in rows if math.isfinite(row[j])]) for j in range(len(rows[0]))]
        errors = [0.0 if math.isnan(v.stderr) else v.stderr for v in values]
        losses.errorbar(
            result.config.large, values, yerr=errors, color=colour, marker="o", ms=4, capsize=2, label=WORDS[name]
        )
    losses.axhline(0, color="black", lw=0.8)
    losses.set_title(f"Complexity at loss {result.config.target:g},\nrelative to the flow of L", fontsize=LARGE)
    losses.set_ylabel("change of geometric complexity, %", fontsize=MEDIUM)
    for ax in (weights, epochs, losses):
        ax.set_xlabel("learning rate η", fontsize=MEDIUM)
        ax.tick_params(labelsize=SMALL)
        ax.legend(fontsize=SMALL, frameon=False)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return figure  # fmt: skip


def _in_order(found: Mapping[str, list[list[float]]]) -> list[tuple[str, list[list[float]]]]:
    """As in WORDS: what is read back from a folder comes in another order."""
    return [(name, found[name]) for name in WORDS if name in found]


def _lines(ax: Axes, rates: Sequence[float], found: Mapping[str, list[list[float]]]) -> None:
    """Geometric means over seeds, with the fitted power of each."""
    from netgrain.geometry.plots import COLOURS

    for colour, (name, rows) in zip(COLOURS, _in_order(found), strict=False):
        middle = [math.exp(sum(math.log(row[j]) for row in rows) / len(rows)) for j in range(len(rates))]
        power = mean([order(rates, row) for row in rows])
        ax.plot(rates, middle, color=colour, marker="o", ms=4, label=f"{WORDS[name]}: power {power.value:.2f}")
    ax.set(xscale="log", yscale="log")
    ax.set_xticks(list(rates), [f"1/{round(1 / r)}" for r in rates])
    ax.minorticks_off()
