"""Is a pattern visible: gains and ranks known by hand, the words, the layer that loses it, and what is wrong."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from netgrain import Geometry, average_geometry
from netgrain.auditing.signals import (
    RANDOM,
    STRONG,
    VERY_WEAK,
    WEAK,
    Visibility,
    among_random_of_many,
    visible,
    word_for,
)
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import within

DIAGONAL = Geometry.from_matrix(torch.diag(torch.tensor([3.0, 1.0, 0.0, 0.0])))
SHAPE = (1, 8, 8)
BOARD = torch.tensor([[(-1.0) ** (i + j) for j in range(8)] for i in range(8)])[None]


def pooled() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, padding_mode="circular", bias=False),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 2),
    )


def flat() -> nn.Module:
    return nn.Linear(4, 1, bias=False)


def of(G: Geometry, signal: Any) -> Visibility:
    return visible(flat, signal, G=G, layers=False)


@pytest.mark.parametrize(
    ("index", "gain", "rank", "word"),
    [(0, 3.0, 3.5 / 4, "strong"), (1, 1.0, 2.5 / 4, "average"), (2, 0.0, 1 / 4, "zero")],
)
def test_a_diagonal_geometry_by_hand(index: int, gain: float, rank: float, word: str) -> None:
    found = of(DIAGONAL, torch.eye(4)[index])
    assert found.gain.value == pytest.approx(gain)
    assert found.gain.stderr == 0
    assert found.among_eigenvalues == pytest.approx(rank)  # equal ones count half
    assert found.word == word
    assert found.words == (word, word)


@pytest.mark.parametrize("degrees", [15, 45, 70])
def test_the_rank_among_random_directions_in_the_plane(degrees: float) -> None:
    """Of G = diag(1, 0), uᵀGu = cos²θ, and an angle is uniform: P(cos²φ < cos²θ) = 1 − θ / 90°."""
    G = Geometry.from_matrix(torch.diag(torch.tensor([1.0, 0.0])))
    theta = math.radians(degrees)
    found = visible(flat, [math.cos(theta), math.sin(theta)], G=G, layers=False)  # type: ignore[arg-type]
    p = 1 - degrees / 90
    assert found.among_random == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / RANDOM))
    assert found.among_eigenvalues == pytest.approx(0.5)


def test_ranks_rise_with_the_gain_and_the_ends_are_the_ends() -> None:
    G = Geometry.from_matrix(torch.diag(torch.arange(6.0, 0, -1)))
    found = [of(G, u) for u in (*torch.eye(6), torch.ones(6))]
    for kind in ("among_random", "among_eigenvalues"):
        ranks = [getattr(v, kind) for v in found[:6]]
        assert ranks == sorted(ranks, reverse=True)
    assert found[0].among_random == 1
    assert found[5].among_random == 0
    assert found[6].gain.value == pytest.approx(1.0)
    assert of(Geometry.from_matrix(torch.eye(3)), torch.ones(3)).among_eigenvalues == 0.5


def test_only_the_direction_counts() -> None:
    u = torch.tensor([1.0, 2.0, 0.0, -1.0])
    first = of(DIAGONAL, u)
    for other in (of(DIAGONAL, -7 * u), of(DIAGONAL, u.numpy()), of(Geometry.from_matrix(9 * DIAGONAL.matrix()), u)):
        assert other.gain.value == pytest.approx(first.gain.value)
        assert (other.among_random, other.among_eigenvalues) == (first.among_random, first.among_eigenvalues)
    assert of(DIAGONAL, torch.tensor([3, 0, 0, 0])).gain == 3  # whole numbers are numbers
    assert float(torch.linalg.vector_norm(first.direction)) == pytest.approx(1.0)


def test_words_change_at_the_documented_thresholds() -> None:
    words = ["very weak", "weak", "average", "strong"]
    for edge, below, above in zip((VERY_WEAK, WEAK, STRONG), words[:-1], words[1:], strict=True):
        assert (word_for(edge * (1 - 1e-9)), word_for(edge)) == (below, above)
    assert word_for(0.0) == "zero"


def test_a_pooling_network_and_its_checkerboard() -> None:
    lost = visible(pooled, BOARD, layer_members=4)
    assert lost.word == "zero"  # the pool comes after the activation: away from the origin the board is seen
    assert not lost.invisible
    assert lost.loser is not None
    assert lost.loser.layer == "2"
    assert lost.loser.factor == 0
    assert repr(lost).startswith(
        "Visibility(zero at the probe origin: gain 0 of an average direction; above 0% of random directions"
    )
    assert repr(lost).endswith("loses most at 2 (gain × 0 (exact)))")
    seen = visible(pooled, torch.ones(SHAPE), input_shape=SHAPE, layer_members=4)
    assert seen.word == "strong"
    assert seen.among_random == 1
    G = average_geometry(pooled, SHAPE)
    assert seen.gain.value == pytest.approx(float(G.score(torch.ones(1, *SHAPE))[0]) * 64 / G.trace.value)


def test_a_sampled_geometry_has_an_error_that_covers_the_truth() -> None:
    u = torch.randn(SHAPE, generator=torch.Generator().manual_seed(2))
    exact = visible(pooled, u, layers=False)
    sampled = visible(pooled, u, layers=False, members=48, first_layer="never", seed=4)
    assert sampled.gain.stderr > 0
    assert abs(sampled.gain.value - exact.gain.value) < 4 * sampled.gain.stderr
    assert "±" in repr(sampled)


def test_no_layer_is_blamed_for_nothing() -> None:
    found = visible(partial(nn.Linear, 4, 3), torch.ones(4), layer_members=16)
    assert found.loser is None
    assert "no single layer loses it" in repr(found)
    assert visible(flat, torch.ones(4), layers=False).loser is None


def test_the_words_within_the_error_are_named() -> None:
    u = torch.eye(64)[0].reshape(SHAPE)
    found = visible(pooled, u, layers=False, members=3, first_layer="never")
    low, high = found.words
    assert {low, found.word, high} <= {"zero", "very weak", "weak", "average", "strong"}
    reach = 2 * found.gain.stderr
    assert (low, high) == (word_for(found.gain.value - reach), word_for(found.gain.value + reach))


@pytest.mark.parametrize(
    ("signal", "options", "said"),
    [
        (torch.zeros(4), {}, "the signal is zero everywhere"),
        (torch.tensor([1.0, math.nan, math.inf, 0.0]), {}, "the signal holds 2 numbers that are NaN or Inf"),
        (torch.ones(2, 2), {"input_shape": (4,)}, r"the signal has shape \(2, 2\), input_shape is \(4,\)"),
        (torch.ones(3), {"G": DIAGONAL}, r"signal has shape \(3,\), the geometry is for inputs of shape \(4,\)"),
        (torch.ones(3), {}, r"failed on inputs of shape \(3,\)|expects 4 features"),
        (torch.ones(4), {"G": DIAGONAL, "members": 3}, "members= belongs to making G, but you passed G as well"),
        (torch.ones(4, dtype=torch.complex64), {}, "expected an array of real numbers"),
        (np.array(["a"]), {}, r"the signal is ndarray; expected an array of numbers"),
        (torch.ones(2), {"G": Geometry.from_matrix(torch.zeros(2, 2))}, "the geometry is zero"),
    ],
)
def test_what_is_wrong_is_said(signal: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        visible(flat, signal, **options)


@pytest.mark.parametrize("decay", [0.02, 0.0005])
def test_the_rank_among_random_directions_of_a_large_input_is_that_of_drawn_ones(decay: float) -> None:
    d = 3000
    values = torch.exp(-decay * torch.arange(d, dtype=torch.float64))
    v = torch.randn(2000, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = (v.square() @ values) / v.square().sum(1) * (d / values.sum())
    rank = float(values.sum() ** 2 / values.square().sum())
    for share in (0.1, 0.5, 0.9):
        assert among_random_of_many(float(drawn.quantile(share)), d, rank) == pytest.approx(share, abs=0.04)


def test_of_a_large_input_whose_gradients_do_not_fit_the_networks_tell_the_gain() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 40 * 40, 2))

    with within("1 MB"):
        found = visible(make, torch.ones(3, 40, 40), members=20, first_layer="never", layer_members=24)
    assert found.G.truncated
    assert 0 < found.gain.stderr < 0.5
    assert abs(found.gain.value - 1) < 4 * found.gain.stderr
    assert 0 <= found.among_random <= 1
    with pytest.raises(NetgrainError, match="fewer members"):
        visible(make, torch.ones(3, 40, 40), G=found.G, layers=False)
