"""Figure 12: ResNet18 on data shaped like G and like flip(G), more and more of them with the batch size fixed.

Claim: with more data in the same number of epochs there are more steps, and the gap in train accuracy between G and
flip(G) closes. The paper's reason: the parameters end farther from their initialisation, ‖θ_t − θ_0‖. Random labels, no
normalisation; what is compared is the accuracy at the last epoch. At laptop scale every member has its own draw of the
data. Laptop: 1 × 16 × 16 at an eighth of the width, 128 to 512 samples and a larger learning rate in place of thousands
of steps, chosen in a pilot so that the smallest size has time to learn G and not flip(G). Cost: smoke seconds, laptop
one to two minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netgrain.complexity.sweeps import spearman
from netgrain.experiments.claims import Claim, claim, decided
from netgrain.experiments.grain import fig3
from netgrain.experiments.grain.drawing import dotted, error_bars, panels
from netgrain.experiments.grain.fig3 import Cell, GaussianConfig, Pair, train_pairs
from netgrain.experiments.grain.grains import COLOURS
from netgrain.experiments.grain.planted_claims import FEWEST
from netgrain.experiments.grain.trials import MORE, joined
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COST = 150  # processor seconds at laptop scale
COVERS = (47, 49)


@dataclass(frozen=True, kw_only=True)
class Config(GaussianConfig):
    width: float
    samples: list[int]  # ascending
    batches: list[int]  # one for each
    epochs: int
    every: int = 1  # epochs from one look at the geometry to the next
    lr: float


PRESETS = {
    "smoke": Config(
        size=8, width=1 / 32, geometry_members=4, samples=[16, 24, 32], batches=[8] * 3, epochs=2,
        lr=0.1, probes=2, seeds=2, most_seeds=2,
    ),
    "laptop": Config(
        size=16, width=1 / 8, geometry_members=64, samples=[128, 256, 384, 512], batches=[64] * 4,
        epochs=48, every=4, lr=1.0, probes=8, seeds=3, most_seeds=4,
    ),
    "paper": Config(
        size=32, width=1.0, method="sampled", geometry_members=10_000,
        samples=[10_000, 20_000, 40_000, 60_000, 80_000, 100_000], batches=[128] * 6,
        epochs=50, lr=0.1, probes=16, seeds=25, most_seeds=25, own_data=False, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    pairs: dict[int, Pair]  # by number of samples

    def gap(self, samples: int) -> list[float]:
        """Accuracy on G minus that on flip(G) at the last epoch, in points, one for each seed."""
        return self.pairs[samples].gaps(slice(-1, None))

    def describe(self) -> str:
        parts = [f"{n}: {mean(self.gap(n)).value:.1f} ± {mean(self.gap(n)).stderr:.1f}" for n in self.pairs]
        notes = [f"{n} samples: {p.note}" for n, p in self.pairs.items() if p.note]
        return joined(f"gap in points by samples: {', '.join(parts)}", *notes)


def run(config: Config, runner: Runner) -> Result:
    return sizes(config, runner, claims)


def sizes(config: Config, runner: Runner, claims: Callable[[Result], list[Claim]]) -> Result:
    """All sizes, with more seeds for all of them while a claim is undecided: claims compare sizes."""
    cells = {
        samples: Cell("ResNet18", samples, batch, config.epochs, config.lr, config.every)
        # the longest first, so that two cores end together
        for samples, batch in reversed([*zip(config.samples, config.batches, strict=True)])
    }
    return train_pairs(
        runner,
        config,
        {"ResNet18": config.width},
        cells,
        result=lambda _, pairs: Result(config, {n: pairs[n] for n in config.samples}),
        undecided=lambda result: () if decided(claims(result)) else cells,
        step=1,
    )


def closing(result: Result) -> Estimate:
    """The gap at the smallest size minus that at the largest, over the seeds that went well at both."""
    small, large = (
        dict(zip(result.pairs[n].seeds, result.gap(n), strict=True)) for n in (min(result.pairs), max(result.pairs))
    )
    return mean([small[seed] - large[seed] for seed in small if seed in large])


def gap_with(kind: str, samples: int, result: Result, paper: str) -> Claim:
    return claim(
        f"gap with {kind} samples",
        f"with {samples} samples the train accuracy at the last epoch is larger on G than on flip(G), in points",
        mean(result.gap(samples)),
        subject="ResNet18",
        low=MORE,
        paper=paper,
        note=result.describe(),
    )


def velocity_with(kind: str, samples: int, result: Result) -> Claim:
    pair = result.pairs[samples]
    return claim(
        f"velocity with {kind} samples",
        f"with {samples} samples the velocity is larger on G than on flip(G): mean over epochs, plug-in as the paper's",
        pair.plug_in,
        subject="ResNet18",
        low=MORE,
        paper="larger for G",
        note=joined(f"over different members only {pair.velocity.value:.2g} ± {pair.velocity.stderr:.2g}", pair.note),
    )


def farther(result: Result) -> Estimate:
    """log of ‖θ_t − θ_0‖ on flip(G) with the most samples over that with the fewest, for seeds good at both."""
    small, large = (
        dict(zip(result.pairs[n].seeds, result.pairs[n].distance["flip(G)"], strict=True))
        for n in (min(result.pairs), max(result.pairs))
    )
    return mean([math.log(large[seed] / small[seed]) for seed in small if seed in large])


def distance_and_accuracy(result: Result, law: str) -> Estimate:
    """Rank correlation over sizes of the distance and the train accuracy at the last epoch, mean over seeds."""
    found: dict[int, list[tuple[float, float]]] = {}
    for pair in result.pairs.values():
        for seed, far, curve in zip(pair.seeds, pair.distance[law], pair.accuracy[law], strict=True):
            found.setdefault(seed, []).append((far, curve[-1]))
    orders = [spearman(*zip(*points, strict=True)) for points in found.values() if len(points) >= FEWEST]
    return mean([r for r in orders if math.isfinite(r)])


def explained(result: Result) -> str:
    """Distances by size and law, for the notes."""
    parts = [
        f"{n}: {mean(p.distance['G']).value:.1f} on G, {mean(p.distance['flip(G)']).value:.1f} on flip(G)"
        for n, p in result.pairs.items()
    ]
    return f"distance from initialisation by samples: {', '.join(parts)}"


def claims(result: Result) -> list[Claim]:
    small, large = min(result.pairs), max(result.pairs)
    other = distance_and_accuracy(result, "G")
    return [
        gap_with("few", small, result, "a clear gap with 10,000 samples"),
        claim(
            "the gap closes",
            f"the gap with {small} samples is larger than with {large}, the batch size being the same, in points",
            closing(result),
            subject="ResNet18",
            low=MORE,
            paper="the gap vanishes as the data grow to 100,000",
            note=result.describe(),
        ),
        velocity_with("few", small, result),
        claim(
            "distance from initialisation",
            f"on flip(G) the parameters end farther from their initialisation with {large} samples than with {small}: "
            "logarithm of the ratio of ‖θ_t − θ_0‖",
            farther(result),
            subject="ResNet18",
            low=MORE,
            paper="more iterations end very far away from the initialisation",
            note=explained(result),
        ),
        claim(
            "distance and accuracy",
            "on flip(G) train accuracy is larger where the distance is: rank correlation over sizes, mean over seeds",
            distance_and_accuracy(result, "flip(G)"),
            subject="ResNet18",
            low=MORE,
            paper="the distance from the initialisation is why flip(G) is learnt",
            note=f"on G {other.value:.2f} ± {other.stderr:.2f}"
            if other.n
            else "on G the accuracy is the same at all sizes",
        ),
    ]


def figure(result: Result) -> Figure:
    return draw(result, "ResNet18, more data with the batch size fixed: more steps")


def draw(result: Result, title: str) -> Figure:
    """One panel a size, and the gap against the size."""
    columns = (len(result.pairs) + 2) // 2
    figure, axes = panels(title, (4.6 * columns + 1, 7.2), rows=2, columns=columns)
    for ax, (samples, pair), batch in zip(axes, result.pairs.items(), result.config.batches, strict=False):
        fig3.draw_pair(ax, pair, result.config.every)
        steps = result.config.epochs * max(samples // batch, 1)
        ax.set_title(f"{samples:,} samples, batch {batch}, {steps:,} steps", fontsize=10)
    last, *unused = axes[len(result.pairs) :]
    gaps = [mean(result.gap(n)) for n in result.pairs]
    error_bars(last, list(result.pairs), gaps, fmt="o-", color=COLOURS["ResNet18"], capsize=3)
    dotted(last, 0, "#666666")
    right = last.twinx()
    for law, style in (("G", "s-"), ("flip(G)", "s--")):
        far = [mean(p.distance[law]) for p in result.pairs.values()]
        error_bars(right, list(result.pairs), far, fmt=style, color="#000000", capsize=3, ms=4, lw=1, label=f"on {law}")
    right.set_ylim(bottom=0)
    right.set_ylabel("distance ‖θ_t − θ_0‖ at the end")
    right.legend(fontsize=8, frameon=False, loc="upper center")
    last.set(xscale="log", xlabel="samples")
    last.set_ylabel("train accuracy, G − flip(G), points", color=COLOURS["ResNet18"])
    last.set_xticks(list(result.pairs), [f"{n:,}" for n in result.pairs])
    last.minorticks_off()
    last.set_title(f"gap and distance at the last epoch, {len(result.gap(min(result.pairs)))} seeds", fontsize=10)
    for ax in unused:
        ax.set_axis_off()
    fig3.legend(figure)
    return figure
