"""Transformations of samples, each against what it must leave or change."""

import pytest
import torch

from netgrain import NetgrainError
from netgrain.experiments.learnability.transformations import TRANSFORMATIONS, transformed


def images(n: int = 40, channels: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(n, channels, 16, 16, generator=generator)
    return X, torch.randint(10, (n,), generator=generator)


def apply(how: str, X: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    before = X.clone()
    found = transformed(X, y, how, torch.Generator().manual_seed(0))
    assert torch.equal(X, before)  # the source is shared by all tasks
    return found


@pytest.mark.parametrize("how", ["permuted", "turned", "signs"])
def test_pixels_are_kept(how: str) -> None:
    X, y = images(channels=2)
    found, labels = apply(how, X, y)
    assert torch.equal(labels, y)
    if how == "signs":
        assert torch.allclose(found.abs(), (X - X.mean()).abs())
        assert 0.2 < float((found[:, 0, 0, 0] == (X - X.mean())[:, 0, 0, 0]).float().mean()) < 0.8
    else:
        assert torch.equal(found.flatten(2).sort().values, X.flatten(2).sort().values)
        assert not torch.equal(found, X)


def test_one_permutation_for_all() -> None:
    X, y = images()
    found, _ = apply("permuted", X.flatten(1).argsort(1).reshape(X.shape) * 0 + torch.arange(256.0).reshape(16, 16), y)
    assert (found == found[0]).all()


def test_shifts_move_a_point_by_at_most_that() -> None:
    X = torch.zeros(200, 1, 16, 16)
    X[:, 0, 8, 8] = 1
    found, _ = apply("shifted 4", X, torch.zeros(200))
    places = found[:, 0].flatten(1).argmax(1)
    moved = torch.stack([places // 16 - 8, places % 16 - 8], 1)
    assert int(moved.abs().max()) == 4
    assert (found.sum((1, 2, 3)) == 1).all()


def test_filters_part_waves_and_add_up() -> None:
    t = torch.arange(16) * 2 * torch.pi / 16
    slow, fast = (2 * t).cos().expand(1, 1, 16, 16), (6 * t).cos().expand(1, 1, 16, 16)
    low, _ = apply("low-pass 4", slow + fast, torch.zeros(1))
    high, _ = apply("high-pass 4", slow + fast, torch.zeros(1))
    assert torch.allclose(low, slow, atol=1e-5)
    assert torch.allclose(high, fast, atol=1e-5)


def test_noise_has_its_strength() -> None:
    X, y = images(400)
    found, _ = apply("noisy 1.5", X, y)
    assert float((found - X).std()) == pytest.approx(1.5 * float(X.std()), rel=0.02)


def test_upside_down_is_told_by_the_label() -> None:
    X, y = images()
    found, labels = apply("upside-down", X, y)
    for x, before, label in zip(found, X, labels.tolist(), strict=True):
        assert torch.equal(x, before.flip(1) if label else before)
    assert set(labels.tolist()) == {0, 1}


def test_light_or_dark_keeps_the_median() -> None:
    found, _ = apply("light-or-dark", *images(channels=3))
    assert set(found.unique().tolist()) == {-1.0, 1.0}
    assert ((found > 0).flatten(2).sum(2) == 128).all()


def test_the_larger_of_two() -> None:
    """Images filled with their class: the left half shows one, the right half the other, and no image is used twice."""
    y = torch.arange(40) % 10
    y[20:] = torch.arange(20) % 7
    X = (y[:, None, None, None] + 1.0).expand(40, 1, 16, 16).clone()
    found, labels = apply("larger-of-two", X, y)
    pairs = [(a, b) for a, b in zip(y[:20].tolist(), y[20:].tolist(), strict=True) if a != b]
    assert [(int(x[0, 8, 2]) - 1, int(x[0, 8, 13]) - 1) for x in found] == pairs
    assert labels.tolist() == [int(a > b) for a, b in pairs]


def test_replaced_labels_and_medians() -> None:
    X, y = torch.zeros(5000, 1), torch.arange(5000) % 10
    _, labels = apply("labels-replaced 0.2", X, y)
    assert float((labels != y).float().mean()) == pytest.approx(0.18, abs=0.02)  # a tenth of a fifth is drawn again
    _, halves = apply("above-median", X[:5], torch.tensor([3.0, 9.0, 1.0, 4.0, 5.0]))
    assert halves.tolist() == [0, 1, 0, 0, 1]


def test_unknown_ones_are_refused() -> None:
    with pytest.raises(NetgrainError, match="did you mean 'shifted'"):
        apply("shifted2 4", *images(2))
    with pytest.raises(NetgrainError, match="a name and perhaps a number, found 'shifted far'"):
        apply("shifted far", *images(2))
    assert "noisy" in TRANSFORMATIONS
