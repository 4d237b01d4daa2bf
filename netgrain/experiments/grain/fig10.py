"""Figure 10: labels along an eigenvector of G on isotropic noise, learnt or not according to its eigenvalue.

Claim: LeNet and ResNet18 generalise along the leading eigenvectors and not along the last, sooner so for harder labels;
a ViT does better in the first of its two eigenspaces; an MLP does not care. x = ε α u + ω, labels linear, quadratic and
sinusoidal in x·u = ε α, networks with GELU, batch norm in ResNet18 and layer norm in ViT. The paper labels by the sign
of sin(x·u), the authors' code by that of sin(π α) whatever ε is: both are run (`variant`). At laptop scale one-channel
16 × 16 inputs, narrow ResNet18 and ViT, fewer samples and indices, and training until the samples are fitted (the loss
is at most `stop_at_loss`) as in the paper; its settings were chosen on seeds 101 and 102, which no claim uses. 32 × 32
and full width at paper scale. Cost: smoke seconds, laptop about eight minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netgrain.experiments.claims import Claim
from netgrain.experiments.grain import planted_claims
from netgrain.experiments.grain.grains import COLOURS, grains_of
from netgrain.experiments.grain.planted_drawing import Panel, draw_panels
from netgrain.experiments.grain.planted_labels import (
    CHANCE,
    ENDS,
    LEARNT,
    AccuracyCurve,
    CurveName,
    Judged,
    NetworksConfig,
    curves_by_network,
    models_of,
    paper_scale,
    smoke_scale,
    train_curves,
    twins_of,
)
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 978  # processor seconds at laptop scale, on a busy machine
COVERS = (44, 45)
NETWORKS = ("MLP", "LeNet", "ResNet18", "ViT")
STRUCTURED = ("LeNet", "ResNet18")  # whose G has a spectrum worth the name

Config = NetworksConfig
# at laptop scale: the ends of the grid, and two random directions in either eigenspace of a ViT
FEW, FIVE, SIX, SPACES = (0, 10, 240, -1), (0, 10, 120, 240, -1), (0, 10, 40, 120, 240, -1), (0, 40, 120, -1)
UNTIL_FITTED = {"decay": "linear", "clip": 0.5, "stop_at_loss": 0.005}
PRESETS = {
    "smoke": Config(**smoke_scale(NETWORKS)),
    "laptop": Config(
        size=16, width=None, samples={"MLP": 4000, "LeNet": 1000, "ResNet18": 1000, "ViT": 600}, tests=2000,
        grids={
            "MLP": (ENDS,) * 3, "LeNet": (SIX, FIVE, FIVE), "ResNet18": (FIVE, FEW, FEW), "ViT": (SPACES, ENDS, ENDS),
        },
        training={
            "MLP": {"lr": 0.1, "batch": 128, **UNTIL_FITTED},
            "LeNet": {"lr": 0.3, "batch": 128, **UNTIL_FITTED},
            "ResNet18": {"lr": 0.3, "batch": 32, **UNTIL_FITTED},
            "ViT": {"lr": 0.1, "batch": 64, **UNTIL_FITTED},
        },
        steps={"MLP": (1500,) * 3, "LeNet": (800,) * 3, "ResNet18": (600,) * 3, "ViT": (500,) * 3},
        seeds=3, most_seeds=3, members=64, twins=True,
    ),
    "paper": Config(**paper_scale(NETWORKS)),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    curves: dict[CurveName, AccuracyCurve]  # network and labelling
    first: int  # dimensions of ViT's first eigenspace
    twins: dict[str, Estimate]  # Corr(G narrow, G full) of narrow networks


def run(config: Config, runner: Runner) -> Result:
    models = models_of(config, NETWORKS, (1, config.size, config.size), normed=True)
    grains = grains_of(runner, models, members=config.members, twins=config.twins)
    cells = curves_by_network(config, models, grains, lines=config.isotropic_lines, audited=STRUCTURED)
    first, twins = grains["ViT"].block_of(0)[1], twins_of(grains)
    return train_curves(runner, config, cells, grains, lambda curves: Result(config, curves, first, twins), _judged)


def _judged(result: Result) -> list[Judged]:
    curves = result.curves
    sharp = "about 100 % along the first eigenvectors, chance along the last"
    out = planted_claims.along_the_spectrum(curves, STRUCTURED, matrix="G", paper=sharp, audits=True)
    out += planted_claims.in_two_eigenspaces(
        curves, lambda i: i < result.first, matrix="G", paper="generalises in the first eigenspace only"
    )
    out += [_flat(name, curve) for name, curve in curves.items() if name.panel == "MLP"]
    out += [planted_claims.fitted(name, curve) for name, curve in curves.items()]
    return out + planted_claims.narrow(result.twins)


def _flat(name: CurveName, curve: AccuracyCurve) -> Judged:
    identity = "G is a multiple of the identity, so both directions are random: an identity, no evidence"
    best = max((mean(column).value for column in zip(*curve.accuracy.values(), strict=True)), default=math.nan)
    nothing = "nothing is learnt: accuracies at chance are equal and say nothing" * (not best >= CHANCE + LEARNT)
    found = planted_claims.per_seed(curve, lambda row: row[0] - row[-1])
    return planted_claims.judged(
        name,
        curve,
        "does not care",
        "accuracy at the first index minus the last is within ± 3 points",
        Estimate(math.nan, math.nan, found.n) if nothing else found,
        low=-3,
        high=3,
        paper="the same along all directions",
        notes=[identity, nothing],
        basis="identity",
    )


def claims(result: Result) -> list[Claim]:
    return [c for c, _ in _judged(result)]


def figure(result: Result) -> Figure:
    size = result.config.size
    figure = draw_panels(
        result.curves,
        {n: Panel(f"{n}, {result.config.samples[n]} samples", "G") for n in NETWORKS},
        f"Labels along one eigenvector of G, isotropic data ({size} × {size}); bars: 68 %",
        size=(12.6, 7.4),
        rows=2,
        columns=4,
    )
    vit = figure.axes[NETWORKS.index("ViT")]
    vit.axvline(result.first + 0.5, color=COLOURS["ViT"], lw=0.8)
    vit.text(result.first + 0.5, 42, " second eigenspace", color=COLOURS["ViT"], fontsize=8)
    return figure
