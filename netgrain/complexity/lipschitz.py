"""How steep a network can get: the Lipschitz constant from below, at data, and from above, by layers.

    max_i ‖J(xᵢ)‖ ≤ Lip(f) ≤ product bound,     √(GC / min(d, k)) ≤ max_i ‖J(xᵢ)‖,     mean ‖J‖² ≤ GC ≤ min(d, k) Lip²

with the operator norm (largest singular value) of J = ∂f/∂x at every point: exactly from the k × k matrix JJᵀ where
there are few outputs, else by power iteration on JᵀJ (one product with J and one with Jᵀ per step, all points at once),
whose every step is a lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.complexity.checks import described
from netgrain.complexity.estimators import BATCH, Complexity, Effort, squared_norms
from netgrain.complexity.functions import MeasuredFunction, map_of
from netgrain.complexity.jacobian_products import Jacobians
from netgrain.complexity.product_bound import product_bound
from netgrain.families.trace import Unsupported
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.runtime.devices import in_double
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.threads import one_thread

METHODS = ("auto", "exact", "power")
FEW_OUTPUTS = 16  # up to here one backward pass per output costs less than power iteration
DENSE = 1024  # inputs up to which G is formed for its effective rank
VECTORS = 16  # random ones for the effective rank beyond


@dataclass(frozen=True, eq=False, repr=False)
class LipschitzProfile:
    """Operator norms of the Jacobian at data, and bounds of the Lipschitz constant.

    Attributes
    ----------
    norms : Tensor of shape (samples,)
        ‖J(xᵢ)‖, or a lower bound of it.
    gc : Complexity
        Mean ‖J(xᵢ)‖_F².
    effective_rank : Estimate
        (tr G)²/‖G‖² of G = mean JᵀJ.
    upper_product : float or None
        Upper bound of Lip(f); None where a layer has no rule.
    reason : str
        Why there is no upper bound.
    method : {"exact", "power"}
        How the norms were found.
    steps : int
        Largest number of steps of power iteration that a point took.
    unconverged : int
        Points whose norm still grew by more than `tol` at the last step.
    """

    norms: Tensor  # (n,) float64, ‖J(xᵢ)‖, or a lower bound of it
    gc: Complexity  # mean ‖J(xᵢ)‖_F²
    effective_rank: Estimate  # (tr G)² / ‖G‖² of G = mean JᵀJ
    upper_product: float | None  # ≥ Lip(f); None where a layer has no rule
    reason: str  # why there is none
    method: str  # "exact" or "power"
    steps: int  # of power iteration, the most that a point took
    unconverged: int  # points whose norm still grew by more than tol at the last step

    @property
    def lower_max(self) -> float:
        """Largest ‖J(xᵢ)‖, a lower bound of Lip(f)."""
        return float(self.norms.max())

    @property
    def mean_op(self) -> Estimate:
        """Mean of ‖J(xᵢ)‖ over points; the standard error is that over points."""
        return mean_of(self.norms)

    @property
    def frob(self) -> Estimate:
        """√GC, the root mean square of ‖J(xᵢ)‖_F."""
        root = math.sqrt(self.gc.value)
        return Estimate(root, self.gc.stderr / (2 * root) if root else 0.0, self.gc.n)

    @property
    def stable_rank(self) -> float:
        """Number of directions of a single Jacobian on average, Σ‖J‖_F² / Σ‖J‖².

        Between 1 and the rank.
        """
        total = float(self.norms.square().mean())
        return self.gc.value / total if total else math.nan

    def __repr__(self) -> str:
        upper = f"{self.upper_product:.4g}" if self.upper_product is not None else f"unknown ({self.reason})"
        how = "exact" if self.method == "exact" else f"power iteration, at most {self.steps} steps"
        if self.unconverged:
            how += f", {self.unconverged} of {len(self.norms)} points not converged"
        return (
            f"LipschitzProfile({self.lower_max:.4g} ≤ Lip ≤ {upper}; at {len(self.norms)} points mean ‖J‖ "
            f"{self.mean_op.value:.4g} ({how}), √GC {self.frob.value:.4g}, "
            f"effective rank {self.effective_rank.value:.3g})"
        )


@one_thread()
def lipschitz_profile(
    model: nn.Module,
    X: Tensor,
    *,
    method: str = "auto",
    steps: int = 100,
    tol: float = 1e-4,
    batch: int = BATCH,
    seed: int = 0,
    progress: bool | None = None,
) -> LipschitzProfile:
    """Lower and upper bounds on the Lipschitz constant of a network.

    The lower bound comes from the operator norms ‖J(xᵢ)‖ at the points X, the upper bound from the product of the
    constants of the layers (see `product_bound`). The upper bound holds for all inputs, the lower bound only reflects
    the given points; the two are usually orders of magnitude apart.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        Points at which slopes are measured, as the network takes them; complexity is per unit of this input.
    method : {"auto", "exact", "power"}, default "auto"
        ``"exact"``: one backward pass per output. ``"power"``: power iteration on JᵀJ. ``"auto"``: exact up
        to 16 outputs.
    steps : int, default 100
        Largest number of steps of power iteration.
    tol : float, default 1e-4
        Stop at a point once a step adds less than this relative amount.
    batch : int, default 256
        Number of points to differentiate together; it changes the result only by rounding.
    seed : int, default 0
        Seed of everything random.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    LipschitzProfile
        Norms at the points, GC, effective rank and the upper bound.

    References
    ----------
    .. [1] Gamba, Azizpour, Björkman, "On the Lipschitz constant of deep networks and double descent",
       arXiv 2301.12309.

    Examples
    --------
    A diagonal map has its largest entry as norm, above and below.

    >>> net = nn.Linear(2, 2)
    >>> _ = net.weight.data.copy_(torch.diag(torch.tensor([2.0, 1.0])))
    >>> profile = lipschitz_profile(net, torch.zeros(3, 2))
    >>> profile.lower_max, profile.upper_product, round(profile.frob**2, 6), round(profile.effective_rank, 6)
    (2.0, 2.0, 5.0, 1.470588)
    """
    known_name("method", method, METHODS)
    if steps < 1 or not 0 < tol < 1:
        raise NetgrainError(f"expected at least one step and 0 < tol < 1, found steps={steps}, tol={tol}.")
    effort = Effort(batch=batch, seed=seed, progress=progress)
    with map_of(model, X) as f:
        gc = squared_norms(f, effort).mean("logits", described(f.X))
        exact = method == "exact" or (method == "auto" and f.k <= FEW_OUTPUTS)
        norms, taken, growing, square = _over_points(f, exact, steps, tol, effort)
        upper, reason = None, ""
        try:
            upper = product_bound(model, f.points(torch.zeros(1, dtype=torch.long)))
        except Unsupported as e:
            reason = str(e)
    rank = math.nan if not square else gc.value**2 / square
    error = 0.0
    if square.stderr or gc.stderr:  # of a ratio, the two parts being independent
        error = rank * math.hypot(2 * gc.stderr / gc.value, square.stderr / square.value) if square else math.nan
    return LipschitzProfile(
        norms,
        gc,
        Estimate(rank, error, square.n),
        upper,
        reason,
        "exact" if exact else "power",
        0 if exact else int(taken.max()),
        int(growing.sum()),
    )


def _over_points(
    f: MeasuredFunction, exact: bool, steps: int, tol: float, effort: Effort
) -> tuple[Tensor, Tensor, Tensor, Estimate]:
    """‖J‖, steps taken and whether it still grows, of every point; and ‖G‖² with its error."""
    generator = torch.Generator().manual_seed(derived_seed(effort.seed, "power iteration"))
    starts = torch.randn(f.n, f.d, generator=generator) if not exact else torch.empty(f.n, 0)
    dense = exact and f.d <= DENSE
    vectors = torch.randint(0, 2, (VECTORS, f.d), generator=generator).double() * 2 - 1
    vectors = vectors.to(f.device, f.dtype)
    images = torch.zeros(f.d if dense else VECTORS, f.d, dtype=torch.float64)  # G, or G v for every random vector
    found = []
    with Bar("operator norms", f.n, effort.progress) as bar:
        for part in torch.arange(f.n).split(effort.batch):
            J = Jacobians(f, part, twice=not exact)
            rows = J.rows() if exact else torch.empty(0)
            if exact:
                top = _largest_singular_values(in_double(rows))
                found.append((top, torch.zeros(len(part)), torch.zeros(len(part), dtype=torch.bool)))
            else:
                found.append(_power_iteration(J, starts[part].to(f.device, f.dtype), steps, tol))
            if dense:
                flat = rows.flatten(0, 1).cpu().double()
                images += flat.T @ flat / f.n
            else:
                for i, v in enumerate(vectors):
                    turned = _turned(J, rows, v.expand(len(part), -1))
                    images[i] += in_double(turned).sum(0).cpu() / f.n
            bar.advance(len(part))
    norms, taken, growing = (torch.cat(pieces) for pieces in zip(*found, strict=True))
    each = images.square().sum(1)
    return norms, taken, growing, Estimate(float(each.sum())) if dense else mean_of(each)


def _largest_singular_values(J: Tensor) -> Tensor:
    """‖J‖ of each point, by the smaller of its two Gram matrices; J: (points, k, d)."""
    gram = J @ J.mT if J.shape[1] <= J.shape[2] else J.mT @ J
    top: Tensor = torch.linalg.eigvalsh(gram)[:, -1].clamp_min(0).sqrt().cpu()
    return top


def _turned(J: Jacobians, rows: Tensor, v: Tensor) -> Tensor:
    """JᵀJv of each point, by its matrix where that is known."""
    if rows.numel():
        return torch.einsum("nkd,nk->nd", rows, torch.einsum("nkd,nd->nk", rows, v))
    return J.pull(J.push(v))


def _power_iteration(J: Jacobians, v: Tensor, steps: int, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """‖Jv‖ for the v that JᵀJ turns to; a point that has converged is left where it is."""
    best = torch.zeros(len(v), dtype=torch.float64)
    taken, growing = torch.zeros(len(v)), torch.ones(len(v), dtype=torch.bool)
    v = v / v.norm(dim=1, keepdim=True)
    for _ in range(steps):
        image = J.push(v)
        norm = in_double(image).norm(dim=1).cpu()
        gain = norm - best
        best = torch.where(growing, torch.maximum(best, norm), best)
        taken += growing
        growing &= gain > tol * norm
        if not bool(growing.any()):
            break
        turned = J.pull(image)
        length = turned.norm(dim=1, keepdim=True)
        v = torch.where(length > 0, turned / length.clamp_min(torch.finfo(v.dtype).tiny), v)
    return best, taken, growing
