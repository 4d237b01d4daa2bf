"""Features of every layer of one network: what its activations put out, and what its last linear layer gets.

A map gives two sets, the means over positions and over a grid of at most 4 × 4 cells (16 cells in one dimension); a
sequence of tokens gives their mean; a vector gives itself. Which calls count is found out once, on a few samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from netgrain.families.activations import activation_of
from netgrain.families.calls import is_leaf, watching
from netgrain.families.members import forward
from netgrain.families.trace import WEIGHTED
from netgrain.runtime.errors import NetgrainError

CELLS: dict[int, tuple[int, ...]] = {1: (16,), 2: (4, 4), 3: (2, 2, 4)}  # of the grid, by dimensions of a map
MORE_ACTIVATIONS = {"prelu", "rrelu", "glu"}  # besides those that are elementwise and known
HEAD = "input of the last linear layer"
ALIKE = 1e-5  # relative: the features of two places are the same numbers

Summaries = list[tuple[str, Tensor]]


@dataclass(frozen=True)
class FeaturePlan:
    """Which calls of a network give features; the same for all members of a family."""

    calls: tuple[int, ...]  # numbers among the calls that were looked at
    names: tuple[str, ...]  # of the sets, in order
    modules: bool = False  # calls of modules, since activations were not seen
    head: bool = True  # the input of the last linear layer is a set of its own


def feature_plan(model: nn.Module, few: Tensor, *, modules: bool = False) -> FeaturePlan:
    """Which calls count, from runs on three samples and on two: their outputs have one row per sample in both.

    modules: take the calls of all modules without modules inside, for a network that cannot be traced.
    """
    runs = [_watched(model, some, None, modules) for some in (few[:3], few[:2])]
    first, second = runs
    calls: list[int] = []
    if [f.name for f in first.found] == [f.name for f in second.found]:
        pairs = zip(first.found, second.found, strict=True)
        # rows that do not grow with the samples belong to weights
        calls = [a.call for a, b in pairs if a.summaries and b.summaries and a.rows * 2 == b.rows * 3]
    elif not modules:
        return feature_plan(model, few, modules=True)
    kept = [found for found in first.found if found.call in set(calls)]
    sets = [t for found in kept for _, t in found.summaries]
    names = [f"{found.name}{suffix}" for found in kept for suffix, _ in found.summaries]
    head = first.head_features()
    new = head is not None and not any(_alike(head, t) for t in sets)
    if not names and not new:
        raise NetgrainError(
            "kind='layers' found neither an activation nor a Linear layer in the model; use kind='tangent'."
        )
    return FeaturePlan(tuple(calls), (*names, *([HEAD] if new else ())), modules, new)


def layer_features(model: nn.Module, X: Tensor, plan: FeaturePlan, batch: int) -> list[Tensor]:
    """The sets of one network, each (samples, features) in the precision of the network and on the CPU."""
    # written into place: pieces kept between the passes of a large network would break up the memory those free
    collected: list[Tensor] = []
    chosen = set(plan.calls)
    for start in range(0, len(X), batch):
        some = X[start : start + batch]
        run = _watched(model, some, chosen, plan.modules)
        sets = [t for found in run.found for _, t in found.summaries]
        if plan.head and (head := run.head_features()) is not None:
            sets.append(head)
        if len(sets) != len(plan.names):
            raise NetgrainError(
                f"the network made {len(sets)} sets of features for some samples and {len(plan.names)} for others; "
                "expected the same calls for all samples and members."
            )
        collected = collected or [torch.empty(len(X), t.shape[1], dtype=t.dtype) for t in sets]
        for place, t in zip(collected, sets, strict=True):
            place[start : start + len(some)] = t
    return collected


def last_features(model: nn.Module, X: Tensor, batch: int) -> Tensor:
    """What the last linear layer gets, (samples, features)."""
    pieces = []
    for some in X.split(batch):
        head = _watched(model, some, set(), False).head
        if head is None or len(head) != len(some):
            raise NetgrainError(
                "kind='last' expects a model that ends in a Linear layer, with one row per sample, found none; "
                "use kind='layers'."
            )
        pieces.append(head.flatten(1).cpu())
    return torch.cat(pieces)


def summaries_of(t: Tensor, samples: int, *, channels_last: bool) -> Summaries:
    """The sets that one output gives, with what is to be added to its name; none if it has no rows of samples.

    >>> [(name, tuple(t.shape)) for name, t in summaries_of(torch.zeros(2, 3, 8, 8), 2, channels_last=False)]
    [(' (mean)', (2, 3)), (' (grid)', (2, 48))]
    """
    if not t.is_floating_point() or t.dim() == 0 or not len(t) or len(t) % samples:
        return []
    if len(t) != samples:  # windows of a sample side by side
        return [] if t.dim() < 2 else [(" (mean)", t.reshape(samples, -1, t.shape[-1]).mean(1))]
    if t.dim() <= 2:
        return [("", t.reshape(samples, -1))]
    if t.dim() == 3 and channels_last:
        return [(" (mean)", t.mean(1))]
    t = t.movedim(-1, 1) if channels_last else t
    mean = t.flatten(2).mean(2)
    cells = CELLS.get(t.dim() - 2)
    if cells is None or all(n == 1 for n in t.shape[2:]):
        return [(" (mean)", mean)]
    pool: Callable[[Tensor, tuple[int, ...]], Tensor] = getattr(F, f"adaptive_avg_pool{t.dim() - 2}d")
    grid = tuple(min(n, most) for n, most in zip(t.shape[2:], cells, strict=True))
    return [(" (mean)", mean), (" (grid)", pool(t, grid).flatten(1))]


def _alike(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and float((a - b).abs().max()) <= ALIKE * float(b.abs().max())


# --- watching one pass ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Found:
    """What one call gives."""

    call: int
    name: str
    rows: int  # of its output
    summaries: Summaries


@dataclass(eq=False)
class _Watch(TorchFunctionMode):
    """Summarises the outputs of activations as they are made, before anything overwrites them."""

    samples: int
    chosen: set[int] | None  # None: all
    modules: bool
    found: list[_Found] = field(default_factory=list)
    count: int = 0
    weighted: str = ""  # the last linear layer or convolution that ran
    module: str = ""
    head: Tensor | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "").strip("_")
        if name in WEIGHTED and len(args) and isinstance(args[0], Tensor):
            self.weighted = name
            self.head = args[0] if name == "linear" else self.head
        out = function(*args, **kwargs)
        if not self.modules and isinstance(out, Tensor):
            known = name in MORE_ACTIVATIONS or activation_of(function, args, kwargs) is not None
            if known:
                self.take(f"{name} in {self.module}" if self.module else name, out)
        return out

    def take(self, name: str, out: Tensor) -> None:
        i = self.count
        self.count += 1
        if self.chosen is None or i in self.chosen:
            last = "conv" not in self.weighted and bool(self.weighted)
            sets = summaries_of(out.detach(), self.samples, channels_last=last)
            self.found.append(_Found(i, name, len(out) if out.dim() else 0, sets))

    def head_features(self) -> Tensor | None:
        """The input of the last linear layer as one set: tokens give their mean."""
        if self.head is None or len(self.head) != self.samples:
            return None
        flat = self.head if self.head.dim() == 2 else self.head.reshape(self.samples, -1, self.head.shape[-1]).mean(1)
        return flat.detach()


def _watched(model: nn.Module, x: Tensor, chosen: set[int] | None, modules: bool) -> _Watch:
    watch = _Watch(len(x), chosen, modules)
    with torch.no_grad(), _named(model, watch), watch:
        forward(model, x)
    return watch


@contextmanager
def _named(model: nn.Module, watch: _Watch) -> Iterator[None]:
    """Tell the watch which module is running, and what modules return where those are taken."""
    outer: list[str] = []

    def enter(name: str, _module: nn.Module, _inputs: Any) -> None:
        outer.append(watch.module)
        watch.module = name

    def leave(name: str, module: nn.Module, output: Any) -> None:
        watch.module = outer.pop()
        if watch.modules and is_leaf(module):
            for t in output if isinstance(output, Iterable) and not isinstance(output, Tensor) else (output,):
                if isinstance(t, Tensor):
                    watch.take(name or type(module).__name__, t)

    with watching(model, enter, leave):
        yield
