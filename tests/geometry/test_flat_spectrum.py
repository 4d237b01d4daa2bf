"""Flat is what no direction leads in: also where noise makes a flat spectrum look steep."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

import netgrain as ng
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Factored, Form
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.structured_forms import Kronecker
from netgrain.models import LeNet
from tests.geometry.networks import geometries


def sample(root: Tensor, members: int, rows: int) -> ng.Geometry:
    """Members whose gradients are Gaussian with covariance root·rootᵀ."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(members, rows, len(root), generator=generator, dtype=torch.float64) @ root.T
    return of(Factored.of_members(drawn.float(), 1 / rows))


def of(form: Form) -> ng.Geometry:
    return ng.Geometry(form, (form.size,), Provenance("sampled", members=form.parts))


def spike(d: int, strength: float) -> Tensor:
    values = torch.ones(d, dtype=torch.float64)
    values[0] = strength
    return torch.diag(values)


@pytest.mark.quick
def test_the_identity_is_flat_and_a_spike_is_not() -> None:
    flat = ng.Geometry.from_matrix(torch.eye(64)).flat
    assert flat is not None
    assert (flat.d, flat.rank.value, flat.largest.value, flat.mean.value) == (64, 64.0, pytest.approx(1.0), 1.0)
    assert "no direction leads" in str(flat)
    assert ng.Geometry.from_matrix(spike(64, 2.5)).flat is not None
    assert ng.Geometry.from_matrix(spike(64, 5.0)).flat is None  # five times the average direction, rank 0.9 d
    half = torch.diag(torch.tensor([1.0] * 24 + [0.0] * 40))
    assert ng.Geometry.from_matrix(half).flat is None
    assert ng.Geometry.from_matrix(torch.zeros(9, 9)).flat is None


def test_few_directions_are_seen_one_by_one() -> None:
    assert ng.Geometry.from_matrix(torch.diag(torch.tensor([2.0, 1.0, 0.0]))).flat is None
    assert ng.Geometry.from_matrix(torch.eye(3)).flat is not None
    assert ng.Geometry.from_matrix(torch.eye(1)).flat is None


def test_a_large_exact_matrix() -> None:
    """Beyond whole spectra, products find a direction that leads."""
    rows = torch.diag(torch.ones(1200, dtype=torch.float64))
    assert ng.Geometry(Factored(rows), (1200,), Provenance("given", exact=True)).flat is not None
    rows[7, 7] = 3.0
    assert ng.Geometry(Factored(rows), (1200,), Provenance("given", exact=True)).flat is None


@pytest.mark.parametrize(("members", "rows"), [(40, 4), (400, 4), (16, 60)])
def test_noise_around_the_identity_leads_nowhere(members: int, rows: int) -> None:
    G = sample(torch.eye(96, dtype=torch.float64), members, rows)
    assert float(G.eigenvalues[0]) > 1.3 * G.trace.value / G.d  # what noise makes of equal eigenvalues
    assert G.flat is not None
    assert abs(G.flat.largest.value - 1) < 4 * G.flat.largest.stderr + 0.1
    assert "no direction leads" in repr(G)


def test_a_direction_that_leads_is_found_in_the_noise() -> None:
    G = sample(spike(96, 64.0).sqrt(), 200, 4)
    assert G.flat is None
    assert sample(spike(96, 8.0).sqrt(), 200, 4).flat is None
    assert "no direction leads" not in repr(G)


def test_too_few_members_prove_nothing() -> None:
    assert sample(torch.eye(24, dtype=torch.float64), 2, 4).flat is None


def test_copies_and_sketches() -> None:
    core = sample(torch.eye(32, dtype=torch.float64), 60, 4).form
    assert of(Kronecker(core, 3, torch.arange(96))).flat is not None
    kept = ng.Geometry(
        Factored(torch.eye(96)[:8]), (96,), Provenance("sampled", members=300), full_trace=Estimate(96.0, 1.0, 300)
    )
    assert kept.flat is not None
    steep = ng.Geometry(
        Factored(3 * torch.eye(96)[:8]), (96,), Provenance("sampled", members=300), full_trace=Estimate(96.0, 1.0, 300)
    )
    assert steep.flat is None


def test_real_networks() -> None:
    G = ng.average_geometry(partial(LeNet, channels=1, image_size=16), (1, 16, 16))
    assert G.flat is None
    assert all(g.flat is None or g.effective_rank > g.d / 2 for g in geometries().values())
