"""Figure 3: how fast the geometry turns and how well random labels are learnt, on data shaped like G and like flip(G).

Claim: on x ~ N(0, G/‖G‖₂) the velocity 1 − Corr(Gᵗ, Gᵗ⁻¹) and the train accuracy are larger than on
x ~ N(0, flip(G)/‖flip(G)‖₂), for LeNet, ResNet18 and ViT; an MLP has G ∝ I, so both data are one law. flip() moves
blocks of equal eigenvalues as wholes: with blocks of unequal size the trace changes, too (ViT at 16 × 16: 64 large
eigenvalues become 192, so flipped data are larger, not only turned). Every member has its own draw of the data, where
the paper has one for all: Gᵗ is the mean over weights and data. Laptop: 1 × 16 × 16, 256 samples, batches of 64 and
larger learning rates instead of thousands of steps. Cost: smoke seconds, laptop a minute on two cores, paper a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from netgrain.data.synthetic import gaussian_like
from netgrain.experiments.claims import UNDECIDED, Claim, claim
from netgrain.experiments.grain import following
from netgrain.experiments.grain.following import MORE
from netgrain.experiments.grain.grains import NARROW, model_config, until_decided
from netgrain.geometry.estimate import Estimate, mean
from netgrain.geometry.value import Geometry
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 115  # processor seconds at laptop scale
NETWORKS = ("MLP", "LeNet", "ResNet18", "ViT")
LAWS = {"G": False, "flip(G)": True}
SAME = "an identity, no evidence: G ∝ I, so both data are the same law"


@dataclass(frozen=True)
class Config:
    size: int
    widths: dict[str, float]  # of networks that are not at full width
    method: str  # how G is known: "auto" (closed form; ViT sampled) or "sampled"
    geometry_members: int  # networks behind a sampled G, or points behind a closed form
    samples: int
    batch: int
    epochs: dict[str, int]
    lr: dict[str, float]
    probes: int  # points per member at which ∇ₓf is taken
    seeds: int  # members to begin with
    most_seeds: int  # added two by two to a network while one of its claims is undecided
    device: str


PRESETS = {
    "smoke": Config(
        size=16, widths={"LeNet": 0.5, "ResNet18": 1 / 32, "ViT": 1 / 12}, method="auto", geometry_members=4,
        samples=32, batch=16, epochs=dict.fromkeys(NETWORKS, 3), lr=dict.fromkeys(NETWORKS, 0.1), probes=2,
        seeds=3, most_seeds=3, device="cpu",
    ),
    "laptop": Config(
        size=16, widths=NARROW, method="auto", geometry_members=64, samples=256, batch=64,
        epochs={"MLP": 40, "LeNet": 100, "ResNet18": 40, "ViT": 30},
        lr={"MLP": 0.1, "LeNet": 0.3, "ResNet18": 0.7, "ViT": 0.1}, probes=8,
        seeds=6, most_seeds=8, device="cpu",
    ),
    "paper": Config(
        size=32, widths={}, method="sampled", geometry_members=10_000, samples=10_000, batch=128,
        epochs={"MLP": 50, "LeNet": 100, "ResNet18": 50, "ViT": 50}, lr=dict.fromkeys(NETWORKS, 0.1), probes=16,
        seeds=25, most_seeds=25, device="best",
    ),
}  # fmt: skip


# --- one network on both laws -------------------------------------------------------------------------------------


def gaussian_units(
    m: Mapping[str, Any], *, method: str, members: int, samples: int, settings: Settings, probes: int, seeds: int
) -> list[dict[str, Any]]:
    """For every seed one training on either law; method and members: how G is known."""
    return [
        {
            "part": "training on Gaussian data",
            "model": dict(m),
            "start": {"method": method, "members": members},
            "law": law,
            "samples": samples,
            "settings": settings.as_dict(),
            "probes": probes,
            "seed": seed,
        }
        for seed in range(seeds)
        for law in LAWS
    ]


def gaussian_member(G: Mapping[str, Geometry], device: str, unit: Mapping[str, Any]) -> Outcome:
    """One member on its own draw of the data, with random labels."""
    m, seed = unit["model"], unit["seed"]
    flipped = LAWS[unit["law"]]
    data = gaussian_like(G[m["network"]], unit["samples"], seed=derived_seed(seed, "data like G"), flipped=flipped)
    settings = Settings(**unit["settings"])
    return following.followed(m, data.X, data.y, settings, seed=seed, i=0, probes=unit["probes"], device=device)


@dataclass(frozen=True, eq=False)
class Pair:
    """The same seeds on both laws."""

    seeds: list[int]  # that went well on both laws
    accuracy: dict[str, list[list[float]]]  # law → seed → per cent of the training set, by epoch
    turned: dict[str, list[Estimate]]  # law → velocity by epoch over different members, the plug-in beside it
    velocity: Estimate  # of the mean over epochs: G minus flip(G), over different members
    plug_in: Estimate  # the same from plug-in velocities, as in the paper's curves
    left_out: int  # seeds that diverged on one of the laws

    def gaps(self, epochs: slice) -> list[float]:
        """Accuracy on G minus that on flip(G) for each seed, mean over these epochs (0: before training)."""
        return [
            sum(a[epochs]) / len(a[epochs]) - sum(b[epochs]) / len(b[epochs])
            for a, b in zip(self.accuracy["G"], self.accuracy["flip(G)"], strict=True)
        ]

    @property
    def note(self) -> str:
        return f"{self.left_out} diverged seeds left out with their partners" if self.left_out else ""


def pair_of(units: Sequence[Mapping[str, Any]], outcomes: Sequence[Outcome]) -> Pair:
    bad = {u["seed"] for u, o in zip(units, outcomes, strict=True) if o.numbers["diverged"]}
    seeds = sorted({u["seed"] for u in units} - bad)
    mine: dict[str, list[Outcome]] = {law: [] for law in LAWS}
    for unit, outcome in zip(units, outcomes, strict=True):
        if unit["seed"] not in bad:
            mine[unit["law"]].append(outcome)
    accuracy = {law: [o.numbers["train"] for o in found] for law, found in mine.items()}
    if len(mine["G"]) < 2:
        nothing = Estimate(math.nan, math.nan, len(mine["G"]))
        return Pair(seeds, accuracy, {law: [] for law in LAWS}, nothing, nothing, len(bad))
    rows = {law: torch.stack([o.arrays["rows"] for o in found]) for law, found in mine.items()}
    apart, plain = ({law: following.velocity_of(r, own=own) for law, r in rows.items()} for own in (False, True))
    turned = {
        # the curve is of the ratio as it stands: its correction is noisier than the curve, and only means are judged
        law: [
            Estimate(float(a.whole), following.estimate(a).stderr, len(seeds), float(p.whole))
            for a, p in zip(apart[law], plain[law], strict=True)
        ]
        for law in LAWS
    }
    differences = [
        following.combined(torch.sub, *(following.average(kind[law]) for law in LAWS)) for kind in (apart, plain)
    ]
    return Pair(
        seeds, accuracy, turned, following.estimate(differences[0]), following.as_it_stands(differences[1]), len(bad)
    )


def draw_pair(ax: Any, pair: Pair, every: int = 1, colour: str = "#0072b2") -> None:
    """Train accuracy on the left axis, velocity (over `every` epochs) on the right one; dashed for flip(G)."""
    right = ax.twinx()
    for law, style in (("G", "-"), ("flip(G)", "--")):
        curve = following.curve_of(pair.accuracy[law])
        values = torch.tensor([v.value for v in curve])
        errors = torch.tensor([v.stderr for v in curve]).nan_to_num(0.0)
        epochs = every * torch.arange(len(curve))
        ax.plot(epochs, values, style, color="#009e73", lw=1.8, label=f"train accuracy, {law}")
        ax.fill_between(epochs, values - errors, values + errors, color="#009e73", alpha=0.15, lw=0)
        speed = [v.plug_in for v in pair.turned[law]]
        right.plot(epochs[1:], speed, style, color=colour, lw=1.4, label=f"velocity, {law}")
        apart = [v.value for v in pair.turned[law]]
        right.plot(epochs[1:], apart, style, color=colour, lw=0.8, alpha=0.45)
    ax.axhline(50, color="#666666", lw=0.8, ls=":")
    ax.set_ylim(40, 102)
    right.set_ylim(bottom=0)
    ax.set_xlabel("epoch")
    ax.set_ylabel("train accuracy, %", color="#009e73")
    right.set_ylabel("velocity 1 − Corr(Gᵗ, Gᵗ⁻¹)", color=colour)


def legend(figure: Any) -> None:
    """One legend below all panels, in words for what every panel of `draw_pair` shows."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color="#009e73", lw=1.8, label="train accuracy on G (band: ± 1 standard error)"),
        Line2D([], [], color="#009e73", lw=1.8, ls="--", label="train accuracy on flip(G)"),
        Line2D([], [], color="#0072b2", lw=1.4, label="velocity on G, plug-in (thin: different members only)"),
        Line2D([], [], color="#0072b2", lw=1.4, ls="--", label="velocity on flip(G)"),
        Line2D([], [], color="#666666", lw=0.8, ls=":", label="chance"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9, frameon=False)


# --- the run ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    pairs: dict[str, Pair]
    traces: dict[str, float]  # tr flip(G)/‖flip(G)‖₂ over tr G/‖G‖₂


def run(config: Config, runner: Runner) -> Result:
    shape = (1, config.size, config.size)
    models = {n: model_config(n, shape, activation="relu", width=config.widths.get(n, 1.0)) for n in NETWORKS}
    start: dict[str, Any] = {"method": config.method, "members": config.geometry_members}
    G = following.starts(runner, models, **start)
    traces = {}
    for n, g in G.items():
        flipped = g.flip().eigenvalues
        traces[n] = float(flipped.sum() / flipped[0] * g.eigenvalues[0] / g.eigenvalues.sum())
    work = partial(gaussian_member, G, config.device)

    def units_of(network: str, seeds: int) -> list[dict[str, Any]]:
        snapshots = following.snapshots_by_epoch(config.samples, config.batch, config.epochs[network])
        settings = Settings(
            lr=config.lr[network],
            steps=snapshots[-1],
            batch=config.batch,
            decay="linear",
            clip=0.5,
            snapshots=snapshots,
        )
        return gaussian_units(
            models[network], **start, samples=config.samples, settings=settings, probes=config.probes, seeds=seeds
        )

    def units(count: Mapping[str, int]) -> list[dict[str, Any]]:
        return [u for n, seeds in count.items() for u in units_of(n, seeds)]

    def collect(count: Mapping[str, int]) -> Result:
        runner.map(work, units(count), "trainings")
        pairs = {}
        for n, seeds in count.items():
            mine = units_of(n, seeds)
            pairs[n] = pair_of(mine, runner.map(work, mine, f"{n} read"))
        return Result(config, pairs, traces)

    def undecided(result: Result) -> list[str]:
        open_ = {c.subject for c in claims(result) if c.verdict == UNDECIDED}
        return [n for n in NETWORKS if n != "MLP" and n in open_]

    return until_decided(
        runner, NETWORKS, seeds=config.seeds, most=config.most_seeds, units=units, collect=collect, undecided=undecided
    )


def claims(result: Result) -> list[Claim]:
    found = []
    for network, pair in result.pairs.items():
        same = network == "MLP"
        bounds: dict[str, Any] = {"low": 0.0, "high": 0.0} if same else {"low": MORE}
        says = "equals that" if same else "is larger than"
        notes = [pair.note, SAME if same else "", _trace(result.traces[network])]
        apart = f"over different members only {pair.velocity.value:.2g} ± {pair.velocity.stderr:.2g}"
        found += [
            claim(
                "velocity",
                f"the velocity on G {says} on flip(G): mean over epochs, plug-in as in the paper",
                pair.plug_in,
                subject=network,
                **bounds,
                paper="the same curves" if same else "larger for G",
                note="; ".join(n for n in [*notes, apart] if n),
            ),
            claim(
                "train accuracy",
                f"the train accuracy on G {says} on flip(G): mean over epochs, in points",
                mean(pair.gaps(slice(1, None))),
                subject=network,
                **bounds,
                paper="the same curves" if same else "larger for G",
                note="; ".join(n for n in notes if n),
            ),
        ]
    return found


def _trace(ratio: float) -> str:
    return "" if abs(ratio - 1) < 1e-6 else f"flipped data have {ratio:.2f} times the trace"


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.4), layout="constrained")
    axes = figure.subplots(2, 2).flatten()
    for ax, (network, pair) in zip(axes, result.pairs.items(), strict=True):
        draw_pair(ax, pair)
        trace = _trace(result.traces[network])
        ax.set_title(f"{network}, {len(pair.accuracy['G'])} members" + (f" ({trace})" if trace else ""), fontsize=11)
    legend(figure)
    figure.suptitle("Random labels on data shaped like G and like flip(G)", fontsize=12)
    return figure
