"""Grain before and after: E[ββᵀ] over initialisations of a linear G-CNN is isotropic, over trained ones it is not.

Claim: averaged over initialisations a linear G-CNN has no grain, E[ββᵀ] ∝ I exactly (the read-out is white noise,
and convolving white noise leaves it white), and yet training gives it one: on fixed data the effective rank falls
and the geometry turns to the data's limit predictor. At depth 2 the limit is one and the same from everywhere,
checked by the flow from several starts; at depth 3 different starts may end at different stationary points. D60, 10
points N(0, I), members trained together in Fourier space by normalised gradient descent; each number is a mean over
data sets, Corr and effective ranks are debiased over members. Cost: smoke a second, laptop about a minute of one
core, paper an hour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.equivariant.limits import limit
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.fourier_descent import initial_layers, recorded, records, steps_in_fourier
from netgrain.experiments.equivariance.studies import Seeds, collected, gaussian_points, labels_in_turn, seeded
from netgrain.geometry.estimate import mean
from netgrain.geometry.forms import Factored
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.symmetric import corr
from netgrain.geometry.value import Geometry
from netgrain.groups.constructors import dihedral
from netgrain.runtime.runners import Runner
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 44  # processor seconds at laptop scale
ORDER, POINTS = 60, 10
DEPTHS = (2, 3)
CAP = 1e4  # of the flow
COLOURS = {2: "#56b4e9", 3: "#0072b2"}


@dataclass(frozen=True)
class Config:
    datasets: int
    members: int
    steps: int
    records: int
    limits: int  # data sets whose limits are followed to the end by the flow
    starts: int  # initialisations of each
    log_norm: float  # of the weights, where the flow ends


PRESETS = {
    "smoke": Config(datasets=2, members=6, steps=6, records=4, limits=2, starts=2, log_norm=4.0),
    "laptop": Config(datasets=8, members=128, steps=1000, records=25, limits=4, starts=5, log_norm=100.0),
    "paper": Config(datasets=20, members=1000, steps=10_000, records=40, limits=20, starts=20, log_norm=1e4),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    found: dict[int, Seeds]  # depth → one per data set: arrays (records,), spectra (n,)
    limits: dict[int, Seeds]


def run(config: Config, runner: Runner) -> Result:
    common = {"experiment": "eq-grain", "log_norm": config.log_norm}
    sizes = {"members": config.members, "steps": config.steps, "records": config.records}
    asked = {L: seeded(config.datasets, **common, **sizes, depth=L) for L in DEPTHS}
    found = collected(runner, asked, "ensembles", _one)
    asked = {L: seeded(config.limits, **common, starts=config.starts, depth=L) for L in DEPTHS}
    return Result(config, found, collected(runner, asked, "limits", _limits))


@one_thread()
def _one(unit: Mapping[str, Any]) -> Outcome:
    group, seed, members = dihedral(order=ORDER), unit["seed"], unit["members"]
    X, y = data(seed)
    # members of one data set never appear in another
    layers = initial_layers(ORDER, unit["depth"], range(seed * members, (seed + 1) * members))
    noted = records(unit["steps"], unit["records"])
    descent = recorded(steps_in_fourier(group, layers, y[:, None] * X), noted)
    target = limit(group, X, y, depth=2, cap=CAP, log_norm=unit["log_norm"]).beta
    target = target / torch.linalg.vector_norm(target)
    found = [geometry(betas) for betas in descent.betas]
    arrays = {
        "steps": torch.tensor(noted),
        # Corr(G, I), and the share of the trace along the limit predictor of depth 2
        "identity": torch.tensor([corr(G, torch.eye(ORDER)).value for G in found], dtype=torch.float64),
        "rank": torch.tensor([G.effective_rank.value for G in found], dtype=torch.float64),
        "aligned": (descent.betas @ target).square().mean(1) / descent.betas.square().sum(-1).mean(1),
        "before": _shares(found[0]),
        "after": _shares(found[-1]),
    }
    return Outcome({}, arrays)


@one_thread()
def _limits(unit: Mapping[str, Any]) -> Outcome:
    """The flow from several starts on one data set: the mean of cos²(β, β′) over pairs, 1 when all end alike."""
    X, y = data(unit["seed"])
    group, L = dihedral(order=ORDER), unit["depth"]
    ends = [limit(group, X, y, depth=L, cap=CAP, log_norm=unit["log_norm"], seed=s).beta for s in range(unit["starts"])]
    return Outcome({"agreement": agreement(torch.stack(ends))})


def agreement(betas: Tensor) -> float:
    """Mean of cos²(β, β′) over pairs of different members, (members, n).

    >>> agreement(torch.tensor([[1.0, 0.0], [-2.0, 0.0]]))  # the sign does not count
    1.0
    """
    unit = betas / torch.linalg.vector_norm(betas, dim=1, keepdim=True)
    squares = (unit @ unit.T).square()
    n = len(betas)
    return float((squares.sum() - squares.diagonal().sum()) / (n * (n - 1)))


def geometry(betas: Tensor) -> Geometry:
    """G = E[ββᵀ] over members (members, n): what `geometry_of` finds for networks with these predictors."""
    about = Provenance("sampled", model="linear G-CNN", members=len(betas))
    return Geometry(Factored.of_members(betas[:, None]), (betas.shape[1],), about)


def data(seed: int) -> tuple[Tensor, Tensor]:
    return gaussian_points(POINTS, ORDER, seed), labels_in_turn(POINTS)


def _shares(G: Geometry) -> Tensor:
    """All eigenvalues over their sum, descending."""
    values: Tensor = torch.linalg.eigvalsh(G.matrix()).flip(0).clamp(min=0)
    return values / values.sum()


def claims(result: Result) -> list[Claim]:
    found = []
    for L in DEPTHS:
        identity, rank, aligned = (result.found[L].stacked(name) for name in ("identity", "rank", "aligned"))
        found += [
            claim(
                f"no grain at initialisation, depth {L}",
                "mean of Corr(E[ββᵀ], I) is at least 0.98",
                mean(identity[:, 0].tolist()),
                low=0.98,
                paper="an identity: E[ββᵀ] ∝ I",
                note=f"debiased over {result.config.members} members",
            ),
            claim(
                f"training gives a grain, depth {L}",
                "mean of Corr(E[ββᵀ], I) after training is at most 0.5",
                mean(identity[:, -1].tolist()),
                high=0.5,
            ),
            claim(
                f"the effective rank falls, depth {L}",
                "mean of log(end/start) is below 0",
                mean((rank[:, -1] / rank[:, 0]).log().tolist()),
                high=0,
                note=f"{float(rank[:, 0].mean()):.1f} → {float(rank[:, -1].mean()):.2f} of {ORDER}",
            ),
            claim(
                f"the geometry turns to the data's limit predictor, depth {L}",
                f"mean share of the trace along it is at least ten times 1/{ORDER}",
                mean(aligned[:, -1].tolist()),
                low=10 / ORDER,
                note=f"at initialisation {float(aligned[:, 0].mean()):.4f}, isotropic would be {1 / ORDER:.4f}",
            ),
        ]
    for L, where, bound, low, high, paper in (
        (2, "every start has the same limit", "at least 0.99", 0.99, None, "convex: one optimum"),
        (3, "starts end in different places", "at most 0.9", None, 0.9, "stationary points, not one optimum"),
    ):
        found.append(
            claim(
                f"at depth {L} {where}",
                f"mean of cos² between the limits of two starts is {bound}",
                result.limits[L].mean("agreement"),
                low=low,
                high=high,
                paper=paper,
                note=f"{result.config.starts} starts of each data set, followed to the limit",
            )
        )
    return found


def figure(result: Result) -> Figure:
    import numpy as np

    from netgrain.experiments.equivariance.panels import band, labelled, legend, picture, plain_ticks, step_axis

    config = result.config
    title = f"Linear G-CNNs on D60, {POINTS} points, {config.datasets} data sets (bands: standard error)"
    figure = picture(11.4, 6.2, title)
    axes: Any = figure.subplots(2, 2)
    spectra, identity, rank, aligned = axes.ravel()
    at = np.arange(1, ORDER + 1)
    for L, colour in COLOURS.items():
        found = result.found[L]
        steps = found[0].arrays["steps"]
        for when, style, width in (("before", "--", 1.3), ("after", "-", 1.8)):
            shares = found.stacked(when).mean(0).numpy().clip(1e-12)
            spectra.plot(at, shares, style, color=colour, lw=width, label=f"depth {L}, {when}")
        for name, ax in (("identity", identity), ("rank", rank), ("aligned", aligned)):
            band(ax, steps, found.stacked(name), f"depth {L}", colour=colour)
    spectra.set_yscale("log")
    spectra.set_ylim(1e-8, 2)
    spectra.minorticks_off()
    spectra.set_xlim(1, ORDER)
    labelled(spectra, f"spectrum of E[ββᵀ], {config.members} members (dotted: I)", "index", "share of the trace")
    labelled(identity, "Corr(E[ββᵀ], I), debiased (dotted: one direction)", "step")
    labelled(rank, "effective rank, debiased", "step")
    labelled(aligned, "share of the trace along the limit of depth 2 (dotted: I)", "step")
    for ax, level in ((spectra, 1 / ORDER), (identity, 1 / math.sqrt(ORDER)), (aligned, 1 / ORDER)):
        ax.axhline(level, color="0.4", lw=0.8, ls=":")
    for ax in (identity, aligned):
        ax.set_ylim(0, 1.05)
    rank.set_yscale("log")
    plain_ticks(rank, "y", (1, 2, 5, 10, 20, 50))
    for ax in (identity, rank, aligned):
        step_axis(ax, int(steps[-1]))
    for ax in (spectra, identity):
        legend(ax)
    return figure
