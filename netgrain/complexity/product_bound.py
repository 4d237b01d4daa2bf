"""An upper bound of the Lipschitz constant of a whole network: every layer's own constant, multiplied along the way.

The module is run once while every torch function is recorded; each value then carries an upper bound of the Lipschitz
constant of x ↦ value (2-norms): a layer of constant c multiplies it, a sum adds the bounds of its terms (a residual
block gives 1 + branch), a concatenation takes the root of the sum of squares. The constants are true upper bounds (up
to rounding), never power iterations, which come from below:

    linear        the largest singular value, by SVD
    convolution   zero padding makes it a piece of a convolution on a torus, which the Fourier transform cuts into
                  small blocks K(ω), s^n aliased frequencies side by side for stride s; their largest singular value
                  is bounded by Gram iteration: ‖(KᴴK)^(2ᵗ)‖_F^(1/2ᵗ⁺¹) is above it at every t (Delattre et al. 2023)
    averages, padding, interpolation   Schur: √(largest row sum · largest column sum) of a map with entries ≥ 0
    max pool      √(windows that one entry is in)
    batch norm    max |γ/√(σ² + ε)| in eval mode
    activations   sup |φ'|
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product as combinations
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.trace import Other, Ref, Step, Trace, Unsupported, Weight, record, refs_in

GRAM_STEPS = 12  # an m × m block is overestimated by at most a factor m^(1/2^13)
ENTRIES_AT_ONCE = 1 << 21  # of Fourier blocks

# sup |φ'|, rounded up in the last digit
SLOPES: dict[str, float] = {
    **dict.fromkeys(("relu", "relu6", "tanh", "hardtanh", "softplus", "sin", "cos", "logsigmoid", "softsign"), 1.0),
    **dict.fromkeys(("abs", "neg", "softshrink", "tanhshrink"), 1.0),
    "erf": 2 / math.sqrt(math.pi),
    "sigmoid": 0.25,
    "hardsigmoid": 1 / 6,
    "gelu": 1.128995,  # 1.128905 in its exact form, at √2; the tanh form is a little steeper
    "silu": 1.09984,
    "mish": 1.088499,
    "hardswish": 1.5,
    "selu": 1.7580994,
}
# same numbers in another shape or order, or some of them
MOVES = {"flatten", "reshape", "view", "permute", "transpose", "contiguous", "clone", "detach", "squeeze", "unsqueeze"}
MOVES |= {"unflatten", "swapaxes", "movedim", "T", "mT", "flip", "roll", "chunk", "split", "unbind", "narrow", "select"}
MOVES |= {"to", "float", "double", "identity", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "alias"}
AVERAGES = {f"{kind}avg_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3)} | {"mean", "sum", "pad"}
ORDERS = {
    False: ("stride", "padding", "dilation", "groups"),
    True: ("stride", "padding", "output_padding", "groups", "dilation"),
}


def product_bound(model: nn.Module, x: Tensor) -> float:
    """An upper bound of Lip(f), by the layers of a model run on x (one point, batch first); `Unsupported` says why not.

    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    >>> _ = net[0].weight.data.copy_(torch.diag(torch.tensor([3.0, 1.0])))
    >>> product_bound(net, torch.zeros(1, 2))
    3.0
    """
    trace = record(model, x[:1])
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    bounds: dict[Ref, float] = {Ref(-1): 1.0}
    for step in trace.steps:
        rule = BoundRule(step, trace, tensors, bounds)
        for item in range(len(step.shapes)):
            bounds[Ref(step.index, item)] = rule.bound
    return bounds[trace.output]


class BoundRule:
    """What one recorded step does to the bound."""

    def __init__(self, step: Step, trace: Trace, tensors: dict[str, Tensor], bounds: dict[Ref, float]) -> None:
        self.step, self.trace, self.tensors, self.bounds = step, trace, tensors, bounds
        self.refs = list(refs_in((step.args, step.kwargs)))
        self.bound = self._bound()

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        return self.step.args[place] if len(self.step.args) > place else self.step.kwargs.get(name, default)

    def shape(self, ref: Ref) -> tuple[int, ...]:
        return (1, *self.trace.input_shape) if ref.step < 0 else self.trace.steps[ref.step].shapes[ref.item]

    def weight(self, value: Any) -> Tensor:
        if isinstance(value, Weight):
            return self.tensors[value.name].detach().cpu().double()
        raise self.refused("its weight is computed from others")

    def refused(self, why: str) -> Unsupported:
        return Unsupported(f"{self.step.where} has no product bound: {why}")

    def _bound(self) -> float:
        name = self.step.name
        if name in ("add", "iadd", "radd", "sub", "isub", "rsub"):
            return self._sum()
        if name in ("cat", "concat", "stack", "hstack", "vstack"):
            return math.sqrt(sum(self.bounds[ref] ** 2 for ref in self.refs))
        if len(self.refs) != 1:
            raise self.refused("two values computed from x meet in a way that is no sum")
        return self.bounds[self.refs[0]] * self._constant(name)

    def _constant(self, name: str) -> float:
        """The Lipschitz constant of a step with one input, or something above it."""
        if name in SLOPES:
            return SLOPES[name]
        if name in MOVES:
            return 1.0
        if name in AVERAGES or (name == "interpolate" and self.argument(3, "mode", "nearest") != "bicubic"):
            return self._schur()
        special: dict[str, Callable[[], float]] = {
            "linear": lambda: largest_singular_value(self.weight(self.argument(1, "weight"))),
            "leaky_relu": lambda: max(1.0, abs(self.argument(1, "negative_slope", 0.01))),
            "elu": lambda: max(1.0, abs(self.argument(1, "alpha", 1.0))),
            "prelu": lambda: max(1.0, float(self.weight(self.argument(1, "weight")).abs().max())),
            "batch_norm": self._batch_norm,
            "getitem": self._part,
            **dict.fromkeys(("mul", "imul", "rmul", "div", "truediv", "itruediv"), self._scaled),
            **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"), self._dropout),
            **{f"conv{turned}{n}d": self._convolution for turned in ("", "_transpose") for n in (1, 2, 3)},
            **{f"max_pool{n}d": self._max_pool for n in (1, 2, 3)},
        }
        if name not in special:
            raise self.refused("this operation has no rule")
        return special[name]()

    # --- single rules -----------------------------------------------------------------------------------------------

    def _sum(self) -> float:
        scale = abs(float(self.step.kwargs.get("alpha", 1)))
        bounds = [self.bounds[ref] for ref in self.refs]
        for ref in self.refs:
            if math.prod(self.shape(ref)[1:]) != math.prod(self.step.shapes[0][1:]):
                raise self.refused("a smaller value is repeated in a sum")
        if len(bounds) == 1:  # a constant was added
            return bounds[0] * max(scale, 1.0)
        return bounds[0] + scale * bounds[1] if self.step.name != "rsub" else scale * bounds[0] + bounds[1]

    def _scaled(self) -> float:
        values = [a for a in self.step.args if not isinstance(a, Ref)]
        factor = values[0] if values else None
        divides = "div" in self.step.name
        if divides and not (self.step.args and isinstance(self.step.args[0], Ref)):
            raise self.refused("a division by a value computed from x")
        if isinstance(factor, int | float):
            return abs(1 / factor if divides else factor)
        if isinstance(factor, Weight) and not divides:
            if self.shape(self.refs[0]) != self.step.shapes[0]:
                raise self.refused("a smaller value is repeated in a product")
            return float(self.weight(factor).abs().max())
        raise self.refused("its factor is computed from others")

    def _part(self) -> float:
        index = self.step.args[1] if isinstance(self.step.args[1], tuple) else (self.step.args[1],)
        if all(i is None or i is Ellipsis or isinstance(i, int | slice) for i in index):
            return 1.0
        raise self.refused("an index may repeat entries")

    def _dropout(self) -> float:
        if self.argument(2, "training", True) and self.argument(1, "p", 0.5) > 0:
            raise self.refused("dropout is on")
        return 1.0

    def _batch_norm(self) -> float:
        if self.argument(5, "training", False):
            raise self.refused("it uses the statistics of the batch")
        variance = self.weight(self.argument(2, "running_var"))
        gamma = self.argument(3, "weight")
        scale = torch.ones_like(variance) if gamma is None else self.weight(gamma).abs()
        return float((scale / (variance + self.argument(7, "eps", 1e-5)).sqrt()).max())

    def _max_pool(self) -> float:
        """Σ over windows of max|Δ|² counts an entry as often as it lies in a window."""
        dims = len(self.shape(self.refs[0])) - 2
        kernel = _each(self.argument(1, "kernel_size"), dims)
        stride = _each(self.argument(2, "stride") or kernel, dims)
        dilation = _each(self.argument(4, "dilation", 1), dims)
        each = (math.ceil(k / s) if d == 1 else k for k, s, d in zip(kernel, stride, dilation, strict=True))
        return math.sqrt(math.prod(each))

    def _schur(self) -> float:
        """√(max row sum · max column sum) of the map itself, which has no negative entries."""
        ones = torch.ones(1, *self.shape(self.refs[0])[1:], dtype=torch.float64)

        def run(x: Tensor) -> Tensor:
            filled = _replaced_refs((self.step.args, self.step.kwargs), x)
            out: Tensor = self.step.function(*filled[0], **filled[1])
            return out

        with torch.enable_grad():
            leaf = ones.requires_grad_(True)
            out = run(leaf)
            if out.dim() == 0 or len(out) != 1 or not out.requires_grad:
                raise self.refused("it mixes the samples of a batch")
            rows = (out - run(torch.zeros_like(ones))).abs().max()
            (columns,) = torch.autograd.grad(out.sum(), leaf)
        if float(columns.min()) < 0:
            raise self.refused("it has negative weights")
        return math.sqrt(float(rows.detach()) * float(columns.max()))

    def _convolution(self) -> float:
        weight = self.weight(self.argument(1, "weight"))
        dims = weight.dim() - 2
        turned = "transpose" in self.step.name
        given = dict(zip(ORDERS[turned], self.step.args[3:], strict=False)) | self.step.kwargs
        stride, dilation = (_each(given.get(name, 1), dims) for name in ("stride", "dilation"))
        # a transposed convolution is the adjoint of a convolution that starts from its output
        size = self.step.shapes[0] if turned else self.shape(self.refs[0])
        return convolution_bound(weight, size[2:], stride=stride, dilation=dilation, groups=given.get("groups", 1))


def _each(value: Any, dims: int) -> tuple[int, ...]:
    values = tuple(int(v) for v in value) if isinstance(value, tuple | list) else (int(value),)
    return values * dims if len(values) == 1 else values


def _replaced_refs(value: Any, x: Tensor) -> Any:
    if isinstance(value, Ref):
        return x
    if isinstance(value, Weight | Other):
        raise Unsupported("a pool with weights has no product bound")
    if isinstance(value, tuple | list):
        return tuple(_replaced_refs(v, x) for v in value)
    return {k: _replaced_refs(v, x) for k, v in value.items()} if isinstance(value, dict) else value


# --- norms of linear maps ---------------------------------------------------------------------------------------------


def largest_singular_value(W: Tensor) -> float:
    """‖W‖ of a matrix, by SVD in float64."""
    return float(torch.linalg.matrix_norm(W.detach().cpu().double(), ord=2))


def convolution_bound(
    weight: Tensor,  # (outputs, inputs / groups, *kernel)
    size: tuple[int, ...],  # of the image, (*spatial)
    *,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int = 1,
) -> float:
    """An upper bound of the operator norm of a convolution with zero padding, of any width, on images of one size.

    On a torus of at least size + reach of the kernel nothing wraps around, so the convolution is a piece of the one on
    the torus and has no larger norm. A kernel of one tap is a matrix at every position:

    >>> W = torch.diag(torch.tensor([2.0, 1.0]))[:, :, None]
    >>> round(convolution_bound(W, (8,), stride=(1,), dilation=(1,)), 9)
    2.0
    """
    kernel = weight.shape[2:]
    W = weight.detach().cpu().double().reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    torus = [math.ceil((n + d * (k - 1)) / s) * s for n, k, s, d in zip(size, kernel, stride, dilation, strict=True)]
    taps = torch.cartesian_prod(*[torch.arange(k) for k in kernel]).reshape(-1, len(kernel)).double()
    taps = taps * torch.tensor(dilation).double()
    coarse = [n // s for n, s in zip(torus, stride, strict=True)]
    # a real kernel has K(−ω) = conj K(ω), so half of the last axis is enough
    halves = [*coarse[:-1], coarse[-1] // 2 + 1]
    # frequencies that stride makes one: ω + j·N/s in every direction
    aliases = torch.tensor(
        [[j * c for j, c in zip(js, coarse, strict=True)] for js in combinations(*[range(s) for s in stride])]
    )
    blocks = weight.shape[0] * weight.shape[1] * len(aliases)
    best = 0.0
    frequencies = torch.cartesian_prod(*[torch.arange(h) for h in halves]).reshape(-1, len(kernel))
    for part in frequencies.split(max(1, ENTRIES_AT_ONCE // blocks)):
        omega = (part[:, None] + aliases[None]).double() / torch.tensor(torus).double()  # (frequencies, aliases, n)
        waves = torch.polar(torch.ones(()).double(), -2 * torch.pi * omega @ taps.T)  # (frequencies, aliases, taps)
        K = torch.einsum("goit,fat->gfoia", W.to(waves.dtype), waves).flatten(3) / math.sqrt(len(aliases))
        best = _gram_iteration(K.flatten(0, 1), best)
    return best


def _gram_iteration(K: Tensor, floor: float) -> float:
    """max(floor, an upper bound of the largest singular value of all matrices in K); see the module."""
    gram = K.mH @ K if K.shape[2] < K.shape[1] else K @ K.mH
    m, log_scale = gram.shape[1], torch.zeros(len(gram), dtype=torch.float64)
    for t in range(GRAM_STEPS):  # σ^(2^(t+1)) ≤ ‖gram‖ exp(log_scale) ≤ √m σ^(2^(t+1))
        norm = torch.linalg.matrix_norm(gram).clamp_min(1e-300)
        upper = (norm.log() + log_scale) / 2 ** (t + 1)
        lower = upper - math.log(m) / 2 ** (t + 2)
        least = max(float(lower.max()), math.log(max(floor, 1e-300)))
        open_ = upper > least  # no other frequency can be the largest
        if not bool(open_.any()):
            return max(floor, math.exp(float(upper.max())))
        gram, norm, log_scale = gram[open_], norm[open_], log_scale[open_]
        gram = gram / norm[:, None, None]
        log_scale = 2 * (log_scale + norm.log())
        gram = gram @ gram
    final = (torch.linalg.matrix_norm(gram).clamp_min(1e-300).log() + log_scale) / 2 ** (GRAM_STEPS + 1)
    return max(floor, math.exp(float(final.max())))
