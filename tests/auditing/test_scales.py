"""Energies by the size of the pattern: against dense matrices, closed forms, slow loops and planted labels."""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.bands import Bands, bands_of
from netgrain.auditing.scales import (
    Energies,
    class_energies,
    gradient_energies,
    number_energies,
    shown_share,
    variance_energies,
)
from netgrain.families.members import member

SHAPE = (1, 8, 8)


def made(shape: tuple[int, ...] = SHAPE) -> Bands:
    bands = bands_of(shape)
    assert bands is not None
    return bands


def noise(n: int, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def projections(bands: Bands) -> Tensor:
    """P_b as dense matrices (bands, d, d), by polarisation: vᵀP_b w = (‖P_b(v+w)‖² − ‖P_b(v−w)‖²) / 4."""
    eye = torch.eye(math.prod(bands.shape), dtype=torch.float64)
    pairs = (eye[:, None] + eye).flatten(0, 1), (eye[:, None] - eye).flatten(0, 1)
    plus, minus = (bands.energies(p.reshape(-1, *bands.shape)) for p in pairs)
    return ((plus - minus) / 4).T.reshape(len(bands), len(eye), len(eye))


# --- gains ------------------------------------------------------------------------------------------------------------


def filtered() -> nn.Module:
    """A linear network: every member has its own G, and their average has a closed form at any input."""
    return nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(1, 6, 3, padding=1), nn.Flatten(), nn.Linear(96, 5))


def test_gains_of_a_family_are_those_of_its_closed_form() -> None:
    bands, G = made(), ng.average_geometry(filtered, SHAPE)
    assert G.method == "closed-form"
    assert G.exact
    energies = (projections(bands) * G.matrix()).sum((1, 2))
    exact = energies / energies.sum() * 64 / bands.dims
    models = [member(filtered, 0, i) for i in range(48)]
    found = gradient_energies(models, noise(64), bands, points=4)
    for b, truth in enumerate(exact.tolist()):
        gain = found.gain(bands.dims, b)
        assert abs(gain.value - truth) < 3.5 * gain.stderr < 0.5 * max(truth, 0.2)
    assert float(exact[0]) < 0.3 < 3 < float(exact[-1])  # it is a low pass


def test_the_gain_of_a_given_network_is_that_of_its_matrix() -> None:
    """One linear network: G = JᵀJ at every sample, and the error over samples is that of the random outputs."""
    bands, model = made(), member(filtered, 3, 0)
    J = torch.autograd.functional.jacobian(lambda x: model(x)[0], noise(1)).reshape(5, 64).double()
    energies = (projections(bands) * (J.T @ J)).sum((1, 2))
    found = gradient_energies([model], noise(400), bands, points=100)
    for b in range(len(bands)):
        gain = found.gain(bands.dims, b)
        assert abs(gain.value - float(energies[b] / energies.sum() * 64 / bands.dims[b])) < 3.5 * gain.stderr


def test_an_average_pool_and_a_stride_by_hand() -> None:
    """The mean over 2 × 2 pixels has the response cos²(πf/2·…): |H(f)|² = cos²(πf) along each axis, f in cycles."""
    bands = made((1, 16, 16))
    # its outputs at all positions (stride 1, around the edges): J is a circular filter, G has eigenvalues |H|²
    pool = nn.Conv2d(1, 1, 2, padding=1, padding_mode="circular", bias=False)
    nn.init.constant_(pool.weight, 0.25)
    model = nn.Sequential(pool, Crop(), nn.Flatten())
    f = torch.fft.fftfreq(16, dtype=torch.float64)
    power = (math.pi * f).cos().square()[:, None] * (math.pi * f).cos().square()
    finest = torch.maximum(f.abs()[:, None], f.abs())
    found = gradient_energies([model], noise(64, (1, 16, 16)), bands, points=64)
    for b, (low, high) in enumerate(bands.ends or ()):
        inside = (finest <= 1 / low) & (finest > (0 if high is None else 1 / high) - (high is None))
        gain = found.gain(bands.dims, b)
        truth = float(power[inside].mean() / power.mean())
        assert abs(gain.value - truth) < 3.5 * gain.stderr + 1e-9, (b, gain, truth)


class Crop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[..., :16, :16]


def test_a_network_that_does_not_react_is_refused() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    nn.init.zeros_(model[1].weight)
    with pytest.raises(NetgrainError, match="exactly zero at the samples"):
        gradient_energies([model], noise(8), made(), points=4)


# --- data -------------------------------------------------------------------------------------------------------------


def test_variance_adds_up_and_white_noise_is_everywhere() -> None:
    bands, X = made(), 5 + noise(400)
    found = variance_energies(X, bands)
    total = float((X - X.mean(0)).double().square().sum()) / len(X)
    assert found.total().value == pytest.approx(total)
    for b, size in enumerate((bands.dims / 64).tolist()):
        share = found.share(b)
        assert abs(share.value - size) < 3.5 * share.stderr < 0.1 * size + 0.02
    assert found.share(0, 1, 2).value == pytest.approx(1)


def slow_between(X: Tensor, y: Tensor, P: Tensor) -> float:
    """Σ π_c ‖μ_c‖² − Σ_cc' π_c π_c' μ_c·μ_c' with every product of means from pairs of different samples."""
    flat, n = X.flatten(1).double() @ P, len(X)

    def product(a: list[int], b: list[int]) -> float:
        pairs = [float(flat[i] @ flat[j]) for i, j in itertools.product(a, b) if i != j]
        return sum(pairs) / len(pairs)

    groups = [(y == c).nonzero()[:, 0].tolist() for c in y.unique()]
    own = sum(len(g) / n * product(g, g) for g in groups)
    return own - sum(len(g) * len(h) / n**2 * product(g, h) for g in groups for h in groups)


def test_class_differences_are_those_of_a_loop_over_pairs() -> None:
    bands, X = made((1, 4, 4)), noise(19, (1, 4, 4)) + 3
    y = torch.tensor([0, 1, 1, 2] * 4 + [0, 1, 2])
    found, P = class_energies(X, y, bands), projections(bands)
    for b in range(len(bands)):
        assert float(found.value[b]) == pytest.approx(slow_between(X, y, P[b]), rel=1e-4, abs=1e-6)


def test_a_class_with_one_sample_is_left_out() -> None:
    X, y = noise(40), torch.arange(40) % 3
    y[0] = 7
    torch.testing.assert_close(class_energies(X, y, made()).value, class_energies(X[1:], y[1:], made()).value)


@pytest.mark.parametrize("band", [0, 1, 2])
def test_labels_planted_in_one_band_are_found_there(band: int) -> None:
    bands = made()
    P, y = projections(bands), torch.arange(600) % 2
    u = P[band] @ noise(1, seed=9).flatten().double()
    mark = 2 * (u / u.norm()).float().reshape(SHAPE)
    X = noise(600) + mark * (2 * y - 1)[:, None, None, None]
    shares = [shown_share(class_energies(X, y, bands), b) for b in range(3)]
    assert shares[band] is not None
    assert shares[band] > 0.9
    assert abs(shares[band] - 1) < 3.5 * shares[band].stderr + 1e-9
    numbers = number_energies(X, y.double() * 7 - 2, bands)
    found = shown_share(numbers, band)
    assert found is not None
    assert found > 0.9


def test_shuffled_labels_have_no_share() -> None:
    """Images with unequal variances; of 20 shuffles at most one shows a share of anything."""
    bands = made()
    X = noise(300) + 3 * noise(300, (1, 1, 1), seed=1)
    shown = 0
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        y = torch.randint(0, 3, (300,), generator=generator)
        for found in (
            class_energies(X, y, bands, seed=seed),
            number_energies(X, torch.randn(300, generator=generator), bands),
        ):
            shown += any(shown_share(found, b) is not None for b in range(len(bands)))
    assert shown <= 1


def test_jackknife_errors_are_the_spread_over_data_sets() -> None:
    bands = made((1, 8))
    y = torch.arange(200) % 2
    mark = torch.tensor([1.0, -1, 1, -1, 0, 0, 0, 0]) / 4 + torch.linspace(0, 0.5, 8)
    draws = [noise(200, (1, 8), seed=s) + mark * y[:, None, None] for s in range(40)]
    for make, labels in ((class_energies, y), (number_energies, y.double())):
        shares = [make(X, labels, bands).share(0) for X in draws]
        values = torch.tensor([s.value for s in shares])
        stated = math.sqrt(sum(s.stderr**2 for s in shares) / len(shares))
        assert 0.7 < stated / float(values.std()) < 1.5
    exact = projections(bands) @ mark.double()
    truth = float(exact[0].square().sum() / mark.double().square().sum())
    assert abs(float(values.mean()) - truth) < 3.5 * float(values.std()) / math.sqrt(40) + 0.02


def test_covariances_are_without_bias() -> None:
    """Independent numbers: the mean over data sets of the energy is zero within its error."""
    values = torch.stack(
        [
            number_energies(noise(24, (1, 8), seed=s), noise(24, (1,), seed=900 + s), made((1, 8))).value
            for s in range(100)
        ]
    ).sum(1)
    assert abs(float(values.mean())) < 3.5 * float(values.std()) / math.sqrt(100)


def test_targets_count_alike_and_constant_ones_do_not() -> None:
    X = noise(64)
    y = X[:, 0, 0, :2] @ torch.eye(2)
    both = number_energies(X, y * torch.tensor([1.0, 1000.0]), made()).value
    torch.testing.assert_close(both, sum((number_energies(X, y[:, j], made()).value for j in range(2)), torch.zeros(3)))
    constant = torch.cat([y, torch.full((64, 1), 3.0)], 1)
    torch.testing.assert_close(number_energies(X, constant, made()).value, number_energies(X, y, made()).value)


def test_parts_are_joined() -> None:
    found = Energies(torch.tensor([1.0, 2, 3]), torch.tensor([[1.0, 2, 3], [1.0, 4, 3]])).joined([[0, 2], [1]])
    assert found.value.tolist() == [4, 2]
    assert found.without.tolist() == [[4, 2], [4, 4]]
    assert found.share(1).stderr == pytest.approx(math.sqrt(torch.tensor([1 / 3, 1 / 2]).var(correction=0)))
