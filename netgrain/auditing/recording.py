"""One forward pass, watched: ‖J_l v‖² of directions v after every leaf module that is called once, and between them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.members import forward

AT_ONCE = 32  # directions that pass the network together
STEP = {torch.float64: 1e-5, torch.float32: 1e-2}  # of finite differences, relative to the size of the probe point
INPUT = -1  # the place before the first layer
BETWEEN = "before "  # work outside the layers is named after the layer that follows


@dataclass(eq=False)
class Recorder:
    """‖J_l v‖² for every direction v at every step of a forward pass over the pairs x ± εv."""

    count: int  # directions in this pass
    step: float
    names: list[str] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    squares: list[Tensor] = field(default_factory=list)
    known: dict[int, tuple[weakref.ref[Tensor], int]] = field(default_factory=dict)  # which step made a tensor

    def find(self, t: Tensor) -> int | None:
        made, step = self.known.get(id(t), (None, 0))
        return step if made is not None and made() is t else None

    def keep(self, t: Tensor, step: int) -> int:
        self.known[id(t)] = (weakref.ref(t), step)
        return step

    def add(self, name: str, t: Tensor, source: int) -> int:
        ahead, behind = t.detach().reshape(2, self.count, -1)  # now: later layers may work in place
        self.names.append(name)
        self.sources.append(source)
        self.squares.append(((ahead - behind) / (2 * self.step)).double().square().sum(1))
        return self.keep(t, len(self.names) - 1)

    def entering(self, name: str, inputs: Iterable[Any]) -> int:
        t = self.tensor_in(inputs)
        if t is None:
            return len(self.names) - 1
        found = self.find(t)
        return self.add(f"{BETWEEN}{name}", t, len(self.names) - 1) if found is None else found

    def tensor_in(self, values: Iterable[Any]) -> Tensor | None:
        fitting = (v for v in values if isinstance(v, Tensor) and v.is_floating_point() and v.dim() > 0)
        return next((v for v in fitting if len(v) == 2 * self.count), None)


def measured(model: nn.Module, hooked: list[str], points: Tensor, vectors: Tensor) -> Recorder:
    """All steps of one member; squares are averaged over the points, directions pass in slices."""
    total: Recorder | None = None
    for x in points:
        pieces = [_passed(model, hooked, x, piece) for piece in vectors.split(AT_ONCE)]
        here = pieces[0]
        here.squares = [torch.cat(parts) / len(points) for parts in zip(*(p.squares for p in pieces), strict=True)]
        if total is None:
            total = here
        else:
            total.squares = [a + b for a, b in zip(total.squares, here.squares, strict=True)]
    assert total is not None
    return total


def _passed(model: nn.Module, hooked: list[str], x: Tensor, vectors: Tensor) -> Recorder:
    size = float(x.square().mean().sqrt())
    record = Recorder(len(vectors), STEP[x.dtype] * (min(1.0, size) if size > 0 else 1.0))
    sources: dict[str, int] = {}

    def before(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            sources[name] = record.entering(name, inputs)

        return hook

    def after(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if (t := record.tensor_in([output])) is not None:
                record.add(name, t, sources[name])

        return hook

    batch = torch.cat([x + record.step * vectors, x - record.step * vectors])
    record.keep(batch, INPUT)
    modules = {name: model.get_submodule(name) for name in hooked}
    handles = [m.register_forward_pre_hook(before(_shown(n, m))) for n, m in modules.items()]
    handles += [m.register_forward_hook(after(_shown(n, m))) for n, m in modules.items()]
    outputs: list[Tensor] = []
    handles.append(model.register_forward_hook(lambda m, i, output: outputs.append(output)))
    try:
        with torch.no_grad():
            forward(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    last = len(record.names) - 1
    if record.find(outputs[0]) != last or last < 0:
        record.add("output", outputs[0], last)
    return record


def called_once(model: nn.Module, x: Tensor) -> tuple[list[str], list[str]]:
    """Names of the leaf modules that are called once in a forward pass, and of those called more often."""
    calls: dict[str, int] = {}
    leaves = [(name, m) for name, m in model.named_modules() if not any(True for _ in m.children())]

    def counting(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any) -> None:
            calls[name] = calls.get(name, 0) + 1

        return hook

    handles = [m.register_forward_pre_hook(counting(name)) for name, m in leaves]
    try:
        with torch.no_grad():
            forward(model, x)
    finally:
        for handle in handles:
            handle.remove()
    return [n for n, c in calls.items() if c == 1], [n for n, c in calls.items() if c > 1]


def _shown(name: str, module: nn.Module) -> str:
    return name or type(module).__name__
