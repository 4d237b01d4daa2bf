"""Made-up samples: their labels can be read off by a rule written here."""

import math

import pytest
import torch

from netgrain.experiments.learnability.made_up_tasks import MARKS, RULES


def made(rule: str, n: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    return RULES[rule](n, torch.Generator().manual_seed(3))


def right(found: torch.Tensor, y: torch.Tensor) -> float:
    return float((found == y).float().mean())


def test_marks_are_found_by_matching() -> None:
    X, y = made("marks")
    kernels = (MARKS - MARKS.mean((1, 2), keepdim=True))[:, None]
    assert right(torch.nn.functional.conv2d(X, kernels).flatten(2).amax(2).argmax(1), y) > 0.9


def test_stripes_are_found_by_their_direction() -> None:
    X, y = made("stripes")
    f = torch.fft.fftfreq(16)
    power = torch.fft.fft2(X[:, 0]).abs().square()
    angle = torch.atan2(f.expand(16, 16), f[:, None].expand(16, 16)) % math.pi
    band = ((f[:, None].square() + f.square()).sqrt() > 1 / 8).float()
    near = [
        (1 - ((angle - k * math.pi / 4 + math.pi / 2) % math.pi - math.pi / 2).abs() * 4).clamp(min=0) for k in range(4)
    ]
    scores = torch.stack([(power * band * w).sum((1, 2)) / (band * w).sum() for w in near], 1)
    assert right(scores.argmax(1), y) > 0.85


def test_friedman_is_the_published_function() -> None:
    X, y = made("friedman", 3000)
    x = X[:, :, 0, 0].double()
    value = 10 * torch.sin(math.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    means = torch.stack([value[y == k].mean() for k in range(3)])
    assert means[0] + 3 < means[1] < means[2] - 3
    assert y.bincount().tolist() == [1000, 1000, 1000]


def test_chirps_rise_or_fall() -> None:
    """The first half of a rising one has less power at high frequencies than the second."""
    X, y = made("chirps")
    halves = X.flatten(1).reshape(-1, 2, 128)
    power = torch.fft.rfft(halves).abs().square()
    high = power[..., 7:16].sum(2) / power[..., 1:16].sum(2)
    assert right((high[:, 0] > high[:, 1]).long(), y) > 0.9


def test_periods_are_read_from_the_spectrum() -> None:
    X, y = made("periods")
    t = torch.arange(256.0)
    waves = torch.stack([torch.exp(2j * math.pi * t / (5 + 2 * k)) for k in range(4)], 1)
    assert right((X.flatten(1).to(waves.dtype) @ waves).abs().argmax(1), y) > 0.98


def test_pulses_stand_in_their_order() -> None:
    """Short first is label 0: of the mass above 1 in either half the long pulse has three times as much."""
    X, y = made("pulses")
    mass = (X.flatten(1).reshape(-1, 2, 128) > 1).sum(2)
    assert right((mass[:, 0] > mass[:, 1]).long(), y) > 0.98


def test_memories_have_their_correlation_and_variance() -> None:
    X, y = made("memories", 600)
    x = X.flatten(1)
    for label, a in enumerate((-0.4, 0.2, 0.8)):
        own = x[y == label]
        assert float((own[:, 1:] * own[:, :-1]).mean()) == pytest.approx(a, abs=0.05)
        assert float(own.var()) == pytest.approx(1.0, abs=0.08)


def test_rougher_fields_have_more_power_at_high_frequencies() -> None:
    """A line through the logarithms of power and frequency falls by the exponent."""
    X, y = made("roughness", 800)
    f = torch.fft.fftfreq(16) * 16
    radius = (f[:, None].square() + f.square()).sqrt()
    power, some = torch.fft.fft2(X[:, 0]).abs().square(), radius >= 1
    for label in range(4):
        x, z = radius[some].log(), power[y == label].mean(0)[some].log()
        x, z = x - x.mean(), z - z.mean()
        assert float(x @ z / (x @ x)) == pytest.approx(-(label + 0.5), abs=0.2)
    assert torch.allclose(X.flatten(1).std(1), torch.ones(800), atol=1e-4)


def test_dots_are_as_many_and_nearer_in_clusters() -> None:
    X, y = made("dots")
    on = (X[:, 0] > 0.6).float()
    neighbours = torch.nn.functional.conv2d(on[:, None], torch.ones(1, 1, 3, 3), padding=1)[:, 0]
    pairs = (on * (neighbours - on)).sum((1, 2)) / on.sum((1, 2))
    assert right((pairs > pairs.median()).long(), y) > 0.85
    assert float(on.sum((1, 2)).max()) <= 26


def test_open_rings_lack_a_quarter() -> None:
    X, y = made("rings", 2000)
    mass = X.sum((1, 2, 3))
    ratio = float(mass[y == 1].mean() / mass[y == 0].mean())
    assert ratio == pytest.approx(0.75, abs=0.03)


def test_tables_are_labelled_by_their_rule() -> None:
    X, y = made("sphere", 4000)
    assert float(y.float().mean()) == pytest.approx(0.5, abs=0.03)
    assert right((X.flatten(1).square().sum(1) > 9.34).long(), y) == 1.0
    X, y = made("product", 4000)
    x = X.flatten(1)
    assert right((x[:, 0] * x[:, 1] > -x[:, 2] / 2).long(), y) == 1.0
