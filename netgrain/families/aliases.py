"""Tensors that share memory: what a write in place through one of them does to the others.

`x[:, :4] += y` writes to a view, and x changes with it. A recording knows x by what made it, so that x has fallen
behind. Every such tensor gets patches: steps that make it anew from what was written. They are recorded only if it is
used again. What no such step describes (a transposed view, say) cannot be used again.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Patch:
    """A step behind which a tensor is up to date: of `source` alone, or of the tensor (`itself`) and of `source`."""

    source: Tensor  # what was written to
    where: str  # what wrote
    name: str = ""  # setitem, getitem or reshape; nothing: there is no such step
    key: tuple[Any, ...] = ()

    @property
    def itself(self) -> bool:
        return self.name == "setitem"

    @property
    def function(self) -> Callable[..., Tensor]:
        table: dict[str, Callable[..., Tensor]] = {"setitem": with_item, "getitem": getitem, "reshape": torch.reshape}
        return table[self.name]


def with_item(x: Tensor, key: Any, value: Any) -> Tensor:
    """x with some entries replaced; x itself is left alone.

    >>> with_item(torch.zeros(3), slice(1), 2.0).tolist()
    [2.0, 0.0, 0.0]
    """
    y = x.clone()
    y[key] = value
    return y


class Aliases:
    """All tensors of a recording by the memory that they use, as long as somebody else holds them."""

    def __init__(self) -> None:
        self._sharing: dict[int, list[weakref.ref[Tensor]]] = {}
        self._behind: dict[int, list[Patch]] = {}

    def hold(self, t: Tensor) -> None:
        """From now on t belongs to the recording."""
        if not any(t is other for other in self._all_in(t)):
            self._sharing.setdefault(_storage(t), []).append(weakref.ref(t))

    def forget(self, number: int) -> None:
        """A tensor of this id is gone."""
        self._behind.pop(number, None)

    def shares(self, t: Tensor) -> bool:
        """Whether a tensor of the recording uses the memory of t."""
        return bool(self._all_in(t))

    def _all_in(self, t: Tensor) -> list[Tensor]:
        """Tensors of the recording in the memory of t; others that had the same address before are gone."""
        place = _storage(t)
        alive = [other for held in self._sharing.get(place, ()) if (other := held()) is not None]
        if place in self._sharing:
            self._sharing[place] = [weakref.ref(other) for other in alive]
        return alive

    def write(self, t: Tensor, where: str) -> None:
        """The numbers of t changed: those that share them fall behind, t itself does not."""
        self._behind.pop(id(t), None)
        others = [o for o in self._all_in(t) if o is not t]
        if not others:
            return
        touched = torch.zeros(t.untyped_storage().nbytes() // t.element_size(), dtype=torch.bool)
        _as_in(touched, t).fill_(True)
        for other in others:
            patches = self._behind.get(id(other), [])
            if any(p.source is t for p in patches) or not bool(_as_in(touched, other).any()):
                continue
            patch = _patch(other, t, where)
            self._behind[id(other)] = [*patches, patch] if patch.itself else [patch]

    def patches(self, t: Tensor) -> list[Patch]:
        """What makes t up to date, in order; asked once, before t is used."""
        return self._behind.pop(id(t), [])


def same_entries(a: Tensor, b: Tensor) -> bool:
    """Whether both show the same numbers in memory, in the same order."""
    return a.data_ptr() == b.data_ptr() and a.dtype == b.dtype and a.shape == b.shape and _steps(a) == _steps(b)


def _storage(t: Tensor) -> int:
    return int(t.untyped_storage()._cdata) if t.layout == torch.strided else id(t)


def _as_in(storage: Tensor, t: Tensor) -> Tensor:
    """The entries of t in a tensor that stands for the whole memory."""
    return storage.as_strided(t.shape, t.stride(), t.storage_offset())


def _steps(t: Tensor) -> list[int]:
    """Strides; an axis of size one has none."""
    return [s if n > 1 else 0 for n, s in zip(t.shape, t.stride(), strict=True)]


def _patch(behind: Tensor, written: Tensor, where: str) -> Patch:
    if (key := _key(behind, written)) is not None:
        return Patch(written, where, "setitem", key)
    if (key := _key(written, behind)) is not None:
        return Patch(written, where, "getitem", key)
    dense = behind.is_contiguous() and written.is_contiguous() and behind.dtype == written.dtype
    if dense and behind.numel() == written.numel() and behind.data_ptr() == written.data_ptr():
        return Patch(written, where, "reshape", tuple(behind.shape))
    return Patch(written, where)


def _key(whole: Tensor, part: Tensor) -> tuple[slice, ...] | None:
    """The slices by which `part` is seen in `whole`, where it is a block of it."""
    if whole.dim() != part.dim() or any(m > n for n, m in zip(whole.shape, part.shape, strict=True)):
        return None
    left = int(part.storage_offset()) - int(whole.storage_offset())
    starts, strides = [0] * whole.dim(), list(whole.stride())
    for k in sorted(range(whole.dim()), key=lambda k: -strides[k]):
        if whole.shape[k] > 1 and strides[k] > 0:
            starts[k], left = divmod(left, strides[k])
    if left or math.prod(part.shape) == 0:
        return None
    ends = [a + m for a, m in zip(starts, part.shape, strict=True)]
    if any(a < 0 or b > n for a, b, n in zip(starts, ends, whole.shape, strict=True)):
        return None
    key = tuple(
        slice(None) if m == n else slice(a, b) for a, b, m, n in zip(starts, ends, part.shape, whole.shape, strict=True)
    )
    return key if same_entries(whole[key], part) else None
