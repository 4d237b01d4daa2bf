"""The tangent kernel of one network: Σ over weights of ∂(r·f)(x) ∂(r·f)(z), for one random vector r over outputs.

One forward and one backward pass of a batch give the input a of every layer and the gradient b at its output; rules in
`weight_gradients` make the gradients of single samples of them. A dense layer on vectors is never written out: its part
is (b·b')(a·a' + 1). Other layers of more than 4,096 weights are multiplied by random signs and summed in 2,048 strided
bins, which leaves the mean of their products as it is. Parameters without a rule are differentiated sample by sample.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.overrides import TorchFunctionMode

from netgrain.families.logits import logits_of
from netgrain.families.members import forward
from netgrain.families.nested import every
from netgrain.families.trace import ABOUT_SHAPES
from netgrain.learning.layer_grams import mean_square, products
from netgrain.learning.weight_gradients import LayerGradient, layer_gradient
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed

MOST_WEIGHTS = 4096  # of a layer whose gradients are held as they are
BINS = 2048  # for those of larger ones
FEW = 64  # samples up to which a loop costs less than vmap, whose first call loads torch's compiler


@dataclass(frozen=True)
class TangentPlan:
    """Which parameters have a rule, and which are differentiated sample by sample; the same for all members."""

    ruled: tuple[str, ...]
    dense: tuple[str, ...]  # weights of dense layers on vectors that are used once
    rest: tuple[str, ...]
    binned: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All parameters that count."""
        return (*self.ruled, *self.rest)


def tangent_plan(model: nn.Module, few: Tensor) -> TangentPlan:
    """Which rules apply, from runs on three samples and on two: they must apply in both."""
    parameters = dict(model.named_parameters())
    runs = [_watched(model, some, None)[0] for some in (few[:3], few[:2])]
    without = frozenset().union(*(run.without_rule for run in runs))
    calls = Counter(name for call in runs[0].calls for name in call.names)
    used = dict.fromkeys(name for run in runs for name in (*(n for c in run.calls for n in c.names),))
    ruled = [name for name in used if name not in without]
    dense = [
        call.names[0]
        for call in runs[0].calls
        if call.gradient.dense is not None and call.names[0] in ruled and calls[call.names[0]] == 1
    ]
    rest = [name for name in parameters if name in without]
    large = [n for n in (*ruled, *rest) if n not in dense and parameters[n].numel() > MOST_WEIGHTS]
    if not ruled and not rest:
        raise NetgrainError("kind='tangent' found no parameter that the outputs depend on.")
    return TangentPlan(tuple(ruled), tuple(dense), tuple(rest), tuple(large))


@dataclass(frozen=True, eq=False)
class TangentFeatures:
    """Gradients of all samples: rows whose products add up, and dense layers by their two factors."""

    rows: Tensor  # (samples, weights and bins)
    dense: tuple[tuple[Tensor, Tensor], ...]  # inputs and gradients at the outputs

    def gram(self, n: int) -> Tensor:
        """Θ(x, z) in float64; the first n samples are X, all others Z; without others Z = X."""
        total = products(self.rows, n)
        for a, b in self.dense:
            total.addcmul_(products(a, n), products(b, n))
        return total

    def mean_diagonal(self, n: int) -> float:
        """The mean of Θ(x, x) over X."""
        size = mean_square(self.rows[:n])
        for a, b in self.dense:
            size += float((a[:n].double().square().sum(1) * b[:n].double().square().sum(1)).mean())
        return size


def tangent_features(model: nn.Module, X: Tensor, plan: TangentPlan, batch: int, seed: int) -> TangentFeatures:
    """The gradients of one network, whose parameters are frozen; seed: of r and of the signs."""
    signs = {name: _signs(model.get_parameter(name), derived_seed(seed, "signs", name)) for name in plan.binned}
    rows = torch.zeros(len(X), 0)
    dense: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in plan.dense}
    for start in range(0, len(X), batch):
        some = X[start : start + batch]
        watch, y = _watched(model, some, frozenset(plan.ruled))
        r = _outputs_vector(y, seed)
        gradients = _at_outputs(watch, (y * r).sum())
        found: dict[str, Tensor] = {}
        for call, b in zip(watch.calls, gradients, strict=True):
            for name, make in call.rows():
                if name in dense:
                    a = call.gradient.dense
                    assert a is not None
                    dense[name].append((a.cpu(), b.cpu()))
                    continue
                g = _binned(make(b), signs.get(name))
                found[name] = found[name] + g if name in found else g
        for name, g in _sample_by_sample(model, some, r, plan.rest, together=len(X) > FEW).items():
            found[name] = _binned(g, signs.get(name))
        parts = [found[name] for name in plan.names if name in found]
        if start == 0 and parts:  # written into place, so that no pieces stay between passes
            rows = torch.empty(len(X), sum(g.shape[1] for g in parts), dtype=parts[0].dtype)
        if parts:
            torch.cat([g.cpu() for g in parts], 1, out=rows[start : start + len(some)])
    pairs = tuple((torch.cat([a for a, _ in p]), torch.cat([b for _, b in p])) for p in dense.values() if p)
    return TangentFeatures(rows, pairs)


def _outputs_vector(y: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(derived_seed(seed, "outputs"))
    return torch.randn(y.shape[1], generator=generator, dtype=torch.float64).to(y)


def _signs(parameter: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    coins = torch.randint(2, (parameter.numel(),), generator=generator, dtype=torch.int8)
    return (2 * coins - 1).to(parameter)


def _binned(g: Tensor, signs: Tensor | None) -> Tensor:
    """(samples, weights) → (samples, bins): weight w goes to bin w mod 2,048 with its sign."""
    if signs is None:
        return g
    out = g.new_zeros(len(g), BINS)
    for some, coins in zip(g.split(BINS, 1), signs.split(BINS), strict=True):
        out[:, : len(coins)].addcmul_(some, coins)
    return out


# --- one pass ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Call:
    names: tuple[str, ...]  # of its parameters that count, in the order of the rule
    ids: tuple[int, ...]
    gradient: LayerGradient
    out: Tensor  # where the gradient is taken

    def rows(self) -> list[tuple[str, Callable[[Tensor], Tensor]]]:
        return [(name, self.gradient.parameters[i]) for name, i in zip(self.names, self.ids, strict=True)]


@dataclass(eq=False)
class _Layers(TorchFunctionMode):
    """Remembers every call that uses a parameter and has a rule."""

    names: dict[int, str]  # of parameters, by identity
    samples: int
    wanted: frozenset[str] | None  # None: all that have a rule
    calls: list[_Call] = field(default_factory=list)
    without_rule: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        touched = [t for t in every((args, kwargs), Tensor) if id(t) in self.names]
        name = getattr(function, "__name__", "").strip("_")
        if name == "get":
            name = getattr(getattr(function, "__self__", None), "__name__", name)
        out = function(*args, **kwargs)
        if not touched or name in ABOUT_SHAPES:
            return out
        made = self._ruled(name, function, args, kwargs, out)
        if made is None:
            self.without_rule.update(self.names[id(t)] for t in touched)
            return out
        gradient, place = made
        ids = tuple(i for i in gradient.parameters if self.wanted is None or self.names[i] in self.wanted)
        if ids:
            self.calls.append(_Call(tuple(self.names[i] for i in ids), ids, gradient, place))
        return place.clone()  # what follows may overwrite it

    def _ruled(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> tuple[LayerGradient, Tensor] | None:
        """The rule for a call of which every sample has its own row."""
        if not isinstance(out, Tensor) or out.dim() == 0 or len(out) != self.samples:
            return None
        others = [t for t in every((args, kwargs), Tensor) if t.requires_grad]
        if name == "expand" and not others:
            out = out.detach().clone().requires_grad_(True)
        elif not out.requires_grad or any(len(t) != self.samples for t in others if t.dim()):
            return None
        gradient = layer_gradient(name, function, args, kwargs, out, lambda t: id(t) in self.names)
        return None if gradient is None or not gradient.parameters else (gradient, out)


def _watched(model: nn.Module, x: Tensor, wanted: frozenset[str] | None) -> tuple[_Layers, Tensor]:
    """One forward pass with a graph from x to the outputs."""
    watch = _Layers({id(p): name for name, p in model.named_parameters()}, len(x), wanted)
    with torch.inference_mode(False), torch.enable_grad():
        place = x.detach().clone().requires_grad_(True)
        with watch:
            y = forward(model, place)
    return watch, y


def _at_outputs(watch: _Layers, total: Tensor) -> list[Tensor]:
    places = [call.out for call in watch.calls]
    if not places:
        return []
    found = torch.autograd.grad(total, places, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(places, found, strict=True)]


def _sample_by_sample(
    model: nn.Module, x: Tensor, r: Tensor, names: tuple[str, ...], *, together: bool
) -> dict[str, Tensor]:
    """Gradients by parameters without a rule, (samples, weights) each: by vmap, else one sample after the other."""
    if not names:
        return {}
    chosen = {name: model.get_parameter(name).detach() for name in names}

    def along(weights: dict[str, Tensor], one: Tensor) -> Tensor:
        y = logits_of(functional_call(model, weights, (one[None],)), one[None])
        total: Tensor = (y.reshape(-1) * r.detach()).sum()
        return total

    found: dict[str, Tensor] | None = None
    with torch.inference_mode(False), torch.enable_grad():
        if together:
            with warnings.catch_warnings(), suppress(Exception):  # what vmap does not take is slower, not different
                warnings.simplefilter("ignore")
                found = vmap(grad(along), in_dims=(None, 0))(chosen, x.detach())
        if found is None:
            each = []
            for one in x.detach():
                leaves = {name: t.clone().requires_grad_(True) for name, t in chosen.items()}
                rows = torch.autograd.grad(along(leaves, one), list(leaves.values()), allow_unused=True)
                pairs = zip(leaves.values(), rows, strict=True)
                each.append([torch.zeros_like(t) if g is None else g for t, g in pairs])
            found = {name: torch.stack([rows[k] for rows in each]) for k, name in enumerate(names)}
    return {name: found[name].detach().flatten(1) for name in names}
