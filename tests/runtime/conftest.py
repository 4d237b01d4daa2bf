"""Ray is started once for all tests of this room, and ended with them."""

import sys
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _end_ray() -> Iterator[None]:
    yield
    if "ray" in sys.modules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sys.modules["ray"].shutdown()
