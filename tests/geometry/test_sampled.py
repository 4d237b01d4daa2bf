"""Sampled geometry: known matrices, first-layer integration and its conditions, tolerance, sketches."""

import math
from functools import partial

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.geometry.reduction import Reduction
from netgrain.geometry.sketch import FrequentDirections
from netgrain.models import MLP, LeNet, ResNet18
from tests import naive

A10 = torch.tensor([[1.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
SIGMA = 0.7


def two_taps() -> nn.Module:
    """Appendix A.10: one filter of two taps, then the mean of two neighbours."""
    net = nn.Sequential(nn.Conv1d(1, 1, 2, bias=False), nn.AvgPool1d(2), nn.Flatten())
    nn.init.normal_(net[0].weight, std=SIGMA)
    return net


def within(found: ng.Geometry, truth: torch.Tensor, errors: float = 4.5) -> None:
    """Every entry within so many standard errors (over members) of the truth."""
    parts = torch.stack([found.form.part(i).dense() for i in range(found.form.parts)])
    stderr = parts.std(0) / math.sqrt(len(parts))
    worst = float(((found.matrix() - truth).abs() / (stderr + 1e-12 * float(truth.abs().max()))).max())
    assert worst < errors, f"an entry is {worst:.1f} standard errors away"


def test_within_rejects_a_wrong_matrix() -> None:
    G = ng.average_geometry(two_taps, (1, 3), members=400, first_layer="never")
    with pytest.raises(AssertionError, match="standard errors away"):
        within(G, SIGMA**2 / 2 * A10)


def test_appendix_a10_by_sampling_and_by_hand() -> None:
    by_hand = SIGMA**2 / 4 * A10  # the paper prints σ²/2
    plain = ng.average_geometry(two_taps, (1, 3), members=1500, first_layer="never")
    within(plain, by_hand)
    exact = ng.average_geometry(two_taps, (1, 3), members=2)
    assert "first layer integrated exactly" in exact.about.averaged
    # the variance of the two taps is read from the initialisation
    torch.testing.assert_close(exact.matrix(), by_hand.double(), rtol=1e-6, atol=1e-9)
    assert exact.trace.stderr == 0
    ratios = exact.eigenvalues / exact.eigenvalues[1]
    torch.testing.assert_close(ratios, torch.tensor([3.0, 1.0, 0.0], dtype=torch.float64), rtol=1e-6, atol=1e-6)


def test_an_mlp_has_no_grain() -> None:
    make = partial(MLP, channels=1, image_size=4, outputs=3)
    plain = ng.average_geometry(make, (1, 4, 4), members=800, first_layer="never")
    integrated = ng.average_geometry(make, (1, 4, 4), members=400)
    identity = torch.eye(16, dtype=torch.float64)
    within(plain, identity * integrated.trace.value / 16)
    found = ng.corr(plain, identity)
    assert abs(found - 1) < 4 * found.stderr
    assert [b.size for b in integrated.blocks()] == [16]
    assert naive.corr(integrated.matrix(), identity) == pytest.approx(1)


@pytest.mark.quick
def test_trace_over_data_is_the_mean_squared_jacobian_norm() -> None:
    torch.manual_seed(0)
    models = [LeNet(channels=1, image_size=16, outputs=4).eval() for _ in range(3)]
    X = torch.randn(10, 1, 16, 16)
    G = ng.geometry_of(models, ng.Data(X))
    norms = [float(naive.jacobian(m, x).square().sum()) for m in models for x in X]
    assert G.trace.value == pytest.approx(sum(norms) / len(norms), rel=1e-5)
    torch.testing.assert_close(G.matrix(), naive.geometry(models, X), rtol=1e-4, atol=1e-9)


# --- the origin -------------------------------------------------------------------------------------------------------


def test_the_origin_is_itself_where_the_network_is_smooth_and_a_limit_at_a_kink() -> None:
    free = partial(ResNet18, channels=1, image_size=8, width=1 / 32, outputs=1)
    smooth = ng.average_geometry(partial(free, activation="gelu"), (1, 8, 8), members=3)
    assert str(smooth.about.probe) == "origin"
    kink = ng.average_geometry(partial(free, activation="relu"), (1, 8, 8), members=3)
    assert str(kink.about.probe) == "origin limit (gaussian:1)"
    assert "positively homogeneous" in kink.about.notes[0]
    assert kink.trace > 0
    biased = ng.average_geometry(partial(LeNet, channels=1, image_size=16, outputs=1), (1, 16, 16), members=3)
    assert str(biased.about.probe) == "origin"

    def pooled() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 1))

    ties = ng.average_geometry(pooled, (1, 6, 6), members=200)
    assert str(ties.about.probe) == "origin limit (gaussian:0.001)"
    tiny = ng.average_geometry(pooled, (1, 6, 6), members=200, probe=ng.Gaussian(1e-4), seed=1)
    assert abs(ng.corr(ties, tiny) - 1) < 0.05


def test_a_normalisation_of_nothing_has_no_origin() -> None:
    make = partial(ResNet18, channels=1, image_size=8, width=1 / 32, outputs=1, norm="layer")
    with pytest.raises(ng.NetgrainError, match="no limit for this model"):
        ng.average_geometry(make, (1, 8, 8), members=2, probe=ng.Origin())
    G = ng.average_geometry(make, (1, 8, 8), members=2)
    assert str(G.about.probe) == "gaussian:1"
    assert "not defined here" in G.about.notes[0]


# --- how many ---------------------------------------------------------------------------------------------------------


def test_tolerance_stops_when_the_estimate_is_good_enough() -> None:
    make = partial(LeNet, channels=1, image_size=16, outputs=1, activation="gelu")
    rough = ng.average_geometry(make, (1, 16, 16), tolerance=0.1, method="sampled")
    fine = ng.average_geometry(make, (1, 16, 16), tolerance=0.02, method="sampled")
    assert rough.members < fine.members
    assert fine.fidelity >= 0.98
    reference = ng.average_geometry(make, (1, 16, 16), members=700, seed=9)
    assert ng.corr(fine, reference).plug_in == pytest.approx(fine.fidelity, abs=0.01)


def test_zero_gradients_are_said() -> None:
    def dead() -> nn.Module:
        net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
        nn.init.zeros_(net[1].weight)
        return net

    with pytest.warns(ng.GrainWarning, match="exactly zero for all 5 members"):
        G = ng.average_geometry(dead, (4,), members=5)
    assert G.about.zero_share == 1
    assert "zero" in repr(G)

    def sometimes() -> nn.Module:
        net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
        with torch.no_grad():
            net[1].weight *= float(torch.rand(()) < 0.5)
        return net

    G = ng.average_geometry(sometimes, (4,), members=40)
    assert 0.2 < G.about.zero_share < 0.8
    assert "zero gradient" in repr(G)


# --- large inputs -----------------------------------------------------------------------------------------------------


def test_frequent_directions_keeps_its_promise() -> None:
    generator = torch.Generator().manual_seed(0)
    scales = torch.cat([torch.linspace(10, 5, 6), torch.full((54,), 0.5)])
    rows = torch.randn(400, 60, generator=generator) * scales
    sketch = FrequentDirections(60, 12)
    for piece in rows.split(7):
        sketch.add(piece)
    G, kept = (m.double().T @ m.double() for m in (rows, sketch.rows))
    gap = torch.linalg.eigvalsh(G - kept)
    assert float(gap[0]) > -1e-3 * float(G.trace())  # never too much
    assert float(gap[-1]) <= sketch.loss * (1 + 1e-6)  # never less than promised
    assert 0 < sketch.loss < 0.05 * float(torch.linalg.eigvalsh(G)[-1])
    assert len(sketch.rows) <= 24


@pytest.mark.parametrize("size", [50, 5000])
def test_condensing_keeps_the_result(size: int) -> None:
    """Dense batches below 4096 coordinates, a sketch above: the same leading matrix as from all rows."""
    generator = torch.Generator().manual_seed(0)
    scales = torch.zeros(size)
    scales[:5] = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0])
    whole = Reduction(size, 0.5, lambda f: f)
    tight = Reduction(size, 0.5, lambda f: f, keep=8, rows_memory=5_000)
    for _ in range(60):
        rows = torch.randn(3, size, generator=generator) * scales
        whole.add(rows)
        tight.add(rows)
    (a, none), (b, trace) = whole.finish(), tight.finish()
    assert none is None
    if size == 50:
        torch.testing.assert_close(a.dense(), b.dense(), rtol=1e-5, atol=1e-5)
        assert b.parts == 16
    else:
        assert trace is not None
        assert trace.value == pytest.approx(a.trace(), rel=1e-5)
        assert trace.stderr == pytest.approx(float(a.part_traces().std()) / math.sqrt(60), rel=1e-5)
        V = torch.eye(size, dtype=torch.float64)[:5]
        torch.testing.assert_close(a.matvec(V), b.matvec(V), rtol=1e-4, atol=1e-3)


def test_a_truncated_geometry_says_so_and_refuses_the_rest() -> None:
    reduction = Reduction(5000, 1.0, lambda f: f, keep=4, rows_memory=1)
    for i in range(10):
        reduction.add(torch.randn(3, 5000, generator=torch.Generator().manual_seed(i)))
    form, trace = reduction.finish()
    from netgrain.geometry.provenance import Provenance

    G = ng.Geometry(form, (5000,), Provenance("sampled", members=10), 0.0, trace)
    assert "leading directions with" in repr(G)
    for call in (G.matrix, G.flip, lambda: G.directions(3, bottom=True), lambda: G.project(G)):
        with pytest.raises(ng.NetgrainError, match="leading directions of this geometry"):
            call()
    with pytest.raises(ng.NetgrainError, match="directions of this geometry are known"):
        G.directions(9)
    assert G.directions(4).shape == (4, 5000)


class Turned(nn.Module):
    """Its input goes through a matrix that is neither parameter nor buffer, and so stays in float32."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.turn = torch.linalg.qr(torch.randn(6, 6)).Q
        self.network = nn.Sequential(nn.Linear(6, 20, bias=False), activation, nn.Linear(20, 3, bias=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.network(x @ self.turn)
        return found


@pytest.mark.parametrize(("activation", "probe"), [(nn.Tanh(), "origin"), (nn.ReLU(), "origin limit (gaussian:1)")])
def test_a_network_that_keeps_a_constant_in_float32(activation: nn.Module, probe: str) -> None:
    torch.manual_seed(0)
    model = Turned(activation)
    G = ng.geometry_of(model, ng.Origin(), input_shape=(6,), probes=4096, seed=1)
    assert str(G.about.probe) == probe
    plain = ng.geometry_of(model.network, ng.Origin(), input_shape=(6,), probes=4096, seed=1)
    turned = model.turn.double() @ plain.matrix() @ model.turn.double().T
    assert (G.matrix() - turned).norm() < (1e-5 if probe == "origin" else 0.1) * turned.norm()
