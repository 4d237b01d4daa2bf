"""Modules at work: which ones a forward pass calls, in order, and what goes in and comes out. No hook stays behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Entering = Callable[[str, nn.Module, tuple[Any, ...]], None]  # name, module, its inputs
Leaving = Callable[[str, nn.Module, Any], None]  # name, module, its output


@dataclass(frozen=True)
class ModuleCall:
    """One call of a module that has no modules inside.

    Parameters
    ----------
    name : str
        Dotted name of the module; empty for the model itself.
    kind : str
        Name of its class.
    nth : int
        0 for the first call of this module, 1 for the second.
    times : int
        Number of calls of this module in one forward pass.

    Examples
    --------
    >>> ModuleCall("act", "ReLU", nth=1, times=2).repeated
    True
    """

    name: str
    kind: str
    nth: int
    times: int

    @property
    def repeated(self) -> bool:
        """Whether the module is called more than once."""
        return self.times > 1


def module_calls(called: Sequence[tuple[str, str]]) -> tuple[ModuleCall, ...]:
    """Calls in order from (name, kind) pairs; each knows how often its module is called."""
    names = [name for name, _ in called]
    return tuple(ModuleCall(n, kind, names[:i].count(n), names.count(n)) for i, (n, kind) in enumerate(called))


def is_leaf(module: nn.Module) -> bool:
    """Whether a module has no modules inside."""
    return next(module.children(), None) is None


@contextmanager
def watching(model: nn.Module, entering: Entering | None = None, leaving: Leaving | None = None) -> Iterator[None]:
    """Inside, every module of the model tells when it is called and when it returns."""
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue  # takes no hooks
        if entering is not None:

            def before(m: nn.Module, inputs: tuple[Any, ...], name: str = name) -> None:
                entering(name, m, inputs)

            handles.append(module.register_forward_pre_hook(before))
        if leaving is not None:

            def after(m: nn.Module, _inputs: Any, output: Any, name: str = name) -> None:
                leaving(name, m, output)

            handles.append(module.register_forward_hook(after))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def with_output(layer: nn.Module, call: Callable[[], Any], change: Callable[[Tensor], Tensor]) -> Any:
    """Call the model with the layer's output changed."""
    handle = layer.register_forward_hook(lambda _module, _inputs, out: change(out))
    try:
        return call()
    finally:
        handle.remove()


def input_of(layer: nn.Module, call: Callable[[], Any]) -> Any:
    """What the layer receives, the first time, while something runs."""
    seen: list[Any] = []
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        call()
    finally:
        handle.remove()
    return seen[0]
