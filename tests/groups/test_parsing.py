"""Groups by their usual names."""

from collections.abc import Callable

import pytest

from netgrain.groups import parse
from tests.groups.known_groups import refused


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: parse("D61"), "'D61': dihedral"),
        (lambda: parse("E8"), "'E8' is not a group known by name. Did you mean"),
        (lambda: parse("C8xC8xE8"), "Did you mean 'C8xC8xD8'"),
        (lambda: parse(""), "not a group known by name"),
        (lambda: parse("C7:C3"), "does not say how C3 acts on C7"),
        (lambda: parse("C6xC6:Q8"), "'C6xC6:Q8': Q8 acts on"),
        (lambda: parse("C99999999999"), "too large a number"),
        (lambda: parse("C999999999"), "'C999999999' has 999999999 elements or more; expected at most 1000000"),
        (lambda: parse("C9999xC9999"), "99980001 elements or more"),
        (lambda: parse("C999999998:C2"), "999999998 elements or more"),
        (lambda: parse("C9999xC9999:D8"), "799840008 elements or more"),
        (lambda: parse("p4m9999"), "799840008 elements or more"),
        (lambda: parse("S1000"), "elements or more"),
        (lambda: parse("A1000"), "elements or more"),
    ],
)
def test_bad_input_of_parsing_is_one_clear_sentence(call: Callable[[], object], words: str) -> None:
    refused(call, words)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "name", "order"),
    [
        ("C12", "C12", 12),
        ("d60", "D60", 60),
        ("Z6", "C6", 6),
        ("(C5xC5):Q8", "C5xC5:Q8", 200),
        ("C5×C5⋊Q8", "C5xC5:Q8", 200),
        ("p4m8", "C8xC8:D8", 512),
        ("C8xC8:D8", "C8xC8:D8", 512),
        ("Dic12", "Dic12", 12),
        ("C30:C2", "D60", 60),
        ("S4xp4m2", "S4x(C2xC2:D8)", 768),
    ],
)
def test_names(text: str, name: str, order: int) -> None:
    assert (parse(text).name, parse(text).order) == (name, order)
