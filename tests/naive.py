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


# --- the kernel of infinitely wide networks ---------------------------------------------------------------------------


def erf_kernel(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """E[erf(h) erf(h')] for Gaussians with variances a, b and covariance c."""
    return 2 / math.pi * torch.asin(2 * c / ((1 + 2 * a) * (1 + 2 * b)).sqrt())


def gelu_kernel(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """E[h Φ(h) h' Φ(h')]: Φ(h) = P(u < h) makes it a moment over a quadrant."""
    size = (1 + a) * (1 + b)
    rest = size - c.square()
    quadrant = 0.25 + torch.atan2(c, rest.sqrt()) / (2 * math.pi)
    return c * quadrant + (a * b * rest + c.square()) / (2 * math.pi * size * rest.sqrt())


def relu_kernel(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """E[h⁺ h'⁺] (arc-cosine kernel); zero where a variance is zero."""
    there = (a > 0) & (b > 0)
    s = torch.where(there, a * b, 1.0).sqrt()
    cosine = torch.where(there, c / s, 0.0).clamp(-1 + 1e-15, 1 - 1e-15)
    angle = torch.acos(cosine)
    return torch.where(there, s / (2 * math.pi) * (torch.sin(angle) + (math.pi - angle) * cosine), 0.0)


Kernel = Callable[[Tensor, Tensor, Tensor], Tensor]


def network_kernel(model: nn.Sequential, kernel: Kernel, x: Tensor, z: Tensor) -> Tensor:
    """E[f(x) f(z)] per output of a wide Sequential of Conv2d, Linear, AvgPool2d, Flatten and activations.

    Weights and biases count by the variance of torch's default law unless the layer has `variances` = (weight, bias).
    """

    def second(u: Tensor, v: Tensor) -> Tensor:  # (C, H, W) or (C,) → summed over channels
        return torch.einsum("cp,cq->pq", u.reshape(len(u), -1), v.reshape(len(v), -1))

    K = {"xx": second(x, x), "xz": second(x, z), "zz": second(z, z)}  # over positions, summed over channels
    grid = tuple(x.shape[1:])
    channels = 1.0  # the sums above are over all channels of the input already
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            fan = layer.weight[0].numel()
            w, b = getattr(layer, "variances", (1 / (3 * fan), 1 / (3 * fan) if layer.bias is not None else 0.0))
            if isinstance(layer, nn.Conv2d):
                K = {k: channels * w * _slid(m, grid, layer) + b for k, m in K.items()}
                grid = tuple(
                    (n + 2 * p - k) // s + 1
                    for n, p, k, s in zip(grid, layer.padding, layer.kernel_size, layer.stride, strict=True)  # type: ignore[arg-type]
                )
            else:
                K = {k: (channels * w * m.diagonal().sum() + b).reshape(1, 1) for k, m in K.items()}
                grid = (1, 1)
            channels = float(layer.weight.shape[0])
        elif isinstance(layer, nn.AvgPool2d):
            maps = [nn.functional.avg_pool1d(torch.eye(n, dtype=x.dtype)[None], layer.kernel_size)[0].T for n in grid]
            A = torch.kron(*maps)
            K = {k: A @ m @ A.T for k, m in K.items()}
            grid = tuple(len(m) for m in maps)
        elif not isinstance(layer, nn.Flatten):
            a, b = K["xx"].diagonal(), K["zz"].diagonal()
            K = {
                "xx": kernel(a[:, None], a[None], K["xx"]),
                "xz": kernel(a[:, None], b[None], K["xz"]),
                "zz": kernel(b[:, None], b[None], K["zz"]),
            }
    return channels * K["xz"].sum()


def _slid(m: Tensor, grid: tuple[int, ...], layer: nn.Conv2d) -> Tensor:
    """Σ_t m(s·q + t, s·q' + t) over kernel entries, zero outside."""
    (ph, pw), (kh, kw), (sh, sw) = layer.padding, layer.kernel_size, layer.stride  # type: ignore[misc]
    H, W = grid
    padded = nn.functional.pad(m.reshape(H, W, H, W), (pw, pw, ph, ph, pw, pw, ph, ph))
    h, w = (H + 2 * ph - kh) // sh + 1, (W + 2 * pw - kw) // sw + 1  # type: ignore[operator]
    total = m.new_zeros(h, w, h, w)
    for i, j in itertools.product(range(kh), range(kw)):
        rows, columns = slice(i, i + sh * (h - 1) + 1, sh), slice(j, j + sw * (w - 1) + 1, sw)
        total = total + padded[rows, columns, rows, columns]
    return total.reshape(h * w, h * w)


def wide_geometry(model: nn.Sequential, kernel: Kernel, x: Tensor, apart: float = 0.0) -> Tensor:
    """The mixed derivative ∂ₓ∂_z of the kernel at z = x, (d, d), in float64 by automatic differentiation twice.

    apart: for kernels with a corner at z = x the mean over z = x ± εr, extrapolated from ε = apart · (1, 2, 4) to 0.
    """
    x = x.double()
    r = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def at(shift: Tensor) -> Tensor:
        left, right = x.clone().requires_grad_(True), (x + shift).requires_grad_(True)
        (slope,) = torch.autograd.grad(network_kernel(model, kernel, left, right), left, create_graph=True)
        unit = torch.eye(x.numel(), dtype=x.dtype)
        (rows,) = torch.autograd.grad(slope.flatten(), right, unit, is_grads_batched=True)
        return rows.flatten(1).detach()

    if not apart:
        return at(torch.zeros_like(x))
    means = [(at(apart * k * r) + at(-apart * k * r)) / 2 for k in (1, 2, 4)]
    first = [2 * means[0] - means[1], 2 * means[1] - means[2]]  # the error of the mean is a series in ε …
    G = (4 * first[0] - first[1]) / 3
    return (G + G.T) / 2


def leave_one_out(K: Tensor, Y: Tensor, ridge: float, groups: Tensor | None = None) -> Tensor:
    """Kernel ridge regression with a free intercept, fitted anew without each sample or group."""
    n = len(K)
    groups = torch.arange(n) if groups is None else groups
    out = torch.empty_like(Y)
    for i in range(n):
        rows = [j for j in range(n) if groups[j] != groups[i]]
        m = len(rows)
        system = torch.ones(m + 1, m + 1, dtype=K.dtype)
        system[:m, :m] = K[rows][:, rows] + ridge * torch.eye(m, dtype=K.dtype)
        system[m, m] = 0.0
        solved = torch.linalg.solve(system, torch.cat([Y[rows], torch.zeros(1, Y.shape[1], dtype=Y.dtype)]))
        out[i] = K[i, rows] @ solved[:m] + solved[m]
    return out


# --- kernels over samples ---------------------------------------------------------------------------------------------


def arc_cosine(K: Tensor) -> tuple[Tensor, Tensor]:
    """E[relu(u) relu(v)] and E[relu'(u) relu'(v)] for Gaussians with covariance K over a flat index, entry by entry."""
    values, slopes = torch.zeros_like(K), torch.zeros_like(K)
    for i, j in itertools.product(range(len(K)), repeat=2):
        size = math.sqrt(float(K[i, i] * K[j, j]))
        angle = math.acos(max(-1.0, min(1.0, float(K[i, j]) / size)))
        values[i, j] = size * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi)
        slopes[i, j] = (math.pi - angle) / (2 * math.pi)
    return values, slopes


def dense_kernels(X: Tensor, widths: list[int], weight: float, bias: float, outputs: int) -> tuple[Tensor, Tensor]:
    """NNGP features E[φ·φ'] and tangent kernel of a ReLU network; weight/fan-in and bias are variances."""
    inputs = X.double() @ X.double().T
    theta, fan_in = inputs + 1, X.shape[1]
    for width in widths:
        values, slopes = arc_cosine(weight / fan_in * inputs + bias)
        inputs, fan_in = width * values, width
        theta = inputs + 1 + weight / fan_in * width * slopes * theta
    return inputs, outputs * theta


def convolutional_kernels(
    X: Tensor,  # (n, channels, length)
    layers: list[tuple[int, int, int, int]],  # channels, taps, stride, padding
    weight: float,
    bias: float,
    outputs: int,
    pooled: bool,
) -> tuple[Tensor, Tensor]:
    """The same for convolutions along one axis with ReLU, then flattened or averaged, and a linear layer."""
    n, fan, length = X.shape
    inputs = torch.einsum("icp,jcq->ipjq", X.double(), X.double())
    theta = torch.zeros_like(inputs)
    for channels, taps, stride, padding in layers:
        out = (length + 2 * padding - taps) // stride + 1

        def slid(S: Tensor, out: int = out, taps: int = taps, s: int = stride, p: int = padding, l: int = length):
            total = torch.zeros(n, out, n, out, dtype=torch.float64)
            for a, b, t in itertools.product(range(out), range(out), range(taps)):
                u, v = a * s + t - p, b * s + t - p
                if 0 <= u < l and 0 <= v < l:
                    total[:, a, :, b] += S[:, u, :, v]
            return total

        variance = weight / (fan * taps)
        met = slid(inputs)
        theta = met + 1 + variance * slid(theta)
        values, slopes = (k.reshape(n, out, n, out) for k in arc_cosine((variance * met + bias).reshape(n * out, -1)))
        inputs, theta = channels * values, channels * slopes * theta
        fan, length = channels, out
    if pooled:
        features, below, fan_in = inputs.mean((1, 3)), theta.mean((1, 3)), fan
    else:
        features, below = (torch.einsum("ipjp->ij", t) for t in (inputs, theta))
        fan_in = fan * length
    return features, outputs * (features + 1 + weight / fan_in * below)


def tangent_rows(model: nn.Module, X: Tensor, r: Tensor) -> Tensor:
    """∂(r·f)(x) by all parameters, one sample after the other, (n, weights)."""
    parameters = [p.detach().requires_grad_(True) for p in model.parameters()]
    names = [name for name, _ in model.named_parameters()]
    rows = []
    for x in X:
        y = torch.func.functional_call(model, dict(zip(names, parameters, strict=True)), (x[None],))
        found = torch.autograd.grad((y.reshape(-1) * r).sum(), parameters, allow_unused=True)
        pairs = zip(parameters, found, strict=True)
        rows.append(torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for p, g in pairs]))
    return torch.stack(rows).detach()


def centred_gram(sets: list[Tensor]) -> Tensor:
    """Σ over sets of centred products divided by their mean diagonal."""
    total = torch.zeros(len(sets[0]), len(sets[0]), dtype=torch.float64)
    for s in sets:
        c = s.double() - s.double().mean(0)
        total += c @ c.T / (c @ c.T).diagonal().mean()
    return total
