"""Figure 12: ResNet18 on data shaped like G and like flip(G), more and more of them with the batch size fixed.

Claim: with more data in the same number of epochs there are more steps, and the gap in train accuracy between G and
flip(G) closes. Random labels, no normalisation; what is compared is the accuracy at the last epoch. Every member has
its own draw of the data. Laptop: 1 × 16 × 16 at an eighth of the width, 128 to 512 samples and a larger learning rate
in place of thousands of steps, chosen in a pilot so that the smallest size has time to learn G and not flip(G).
Cost: smoke seconds, laptop about a minute on two cores, paper for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netgrain.experiments.claims import Claim, claim, decided
from netgrain.experiments.grain import fig3
from netgrain.experiments.grain.drawing import dotted, error_bars, panels
from netgrain.experiments.grain.fig3 import Cell, GaussianConfig, Pair, train_pairs
from netgrain.experiments.grain.grains import COLOURS
from netgrain.experiments.grain.trials import MORE, joined
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COST = 113  # processor seconds at laptop scale


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
        size=8, width=1 / 32, geometry_members=4, samples=[16, 32], batches=[8, 8], epochs=2,
        lr=0.1, probes=2, seeds=3, most_seeds=3,
    ),
    "laptop": Config(
        size=16, width=1 / 8, geometry_members=64, samples=[128, 256, 512], batches=[64, 64, 64],
        epochs=48, every=4, lr=1.0, probes=8, seeds=3, most_seeds=4,
    ),
    "paper": Config(
        size=32, width=1.0, method="sampled", geometry_members=10_000,
        samples=[10_000, 20_000, 40_000, 60_000, 80_000, 100_000], batches=[128] * 6,
        epochs=50, lr=0.1, probes=16, seeds=25, most_seeds=25, device="best",
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


def claims(result: Result) -> list[Claim]:
    small, large = min(result.pairs), max(result.pairs)
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
    last.set(xscale="log", xlabel="samples", ylabel="train accuracy, G − flip(G), points")
    last.set_xticks(list(result.pairs), [f"{n:,}" for n in result.pairs])
    last.minorticks_off()
    last.set_title(f"gap at the last epoch, {len(result.gap(min(result.pairs)))} seeds", fontsize=10)
    for ax in unused:
        ax.set_axis_off()
    fig3.legend(figure)
    return figure
