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
    """Use an engine for everything inside a `with` block.

    Sampling, training and sweeps inside the block run on this engine unless they are given
    another one.

    Parameters
    ----------
    engine : Engine or None
        The engine; None changes nothing.

    See Also
    --------
    netgrain.runtime.engine : An engine by its name.

    Examples
    --------
    >>> from netgrain.runtime import Processes, using
    >>> with using(Processes(workers=2)):
    ...     current()
    Processes(workers=2, deadline=None, attempts=5, name='processes')
    >>> current() is None
    True
    """
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


def is_inside_unit() -> bool:
    """Whether this code runs inside a unit of an engine."""
    return _inside.get()


def current() -> Engine | None:
    """The engine of the innermost `using`; None outside of all."""
    return _current.get()
