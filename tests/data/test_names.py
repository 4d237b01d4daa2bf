"""Names of data sets as people write them."""

import pytest

from netgrain.data.names import SETS, WRITTEN, set_named
from netgrain.runtime.errors import NetgrainError


@pytest.mark.parametrize("written", [*WRITTEN, *SETS.values(), "CIFAR_10", "fashion mnist"])
def test_every_usual_spelling_is_understood(written: str) -> None:
    assert set_named(written) in SETS


def test_every_set_has_a_spelling() -> None:
    assert {set_named(written) for written in WRITTEN} == set(SETS)


def test_an_unknown_set_is_answered_with_the_nearest() -> None:
    with pytest.raises(NetgrainError, match="did you mean 'cifar10'"):
        set_named("cifar11")
