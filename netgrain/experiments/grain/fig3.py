"""Figure 3: how fast the geometry turns and how well random labels are learnt, on data shaped like G and like flip(G).

Claim: on x ~ N(0, G/‖G‖₂) the velocity 1 − Corr(Gᵗ, Gᵗ⁻¹) and the train accuracy are larger than on
x ~ N(0, flip(G)/‖flip(G)‖₂), for LeNet, ResNet18 and ViT; an MLP has G ∝ I, so both data are one law. On both data the
change |uᵀ(Gᵗ − G)u| falls with the index of the eigenvector u of G (footnote 4), not along random directions. flip(G)
has the eigenvalues of G; flip="blocks" moves blocks of equal ones as wholes, which changes the trace. At laptop scale
every member has its own draw of the data and of the choice that flip(G) has inside blocks, where the paper has one for
all: Gᵗ is the mean over weights and data. Laptop: 1 × 16 × 16, 256 samples, batches of 64 and larger learning rates
instead of thousands of steps. Cost: smoke seconds, laptop one to two minutes on two cores, paper a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from netgrain.data.synthetic import gaussian_like
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain import following
from netgrain.experiments.grain.change_by_index import Change, Directions, change_along, draw_change, looks
from netgrain.experiments.grain.course_claims import index_claims
from netgrain.experiments.grain.drawing import band, dotted, legend_below, panels
from netgrain.experiments.grain.grains import COLOURS, NARROW, model_config
from netgrain.experiments.grain.trials import MORE, SeededConfig, Trials, curve_of, joined, open_subjects, until_decided
from netgrain.geometry.estimate import Estimate, mean
from netgrain.geometry.value import Geometry
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 150  # processor seconds at laptop scale
COVERS = (9, 10, 20, 35)
NETWORKS = ("MLP", "LeNet", "ResNet18", "ViT")
LAWS = {"G": False, "flip(G)": True}
Key = TypeVar("Key", bound=Hashable)
R = TypeVar("R")
SAME = "an identity, no evidence: G ∝ I, so both data are the same law"


@dataclass(frozen=True, kw_only=True)
class GaussianConfig(SeededConfig):
    """What figures 3, 12 and 13 have to know."""

    method: str = "auto"  # how G is known: "auto" (closed form; ViT sampled) or "sampled"
    geometry_members: int  # networks behind a sampled G, or points behind a closed form
    probes: int  # points per member at which ∇ₓf is taken
    flip: str = (
        "eigenvalues"  # what changes places: single eigenvalues, as in the paper, or whole "blocks" of equal ones
    )
    own_data: bool = True  # a draw of the data for every member; else one for all, as in the paper
    decay: str | None = "linear"  # of the learning rate; the text is silent, the authors' code has it
    clip: float | None = 0.5  # of the gradient's norm; likewise


@dataclass(frozen=True, kw_only=True)
class Config(GaussianConfig):
    widths: dict[str, float]  # of networks that are not at full width
    samples: int
    batch: int
    epochs: dict[str, int]
    lr: dict[str, float]


PRESETS = {
    "smoke": Config(
        size=16, widths={"LeNet": 0.5, "ResNet18": 1 / 32, "ViT": 1 / 12}, geometry_members=4, samples=32, batch=16,
        epochs=dict.fromkeys(NETWORKS, 3), lr=dict.fromkeys(NETWORKS, 0.1), probes=2, seeds=3, most_seeds=3,
    ),
    "laptop": Config(
        size=16, widths=NARROW, geometry_members=64, samples=256, batch=64,
        epochs={"MLP": 40, "LeNet": 100, "ResNet18": 40, "ViT": 30},
        lr={"MLP": 0.1, "LeNet": 0.3, "ResNet18": 0.7, "ViT": 0.1}, probes=8, seeds=6, most_seeds=8,
    ),
    "paper": Config(
        size=32, widths={}, method="sampled", geometry_members=10_000, samples=10_000, batch=128,
        epochs={"MLP": 50, "LeNet": 100, "ResNet18": 50, "ViT": 50}, lr=dict.fromkeys(NETWORKS, 0.1), probes=16,
        seeds=25, most_seeds=25, own_data=False, device="best",
    ),
}  # fmt: skip


# --- pairs of trainings on both laws ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One network, and how it is trained on both laws."""

    network: str
    samples: int
    batch: int
    epochs: int
    lr: float
    every: int = 1  # epochs from one look at the geometry to the next

    def units(self, model: Mapping[str, Any], config: GaussianConfig, seed: int) -> list[dict[str, Any]]:
        """The training of a seed on either law."""
        snapshots = following.snapshots_by_epoch(self.samples, self.batch, self.epochs, self.every)
        settings = Settings(
            lr=self.lr, steps=snapshots[-1], batch=self.batch, decay=config.decay, clip=config.clip, snapshots=snapshots
        )
        shared = {
            "part": "training on Gaussian data",
            "model": dict(model),
            "start": {"method": config.method, "members": config.geometry_members},
            "flip": config.flip,
            "data": seed if config.own_data else 0,
            "samples": self.samples,
            "settings": settings.as_dict(),
            "probes": config.probes,
            "seed": seed,
        }
        return [{**shared, "law": law} for law in LAWS]


def train_pairs(
    runner: Runner,
    config: GaussianConfig,
    widths: Mapping[str, float],
    cells: Mapping[Key, Cell],
    *,
    result: Callable[[dict[str, Geometry], dict[Key, Pair]], R],
    undecided: Callable[[R], Iterable[Key]],
    step: int,
    by_index: bool = False,
) -> R:
    """Train every cell on data like G and like flip(G) of its network.

    widths: of the networks, by name. by_index: also look at the change of Gᵗ along the eigenvectors of G.
    """
    shape = (1, config.size, config.size)
    models = {n: model_config(n, shape, activation="relu", width=width) for n, width in widths.items()}
    G = following.starts(runner, models, method=config.method, members=config.geometry_members)
    along = {n: Directions.of(g) for n, g in G.items()} if by_index else {}
    return until_decided(
        runner,
        partial(_member, G, config.device),
        lambda key, seed: cells[key].units(models[cells[key].network], config, seed),
        # for an MLP both laws are one, which more seeds would only say again
        {k: (config.seeds, config.seeds if c.network == "MLP" else config.most_seeds) for k, c in cells.items()},
        result=lambda trials: result(G, {k: pair_of(t, along.get(cells[k].network)) for k, t in trials.items()}),
        undecided=undecided,
        step=step,
    )


def _member(G: Mapping[str, Geometry], device: str, unit: Mapping[str, Any]) -> Outcome:
    """One member on a draw of the data, with random labels."""
    m, draw = unit["model"], derived_seed(unit["data"], "data like G")
    H = G[m["network"]]
    if LAWS[unit["law"]]:
        H = flipped(H, unit["flip"], draw)
    data = gaussian_like(H, unit["samples"], seed=draw)
    settings = Settings(**unit["settings"])
    return following.followed(
        m, data.X, data.labels, settings, seed=unit["seed"], i=0, probes=unit["probes"], device=device
    )


def flipped(G: Geometry, what: str, seed: int) -> Geometry:
    """flip(G); the seed is that of the choice inside blocks of equal eigenvalues."""
    return G.flip_blocks() if what == "blocks" else G.flip(seed=seed)


@dataclass(frozen=True, eq=False)
class Pair:
    """The same seeds on both laws."""

    seeds: list[int]  # that went well on both laws
    accuracy: dict[str, list[list[float]]]  # law → seed → per cent of the training set, by epoch
    turned: dict[str, list[Estimate]]  # law → velocity by epoch over different members, the plug-in beside it
    velocity: Estimate  # of the mean over epochs: G minus flip(G), over different members
    plug_in: Estimate  # the same from plug-in velocities, as in the paper's curves
    left_out: int  # seeds that diverged on one of the laws
    distance: dict[str, list[float]]  # law → seed → ‖θ_t − θ_0‖ at the end
    change: dict[str, Change]  # law → change along the eigenvectors of G, where it is looked at

    def gaps(self, epochs: slice) -> list[float]:
        """Accuracy on G minus that on flip(G) for each seed, mean over these epochs (0: before training)."""
        return [
            sum(a[epochs]) / len(a[epochs]) - sum(b[epochs]) / len(b[epochs])
            for a, b in zip(self.accuracy["G"], self.accuracy["flip(G)"], strict=True)
        ]

    @property
    def note(self) -> str:
        return f"{self.left_out} diverged seeds left out with their partners" if self.left_out else ""


def pair_of(trials: Trials, along: Directions | None = None) -> Pair:
    seeds = list(trials.kept)
    mine = {law: [row[k] for row in trials.kept.values()] for k, law in enumerate(LAWS)}
    accuracy = {law: [o.numbers["train"] for o in found] for law, found in mine.items()}
    far = {law: [o.numbers["distance"][-1] for o in found] for law, found in mine.items()}
    if len(seeds) < 2:
        nothing = Estimate(math.nan, math.nan, len(seeds))
        still = {law: Change.nothing(along) for law in LAWS} if along else {}
        return Pair(seeds, accuracy, {law: [] for law in LAWS}, nothing, nothing, trials.left_out, far, still)
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
    velocity, plug_in = (
        following.combined(torch.sub, *(following.average(kind[law]) for law in LAWS)) for kind in (apart, plain)
    )
    change = {law: change_along(r, looks(r.shape[1]), along) for law, r in rows.items()} if along else {}
    apart_and_plain = following.estimate(velocity), following.as_it_stands(plug_in)
    return Pair(seeds, accuracy, turned, *apart_and_plain, trials.left_out, far, change)


def draw_pair(ax: Any, pair: Pair, every: int = 1) -> None:
    """Train accuracy on the left axis, velocity (over `every` epochs) on the right one; dashed for flip(G)."""
    right = ax.twinx()
    for law, style in (("G", "-"), ("flip(G)", "--")):
        curve = curve_of(pair.accuracy[law])
        epochs = [every * k for k in range(len(curve))]
        band(ax, epochs, curve, alpha=0.15, ls=style, color="#009e73", lw=1.8)
        right.plot(epochs[1:], [v.plug_in for v in pair.turned[law]], style, color="#0072b2", lw=1.4)
        right.plot(epochs[1:], [v.value for v in pair.turned[law]], style, color="#0072b2", lw=0.8, alpha=0.45)
    dotted(ax, 50, "#666666")
    ax.set(ylim=(40, 102), xlabel="epoch")
    ax.set_ylabel("train accuracy, %", color="#009e73")
    right.set_ylim(bottom=0)
    right.set_ylabel("velocity 1 − Corr(Gᵗ, Gᵗ⁻¹)", color="#0072b2")


def legend(figure: Figure) -> None:
    """One legend below all panels, in words for what every panel of `draw_pair` shows."""
    from matplotlib.lines import Line2D

    looks = {
        "train accuracy on G (band: ± 1 standard error)": ("#009e73", 1.8, "-"),
        "train accuracy on flip(G)": ("#009e73", 1.8, "--"),
        "velocity on G, plug-in (thin: different members only)": ("#0072b2", 1.4, "-"),
        "velocity on flip(G)": ("#0072b2", 1.4, "--"),
        "chance": ("#666666", 0.8, ":"),
    }
    legend_below(figure, [Line2D([], [], color=c, lw=w, ls=s, label=text) for text, (c, w, s) in looks.items()], 3)


# --- the figure ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    pairs: dict[str, Pair]
    traces: dict[str, float]  # tr flip(G)/‖flip(G)‖₂ over tr G/‖G‖₂


def run(config: Config, runner: Runner) -> Result:
    def result(G: Mapping[str, Geometry], pairs: dict[str, Pair]) -> Result:
        traces = {}
        for n, g in G.items():
            values = flipped(g, config.flip, 0).eigenvalues
            traces[n] = float(values.sum() / values[0] * g.eigenvalues[0] / g.eigenvalues.sum())
        return Result(config, pairs, traces)

    return train_pairs(
        runner,
        config,
        {n: config.widths.get(n, 1.0) for n in NETWORKS},
        {n: Cell(n, config.samples, config.batch, config.epochs[n], config.lr[n]) for n in NETWORKS},
        result=result,
        undecided=lambda result: open_subjects(claims(result)),
        step=2,
        by_index=True,
    )


def claims(result: Result) -> list[Claim]:
    found = []
    for network, pair in result.pairs.items():
        same = network == "MLP"
        says = "equals that" if same else "is larger than"
        judged = partial(
            claim,
            subject=network,
            low=0.0 if same else MORE,
            high=0.0 if same else None,
            paper="the same curves" if same else "larger for G",
            basis="identity" if same else "paper",
        )
        note = joined(pair.note, SAME if same else "", _flip_note(result, network))
        apart = f"over different members only {pair.velocity.value:.2g} ± {pair.velocity.stderr:.2g}"
        found += [
            judged(
                "velocity",
                f"the velocity on G {says} on flip(G): mean over epochs, plug-in as in the paper",
                pair.plug_in,
                note=joined(note, apart),
            ),
            judged(
                "train accuracy",
                f"the train accuracy on G {says} on flip(G): mean over epochs, in points",
                mean(pair.gaps(slice(1, None))),
                note=note,
            ),
        ]
        laws = ("G",) if same else LAWS  # for an MLP both are one
        found += [c for law in laws for c in index_claims(network, pair.change[law], data=f"data like {law}")]
    return found


def _flip_note(result: Result, network: str) -> str:
    """The variant of flip(G), where it makes a difference."""
    ratio = result.traces[network]
    if abs(ratio - 1) < 1e-6:
        return ""
    return f"blocks of equal eigenvalues moved as wholes: flipped data have {ratio:.2f} times the trace"


def figure(result: Result) -> Figure:
    title = (
        "Random labels on data shaped like G and like flip(G)\n"
        "below: change along the eigenvectors u of G, in bands of indices; full: absolute, dashed: relative to uᵀGu"
    )
    columns = len(result.pairs)
    figure, axes = panels(title, (4.9 * columns + 1, 8.4), rows=2, columns=columns)
    for ax, below, (network, pair) in zip(axes[:columns], axes[columns:], result.pairs.items(), strict=True):
        draw_pair(ax, pair)
        ax.set_title(f"{network}, {len(pair.accuracy['G'])} members", fontsize=11)
        for law, colour in (("G", COLOURS[network]), ("flip(G)", "#000000")):
            draw_change(below, pair.change[law], colour, f"data like {law}")
        below.legend(fontsize=8, frameon=False, loc="lower left")
        if ax is not axes[0]:
            below.set_ylabel("")
    legend(figure)
    return figure
