"""Figure 11: figures 4 and 10 once more, with a small LeNet and as many training samples as it has parameters.

Claim: generalisation follows the eigenvalue as before (GSG on images, G on isotropic noise), so it is not a matter of
having more parameters than samples. Linear, quadratic and sinusoidal labels, the last ones in the variants of figures 4
and 10: sin(x·u), scaled on images, and sin(π α) as in the authors' code on isotropic noise. At paper scale 50,000
samples of 32 × 32, the size of the network; at laptop scale 16 × 16, where the network has about 11,000 parameters, and
as many samples (the claims' notes give the ratio). The paper does not say that such a network fits its samples, so
train accuracy is given and not asked for. Cost: smoke seconds, laptop about two minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netgrain.experiments.claims import Claim
from netgrain.experiments.grain import planted_claims
from netgrain.experiments.grain.grains import grains_of, make_of, model_config, shape_in
from netgrain.experiments.grain.planted_drawing import Panel, draw_panels
from netgrain.experiments.grain.planted_labels import (
    GRID,
    LABELS,
    PAPER_TRAINING,
    SCALED,
    AccuracyCurve,
    CurveName,
    Judged,
    OneNetworkConfig,
    epsilon,
    kind_of,
    planted_curve,
    train_curves,
)
from netgrain.experiments.grain.trials import joined
from netgrain.experiments.image_sets import images_found
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 250  # processor seconds at laptop scale
COVERS = (46,)
NETWORK = "SmallLeNet"
MATRIX = {"images": "GSG", "isotropic": "G"}
SPREAD = epsilon("sinusoidal", NETWORK)
NOISY = CurveName("images", "linear")  # beside which the accuracy of the rule itself counts


@dataclass(frozen=True, kw_only=True)
class Config(OneNetworkConfig):
    images: str
    scale: float | None = SPREAD  # radians of scaled sinusoidal labels on images; None: no such line

    def lines(self, data: str) -> tuple[str, ...]:
        if data == "isotropic":
            return self.isotropic_lines
        scaled = self.scale is not None and "sinusoidal" in self.labels
        return (*self.labels, SCALED) if scaled else tuple(self.labels)


EPOCH = 50_000 // 128
PRESETS = {
    "smoke": Config(
        images="digits", size=16, samples=100, tests=64, labels=LABELS, indices=(0, -1),
        training={"lr": 0.1, "batch": 32, "decay": "linear"}, steps=dict.fromkeys(LABELS, 3),
        seeds=2, most_seeds=2, members=4,
    ),
    "laptop": Config(
        images="auto", size=16, samples=10_800, tests=2000, labels=LABELS, indices=(0, 10, 240, -1),
        training={"lr": 0.3, "batch": 128, "decay": "linear", "clip": 0.5}, steps=dict.fromkeys(LABELS, 600),
        seeds=3, most_seeds=3, members=64,
    ),
    "paper": Config(
        images="cifar10", size=32, samples=50_000, tests=10_000, labels=LABELS, indices=GRID,
        training={"lr": 0.5, **PAPER_TRAINING},
        steps=dict.fromkeys(LABELS, 50 * EPOCH), seeds=5, most_seeds=5, members=10_000, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    images: str
    curves: dict[CurveName, AccuracyCurve]  # data and labelling
    parameters: dict[str, int]  # of the network on either data


def run(config: Config, runner: Runner) -> Result:
    name = images_found(runner, config.images)
    # digits are fewer than asked for, and then all of them are used
    pool = {"name": name, "size": config.size, "samples": config.samples, "tests": config.tests}
    pools = {"images": pool, "isotropic": None}
    shapes = {"images": shape_in(pool), "isotropic": (1, config.size, config.size)}
    models = {data: model_config(NETWORK, shapes[data], activation="gelu") for data in MATRIX}
    grains = {
        data: grains_of(runner, {data: model}, members=config.members, images=pools[data])[data]
        for data, model in models.items()
    }
    cells = {
        CurveName(data, line): planted_curve(
            config,
            line,
            models[data],
            grains[data],
            about={"name": data, "images": pools[data]},
            indices=config.indices,
            samples=config.samples,
            settings={**config.training, "steps": config.steps[kind_of(line)]},
            images=pools[data],
            scale=config.scale,
        )
        for data in MATRIX
        for line in config.lines(data)
    }
    parameters = {data: sum(p.numel() for p in make_of(m)().parameters()) for data, m in models.items()}
    return train_curves(runner, config, cells, grains, lambda curves: Result(config, name, curves, parameters), _judged)


def _judged(result: Result) -> list[Judged]:
    out: list[Judged] = []
    for name, known in result.curves.items():
        curve = replace(known, to_fit=False)
        count, train = result.parameters[name.panel], planted_claims.fit_at_worst(curve).value
        ratio = f"{count} parameters, {result.config.samples / count:.2f} samples for each"
        ratio += f"; lowest train accuracy {train:.1f} %"
        found = [planted_claims.falls(name, curve, "high along the first eigenvectors, chance along the last")]
        if planted_claims.ranked(curve):
            found.append(planted_claims.predicted_order(name, curve, matrix=MATRIX[name.panel]))
        if name == NOISY:
            found.append(planted_claims.beyond_noise(name, curve))
        out += [(replace(c, note=joined(c.note, ratio)), names) for c, names in found]
    return out


def claims(result: Result) -> list[Claim]:
    return [c for c, _ in _judged(result)]


def figure(result: Result) -> Figure:
    titles = {"images": result.images, "isotropic": "isotropic noise"}
    return draw_panels(
        result.curves,
        {d: Panel(f"{titles[d]}: {result.parameters[d]} parameters", matrix) for d, matrix in MATRIX.items()},
        f"A small LeNet trained on {result.config.samples} samples; bars: 68 %",
        size=(11.4, 4.8),
        ceilings=[NOISY],
        columns=3,
    )
