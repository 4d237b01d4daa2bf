"""Slow, obvious versions of what the library does fast. Tests compare the two."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def jacobian(model: nn.Module, x: Tensor) -> Tensor:
    """(outputs, d) at one point, one backward pass per output."""
    x = x.detach().clone().requires_grad_(True)
    y = model(x[None])[0]
    rows = [torch.autograd.grad(y[j], x, retain_graph=True)[0].flatten() for j in range(len(y))]
    return torch.stack(rows).double()


def geometry(models: list[nn.Module], points: Tensor) -> Tensor:
    """Mean of JᵀJ over models and points, as a loop."""
    d = points[0].numel()
    total = torch.zeros(d, d, dtype=torch.float64)
    for model in models:
        for x in points:
            J = jacobian(model, x)
            total += J.T @ J
    return total / (len(models) * len(points))


def corr(A: Tensor, B: Tensor) -> float:
    return float((A * B).sum() / A.norm() / B.norm())


def unbiased_corr(a: list[Tensor], b: list[Tensor]) -> float:
    """Corr from lists of independent unbiased matrices: products of different members only."""
    aa = sum(float((x * y).sum()) for x, y in itertools.permutations(a, 2)) / (len(a) * (len(a) - 1))
    bb = sum(float((x * y).sum()) for x, y in itertools.permutations(b, 2)) / (len(b) * (len(b) - 1))
    ab = sum(float((x * y).sum()) for x, y in itertools.product(a, b)) / (len(a) * len(b))
    return ab / math.sqrt(aa * bb)


def without(items: list[Tensor], i: int) -> list[Tensor]:
    return items[:i] + items[i + 1 :]


def jackknifed_corr(a: list[Tensor], b: list[Tensor]) -> float:
    """unbiased_corr minus its delete-one jackknife bias, both samples in turn."""
    value = unbiased_corr(a, b)
    left_a = sum(unbiased_corr(without(a, i), b) for i in range(len(a))) / len(a)
    left_b = sum(unbiased_corr(a, without(b, i)) for i in range(len(b))) / len(b)
    return value - (len(a) - 1) * (left_a - value) - (len(b) - 1) * (left_b - value)


def jackknifed_corr_error(a: list[Tensor], b: list[Tensor]) -> float:
    """Delete-one jackknife standard error of jackknifed_corr."""
    variance = 0.0
    for values in (
        [jackknifed_corr(without(a, i), b) for i in range(len(a))],
        [jackknifed_corr(a, without(b, i)) for i in range(len(b))],
    ):
        v = torch.tensor(values, dtype=torch.float64)
        variance += (len(v) - 1) / len(v) * float((v - v.mean()).square().sum())
    return math.sqrt(variance)


def spread(layer: nn.Module, spatial: tuple[int, ...], Q: Tensor) -> Tensor:
    """Σ over kernel entries of S_Δ Q S_Δᵀ, with S_Δ read off the layer by setting one kernel entry to one."""
    size = math.prod(spatial)
    total = torch.zeros(size, size, dtype=torch.float64)
    kernel = tuple(layer.kernel_size)
    for entry in itertools.product(*(range(k) for k in kernel)):
        weight = torch.zeros_like(layer.weight)
        weight[(0, 0, *entry)] = 1
        with torch.no_grad():
            layer.weight.copy_(weight)
            basis = torch.eye(size, dtype=layer.weight.dtype).reshape(size, 1, *spatial)
            S = layer(basis).flatten(1).double()  # (input, output)
        total += S @ Q @ S.T
    return total


def flow(model: nn.Module, loss: Tensor) -> Tensor:
    """θ̇ = −∇_θ L, all parameters in one row."""
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    pairs = zip(found, model.parameters(), strict=True)
    return -torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])


def mixed_hessian(model: nn.Module, x: Tensor, output: int) -> Tensor:
    """∂²f/∂x∂θ at one point, (d, parameters), one backward pass per input coordinate."""
    x = x.detach().clone().requires_grad_(True)
    (g,) = torch.autograd.grad(model(x[None])[0, output], x, create_graph=True)
    rows = []
    for entry in g.flatten():
        found = [None] * len(list(model.parameters()))
        if entry.requires_grad:
            found = torch.autograd.grad(entry, list(model.parameters()), retain_graph=True, allow_unused=True)
        pairs = zip(found, model.parameters(), strict=True)
        rows.append(torch.cat([(torch.zeros_like(p) if t is None else t).flatten() for t, p in pairs]))
    return torch.stack(rows).double()


def evolution(models: list[nn.Module], points: Tensor, loss: Callable[[nn.Module], Tensor]) -> Tensor:
    """M: the mean over models and points of Σ over outputs of (∇²_{x,θ} f · θ̇) ∇ₓfᵀ, as a loop. loss: of one model."""
    total = torch.zeros(points[0].numel(), points[0].numel(), dtype=torch.float64)
    for model in models:
        speed = flow(model, loss(model)).double()
        for x in points:
            J = jacobian(model, x)
            for o, a in enumerate(J):
                total += torch.outer(mixed_hessian(model, x, o) @ speed, a)
    return total / (len(models) * len(points))


def every_sign(model: nn.Module, shape: tuple[int, ...]) -> Tensor:
    """E[JᵀJ] at the origin over all sign patterns of the weights, each ± its standard deviation under torch's default.

    Where the result depends on second moments of the weights alone, this is the expectation itself, not an estimate.
    """
    weights = [p for n, p in model.named_parameters() if n.endswith("weight")]
    total = sum(p.numel() for p in weights)
    G = torch.zeros(math.prod(shape), math.prod(shape), dtype=torch.float64)
    for signs in itertools.product((-1.0, 1.0), repeat=total):
        left = torch.tensor(signs, dtype=torch.float64)
        with torch.no_grad():
            for p in weights:
                sd = math.sqrt(1 / (3 * p[0].numel()))
                p.copy_(sd * left[: p.numel()].reshape(p.shape))
                left = left[p.numel() :]
        J = jacobian(model, torch.zeros(shape, dtype=torch.float64))
        G += J.T @ J
    return G / 2**total


def wide_relu_geometry(side: int, points: Tensor) -> Tensor:
    """The exact wide limit of ∇f ∇fᵀ for conv 3×3, ReLU, conv 3×3, ReLU, 2×2 mean, linear (torch's default law).

    E[f(x) f(y)] of infinitely wide layers is a kernel Θ(x, y); E[∇f(x) ∇f(x)ᵀ] is its mixed derivative at y = x. The
    derivative also sees that slopes and weights of one layer are not independent.
    """
    size = side * side

    def spread(Q: Tensor) -> Tensor:
        padded = nn.functional.pad(Q.reshape(side, side, side, side), (1,) * 8)
        shifts = itertools.product(range(3), repeat=2)
        parts = [padded[a : a + side, b : b + side, a : a + side, b : b + side] for a, b in shifts]
        return torch.stack(parts).sum(0).reshape(size, size) / 27

    def relu(a: Tensor, K: Tensor, b: Tensor) -> Tensor:
        s = (a[:, None] * b).sqrt()
        cosine = (K / s).clamp(-1 + 1e-12, 1 - 1e-12)
        angle = torch.acos(cosine)
        return s / (2 * math.pi) * (torch.sin(angle) + (math.pi - angle) * cosine)

    def theta(x: Tensor, y: Tensor) -> Tensor:
        xx, xy, yy = (spread(torch.outer(*pair)) for pair in ((x, x), (x, y), (y, y)))
        first = relu(xx.diagonal(), xy, yy.diagonal())
        own = [relu(k.diagonal(), k, k.diagonal()) for k in (xx, yy)]
        second = relu(spread(own[0]).diagonal(), spread(first), spread(own[1]).diagonal())
        return (pool @ second @ pool.T).trace() / (3 * len(pool))

    along = nn.functional.avg_pool1d(torch.eye(side, dtype=torch.float64)[None], 2)[0].T.contiguous()
    pool = torch.kron(along, along)
    G = torch.zeros(size, size, dtype=torch.float64)
    for point in points.double().reshape(len(points), size):
        x = point.clone().requires_grad_(True)
        y = (point + 1e-5 * torch.randn(size, dtype=torch.float64)).requires_grad_(True)  # off the kernel's corner
        (gx,) = torch.autograd.grad(theta(x, y), x, create_graph=True)
        G += torch.stack([torch.autograd.grad(gx[j], y, retain_graph=True)[0] for j in range(size)]) / len(points)
    return (G + G.T) / 2


def complexity(model: nn.Module, X: Tensor) -> float:
    """GC = mean ‖J(x)‖², one point and one output at a time."""
    return sum(float(jacobian(model, x).square().sum()) for x in X) / len(X)


def complexity_by_differences(call: Callable[[Tensor], Tensor], X: Tensor, eps: float = 1e-5) -> float:
    """GC without any automatic differentiation: central differences along every coordinate."""
    total = 0.0
    for x in X.double():
        for j in range(x.numel()):
            step = torch.zeros(x.numel(), dtype=torch.float64)
            step[j] = eps
            ahead, behind = call((x + step.reshape(x.shape))[None]), call((x - step.reshape(x.shape))[None])
            total += float(((ahead - behind).detach() / (2 * eps)).square().sum())
    return total / len(X)


def probe_variance(A: Tensor) -> float:
    """Variance of vᵀAv over all sign vectors v ∈ {±1}ᵏ, by listing them."""
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=len(A))), dtype=torch.float64)
    return float(torch.einsum("ni,ij,nj->n", signs, A.double(), signs).var(correction=0))


def distance_correlation(x: Tensor, y: Tensor) -> float:
    """Bias-corrected squared distance correlation of numbers x (n,) with labels y (n,), from all pairs."""
    n = len(x)

    def centred(D: Tensor) -> Tensor:
        rows = D.sum(1) / (n - 2)
        A = D - rows[:, None] - rows + D.sum() / ((n - 1) * (n - 2))
        return A.fill_diagonal_(0)

    a, b = centred((x[:, None] - x).abs().double()), centred((y[:, None] != y).double())
    return float((a * b).sum() / ((a * a).sum() * (b * b).sum()).sqrt())
