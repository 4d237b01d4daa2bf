"""What an argument may be: each check names the argument, what was expected and what was found."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

from netgrain.runtime.errors import NetgrainError

MOST_INPUTS = 10**8  # one input of more numbers than this does not fit a computer together with its gradients
LONGEST = 60  # characters of a value in a sentence


def found(value: Any) -> str:
    """How a sentence calls what was passed: short and on one line, whatever it is.

    >>> found("abc"), found(2.5), found(None), found(dict), found(len), found(object())
    ("'abc'", '2.5', 'None', 'the class dict', 'the function len', 'object')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(shape := getattr(value, "shape", None), tuple):
        kind = "a tensor" if type(value).__module__.startswith("torch") else "an array"
        return f"{kind} of shape {tuple(shape)}"
    if value is None or isinstance(value, str | bytes | Real | tuple | list | dict):
        text = " ".join(repr(value).split())
        return (
            text if len(text) <= LONGEST else f"{text[:LONGEST]}…" if isinstance(value, str) else type(value).__name__
        )
    if callable(value) and isinstance(name := getattr(value, "__name__", None), str):
        return f"the function {name}"
    return type(value).__name__


def whole(name: str, value: Any, least: int | None = None) -> int:
    """A whole number, also one of NumPy or torch; True is none.

    >>> whole("members", 3)
    3
    """
    number: int | None = None
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except (TypeError, ValueError, RuntimeError):  # torch raises all three
            number = None
    if number is None or (least is not None and number < least):
        from_here = "" if least is None else f" from {least} upwards"
        raise NetgrainError(f"{name} expects a whole number{from_here}, found {found(value)}.")
    return number


def is_number(value: Any) -> bool:
    """A real number, also one of NumPy; True is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def switch(name: str, value: Any) -> None:
    """Refuse anything but True, False and None (the default): the word "no" would count as true."""
    if value is not None and not isinstance(value, bool):
        raise NetgrainError(f"{name} expects True or False, found {found(value)}.")


def number(name: str, value: Any) -> float:
    """A real number, not NaN.

    >>> number("tolerance", 0.1)
    0.1
    """
    if not is_number(value) or math.isnan(value):
        raise NetgrainError(f"{name} expects a number, found {found(value)}.")
    return float(value)


def checked_shape(shape: Any) -> tuple[int, ...]:
    """The sizes of one input; a number alone is the length of a vector.

    >>> checked_shape((1, 32, 32)), checked_shape(20)
    ((1, 32, 32), (20,))
    """
    sizes: tuple[int, ...] = ()
    if not isinstance(shape, str | bytes | dict | set | bool):
        try:
            listed = tuple(shape) if hasattr(shape, "__iter__") and getattr(shape, "ndim", 1) == 1 else (shape,)
            sizes = tuple(whole("input_shape", n, 1) for n in listed)
        except (NetgrainError, TypeError):
            sizes = ()
    if not sizes:
        several = len(getattr(shape, "shape", ())) > 1
        hint = "; pass X.shape[1:], and the data themselves as a probe" if several else ""
        raise NetgrainError(
            f"input_shape expects positive sizes without the batch, as in (1, 32, 32); found {found(shape)}{hint}."
        )
    if math.prod(sizes) > MOST_INPUTS:
        raise NetgrainError(
            f"input_shape {sizes} has {math.prod(sizes):.2g} values; expected at most {MOST_INPUTS:.0e}."
        )
    return sizes
