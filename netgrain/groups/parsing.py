"""Groups by what people call them: D60, C8xC8xD8, Q8, S4, A5, C5xC5:Q8, p4m8."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from netgrain.groups.constructors import (
    alternating,
    cyclic,
    dicyclic,
    dihedral,
    direct,
    p4m,
    planes_by_quaternions,
    quaternion,
    symmetric,
)
from netgrain.groups.group import Group
from netgrain.runtime.errors import NetgrainError, did_you_mean

FAMILIES: dict[str, Callable[[int], Group]] = {
    "c": cyclic,
    "z": cyclic,
    "d": lambda order: dihedral(order=order),
    "q": lambda order: quaternion(order=order),
    "dic": lambda order: dicyclic(order=order),
    "s": symmetric,
    "a": alternating,
    "p4m": p4m,
}
EXAMPLES = ("C12", "D8", "D60", "Q8", "Dic12", "S4", "A5", "C8xC8xD8", "C5xC5:Q8", "C8xC8:D8", "p4m8")
MOST = 10**6  # elements of a group by name: lists of them are made, and looked through one by one
KNOWN = "C12, D60 (of order 60), Q8, Dic12, S4, A5, products as C8xC8xD8, and p4m8 = C8xC8:D8, C5xC5:Q8"


def parse(text: str) -> Group:
    """Group by its usual name.

    ``x`` is the direct product and ``:`` the semidirect one. Numbers behind C, D, Q and Dic are orders: D60 has 60
    elements.

    Parameters
    ----------
    text : str
        For example ``"C12"``, ``"D60"``, ``"Q8"``, ``"Dic12"``, ``"S4"``, ``"A5"``, ``"C8xC8xD8"``, ``"p4m8"`` or
        ``"C5xC5:Q8"``.

    Returns
    -------
    Group
        The group.

    Raises
    ------
    NetgrainError
        If the name is not known, does not say how one group acts on the other, or has more than a million elements.

    Examples
    --------
    >>> parse("C8xC8xD8").order, parse("p4m8").name
    (512, 'C8xC8:D8')
    >>> parse("D61")
    Traceback (most recent call last):
    netgrain.runtime.errors.NetgrainError: 'D61': dihedral(order=) expects a positive multiple of 2 as order; found 61.
    """
    words = re.sub(r"[\s_()]", "", text).replace("×", "x").replace("⋊", ":").replace("*", "x")
    normal, colon, acting = words.partition(":")
    try:
        if not colon:
            factors = [_factor(word, text) for word in re.split("[xX]", words)]
            _check_order(math.prod(factor.order for factor in factors), text)
            return factors[0] if len(factors) == 1 else direct(*factors)
        return _semidirect(normal, acting, text)
    except NetgrainError as e:
        if str(e).startswith("'"):
            raise
        raise NetgrainError(f"'{text}': {e}") from e


def _factor(word: str, text: str) -> Group:
    found = re.fullmatch(r"([a-z]+|p4m)(\d+)", word.casefold())
    if found is None or found[1] not in FAMILIES:
        raise NetgrainError(f"'{text}' is not a group known by name.{did_you_mean(text, EXAMPLES)} Known are {KNOWN}.")
    size = _number(found[2], text)
    if found[1] in ("s", "a"):
        _check_order(math.factorial(min(size, 12)) // 2, text)
    if found[1] == "p4m":
        _check_order(8 * size**2, text)
    return FAMILIES[found[1]](size)


def _semidirect(normal: str, acting: str, text: str) -> Group:
    square = re.fullmatch(r"c(\d+)xc(\d+)", normal.casefold())
    if square is not None and square[1] == square[2] and acting.casefold() in ("d8", "q8"):
        size = _number(square[1], text)
        _check_order(8 * size**2, text)
        return (p4m if acting.casefold() == "d8" else planes_by_quaternions)(size)
    line = re.fullmatch(r"c(\d+)", normal.casefold())
    if line is not None and acting.casefold() == "c2":
        return dihedral(order=2 * _number(line[1], text))
    raise NetgrainError(
        f"'{text}' does not say how {acting or 'the right group'} acts on {normal or 'the left one'}; the names "
        "CnxCn:D8, CpxCp:Q8 and Cn:C2 do, for any other action call netgrain.groups.semidirect(N, H, action)."
    )


def _number(digits: str, text: str) -> int:
    if len(digits) > 9:
        raise NetgrainError(f"'{text}': {digits} is too large a number for a group here.")
    _check_order(int(digits), text)
    return int(digits)


def _check_order(order: int, text: str) -> None:
    if order > MOST:
        raise NetgrainError(f"'{text}' has {order} elements or more; expected at most {MOST} for a group by name.")
