"""Equivariant networks on D8, two columns of the Fourier matrix: the G-CNN goes to 4√2, and so does the FC network.

Claim: trained on the two characters x₁ = χ₂ (y = −1), x₂ = χ₃ (y = +1), the G-CNN ends with the Fourier ratio
|β̂|_{2/3}/|β|₂ = 4√2 of β = (χ₃ − χ₂)/8, its only stationary point; the authors' descent with a growing rate, their
20,000 epochs, is still above. The two points are orthogonal, so the fully connected network has the same limit and only
takes longer: these data tell speeds apart, not limits. Depth 3 and 2 by the authors' descent ("sgd"), normalised
descent ("ngd") and the flow, levels and changes from initialisation over seeds.
Cost: smoke a second, laptop half a minute on two cores, paper (20,000 epochs, 10 seeds for the authors' one) minutes.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.studies import (
    AUTHORS_D8,
    METHODS,
    NETS,
    RATIOS,
    Seeds,
    collected,
    trainings,
    written,
)
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 49  # processor seconds at laptop scale
COVERS = (71,)
DEPTHS = (3, 2)
LIMITS = {3: 4 * math.sqrt(2), 2: 4.0}  # |β̂|_{2/L}/|β|₂ of (χ₃ − χ₂)/8: two one-dimensional coefficients alike


@dataclass(frozen=True)
class Config:
    seeds: int
    sgd_epochs: int
    ngd_epochs: int
    lr: float


PRESETS = {
    "smoke": Config(seeds=2, sgd_epochs=300, ngd_epochs=100, lr=0.1),
    "laptop": Config(seeds=4, sgd_epochs=10_000, ngd_epochs=3000, lr=0.01),
    "paper": Config(seeds=10, sgd_epochs=20_000, ngd_epochs=20_000, lr=0.01),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    trained: dict[tuple[int, str, str], Seeds]  # depth, method, network → one per seed


def run(config: Config, runner: Runner) -> Result:
    options: dict[str, dict[str, float]] = {
        "sgd": {"epochs": config.sgd_epochs, "lr": config.lr},
        "ngd": {"epochs": config.ngd_epochs},
        "flow": {},
    }
    cases = itertools.product(DEPTHS, METHODS, NETS)
    asked = {
        (depth, method, net): trainings(
            AUTHORS_D8,
            {"kind": "columns"},
            range(config.seeds),
            net=net,
            depth=depth,
            method=method,
            keep="curve",
            **options[method],
        )
        for depth, method, net in cases
    }
    return Result(config, collected(runner, asked, "trainings"))


def claims(result: Result) -> list[Claim]:
    found = result.trained
    epochs = f"{result.config.sgd_epochs:,} epochs"

    def off(depth: int, method: str, net: str) -> Estimate:
        return found[depth, method, net].mean(lambda n: abs(n["ratio"] / LIMITS[depth] - 1))

    sgd = {net: found[3, "sgd", net] for net in NETS}
    gcnn, fc = sgd["group-cnn"], sgd["fully-connected"]
    circular = found[3, "flow", "circular"]
    return [
        *(
            claim(
                f"the {NETS[net]} of depth {depth} ends at {name}",
                f"along the flow |ratio/{name} − 1| is at most 1e-4",
                off(depth, "flow", net),
                high=1e-4,
                paper=paper,
                note=f"KKT residual {found[depth, 'flow', net].mean('kkt').value:.0e}",
            )
            for depth, net, name, paper in (
                (3, "group-cnn", "4√2", "dashed line at 5.6569, reached 6.56"),
                (2, "group-cnn", "4", "depth 2 not shown"),
                (3, "fully-connected", "4√2", "11.55 and still falling"),
            )
        ),
        claim(
            "the authors' descent is not there yet",
            "after it the ratio of the G-CNN of depth 3 is still at least 1 % above 4√2",
            off(3, "sgd", "group-cnn"),
            low=0.01,
            paper="6.56, 16 % above",
            note=f"{epochs}, ratio {gcnn.told('ratio')}",
        ),
        *(
            claim(
                f"after the authors' descent the G-CNN is below the {NETS[net]}",
                f"Fourier ratio of the {NETS[net]} minus that of the G-CNN, depth 3, is positive",
                sgd[net].minus(gcnn, "ratio"),
                low=0,
                paper=paper,
                note=f"{epochs}: {sgd[net].told('ratio')} and {gcnn.told('ratio')}",
            )
            for net, paper in (("circular", "9.57 and 6.56"), ("fully-connected", "11.55 and 6.56"))
        ),
        claim(
            "training lowers the ratio of the G-CNN",
            "its change from initialisation in the authors' descent is negative",
            gcnn.change("ratio"),
            high=0,
            paper="10-12 → 6.56",
        ),
        claim(
            "training lowers the ratio of the G-CNN more than that of the FC network",
            "change of the FC network minus change of the G-CNN, authors' descent, is positive",
            fc.minus(gcnn, lambda n: n["ratio"] - n["start_ratio"]),
            low=0,
            paper="levels are compared, not changes",
            note=f"at initialisation the FC network is already {written(fc.minus(gcnn, 'start_ratio'))} higher",
        ),
        claim(
            "the CNN ends elsewhere",
            "along the flow its ratio, depth 3, is at least 1.2 times 4√2",
            circular.mean(lambda n: n["ratio"] / LIMITS[3]),
            low=1.2,
            paper="9.57",
            note=f"ratio {circular.told('ratio')}",
        ),
    ]


def figure(result: Result) -> Figure:
    """Depth 3 in Fourier and in real space and depth 2: one line per seed, and the change from initialisation."""
    from netgrain.experiments.equivariance.panels import draw_trainings, key, key_of_nets, picture

    seeds = f"{result.config.seeds} seeds: levels, changes, and the limit of the G-CNN (dashed)"
    figure = picture(14.0, 9.6, f"D8, two columns of the Fourier matrix, {seeds}")
    axes = figure.subplots(3, 4, width_ratios=(1, 1, 1.15, 1.5))
    # depth, number, name, level of (χ₃ − χ₂)/8, whose entries are ±1/4 on four elements and 0 on four
    rows = (
        (3, "ratio", RATIOS["ratio"], LIMITS[3]),
        (3, "real", RATIOS["real"], 4.0),
        (2, "ratio", "Fourier ratio |β̂|_1 / |β|₂", LIMITS[2]),
    )
    for (depth, number, name, level), line in zip(rows, axes, strict=True):
        trained = {(method, net): result.trained[depth, method, net] for method in METHODS for net in NETS}
        draw_trainings(line, trained, number, name, depth=depth, level=level)
    key_of_nets(axes[0, 0], key("black", "(χ₃ − χ₂)/8", "--"), loc="upper right")
    return figure
