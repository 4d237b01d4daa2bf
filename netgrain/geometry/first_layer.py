"""First-layer integration: sample everything but the first layer, whose average is taken exactly.

At the origin the forward pass does not depend on the first layer's weights W, so when they are centred, uncorrelated
and independent of the rest,

    G = Var(W) · Σ_Δ S_Δ Q S_Δᵀ,      Q = E[Σ_o g_o g_oᵀ],      g the gradient at the first layer's output.

Every condition is checked on the user's module; one that fails sends it back to plain sampling, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.convolution import ConvStem
from netgrain.families.gradients import gradients
from netgrain.families.members import Family, forward, member, model_dtype
from netgrain.families.outputs import Output, select
from netgrain.families.side_by_side import gradients_of_members, with_output
from netgrain.families.weight_law import Law, read_law
from netgrain.geometry.forms import Dense, Form
from netgrain.geometry.structured_forms import Kronecker, Spread
from netgrain.runtime.randomness import derived_seed

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
DRAWS, DRAWS_LARGE = 64, 24  # fresh draws that the law is read from; the second for models over a million parameters
OTHERS = 256  # entries of other parameters that independence is tested against


class CannotIntegrate(Exception):
    """Why this module's first layer is not integrated."""


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """Where and how x enters: everything that turns gradients at the first layer's output into a geometry."""

    name: str
    stem: ConvStem | None  # None: positions do not overlap (a linear layer, or a patch embedding)
    positions: int
    copies: int
    order: Tensor  # see forms.Kronecker
    exchangeable: bool  # the family declares that positions may be permuted
    transposed: Tensor | None  # positions of the transposed image, where the family declares that it may be transposed
    law: Law

    @property
    def scale(self) -> float:
        """What the second moment of the rows is multiplied with."""
        return self.law.variance / (1 if self.transposed is None else 2)

    def rows(
        self, model: nn.Module, points: Tensor, output: Output, call: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Gradients at the layer's output, (points · outputs · channels, positions); call: what the model is run by."""
        layer = model.get_submodule(self.name)
        return self._as_rows(layer, gradients(model, points, output, at=lambda x: _cut(call or model, layer, x)))

    def rows_of_members(self, models: Sequence[nn.Module], points: Tensor, output: Output) -> Tensor:
        """The same for several members side by side, (members, points · outputs · channels, positions)."""
        g = gradients_of_members(models, points, output, at=self.name)
        layer = models[0].get_submodule(self.name)
        return torch.stack([self._as_rows(layer, one) for one in g])

    def _as_rows(self, layer: nn.Module, g: Tensor) -> Tensor:
        flat = g.flatten(2) if isinstance(layer, nn.modules.conv._ConvNd) else g.reshape(len(g), self.positions, -1).mT
        rows = flat.flatten(0, 1)
        return rows if self.transposed is None else torch.cat([rows, rows[:, self.transposed.to(rows.device)]])

    def form(self, source: Form) -> Form:
        """The geometry over inputs from the second moment Q at the layer's output."""
        if self.exchangeable and self.positions > 1:
            source = _exchanged(source)
        core = source if self.stem is None else Spread(source, self.stem)
        return Kronecker(core, self.copies, self.order)


def _cut(model: Callable[[Tensor], Any], layer: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Run the model with the layer's output replaced by a leaf, so that back-propagation ends there."""
    leaves: list[Tensor] = []

    def leaf(out: Tensor) -> Tensor:
        leaves.append(out.detach().requires_grad_(True))
        return leaves[-1]

    y: Tensor = with_output(layer, lambda: forward(model, x), leaf)
    if len(leaves) != 1:
        raise CannotIntegrate(f"the first layer is used {len(leaves)} times")
    return y, leaves[0]


def _exchanged(source: Form) -> Form:
    """Average over permutations of the positions: each part becomes a·I + b·11ᵀ."""
    source = source.batched()
    size = source.size
    pieces = torch.empty(max(source.parts, 1), size, size, dtype=torch.float64)
    for i in range(len(pieces)):
        dense = source.part(i).dense() if source.parts else source.dense()
        diagonal = dense.diagonal().mean()
        off = (dense.sum() - dense.trace()) / (size * (size - 1))
        pieces[i] = off
        pieces[i].fill_diagonal_(float(diagonal))
    return Dense.from_pieces(pieces, source.counts) if source.parts else Dense(pieces[0])


def find_first_layer(
    make: Family, model: nn.Module, input_shape: tuple[int, ...], *, seed: int, output: Output
) -> FirstLayer:
    """Check every condition on `model` (member 0) and the law on fresh members; raises CannotIntegrate."""
    name, layer, layout = _entry(model, input_shape)
    mixed = _two_mixtures(output)
    _check_only_way_in(model, layer, name, layout, input_shape, mixed)
    _check_forward_ignores_weights(model, layer, name, input_shape, mixed)
    stem, positions, copies, order = _structure(layer, layout)
    exchangeable = bool(getattr(model, "exchangeable_tokens", False))
    transposed = _transposed(model, stem, order) if not exchangeable else None
    found = FirstLayer(name, stem, positions, copies, order, exchangeable, transposed, Law(1.0, 0.0, ""))
    return replace(found, law=_law(make, model, name, seed))


def _transposed(model: nn.Module, stem: ConvStem | None, order: Tensor) -> Tensor | None:
    """Where the output positions go when the image is transposed, if the family declares that its law allows it."""
    if not getattr(model, "transposable_images", False) or stem is None or not stem.is_square:
        return None
    if not torch.equal(order, torch.arange(len(order))):
        return None  # x enters rearranged: the layer's axes may not be those of the image
    return torch.arange(stem.out_size).reshape(stem.out).T.flatten()


def _two_mixtures(output: Output) -> Output:
    """Two random combinations of the chosen outputs: enough for checks, whatever the number of outputs."""

    def mixed(y: Tensor) -> Tensor:
        chosen = select(y, output)
        weights = torch.randn(chosen.shape[1], 2, generator=torch.Generator().manual_seed(0)).to(chosen)
        return chosen @ weights

    return mixed


def _entry(model: nn.Module, input_shape: tuple[int, ...]) -> tuple[str, nn.Module, Tensor]:
    """The one layer that receives x (possibly rearranged): its name, itself, and which coordinate of x is where."""
    d = math.prod(input_shape)
    labels = torch.arange(1, d + 1, dtype=model_dtype(model)).reshape(1, *input_shape)
    if d >= 2**24:
        raise CannotIntegrate("the input has too many coordinates to label")
    seen: list[tuple[str, nn.Module, Tensor]] = []

    def hook(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def look(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            x = inputs[0] if inputs and isinstance(inputs[0], Tensor) else None
            if x is not None and x.numel() == d and torch.equal(x.flatten().sort().values, labels.flatten()):
                seen.append((name, module, x.detach().long() - 1))

        return look

    handles = [m.register_forward_pre_hook(hook(n)) for n, m in model.named_modules() if isinstance(m, LAYERS)]
    try:
        with torch.no_grad():
            forward(model, labels)
    finally:
        for handle in handles:
            handle.remove()
    if not seen:
        raise CannotIntegrate("x does not enter through a Linear or Conv layer as it is")
    if len(seen) > 1:
        raise CannotIntegrate(f"x enters through several layers ({', '.join(name for name, _, _ in seen)})")
    name, layer, layout = seen[0]
    if not isinstance(layer._parameters.get("weight"), nn.Parameter):
        raise CannotIntegrate(f"the weight of '{name}' is computed from other parameters")
    if type(layer) not in LAYERS:
        raise CannotIntegrate(f"'{name}' is a {type(layer).__name__}, whose forward may differ from its base class")
    weight = _weight(layer)
    owners = [n for n, p in model.named_parameters(remove_duplicate=False) if p.data_ptr() == weight.data_ptr()]
    if len(owners) > 1:
        raise CannotIntegrate(f"the weight of '{name}' is shared ({', '.join(owners)})")
    if isinstance(layer, nn.modules.conv._ConvNd):
        if layer.groups != 1:
            raise CannotIntegrate(f"'{name}' is a grouped convolution")
        if layer.padding_mode != "zeros":
            raise CannotIntegrate(f"'{name}' pads with '{layer.padding_mode}', not with zeros")
    return name, layer, layout[0]


def _check_only_way_in(
    model: nn.Module, layer: nn.Module, name: str, layout: Tensor, input_shape: tuple[int, ...], output: Output
) -> None:
    """∇ₓf must equal what passes back through the layer, at the origin and at a generic point."""
    generator = torch.Generator().manual_seed(0)
    generic = torch.randn(1, *input_shape, generator=generator)
    for x in (torch.zeros(1, *input_shape), generic):
        x = x.to(model_dtype(model))
        direct = gradients(model, x, output).flatten(1)
        g = gradients(model, x, output, at=lambda points: _cut(model, layer, points))
        entry = x.flatten()[layout].expand(len(g), *layout.shape).clone().requires_grad_(True)
        with torch.enable_grad():
            (back,) = torch.autograd.grad((layer(entry) * g).sum(), entry)
        through = torch.zeros_like(direct)
        if back.shape[0] != len(through) or back[0].numel() != layout.numel():
            raise CannotIntegrate(f"'{name}' does not see one input per sample")
        through[:, layout.flatten()] = back.flatten(1)
        scale = float(direct.norm())
        if scale == 0 and float(g.norm()) == 0:
            continue
        if float((direct - through).norm()) > 1e-3 * max(scale, float(through.norm())):
            raise CannotIntegrate(f"x also reaches the output around '{name}'")


def _check_forward_ignores_weights(
    model: nn.Module, layer: nn.Module, name: str, input_shape: tuple[int, ...], output: Output
) -> None:
    """Other weights in the first layer must change nothing at the origin beyond that layer."""
    zero = torch.zeros(1, *input_shape, dtype=model_dtype(model))
    weight = _weight(layer)

    def look() -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            y = select(forward(model, zero), output)
        return y, gradients(model, zero, output, at=lambda points: _cut(model, layer, points))

    before = look()
    kept = weight.detach().clone()
    with torch.no_grad():
        weight.copy_(3 * kept.flip(tuple(range(kept.dim()))) + kept.std())
    try:
        after = look()
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    if not all(torch.allclose(a, b, rtol=1e-4, atol=1e-7) for a, b in zip(before, after, strict=True)):
        raise CannotIntegrate(f"the rest of the network depends on the weights of '{name}'")


def _weight(layer: nn.Module) -> nn.Parameter:
    weight = layer._parameters["weight"]
    assert weight is not None
    return weight


def _structure(layer: nn.Module, layout: Tensor) -> tuple[ConvStem | None, int, int, Tensor]:
    """Overlapping windows or not, positions, copies, and the coordinates of x copy after copy."""
    if isinstance(layer, nn.Linear):
        features = layout.shape[-1]
        by_feature = layout.reshape(-1, features).T
        return None, by_feature.shape[1], features, by_feature.flatten()
    assert isinstance(layer, nn.modules.conv._ConvNd)
    spatial = tuple(layout.shape[1:])
    pads = layer._reversed_padding_repeated_twice  # last dimension first, before and after
    dims = len(spatial)
    stem = ConvStem(
        spatial=spatial,
        kernel=tuple(layer.kernel_size),
        stride=tuple(layer.stride),
        padding=tuple((pads[2 * (dims - 1 - i)], pads[2 * (dims - 1 - i) + 1]) for i in range(dims)),
        dilation=tuple(layer.dilation),
    )
    if not stem.is_patching:
        return stem, stem.out_size, layout.shape[0], layout.flatten()
    # (C, n1·k1, n2·k2, …) → (C, k1, k2, …, n1, n2, …): a copy is one place inside the patch
    split = layout.reshape(layout.shape[0], *(v for n, k in zip(stem.out, stem.kernel, strict=True) for v in (n, k)))
    within, across = range(2, 2 * dims + 1, 2), range(1, 2 * dims, 2)
    order = split.permute(0, *within, *across).flatten()
    return None, stem.out_size, layout.shape[0] * math.prod(stem.kernel), order


def _law(make: Family, model: nn.Module, name: str, seed: int) -> Law:
    count = DRAWS if sum(p.numel() for p in model.parameters()) < 1_000_000 else DRAWS_LARGE
    picks = _other_entries(model, name, seed)
    draws, others = [], []
    for i in range(count):
        drawn = model if i == 0 else member(make, seed, i)
        weight = _weight(drawn.get_submodule(name))
        draws.append(weight.flatten().clone())
        parameters = dict(drawn.named_parameters())
        others.append(torch.cat([parameters[n].flatten()[where].float() for n, where in picks] or [torch.zeros(0)]))
    fan_in = _weight(model.get_submodule(name))[0].numel()
    law = read_law(torch.stack(draws), torch.stack(others), fan_in, seed=derived_seed(seed, "law"))
    if isinstance(law, str):
        raise CannotIntegrate(f"'{name}': {law}")
    return law


def _other_entries(model: nn.Module, name: str, seed: int) -> Sequence[tuple[str, Tensor]]:
    """A few random entries of every other parameter, at most OTHERS in all."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "others"))
    parameters = [(n, p) for n, p in model.named_parameters() if n != f"{name}.weight"]
    each = max(1, OTHERS // max(len(parameters), 1))
    return [(n, torch.randint(p.numel(), (min(each, p.numel()),), generator=generator)) for n, p in parameters][:OTHERS]
