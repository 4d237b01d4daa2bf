"""The engine that functions use when they are not told another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from netgrain.runtime.units import Engine

_current: ContextVar[Engine | None] = ContextVar("engine", default=None)
_inside: ContextVar[bool] = ContextVar("inside a unit", default=False)


@contextmanager
def using(engine: Engine | None) -> Iterator[None]:
    """Inside, sampling, training and sweeps go through this engine (None: nothing changes)."""
    before = _current.set(engine or _current.get())
    try:
        yield
    finally:
        _current.reset(before)


@contextmanager
def inside_unit() -> Iterator[None]:
    """Inside a unit: it has one core for itself, and starts nothing elsewhere."""
    before = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(before)


def current() -> Engine | None:
    return _current.get()


def inside_a_unit() -> bool:
    return _inside.get()
