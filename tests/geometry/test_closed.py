"""The closed form as a geometry: wide limits against sampled networks, outputs and forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.families.reading import Reading
from netgrain.families.reasons import Reason
from netgrain.geometry.forms import Dense
from netgrain.geometry.structured_forms import Kronecker, Spread
from netgrain.models import VGG11, LeNet, ResNet18, ViT
from tests.geometry.networks import Make, closed

S = nn.Sequential


def sequence(*layers: Callable[[], nn.Module]) -> Make:
    return lambda: S(*(layer() for layer in layers))


def _two_hidden_layers(width: int) -> Make:
    def make() -> nn.Module:
        net = S(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        for layer in (net[0], net[2], net[4]):
            nn.init.normal_(layer.weight, std=2 / layer.in_features**0.5)
            nn.init.normal_(layer.bias)
        return net

    return make


def test_the_wide_limit_is_of_wide_layers() -> None:
    """With biases at the origin: another value for one unit (by quadrature), the value of members with many units."""
    G = closed(_two_hidden_layers(1), (3,))
    assert not G.exact
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(60))
    law = weights / weights.sum()
    b, u, c = torch.meshgrid(nodes, 2 * nodes, nodes, indexing="ij")  # two biases, the weight between them
    inside = (1 - b.tanh() ** 2) ** 2 * u**2 * (1 - (u * b.tanh() + c).tanh() ** 2) ** 2
    one_unit = 4 / 3 * 4 * torch.einsum("ijk,i,j,k", inside, law, law, law)
    assert 0.02 < 1 - one_unit / G.matrix()[0, 0] < 0.03
    wide = ng.check(_two_hidden_layers(128), (3,), members=1000, workers=1, progress=False)
    assert wide.closed.trace.value == pytest.approx(G.trace.value, rel=1e-12)
    total = wide.sampled.trace
    assert abs(total.value - G.trace.value) < 4 * total.stderr < 0.15 * G.trace.value


def test_relu_with_gaussian_probes() -> None:
    make = sequence(
        *(lambda: nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.ReLU, lambda: nn.AvgPool2d(2)),
        *(lambda: nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.ReLU, nn.Flatten, lambda: nn.Linear(64 * 16, 1)),
    )
    G = closed(make, (3, 8, 8), probe=ng.Gaussian(1), probes=32)
    limit = closed(make, (3, 8, 8), probes=32)
    assert torch.allclose(G.matrix(), limit.matrix())
    assert "origin limit (gaussian:1)" in str(limit.about.probe)
    result = ng.check(make, (3, 8, 8), probe=ng.Gaussian(1), members=300, closed=G, workers=1, progress=False)
    assert not G.exact, str(result)
    assert result.deviation < 0.08, str(result)
    assert result.corr.value > 0.995, str(result)


def test_maximum_pooling_observes_members() -> None:
    make = sequence(
        *(lambda: nn.Conv2d(1, 48, 3, padding=1), nn.ReLU, lambda: nn.MaxPool2d(2)),
        *(lambda: nn.Conv2d(48, 48, 3, padding=1), nn.ReLU, nn.Flatten, lambda: nn.Linear(48 * 9, 1)),
    )
    G = closed(make, (1, 6, 6), probes=48, probe=ng.Gaussian(1))
    assert G.members == 48
    assert any("slopes averaged over the channels" in note for note in G.about.notes)
    result = ng.check(make, (1, 6, 6), probe=ng.Gaussian(1), members=200, closed=G, workers=1, progress=False)
    assert result.corr.value > 0.99, str(result)
    assert result.deviation < 0.15, str(result)


def test_every_step_says_how_well_it_is_followed() -> None:
    def kinds(layer: Callable[[], nn.Module], probe: ng.Probe) -> list[tuple[str, str]]:
        def make() -> nn.Module:
            front = S(nn.Conv1d(1, 32, 3), layer(), nn.Flatten())
            return S(*front, nn.Linear(front(torch.zeros(1, 1, 8)).shape[1], 1))

        return [(step.kind, step.where) for step in closed(make, (1, 8), probe=probe, probes=2).about.steps]

    ends = [("exact", "'0' (Conv1d)")], [("exact", "'2' (Flatten)"), ("exact", "'3' (Linear)")]
    for layer, probe, kind in (
        (nn.Tanh, ng.Origin(), "exact"),  # one bias for each unit: its law is known
        (nn.Tanh, ng.Gaussian(1), "wide limit"),
        (lambda: nn.MaxPool1d(2), ng.Gaussian(1), "observed"),
        (lambda: nn.AvgPool1d(2), ng.Gaussian(1), "exact"),
    ):
        name = f"'1' ({type(layer()).__name__})"
        where = f"max_pool1d in {name}" if "Max" in name else f"avg_pool1d in {name}" if "Avg" in name else name
        assert kinds(layer, probe) == [*ends[0], (kind, where), *ends[1]]


def test_residual_relu_observes_members() -> None:
    make = partial(ResNet18, channels=3, image_size=8, outputs=1, width=0.25)
    G = closed(make, (3, 8, 8), probes=32)
    result = ng.check(make, (3, 8, 8), members=200, closed=G, workers=1, progress=False)
    assert G.members == 32, str(result)
    assert result.corr.value > 0.985, str(result)


def test_batch_norm_with_data_statistics() -> None:
    X = torch.randn(64, 1, 8, 8, generator=torch.Generator().manual_seed(0)).cumsum(2)
    make = ng.data_statistics(
        partial(ResNet18, channels=1, image_size=8, outputs=1, width=0.25, activation="gelu", norm="batch"), X
    )
    G = closed(make, (1, 8, 8), probe=ng.Data(X), probes=32)
    result = ng.check(make, (1, 8, 8), probe=ng.Data(X), members=120, closed=G, workers=1, progress=False, probes=4)
    plain = closed(make.make, (1, 8, 8))
    # the statistics change the scale by orders of magnitude: the check would see a batch norm that does nothing
    assert result.corr.value > 0.95
    assert abs(math.log(result.sampled.trace / G.trace)) < 0.3
    assert abs(math.log(plain.trace / G.trace)) > 1


def test_layer_norm_has_no_origin_but_a_wide_limit() -> None:
    make = partial(LeNet, channels=1, image_size=16, outputs=1, activation="gelu", norm="layer", width=3.0)
    bias_free = partial(ResNet18, channels=1, image_size=8, norm="layer", width=0.25)
    assert "gaussian:1" in str(closed(bias_free, (1, 8, 8), probes=2).about.probe)
    G = closed(make, (1, 16, 16), probe=ng.Gaussian(1), probes=8)
    result = ng.check(make, (1, 16, 16), probe=ng.Gaussian(1), members=120, closed=G, workers=1, progress=False)
    assert result.corr.value > 0.98, str(result)
    assert result.deviation < 0.25, str(result)


def test_data_probe_averages_over_all_samples() -> None:
    X = torch.randn(5, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    make = sequence(nn.Flatten, lambda: nn.Linear(16, 32), nn.ReLU, lambda: nn.Linear(32, 2))
    whole = closed(make, (1, 4, 4), probe=ng.Data(X))
    single = [closed(make, (1, 4, 4), probe=ng.Data(x[None])).matrix() for x in X]
    assert whole.form.parts == 0
    assert torch.allclose(whole.matrix(), torch.stack(single).mean(0), rtol=1e-12)


@pytest.mark.parametrize("output", ["all", "mean", 3, ("diff", 0, 4)])
def test_outputs(output: object) -> None:
    make = sequence(nn.Flatten, lambda: nn.Linear(9, 4, bias=False), nn.GELU, lambda: nn.Linear(4, 5))
    result = ng.check(make, (1, 3, 3), members=250, output=output, workers=1, progress=False)  # type: ignore[arg-type]
    assert result.closed.exact, str(result)
    assert result.agrees, str(result)


@pytest.mark.quick
def test_a_narrow_twin_has_the_same_geometry() -> None:
    wide = closed(partial(ResNet18, channels=1, activation="gelu", image_size=8), (1, 8, 8))
    narrow = closed(partial(ResNet18, channels=1, activation="gelu", image_size=8, width=1 / 16), (1, 8, 8))
    assert ng.corr(wide, narrow).value == pytest.approx(1, abs=1e-12)


def test_randomness_is_left_alone_and_results_repeat() -> None:
    make = partial(VGG11, channels=1, image_size=8, outputs=1, width=0.1)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    a, b = (closed(make, (1, 8, 8), probes=2, probe=ng.Gaussian(1)).matrix() for _ in range(2))
    assert torch.equal(a, b)
    assert torch.equal(before, torch.get_rng_state())


def test_the_form_of_a_vit() -> None:
    """Two blocks, and b/a with its error bar."""
    G = ng.average_geometry(partial(ViT, channels=1, width=1 / 6, depth=1, outputs=1), (1, 32, 32), members=40)
    assert sorted(b.size for b in G.blocks()) == [64, 960]
    values, errors = G.eigenvalues, G.eigenvalue_errors()
    ratio = float(values[0] / values[-1])
    assert ratio > 1
    assert 0 < float(errors[0] / values[0]) < 0.5


def test_a_maximum_over_a_constant_is_a_kink() -> None:
    """With biases every window ties at the origin: the limit is taken; a shift does not matter."""
    make = sequence(lambda: nn.Conv2d(1, 32, 3), lambda: nn.AdaptiveMaxPool2d(1), nn.Flatten, lambda: nn.Linear(32, 1))
    G = closed(make, (1, 6, 6), probes=64)
    assert "origin limit (gaussian:1)" in str(G.about.probe)
    result = ng.check(make, (1, 6, 6), members=600, closed=G, workers=1, progress=False)
    assert result.corr.value > 0.98
    assert abs(result.sampled.trace.value / G.trace.value - 1) < 0.15


def test_a_strided_stem_is_spread_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping at its output or going on to the inputs: the same matrix, parts and all."""
    make = sequence(
        *(lambda: nn.Conv2d(2, 8, 5, stride=2, padding=2), nn.ReLU, lambda: nn.MaxPool2d(2)),
        *(nn.Flatten, lambda: nn.Linear(8 * 9, 3)),
    )
    short = closed(make, (2, 12, 12), probes=3)
    monkeypatch.setattr(Reading, "entry", lambda _: Reason("asked for"))
    long = closed(make, (2, 12, 12), probes=3)
    assert isinstance(short.form, Kronecker)
    assert isinstance(long.form, Kronecker)
    assert isinstance(short.form.core, Spread)
    assert isinstance(long.form.core, Dense)
    torch.testing.assert_close(short.matrix(), long.matrix())
    for i in range(3):
        torch.testing.assert_close(short.form.part(i).dense(), long.form.part(i).dense())
    assert short.about == long.about


def test_a_patch_embedding_is_one_matrix_over_patches() -> None:
    make = sequence(
        *(lambda: nn.Conv2d(2, 8, 3, stride=3), nn.ReLU, lambda: nn.Conv2d(8, 8, 3, padding=1), nn.ReLU),
        *(nn.Flatten, lambda: nn.Linear(8 * 16, 3)),
    )
    G = closed(make, (2, 12, 12), probe=ng.Gaussian(1.0), probes=2, memory="10 MB")
    assert isinstance(G.form, Kronecker)
    assert (G.form.core.size, G.form.copies) == (16, 18)


def test_a_whole_matrix_with_all_terms_gives_way_to_sampling_where_it_takes_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The closed form of a small one is taken as before, and is there for whoever asks."""

    def make() -> nn.Module:
        body = (nn.Conv2d(1, 4, 3, padding=1), nn.SiLU(), nn.Conv2d(4, 8, 3, padding=1), nn.SiLU())
        return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))

    X = torch.randn(8, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    options: dict[str, Any] = {"probe": ng.Data(X), "progress": False}
    assert not any("cost too much" in r for r in ng.average_geometry(make, (1, 4, 4), **options).about.remarks)
    monkeypatch.setattr("netgrain.geometry.closed.WHOLE_AT_ONCE", 8 * 16**2 * 16 - 1)
    G = ng.average_geometry(make, (1, 4, 4), **options)
    assert G.method == "sampled"
    assert "all its terms over 8 points, 16 positions and 16 inputs cost too much" in G.about.remarks[0]
    monkeypatch.setattr("netgrain.geometry.closed.WHOLE_AT_ONCE", 8 * 16**2 * 16)
    assert not any("cost too much" in r for r in ng.average_geometry(make, (1, 4, 4), **options).about.remarks)
    asked = ng.average_geometry(make, (1, 4, 4), method="closed-form", **options)
    assert asked.method == "closed-form"
