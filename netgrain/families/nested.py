"""Values inside tuples, lists and dicts: arguments and results of torch functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def every(value: Any, kind: type[T]) -> Iterator[T]:
    """All values of a kind, in order.

    >>> list(every((1, {"a": [2, "b"]}), int))
    [1, 2]
    """
    if isinstance(value, kind):
        yield value
    elif isinstance(value, tuple | list | dict):
        for v in value.values() if isinstance(value, dict) else value:
            yield from every(v, kind)


def replaced(value: Any, kind: type[T], change: Callable[[T], Any]) -> Any:
    """The same with all values of a kind changed, and tuples in the place of lists.

    >>> replaced((1, {"a": [2, "b"]}), int, float)
    (1.0, {'a': (2.0, 'b')})
    """
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple | list):
        return tuple(replaced(v, kind, change) for v in value)
    if isinstance(value, dict):
        return {k: replaced(v, kind, change) for k, v in value.items()}
    return value
