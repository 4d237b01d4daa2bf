"""Figure 12: ResNet18 on data shaped like G and like flip(G), more and more of them with the batch size fixed.

Claim: with more data in the same number of epochs there are more steps, and the gap in train accuracy between G and
flip(G) closes. Random labels, no normalisation; what is compared is the accuracy at the last epoch. Every member has
its own draw of the data. Laptop: 1 × 16 × 16 at an eighth of the width, 128 to 512 samples and a larger learning rate
in place of thousands of steps, chosen in a pilot so that the smallest size has time to learn G and not flip(G).
Cost: smoke seconds, laptop about a minute on two cores, paper for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from netgrain.experiments.claims import UNDECIDED, Claim, claim
from netgrain.experiments.grain import fig3, following
from netgrain.experiments.grain.fig3 import Pair
from netgrain.experiments.grain.following import MORE
from netgrain.experiments.grain.grains import COLOURS, model_config, until_decided
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.run_folder import Runner
from netgrain.training.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COST = 113  # processor seconds at laptop scale


@dataclass(frozen=True)
class Config:
    size: int
    width: float
    method: str  # how G is known: "auto" (closed form) or "sampled"
    geometry_members: int  # networks behind a sampled G, or points behind a closed form
    samples: list[int]  # ascending
    batches: list[int]  # one for each
    epochs: int
    every: int  # epochs from one look at the geometry to the next
    lr: float
    probes: int
    seeds: int  # members to begin with
    most_seeds: int  # added while a claim is undecided
    device: str


PRESETS = {
    "smoke": Config(
        size=8, width=1 / 32, method="auto", geometry_members=4, samples=[16, 32], batches=[8, 8], epochs=2, every=1,
        lr=0.1, probes=2, seeds=3, most_seeds=3, device="cpu",
    ),
    "laptop": Config(
        size=16, width=1 / 8, method="auto", geometry_members=64, samples=[128, 256, 512], batches=[64, 64, 64],
        epochs=48, every=4, lr=1.0, probes=8, seeds=3, most_seeds=4, device="cpu",
    ),
    "paper": Config(
        size=32, width=1.0, method="sampled", geometry_members=10_000,
        samples=[10_000, 20_000, 40_000, 60_000, 80_000, 100_000], batches=[128] * 6,
        epochs=50, every=1, lr=0.1, probes=16, seeds=25, most_seeds=25, device="best",
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
        return "; ".join([f"gap in points by samples: {', '.join(parts)}", *notes])


def run(config: Config, runner: Runner) -> Result:
    return sizes(config, runner, claims)


def sizes(config: Config, runner: Runner, claims: Any) -> Result:
    """All sizes, with more seeds for all of them while a claim is undecided: claims compare sizes."""
    shape = (1, config.size, config.size)
    m = model_config("ResNet18", shape, activation="relu", width=config.width)
    start: dict[str, Any] = {"method": config.method, "members": config.geometry_members}
    G = following.starts(runner, {"ResNet18": m}, **start)
    work = partial(fig3.gaussian_member, G, config.device)

    def units_of(place: int, seeds: int) -> list[dict[str, Any]]:
        samples, batch = config.samples[place], config.batches[place]
        snapshots = following.snapshots_by_epoch(samples, batch, config.epochs, config.every)
        settings = Settings(
            lr=config.lr, steps=snapshots[-1], batch=batch, decay="linear", clip=0.5, snapshots=snapshots
        )
        return fig3.gaussian_units(m, **start, samples=samples, settings=settings, probes=config.probes, seeds=seeds)

    def units(count: Mapping[str, int]) -> list[dict[str, Any]]:
        # the longest first, so that two cores end together
        return [u for place in reversed(range(len(config.samples))) for u in units_of(place, count["all"])]

    def collect(count: Mapping[str, int]) -> Result:
        runner.map(work, units(count), "trainings")
        pairs = {}
        for place, samples in enumerate(config.samples):
            mine = units_of(place, count["all"])
            pairs[samples] = fig3.pair_of(mine, runner.map(work, mine, f"{samples} samples read"))
        return Result(config, pairs)

    def undecided(result: Result) -> list[str]:
        return ["all"] if any(c.verdict == UNDECIDED for c in claims(result)) else []

    return until_decided(
        runner,
        ["all"],
        seeds=config.seeds,
        most=config.most_seeds,
        units=units,
        collect=collect,
        undecided=undecided,
        step=1,
    )


def closing(result: Result) -> Estimate:
    """The gap at the smallest size minus that at the largest, over the seeds that went well at both."""
    small, large = (
        dict(zip(result.pairs[n].seeds, result.gap(n), strict=True)) for n in (min(result.pairs), max(result.pairs))
    )
    return mean([small[seed] - large[seed] for seed in small if seed in large])


def claims(result: Result) -> list[Claim]:
    small, large = min(result.pairs), max(result.pairs)
    return [
        claim(
            "gap with few samples",
            f"with {small} samples the train accuracy at the last epoch is larger on G than on flip(G), in points",
            mean(result.gap(small)),
            subject="ResNet18",
            low=MORE,
            paper="a clear gap with 10,000 samples",
            note=result.describe(),
        ),
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
    return panels(result, "ResNet18, more data with the batch size fixed: more steps")


def panels(result: Result, title: str) -> Figure:
    """One panel a size, and the gap against the size."""
    from matplotlib.figure import Figure

    columns = (len(result.pairs) + 2) // 2
    figure = Figure(figsize=(4.6 * columns + 1, 7.2), layout="constrained")
    axes = figure.subplots(2, columns).flatten()
    for ax, (samples, pair), batch in zip(axes, result.pairs.items(), result.config.batches, strict=False):
        fig3.draw_pair(ax, pair, result.config.every)
        steps = result.config.epochs * max(samples // batch, 1)
        ax.set_title(f"{samples:,} samples, batch {batch}, {steps:,} steps", fontsize=10)
    last = axes[len(result.pairs)]
    gaps = [mean(result.gap(n)) for n in result.pairs]
    errors = [0.0 if g.stderr != g.stderr else g.stderr for g in gaps]
    last.errorbar(list(result.pairs), gaps, errors, fmt="o-", color=COLOURS["ResNet18"], capsize=3)
    last.axhline(0, color="#666666", lw=0.8, ls=":")
    last.set_xscale("log")
    last.set_xticks(list(result.pairs), [f"{n:,}" for n in result.pairs])
    last.minorticks_off()
    last.set_xlabel("samples")
    last.set_ylabel("train accuracy, G − flip(G), points")
    last.set_title(f"gap at the last epoch, {len(result.gap(min(result.pairs)))} seeds", fontsize=10)
    for ax in axes[len(result.pairs) + 1 :]:
        ax.set_axis_off()
    fig3.legend(figure)
    figure.suptitle(title, fontsize=12)
    return figure
