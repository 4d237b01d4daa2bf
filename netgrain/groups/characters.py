"""Values of characters as people write them: integers, square roots, the golden ratio, roots of unity ω₅."""

from __future__ import annotations

import cmath
import math

KNOWN = {
    "√2": math.sqrt(2),
    "√3": math.sqrt(3),
    "√5": math.sqrt(5),
    "2√2": 2 * math.sqrt(2),
    "φ": (1 + math.sqrt(5)) / 2,
    "1/φ": (math.sqrt(5) - 1) / 2,
}
NEAR = 1e-6
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def character_text(z: complex, order: int) -> str:
    """A character at an element of a given order, a sum of roots of unity of that order; ωₘ = e^{2πi/m}.

    >>> [character_text(z, 4) for z in (1, -2.0, 1j, -3j)]
    ['1', '-2', 'i', '-3i']
    >>> [character_text(z, 5) for z in (cmath.exp(4j * math.pi / 5), (1 - math.sqrt(5)) / 2, 1.25)]
    ['ω₅²', '-1/φ', '1.250']
    """
    if abs(z.imag) < NEAR:
        return _real(z.real)
    if abs(z.real) < NEAR:
        size = _real(abs(z.imag))
        return ("-" if z.imag < 0 else "") + ("" if size == "1" else size) + "i"
    times = round(abs(z))
    turns = cmath.phase(z) / (2 * math.pi) * order
    if times and abs(abs(z) - times) < NEAR and abs(turns - round(turns)) < NEAR * order:
        k = round(turns) % order
        common = math.gcd(k, order)
        k, m = k // common, order // common
        power = "" if k == 1 else str(k).translate(SUPERSCRIPTS)
        return ("" if times == 1 else str(times)) + "ω" + str(m).translate(SUBSCRIPTS) + power
    return f"{z.real:.3f}{z.imag:+.3f}i"


def _real(x: float) -> str:
    if abs(x - round(x)) < NEAR:
        return str(round(x))
    for name, value in KNOWN.items():
        if abs(abs(x) - value) < NEAR:
            return ("-" if x < 0 else "") + name
    return f"{x:.3f}"
