"""The limit of training as a value: the predictor, what it minimises, and how near to stationary and optimal it is."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from netgrain.equivariant.descent import descend
from netgrain.equivariant.dual import lower_bound
from netgrain.equivariant.kkt import parameter_residual, stationarity
from netgrain.equivariant.parametrisation import Array, Parametrisation
from netgrain.equivariant.path_to_limit import WeightPath, log_norm_flow
from netgrain.equivariant.penalties import BlockTransform
from netgrain.equivariant.schatten_norms import ranks, real_ratio, schatten_ratio, weighted_rank
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.threads import one_thread

METHODS = ("flow", "ngd", "sgd")
MOST_WEIGHTS = 4000  # of the flow: its Jacobian is dense
RECORDS = 200
SLACK = 1e-3
RELAXED_CAP, RELAXED_LOG_NORM = 1e3, 30.0


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The predictor during training; entry 0 is the initialisation.

    Attributes
    ----------
    log_norms : Tensor of shape (records,)
        Logarithm of the norm of the weights.
    betas : Tensor of shape (records, n)
        Predictors of unit length.
    margins : Tensor of shape (records,)
        min_i y_i ⟨x_i, β⟩ for |β|₂ = 1.
    ratios : Tensor of shape (records,)
        |β̂|_{2/L} / |β|₂ in the Fourier space of the group.
    objectives : Tensor of shape (records,)
        The norm that the network minimises, at margin one; infinite before the data are separated.
    kkt_residuals : Tensor of shape (records,) or None
        Residuals of the KKT conditions; None unless `record_kkt` was set.
    """

    log_norms: Tensor  # (records,) log |w|
    betas: Tensor  # (records, n), unit length
    margins: Tensor  # (records,) min_i y_i <x_i, β> for |β|₂ = 1
    ratios: Tensor  # |β̂|_{2/L} / |β|₂ in the Fourier space of the group
    objectives: Tensor  # what the network minimises, at margin one; infinite before the data are separated
    kkt_residuals: Tensor | None  # if asked for

    def __len__(self) -> int:
        return len(self.log_norms)

    def __repr__(self) -> str:
        return (
            f"Trajectory({len(self)} records, log-norm {self.log_norms[0]:.1f} → {self.log_norms[-1]:.1f}, "
            f"ratio {self.ratios[0]:.4g} → {self.ratios[-1]:.4g})"
        )


@dataclass(frozen=True, eq=False)
class Limit:
    """Limit of a linear network's predictor in training, with certificates.

    `lower` ≤ optimum ≤ `upper` always holds. Where the problem is convex (depths 1 and 2, fully connected at any
    depth), `dual_gap` = upper/lower − 1 measures the distance from the optimum; otherwise it is None, and the KKT
    residual measures convergence.

    Attributes
    ----------
    beta : Tensor of shape (n,)
        The predictor at margin one: min_i y_i ⟨x_i, β⟩ = 1.
    net : str
        The network.
    group : str
        The group.
    depth : int
        Number of layers L.
    method : str
        How it was trained.
    seed : int
        Seed of the initial weights.
    points : int
        Number of points.
    margin : float
        Distance of the nearest point to the decision boundary, 1/|β|₂.
    objective : float
        R_p(β)^{1/p} with p = 2/L, the (quasi-)norm that this network minimises.
    kkt_residual : float
        Relative residual of the KKT conditions in Fourier space.
    parameter_residual : float
        The same in the space of the weights.
    multipliers : Tensor of shape (points,)
        Multipliers of the margins; zero off the support points.
    dual_level : float
        |ẑ|/scale, at most 1 at an optimum of depth 2.
    lower : float
        A lower bound on the optimum.
    dual_gap : float or None
        objective/lower − 1, where the problem is convex.
    balancedness : float
        (L/scale) R_{2/L}(β) / Σ_l |w_l|², equal to 1 when the layers are balanced.
    ratio : float
        |β̂|_{2/L}/|β|₂ in the Fourier space of the group, as in the paper's plots.
    real_ratio : float
        |β|_{2/L}/|β|₂.
    ranks : tuple of int
        Ranks of β̂(ρ), irrep by irrep.
    weighted_rank : int
        Σ d_ρ rank β̂(ρ).
    singular_values : tuple of Tensor
        Singular values of β̂(ρ), irrep by irrep, at margin one.
    trajectory : Trajectory
        The predictor during training.
    seconds : float
        Time it took.

    See Also
    --------
    limit : Makes one.
    """

    beta: Tensor  # (n,)
    net: str
    group: str
    depth: int
    method: str
    seed: int
    points: int
    margin: float  # distance of the nearest point to the decision boundary: 1/|β|₂
    objective: float
    kkt_residual: float
    parameter_residual: float
    multipliers: Tensor  # (points,), of the margins; zero off the support points
    dual_level: float  # |ẑ|/scale, at most 1 at an optimum of depth 2
    lower: float
    dual_gap: float | None
    balancedness: float  # (L/scale) R_{2/L}(β)/Σ_l |w_l|², one when the layers share the work
    ratio: float  # |β̂|_{2/L}/|β|₂ in the Fourier space of the group, as in the authors' plots
    real_ratio: float  # |β|_{2/L}/|β|₂
    ranks: tuple[int, ...]  # of β̂(ρ), irrep by irrep
    weighted_rank: int  # Σ d_ρ rank
    singular_values: tuple[Tensor, ...]  # of β̂(ρ), irrep by irrep, at margin one
    trajectory: Trajectory
    seconds: float

    @property
    def upper(self) -> float:
        """An upper bound on the optimum: the objective that was reached."""
        return self.objective

    @property
    def initial(self) -> Tensor:
        """Predictor at initialisation, of unit length."""
        return self.trajectory.betas[0]

    def __repr__(self) -> str:
        bracket = f"dual gap {self.dual_gap:.1e}" if self.dual_gap is not None else f"optimum at least {self.lower:.6g}"
        return (
            f"Limit({self.net} on {self.group}, depth {self.depth}, {self.points} points: objective "
            f"{self.objective:.7g}, margin {self.margin:.4g}, KKT residual {self.kkt_residual:.1e}, {bracket}, "
            f"rank {self.weighted_rank} of {len(self.beta)}, {self.seconds:.2f} s by {self.method})"
        )


@dataclass(frozen=True)
class LimitOptions:
    """How the weights are taken to the limit; the options of `limit`, checked."""

    method: str
    cap: float
    log_norm: float
    epochs: int
    lr: float

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise NetgrainError(f"method expects one of {', '.join(METHODS)}; found '{self.method}'.")
        for what, value in (("cap", self.cap), ("log_norm", self.log_norm)):
            if not value > 1 or not np.isfinite(value):
                raise NetgrainError(f"{what} expects a finite number above 1, found {value:g}.")
        if self.epochs < 1:
            raise NetgrainError(f"epochs expects at least 1, found {self.epochs}.")


@one_thread()
def solve(
    network: Parametrisation,
    w: Array,
    Z: Array,  # (points, n)
    options: LimitOptions,
    *,
    transform: BlockTransform,  # of the network: what it minimises
    fourier: BlockTransform,  # of the group: in which the ratio and the ranks are measured
    names: tuple[str, str],  # network, group
    seed: int,
    convex: bool,
    record_kkt: bool = False,
    relaxed: tuple[Parametrisation, Array] | None = None,  # the network of depth 2 and its weights
) -> Limit:
    """Follow the weights w to the limit and judge where they are.

    Above depth 2 the problem is bounded from below by that of depth 2, whose limit a short flow of `relaxed` estimates:
    only its data weights are used, so the bound holds however short.
    """
    started = time.perf_counter()
    path, slack = (_flowed if options.method == "flow" else _descended)(network, w, Z, options)
    L, u = network.depth, path.directions[-1]
    beta = network.beta(u)
    balancedness = L / transform.scale * float(transform.power_sum(torch.from_numpy(beta), 2 / L))
    b = beta / (Z @ beta).min()
    found = stationarity(transform, b, Z, L, slack=slack)
    at_one = torch.from_numpy(b)
    objective = float(transform.norm(at_one, 2 / L))
    weights = [path.data_weights, found.multipliers]
    if relaxed is not None:
        weights.append(log_norm_flow(*relaxed, Z, cap=RELAXED_CAP, log_norm=RELAXED_LOG_NORM).data_weights)
    lower = max(lower_bound(transform, q, Z, L) for q in weights)
    return Limit(
        beta=at_one,
        net=names[0],
        group=names[1],
        depth=L,
        method=options.method,
        seed=seed,
        points=len(Z),
        margin=float(1 / np.linalg.norm(b)),
        objective=objective,
        kkt_residual=found.residual,
        parameter_residual=parameter_residual(network, u, Z, slack=slack),
        multipliers=torch.from_numpy(found.multipliers),
        dual_level=found.level,
        lower=lower,
        dual_gap=max(objective / lower - 1, 0.0) if convex else None,
        balancedness=balancedness,
        ratio=float(schatten_ratio(fourier, at_one, L)),
        real_ratio=float(real_ratio(at_one, L)),
        ranks=ranks(fourier, at_one),
        weighted_rank=weighted_rank(fourier, at_one),
        singular_values=tuple(fourier.per_block(fourier.singular_values(at_one))),
        trajectory=_trajectory(network, path, Z, transform, fourier, slack if record_kkt else None),
        seconds=time.perf_counter() - started,
    )


def _flowed(network: Parametrisation, w: Array, Z: Array, options: LimitOptions) -> tuple[WeightPath, float]:
    """The path of the flow, and how far above the smallest margin a point may be and still count as active."""
    if network.size > MOST_WEIGHTS:
        raise NetgrainError(
            f"the flow needs a Jacobian of {network.size}×{network.size} numbers "
            f"({8 * network.size**2 / 1e9:.1f} GB), at most {MOST_WEIGHTS} weights are taken; use method='ngd'."
        )
    path = log_norm_flow(network, w, Z, cap=options.cap, log_norm=options.log_norm)
    return path, max(SLACK, 30 / options.cap)


def _descended(network: Parametrisation, w: Array, Z: Array, options: LimitOptions) -> tuple[WeightPath, float]:
    """The same of gradient descent, whose slack shrinks with the margin it has reached."""
    path = descend(network, w, Z, method=options.method, epochs=options.epochs, lr=options.lr)
    reached = float((Z @ network.beta(path.directions[-1])).min() * np.exp(network.depth * path.log_norms[-1]))
    if reached <= 0:
        raise NetgrainError(
            f"{options.method} has not separated the data after {options.epochs} epochs (margin {reached:.3g}); "
            "use more epochs, another lr, or method='flow'."
        )
    return path, max(SLACK, min(10 / reached, 0.2))


def _trajectory(
    network: Parametrisation,
    path: WeightPath,
    Z: Array,
    transform: BlockTransform,
    fourier: BlockTransform,
    slack: float | None,
) -> Trajectory:
    kept = np.unique(np.linspace(0, len(path.log_norms) - 1, RECORDS).astype(int))
    start = np.linalg.norm(path.start)
    directions = np.concatenate([(path.start / start)[None], path.directions[kept]])
    norms = np.concatenate([[np.log(start)], path.log_norms[kept]])
    betas = np.array([network.beta(u) for u in directions])
    betas /= np.linalg.norm(betas, axis=1, keepdims=True)
    margins = (betas @ Z.T).min(1)
    L, unit = network.depth, torch.from_numpy(betas)
    objectives = torch.where(
        torch.from_numpy(margins) > 0, transform.norm(unit, 2 / L) / torch.from_numpy(margins), torch.inf
    )
    residuals = None
    if slack is not None:
        found = [
            stationarity(transform, b, Z, L, slack=slack).residual if m > 0 else np.nan
            for b, m in zip(betas, margins, strict=True)
        ]
        residuals = torch.tensor(found, dtype=torch.float64)
    return Trajectory(
        torch.from_numpy(norms),
        unit,
        torch.from_numpy(margins),
        schatten_ratio(fourier, unit, L),
        objectives,
        residuals,
    )
