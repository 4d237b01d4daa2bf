"""The words an error has in common: the nearest name, and all of them where none is near."""

from __future__ import annotations

import pytest

from netgrain.runtime.errors import NetgrainError, did_you_mean, known_name

WORDS = ("exact", "auto")


def test_a_known_name_comes_back() -> None:
    assert known_name("estimator", "auto", WORDS) == "auto"


def test_a_near_name_is_offered_whatever_its_case() -> None:
    assert did_you_mean("EXAKT", WORDS) == " Did you mean 'exact'?"
    with pytest.raises(NetgrainError, match=r"estimator 'Exakt' is not known; did you mean 'exact'\?"):
        known_name("estimator", "Exakt", WORDS)


@pytest.mark.parametrize("name", ["zebra", 3, None])
def test_all_names_are_listed_where_none_is_near(name: object) -> None:
    assert did_you_mean(str(name), WORDS) == ""
    with pytest.raises(NetgrainError, match=r"is not known; expected one of exact, auto\."):
        known_name("estimator", name, WORDS)
