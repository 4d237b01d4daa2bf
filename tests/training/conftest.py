"""One evolution for all tests of a file."""

import pytest

from netgrain.training.delta import Evolution
from tests.training.networks import _result


@pytest.fixture(scope="module")
def result() -> Evolution:
    return _result()
