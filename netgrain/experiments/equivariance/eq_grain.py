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
from netgrain.experiments.equivariance.fourier_descent import descend_in_fourier, initial_layers, records
from netgrain.experiments.equivariance.image_plots import band, labelled
from netgrain.experiments.equivariance.studies import gaussian_points, labels_in_turn
from netgrain.geometry.estimate import mean
from netgrain.geometry.forms import Factored
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.symmetric import corr
from netgrain.geometry.value import Geometry
from netgrain.groups.constructors import dihedral
from netgrain.runtime.run_folder import Runner
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
    "smoke": Config(datasets=2, members=20, steps=20, records=5, limits=2, starts=2, log_norm=6.0),
    "laptop": Config(datasets=8, members=128, steps=1000, records=25, limits=4, starts=5, log_norm=100.0),
    "paper": Config(datasets=20, members=1000, steps=10_000, records=40, limits=20, starts=20, log_norm=1e4),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    steps: Tensor  # (records,)
    identity: dict[int, Tensor]  # depth → Corr(G, I), (data sets, records)
    rank: dict[int, Tensor]  # effective rank
    aligned: dict[int, Tensor]  # share of the trace along the limit predictor of depth 2
    before: dict[int, Tensor]  # eigenvalues over the trace, (data sets, n)
    after: dict[int, Tensor]
    at_limit: dict[int, list[float]]  # mean cos² of the limits of two starts, one per data set


def run(config: Config, runner: Runner) -> Result:
    common = {"experiment": "eq-grain", "members": config.members, "steps": config.steps, "records": config.records}
    common |= {"log_norm": config.log_norm}
    units = [{**common, "depth": L, "seed": s} for L in DEPTHS for s in range(config.datasets)]
    outcomes = runner.map(_one, units, "ensembles")
    mine = {L: outcomes[i * config.datasets : (i + 1) * config.datasets] for i, L in enumerate(DEPTHS)}

    def arrays(name: str) -> dict[int, Tensor]:
        return {L: torch.stack([o.arrays[name] for o in found]) for L, found in mine.items()}

    names = ("identity", "rank", "aligned", "before", "after")
    count = config.limits
    starts = {"experiment": "eq-grain", "starts": config.starts, "log_norm": config.log_norm}
    asked = [{**starts, "depth": L, "seed": s} for L in DEPTHS for s in range(count)]
    ends = [float(o.numbers["agreement"]) for o in runner.map(_limits, asked, "limits")]
    at_limit = {L: ends[i * count : (i + 1) * count] for i, L in enumerate(DEPTHS)}
    return Result(config, outcomes[0].arrays["steps"], **{n: arrays(n) for n in names}, at_limit=at_limit)


@one_thread()
def _one(unit: Mapping[str, Any]) -> Outcome:
    group, seed, members = dihedral(order=ORDER), unit["seed"], unit["members"]
    X, y = data(seed)
    # members of one data set never appear in another
    layers = initial_layers(ORDER, unit["depth"], range(seed * members, (seed + 1) * members))
    noted = records(unit["steps"], unit["records"])
    descent = descend_in_fourier(group, layers, y[:, None] * X, steps=unit["steps"], noted=noted)
    target = limit(group, X, y, depth=2, cap=CAP, log_norm=unit["log_norm"]).beta
    target = target / torch.linalg.vector_norm(target)
    found = [geometry(betas) for betas in descent.betas]
    arrays = {
        "steps": torch.tensor(noted),
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
        identity, rank, aligned = result.identity[L], result.rank[L], result.aligned[L]
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
    starts = f"{result.config.starts} starts of each data set, followed to the limit"
    return [
        *found,
        claim(
            "at depth 2 every start has the same limit",
            "mean of cos² between the limits of two starts is at least 0.99",
            mean(result.at_limit[2]),
            low=0.99,
            paper="convex: one optimum",
            note=starts,
        ),
        claim(
            "at depth 3 starts end in different places",
            "mean of cos² between the limits of two starts is at most 0.9",
            mean(result.at_limit[3]),
            high=0.9,
            paper="stationary points, not one optimum",
            note=starts,
        ),
    ]


def figure(result: Result) -> Figure:
    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(11.4, 6.2), layout="constrained")
    axes: Any = figure.subplots(2, 2)
    spectra, identity, rank, aligned = axes.ravel()
    at = np.arange(1, ORDER + 1)
    for L in DEPTHS:
        before, after = result.before[L].mean(0).numpy(), result.after[L].mean(0).numpy()
        spectra.plot(at, np.maximum(before, 1e-12), "--", color=COLOURS[L], lw=1.3, label=f"depth {L}, before")
        spectra.plot(at, np.maximum(after, 1e-12), "-", color=COLOURS[L], lw=1.8, label=f"depth {L}, after")
        for ax, curves in ((identity, result.identity), (rank, result.rank), (aligned, result.aligned)):
            band(ax, result.steps, curves[L], f"depth {L}", colour=COLOURS[L])
    spectra.axhline(1 / ORDER, color="0.4", lw=0.8, ls=":")
    spectra.set_yscale("log")
    spectra.set_ylim(1e-8, 2)
    spectra.minorticks_off()
    spectra.set_xlim(1, ORDER)
    labelled(spectra, f"spectrum of E[ββᵀ], {result.config.members} members (dotted: I)", "index", "share of the trace")
    labelled(identity, "Corr(E[ββᵀ], I), debiased (dotted: one direction)", "step", "")
    identity.axhline(1 / math.sqrt(ORDER), color="0.4", lw=0.8, ls=":")
    identity.set_ylim(0, 1.05)
    labelled(rank, "effective rank, debiased", "step", "")
    rank.set_yscale("log")
    ticks = [t for t in (1, 2, 5, 10, 20, 50) if t <= ORDER]
    rank.set_yticks(ticks, [str(t) for t in ticks])
    rank.minorticks_off()
    labelled(aligned, "share of the trace along the limit of depth 2 (dotted: I)", "step", "")
    aligned.axhline(1 / ORDER, color="0.4", lw=0.8, ls=":")
    aligned.set_ylim(0, 1.05)
    for ax in (identity, rank, aligned):
        ax.set_xscale("symlog", linthresh=10)
        last = float(result.steps[-1])
        steps = [t for t in (0, 10, 100, 1000, 10_000) if t <= last]
        ax.set_xticks(steps, [str(t) for t in steps])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlim(0, last)
    spectra.legend(fontsize=8, frameon=False)
    identity.legend(fontsize=8, frameon=False)
    figure.suptitle(
        f"Linear G-CNNs on D60, {POINTS} points, {result.config.datasets} data sets (bands: standard error)",
        fontsize=10.5,
    )
    return figure
