"""Where G is taken: at some of the samples unless another place is asked for, and said in words."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing import places
from netgrain.auditing.places import TOLERANCE, how, place_of, where
from tests.auditing.conftest import SHAPE, small


def test_at_some_of_the_samples_by_default(samples: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = samples
    monkeypatch.setattr(places, "POINTS", 16)
    by_default, by_name = (place_of(p, X) for p in (None, "data"))
    assert by_default.tolerance == TOLERANCE
    G = by_default.geometry(small, SHAPE)
    assert where(G, len(X)) == "at 16 of the 120 samples"
    assert torch.equal(G.matrix(), by_name.geometry(small, SHAPE).matrix())
    assert where(place_of(None, X[:16]).geometry(small, SHAPE), 16) == "at the 16 samples"
    other = place_of(None, X, seed=1).geometry(small, SHAPE)
    assert not torch.equal(G.matrix(), other.matrix())  # the seed chooses them


def test_elsewhere(samples: tuple[Tensor, Tensor], G: ng.Geometry) -> None:
    X, _ = samples
    origin, noise, own = (place_of(p, X) for p in ("origin", "gaussian:2", ng.Gaussian(2.0)))
    assert (origin.tolerance, noise.tolerance) == (None, None)
    assert torch.equal(origin.geometry(small, SHAPE).matrix(), G.matrix())
    assert where(G) == "at the origin x = 0"
    assert noise.probe == own.probe == ng.Gaussian(2.0)
    sampled = replace(place_of(ng.Gaussian(2.0), X), members=2).geometry(small, SHAPE)
    assert where(sampled) == "at the probe gaussian:2"
    assert how(sampled) == "sampled from 2 random networks"
    assert place_of("data", X, members=3).tolerance is None
    with pytest.raises(NetgrainError, match="probe 'far' is not known; expected auto, origin, gaussian:SIGMA or data"):
        place_of("far", X)
    with pytest.raises(NetgrainError, match="found Tensor"):
        place_of(X, X)  # type: ignore[arg-type]


def test_what_was_done_is_said(G: ng.Geometry, lenet_G: ng.Geometry) -> None:
    """A closed form that averages over forward passes names them; it is not called a closed form and a sample."""
    assert how(G) == "closed form, exact at any width, no network sampled"
    assert how(lenet_G) == "closed form, wide limit, no network sampled"
    passes = ng.Geometry(G.form, SHAPE, replace(G.about, members=16, exact=False))
    assert how(passes) == "closed form, wide limit, over the forward passes of 16 random networks"
    assert (how(ng.Geometry.from_matrix(torch.eye(2))), where(ng.Geometry.from_matrix(torch.eye(2)))) == (
        "given",
        "as given",
    )
