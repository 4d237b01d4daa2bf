"""Directions that a family cannot see at any input: they are lost before the first activation.

Up to there a network is an affine map of its input, and a direction in the null space of that map (left out by a
stride, cropped, averaged away) changes nothing afterwards, at no input and after no training of these weights. A zero
of G alone says less: at the origin a smooth network is linear, so G there also has directions that later layers lose,
and away from the origin the network does react to those.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.families.gradients import gradients
from netgrain.families.members import Family, double_copy, member, model_dtype
from netgrain.families.trace import Ref, Trace, Unsupported, record, recorded, refs_in
from netgrain.runtime.randomness import generator_for
from netgrain.runtime.threads import one_thread

MOST_MEMBERS = 64  # until another one loses nothing more: a narrow layer loses other directions in each of them
CONFIRMING, POINTS = 2, 4  # other members, and inputs of each, that must not react
SCALES = (1.0, 10.0, 1000.0)  # of the inputs on which a step is found to be affine
ROUNDING = {torch.float64: 1e-8, torch.float32: 1e-3}  # relative
SQUARED = 100  # times that where squares were summed up first
SPARE = 16  # so many rows more than candidates
AT_ONCE = 2**22  # numbers that enter activations in one pass


@one_thread()
def invisible_within(make: Family, candidates: Tensor, *, seed: int = 0) -> Tensor:
    """What is invisible in the span of the candidates (k, *input_shape): an orthonormal basis (m, d), float64.

    m = 0 where nothing is, and where the module cannot be traced: then nothing is shown, so nothing is claimed.

    A convolution with a stride of 2 and a kernel of 1 leaves out every second entry:

    >>> def make():
    ...     return nn.Sequential(nn.Conv1d(1, 3, 1, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(6, 2))
    >>> invisible_within(make, torch.eye(4).reshape(4, 1, 4)).abs().round(decimals=6).sum(0).tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    shape = tuple(candidates.shape[1:])
    span = _orthonormal(candidates.detach().cpu().flatten(1).double())
    nothing, generator = span[:0], generator_for(seed, "invisible")
    try:
        prefix = _Prefix.of(double_copy(member(make, seed, 0), shape), shape, generator)
        for i in range(MOST_MEMBERS):
            if not len(span):
                return nothing
            left = prefix.lost(double_copy(member(make, seed, i), shape), span, generator)
            if i > 0 and len(left) == len(span):
                break
            span = left
        else:
            return nothing  # every member loses others: a narrow layer, not the architecture
    except Unsupported:
        return nothing
    others = (double_copy(member(make, seed, MOST_MEMBERS + i), shape) for i in range(CONFIRMING))
    return span if all(_sees_nothing(model, span, shape, generator) for model in others) else nothing


def _orthonormal(rows: Tensor) -> Tensor:
    if torch.allclose(rows @ rows.T, torch.eye(len(rows), dtype=rows.dtype), atol=1e-9):
        return rows
    _, values, vectors = torch.linalg.svd(rows, full_matrices=False)
    kept: Tensor = vectors[values > 1e-9 * values[0]] if len(values) and float(values[0]) > 0 else vectors[:0]
    return kept


@dataclass(frozen=True, eq=False)
class _Prefix:
    """The affine part of a network: the values that are affine in x and enter a step that is not, or leave it."""

    shape: tuple[int, ...]
    front: list[Ref]
    names: list[str]  # the steps up to the last of them

    @classmethod
    def of(cls, model: nn.Module, shape: tuple[int, ...], generator: torch.Generator) -> _Prefix:
        trace, affine = _affine_steps(model, shape, generator)

        def plain(ref: Ref) -> bool:
            return ref.step < 0 or affine[ref.step]

        found = {r for s in trace.steps if not affine[s.index] for r in refs_in((s.args, s.kwargs)) if plain(r)}
        if plain(trace.output):
            found.add(trace.output)
        front = sorted(found, key=lambda r: (r.step, r.item))
        return cls(shape, front, [s.name for s in trace.steps[: front[-1].step + 1]])

    def lost(self, model: nn.Module, span: Tensor, generator: torch.Generator) -> Tensor:
        """The part of the span (k, d) that this network's affine part loses: orthonormal rows."""
        slopes = self._slopes(model, len(span) + SPARE, generator)
        rows = slopes.double() @ span.T
        ascending, columns = torch.linalg.eigh(rows.T @ rows)
        kept: Tensor = columns.T[
            ascending.clamp(min=0).sqrt() <= SQUARED * ROUNDING[slopes.dtype] * float(slopes.norm())
        ]
        return kept @ span

    def _slopes(self, model: nn.Module, wanted: int, generator: torch.Generator) -> Tensor:
        """Slopes (wanted, d) of random combinations of the values."""
        dtype = model_dtype(model)
        rows: list[Tensor] = []
        at_once = 1
        while (there := sum(map(len, rows))) < wanted:
            leaf = torch.zeros(min(at_once, wanted - there), *self.shape, dtype=dtype, requires_grad=True)
            with torch.enable_grad():
                steps = recorded(model, leaf * 1, stop_after=len(self.names) - 1)
                if [s.name for s in steps] != self.names:
                    raise Unsupported("its members do not all take the same steps")
                values = [leaf if r.step < 0 else steps[r.step].outputs[r.item] for r in self.front]
                weighted = [(v * torch.randn(v.shape, generator=generator, dtype=dtype)).sum() for v in values]
                (slopes,) = torch.autograd.grad(torch.stack(weighted).sum(), leaf, allow_unused=True)
            slopes = torch.zeros_like(leaf) if slopes is None else slopes
            rows.append(slopes.flatten(1))
            at_once = max(1, AT_ONCE * len(leaf) // max(1, sum(v.numel() for v in values)))
        return torch.cat(rows)


def _affine_steps(model: nn.Module, shape: tuple[int, ...], generator: torch.Generator) -> tuple[Trace, list[bool]]:
    """Which steps are affine in x: f(2a − b) = 2 f(a) − f(b) at inputs of several sizes, tried and not looked up."""
    first: Trace | None = None
    affine: list[bool] = []
    dtype = model_dtype(model)
    for scale in SCALES:
        for _ in range(2):
            a, b = scale * torch.randn(2, 1, *shape, generator=generator, dtype=dtype)
            traces = [record(model, x) for x in (a, b, 2 * a - b)]
            if first is None:
                first, affine = traces[0], [True] * len(traces[0].steps)
            if any(len(t.steps) != len(affine) for t in traces):
                raise Unsupported("its forward does not always take the same steps")
            for i, steps in enumerate(zip(*(t.steps for t in traces), strict=True)):
                outputs = zip(*(s.outputs for s in steps), strict=True)
                affine[i] = affine[i] and all(_on_a_line(o, ROUNDING[dtype]) for o in outputs)
    assert first is not None
    return first, affine


def _on_a_line(values: tuple[Tensor, ...], rounding: float) -> bool:
    a, b, c = values
    if not a.is_floating_point():
        return bool(torch.equal(a, b) and torch.equal(b, c))
    size = max(float(t.abs().max()) if t.numel() else 0.0 for t in values)
    return not a.numel() or float((c - (2 * a - b)).abs().max()) <= rounding * size


def _sees_nothing(model: nn.Module, span: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> bool:
    """Whether a network does not react to the directions at random inputs."""
    slopes = gradients(model, torch.randn(POINTS, *shape, generator=generator).to(model_dtype(model)), "all").flatten(1)
    return float((slopes.double() @ span.T).norm()) <= ROUNDING[slopes.dtype] * float(slopes.double().norm())
