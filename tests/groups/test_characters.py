"""Values of characters as people write them."""

import cmath
import math

import pytest

from netgrain.groups.characters import character_text


@pytest.mark.quick
@pytest.mark.parametrize(
    ("z", "order", "text"),
    [
        (-3, 2, "-3"),
        (2j, 4, "2i"),
        (-1j, 4, "-i"),
        (math.sqrt(2), 8, "√2"),
        (-2 * math.sqrt(2), 8, "-2√2"),
        ((1 + math.sqrt(5)) / 2, 5, "φ"),
        (cmath.exp(2j * math.pi / 3), 3, "ω₃"),
        (2 * cmath.exp(6j * math.pi / 7), 7, "2ω₇³"),
        (cmath.exp(2j * math.pi / 3), 6, "ω₃"),  # in lowest terms
        (0.3 + 0.4j, 9, "0.300+0.400i"),
    ],
)
def test_known_values_are_written_as_such(z: complex, order: int, text: str) -> None:
    assert character_text(z, order) == text
