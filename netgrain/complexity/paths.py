"""How far a function travels: total variation along segments between data points, and arc length in one dimension.

For f on [a, b] with GC = mean of f'² over the interval (Jensen, and √(1 + s²) ≤ 1 + |s|):

    TV = ∫|f'| ≤ arc = ∫√(1 + f'²) ≤ TV + (b − a),     TV ≤ (b − a)√GC,     arc ≤ (b − a)√(1 + GC)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.complexity.checks import check_mode
from netgrain.complexity.functions import map_of
from netgrain.families.members import forward, frozen, model_dtype
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.runtime.devices import in_double
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.threads import one_thread

INPUTS_AT_ONCE = 4096  # points on paths per forward pass


@one_thread()
def path_total_variation(
    model: nn.Module, X: Tensor, *, paths: int = 200, points: int = 50, seed: int = 0, progress: bool | None = None
) -> Estimate:
    """Mean total variation of f along the segments between two samples of X.

    TV = E_{i≠j} Σ_t ‖f(x_{t+1}) − f(x_t)‖ with x_0 = x_i, …, x_{points−1} = x_j evenly spaced, Euclidean norm over
    outputs. The sum over steps is a lower bound of the variation along the whole segment, exact where f is affine
    between steps.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        The ends of the segments.
    paths : int, default 200
        Number of random pairs; if X has no more pairs than this, all of them are used and the mean is exact.
    points : int, default 50
        Points on each segment.
    seed : int, default 0
        Seed of everything random.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    Estimate
        The mean, with its standard error over pairs.

    References
    ----------
    .. [1] Teney, Jiang, Gogianu, Abbasnejad, "Do we always need the simplicity bias? Looking for
       optimal inductive biases in the wild", CVPR 2025.

    Examples
    --------
    The affine map x ↦ 2x₁ from x = (0, 0) to (3, 4), the only pair.

    >>> net = nn.Linear(2, 1)
    >>> _ = net.weight.data.copy_(torch.tensor([[2.0, 0.0]]))
    >>> path_total_variation(net, torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    6 (exact)
    """
    if paths < 2 or points < 2:
        raise NetgrainError(f"expected at least two paths of two points, found paths={paths}, points={points}.")
    with map_of(model, X) as f:
        if f.n < 2:
            raise NetgrainError("expected at least two samples, the ends of a path, found one.")
        everything = f.n * (f.n - 1) // 2 <= paths
        if everything:
            first, second = torch.triu_indices(f.n, f.n, offset=1)
        else:
            generator = torch.Generator().manual_seed(derived_seed(seed, "paths"))
            first = torch.randint(f.n, (paths,), generator=generator)
            # a shift by 1 … n − 1 never meets the point itself
            second = (first + 1 + torch.randint(f.n - 1, (paths,), generator=generator)) % f.n
        found = []
        t = torch.linspace(0, 1, points, dtype=f.dtype, device=f.device).reshape(1, -1, *[1] * (f.X.dim() - 1))
        with torch.no_grad(), Bar("paths", len(first), progress) as bar:
            for piece in torch.arange(len(first)).split(max(1, INPUTS_AT_ONCE // points)):
                start, end = f.points(first[piece])[:, None], f.points(second[piece])[:, None]
                way = torch.lerp(start, end, t)  # (paths, points, *input_shape)
                values = in_double(f.call(way.flatten(0, 1))).reshape(len(piece), points, -1)
                found.append(values.diff(dim=1).norm(dim=2).sum(1).cpu())
                bar.advance(len(piece))
    each = torch.cat(found)
    if not bool(torch.isfinite(each).all()):
        raise NetgrainError("the model's outputs along a path are NaN or Inf; expected finite ones.")
    return Estimate(float(each.mean())) if everything else mean_of(each)


@dataclass(frozen=True)
class Arc:
    """A function of one variable between a and b.

    Attributes
    ----------
    arc : float
        Arc length.
    total_variation : float
        ∫|f'|.
    gc : float
        Mean of f'² over the interval.
    length : float
        b − a.
    """

    arc: float
    total_variation: float
    gc: float  # mean of f'² over the interval
    length: float  # b − a

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound on the arc length from the other two numbers.

        max(TV, b − a) ≤ arc ≤ min(TV + b − a, (b − a)√(1 + GC)).
        """
        low = max(self.total_variation, self.length)
        return low, min(self.total_variation + self.length, self.length * math.sqrt(1 + self.gc))

    def __repr__(self) -> str:
        return (
            f"Arc(arc {self.arc:.4g}, total variation {self.total_variation:.4g}, mean squared slope {self.gc:.4g}, "
            f"over a length of {self.length:.4g})"
        )


def arc_length(f: nn.Module | Callable[[Tensor], Tensor], a: float, b: float, *, points: int = 1001) -> Arc:
    """Arc length, total variation and mean squared slope of f: R → R on [a, b].

    Computed for the polygon through `points` evenly spaced values: exact where f is linear between them, a lower bound
    elsewhere.

    Parameters
    ----------
    f : torch.nn.Module or callable
        Maps (points, 1) to one value for each point.
    a, b : float
        Ends of the interval.
    points : int, default 1001
        Number of values.

    Returns
    -------
    Arc
        The three numbers.

    Examples
    --------
    The line y = x on [0, 1].

    >>> arc_length(lambda x: x, 0, 1, points=5)
    Arc(arc 1.414, total variation 1, mean squared slope 1, over a length of 1)
    """
    if not (math.isfinite(a) and math.isfinite(b) and a < b) or points < 2:
        raise NetgrainError(f"expected a < b and at least two points, found a={a}, b={b}, points={points}.")
    dtype, place = torch.float64, torch.device("cpu")
    if isinstance(f, nn.Module):
        check_mode(f)
        if (weight := next(f.parameters(), None)) is not None:
            dtype, place = model_dtype(f), weight.device
    x = torch.linspace(a, b, points, dtype=torch.float64)
    with torch.no_grad():
        y = forward(frozen(f) if isinstance(f, nn.Module) else f, x[:, None].to(place, dtype))
    if y.shape[1] != 1:
        raise NetgrainError(f"expected a function with one output, found {y.shape[1]}; choose one.")
    if not bool(torch.isfinite(y).all()):
        raise NetgrainError("the function has NaN or Inf values on the interval; expected finite ones.")
    dx, dy = x.diff(), y[:, 0].cpu().double().diff()
    return Arc(
        float(torch.hypot(dx, dy).sum()), float(dy.abs().sum()), float((dy.square() / dx).sum()) / (b - a), float(b - a)
    )


def interpolation_minimum(x: Tensor, y: Tensor) -> float:
    """Least mean squared slope of any function through the points (xᵢ, yᵢ).

    Σ (Δyᵢ)²/Δxᵢ / (x_max − x_min), reached only by straight lines between neighbours (Jensen's inequality on each gap),
    for the uniform measure on [x_min, x_max].

    Parameters
    ----------
    x, y : Tensor of shape (points,)
        The points, in any order.

    Returns
    -------
    float
        The minimum.

    Examples
    --------
    >>> interpolation_minimum(torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0.0, 1.0, 1.0]))
    0.3333333333333333
    """
    x, y = (torch.as_tensor(t).detach().cpu().double().flatten() for t in (x, y))
    if len(x) != len(y) or len(x) < 2 or not bool(torch.isfinite(x).all() and torch.isfinite(y).all()):
        raise NetgrainError(f"expected as many finite x as y, at least two, found {len(x)} and {len(y)}.")
    order = x.argsort()
    dx, dy = x[order].diff(), y[order].diff()
    if not bool((dx > 0).all()):
        raise NetgrainError("two points share one x: no function goes through both; expected distinct x.")
    return float((dy.square() / dx).sum() / (x.max() - x.min()))
