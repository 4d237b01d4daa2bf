"""Responses of layers: a slow loop over pairs, closed forms of linear layers, losses that are planted."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.auditing.layer_responses import LayerResponse, layer_responses, loser
from netgrain.families.members import member
from netgrain.families.reading import read
from netgrain.runtime.errors import NetgrainError

SHAPE = (1, 8, 8)


def responses(
    make: Callable[[], nn.Module], X: Tensor, *, members: int = 3, over: str = "members", seed: int = 0
) -> list[LayerResponse]:
    models = [member(make, 0, i) for i in range(members)]
    return layer_responses(models, read(make, tuple(X.shape[1:])).calls(), X, seed=seed, over=over)


def images(count: int = 16, seed: int = 1) -> Tensor:
    return torch.randn(count, *SHAPE, generator=torch.Generator().manual_seed(seed))


def smooth_images(count: int = 16) -> Tensor:
    return F.interpolate(torch.randn(count, 1, 2, 2, generator=torch.Generator().manual_seed(2)), scale_factor=4)


def small() -> nn.Module:
    act = nn.ReLU()
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), act, nn.AvgPool2d(2), act, nn.Flatten(), nn.Linear(64, 3))


def test_against_a_slow_loop_over_pairs_of_samples() -> None:
    X = images(8)
    rows = responses(small, X, members=2)
    assert [r.name for r in rows] == ["0", "1 (1 of 2)", "2", "1 (2 of 2)", "4", "5"]
    assert [r.kind for r in rows] == ["Conv2d", "ReLU", "AvgPool2d", "ReLU", "Flatten", "Linear"]
    assert [r.shape for r in rows] == [(4, 8, 8), (4, 8, 8), (4, 4, 4), (4, 4, 4), (64,), (3,)]
    apart, size = torch.zeros(6).double(), 0.0
    for i in range(2):
        net = member(small, 0, i)
        outs = []
        for x in X:
            h, mine = x[None], []
            for layer in net:  # type: ignore[attr-defined]
                h = layer(h)
                mine.append(h.flatten())
            outs.append(mine)
        pairs = [(a, b) for a in range(8) for b in range(8) if a != b]
        for a, b in pairs:
            squares = [float((p - q).double().square().sum()) for p, q in zip(outs[a], outs[b], strict=True)]
            apart += torch.tensor(squares).double() / len(pairs) / 2
        size = sum(float((X[a] - X[b]).square().sum()) for a, b in pairs) / len(pairs)
    assert [float(r.response) for r in rows] == pytest.approx((apart / size).tolist(), rel=1e-5)


def test_a_linear_layer_has_the_gain_of_the_covariance() -> None:
    """tr(AΣAᵀ)/trΣ over tr(AAᵀ)/d; here A keeps the first of two features, which has 9 tenths of the variance."""

    def make() -> nn.Module:
        net = nn.Linear(2, 1, bias=False)
        net.weight.data = torch.tensor([[1.0, 0.0]])
        return net

    X = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([3.0, 1.0])
    (row,) = responses(make, X, over="samples", members=1)
    assert row.kind == "Linear"
    assert float(row.gain) == pytest.approx(1.8, abs=4 * row.gain.stderr)
    assert 0 < row.gain.stderr < 0.1
    assert float(row.factor) == float(row.gain)
    assert float(row.response) == pytest.approx(0.9, abs=0.05)
    assert loser([row]) is None


def test_the_layer_that_loses_what_differs_is_found() -> None:
    """An average over 2 × 2 pixels keeps a quarter of white images and of white noise, and all of smooth images."""

    def make() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 8, 1, bias=False), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 2))

    smooth = responses(make, smooth_images())
    assert float(smooth[1].factor) == pytest.approx(4, rel=0.15)
    assert float(smooth[0].gain) == pytest.approx(1, abs=0.05)  # one filter of one pixel treats all steps alike
    board = torch.tensor([[(-1.0) ** (i + j) for j in range(8)] for i in range(8)])
    checks = torch.randn(16, 1, 1, 1, generator=torch.Generator().manual_seed(3)) * board
    rows = responses(make, checks + 0.01 * images())
    found = loser(rows)
    assert found is not None
    assert (found.name, found.kind) == ("1", "AvgPool2d")
    assert float(found.factor) < 0.01


def test_silent_units_and_what_is_the_same_for_all_samples() -> None:
    class Biased(nn.Module):
        """Two of four channels are negative for every sample; a large constant is added behind."""

        def __init__(self) -> None:
            super().__init__()
            self.conv, self.act, self.head = nn.Conv2d(1, 4, 1), nn.ReLU(), nn.Linear(256, 2)
            self.conv.weight.data.fill_(1.0)
            self.conv.bias.data = torch.tensor([-99.0, 0.0, -99.0, 0.0])

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.head(100 + self.act(self.conv(x)).flatten(1))
            return result

    rows = {r.name: r for r in responses(Biased, images(), members=1, over="samples")}
    assert [rows[n].silent for n in ("conv", "act", "head")] == [0.0, 0.5, 0.0]
    assert list(rows) == ["conv", "act", "head"]  # what adds a constant loses nothing
    assert rows["conv"].differs.value < 0.01
    assert rows["act"].differs.value > 0.5


def test_modules_that_cannot_be_traced_and_windows_of_images() -> None:
    class Windows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside, self.head = nn.Linear(16, 5), nn.Linear(20, 2)

        def forward(self, x: Tensor) -> Tensor:
            if float(x.sum()) > 1e9:
                raise ValueError
            windows = x.reshape(len(x), 2, 4, 2, 4).transpose(2, 3).reshape(-1, 16)
            result: Tensor = self.head(self.inside(windows).reshape(len(x), -1))
            return result

    rows = responses(Windows, smooth_images())
    assert [(r.name, r.kind) for r in rows] == [("inside", "Linear"), ("head", "Linear")]
    assert all(math.isfinite(r.gain) for r in rows)


def test_deterministic_and_everything_left_as_found() -> None:
    X = images()
    before, state = X.clone(), torch.get_rng_state()
    models = [member(small, 0, i) for i in range(2)]
    kept = [copy.deepcopy(m.state_dict()) for m in models]
    calls = read(small, SHAPE).calls()
    state = torch.get_rng_state()
    first = layer_responses(models, calls, X)
    assert layer_responses(models, calls, X) == first
    assert layer_responses(models, calls, X, seed=1) != first
    assert torch.equal(X, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(m._forward_hooks or m._forward_pre_hooks for net in models for m in net.modules())
    for model, weights in zip(models, kept, strict=True):
        assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


def test_errors_cover_other_networks() -> None:
    few, many = responses(small, images(), members=8)[-1].gain, responses(small, images(), members=64)[-1].gain
    assert 1.5 < few.stderr / many.stderr < 6  # √8 = 2.8
    assert abs(few - many) < 4 * few.stderr


def test_one_sample_is_refused() -> None:
    with pytest.raises(NetgrainError, match="needs two samples, found 1"):
        responses(small, images(1))
