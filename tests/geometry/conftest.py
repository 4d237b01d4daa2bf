"""A geometry in every form that there is."""

import pytest

import netgrain as ng
from tests.geometry.networks import geometries


@pytest.fixture(params=list(geometries()))
def G(request: pytest.FixtureRequest) -> ng.Geometry:
    return geometries()[request.param]
