"""A forward pass watched layer by layer: what each call of a layer returns is looked at once, and then forgotten.

A layer is one call of a module that has no modules inside. Work outside such modules, by functions, is a step of its
own, named after the layer that follows. Nothing is traced, so a module may do what it likes with its numbers.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from netgrain.families.calls import ModuleCall, watching
from netgrain.families.logits import logits_of
from netgrain.families.members import forward

INPUT = -1  # the place before the first layer
BETWEEN = "before "  # work outside the layers is named after the layer that follows
OUTPUT = "output"  # work behind the last layer
Labels = Mapping[tuple[str, int], str]  # of every call of a layer: its module's name, and which call it is
T = TypeVar("T")


def labels_of(calls: Sequence[ModuleCall]) -> dict[tuple[str, int], str]:
    """What each call of a layer is called: by its module's name, and which call of it it is.

    >>> labels_of([ModuleCall("act", "ReLU", 0, 2), ModuleCall("act", "ReLU", 1, 2), ModuleCall("", "Linear", 0, 1)])
    {('act', 0): 'act (1 of 2)', ('act', 1): 'act (2 of 2)', ('', 0): 'Linear'}
    """
    return {(call.name, call.nth): _label(call) for call in calls}


def _label(call: ModuleCall) -> str:
    name = call.name or call.kind
    return f"{name} ({call.nth + 1} of {call.times})" if call.repeated else name


@dataclass(frozen=True, eq=False)
class Step(Generic[T]):
    """One step of a forward pass: a call of a module, or the work between two calls."""

    name: str
    source: int  # the step that made what entered
    shape: tuple[int, ...]  # of the output, the batch first
    found: T  # what the look at the output found


def watched(model: nn.Module, labels: Labels, batch: Tensor, look: Callable[[str, Tensor], T]) -> list[Step[T]]:
    """The steps of one forward pass; `look` sees the name and the output of each."""
    record: _Recorder[T] = _Recorder(len(batch), look)
    calls: Counter[str] = Counter()
    running: dict[str, tuple[str, int]] = {}  # label and source of the layers that have not returned
    outputs: list[Tensor] = []

    def enter(name: str, _module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if label := labels.get((name, calls[name])):
            running[name] = label, record.entering(label, inputs)
        calls[name] += 1

    def leave(name: str, module: nn.Module, output: Any) -> None:
        label, source = running.pop(name, ("", INPUT))
        if label and (t := record.tensor_in([output])) is not None:
            record.add(label, t, source)
        if module is model:
            outputs.append(output)

    record.keep(batch, INPUT)
    with torch.no_grad(), watching(model, enter, leave):
        result = forward(model, batch)
    answer = logits_of(outputs[0], batch) if outputs else result
    if not record.steps or record.find(answer) != record.last:
        record.add(OUTPUT, result, record.last)
    return record.steps


@dataclass(eq=False)
class _Recorder(Generic[T]):
    """The steps of a forward pass so far, and which of them made which tensor."""

    rows: int  # of the batch
    look: Callable[[str, Tensor], T]
    steps: list[Step[T]] = field(default_factory=list)
    known: dict[int, tuple[weakref.ref[Tensor], int]] = field(default_factory=dict)  # which step made a tensor

    @property
    def last(self) -> int:
        return len(self.steps) - 1

    def find(self, t: Any) -> int | None:
        made, step = self.known.get(id(t), (None, 0))
        return step if made is not None and made() is t else None

    def keep(self, t: Tensor, step: int) -> int:
        self.known[id(t)] = (weakref.ref(t), step)
        return step

    def add(self, name: str, t: Tensor, source: int) -> int:
        # now: later layers may work in place
        self.steps.append(Step(name, source, tuple(t.shape), self.look(name, t.detach())))
        return self.keep(t, self.last)

    def entering(self, name: str, inputs: Iterable[Any]) -> int:
        t = self.tensor_in(inputs)
        if t is None:
            return self.last
        found = self.find(t)
        return self.add(f"{BETWEEN}{name}", t, self.last) if found is None else found

    def tensor_in(self, values: Iterable[Any]) -> Tensor | None:
        """The first tensor with a row, or the same number of rows (windows of an image), for each of the batch."""
        fitting = (v for v in values if isinstance(v, Tensor) and v.is_floating_point() and v.dim() > 0)
        return next((v for v in fitting if len(v) and len(v) % self.rows == 0), None)
