"""Tangent products of one network against gradients of single samples."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from netgrain.families.members import member
from netgrain.learning import tangent_products
from netgrain.learning.tangent_products import tangent_features, tangent_plan
from netgrain.runtime.randomness import derived_seed
from tests import naive


class Tokens(nn.Module):
    """A class token, position embeddings, attention, a layer scale."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(2, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.places = nn.Parameter(torch.randn(1, 17, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.gain = nn.Parameter(torch.randn(8))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x.flatten(2).mT)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.block(x)[:, 0] * self.gain)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTM(2, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cell(x.flatten(2).mT)[0][:, -1])


class Twice(nn.Module):
    """One dense layer used twice, and a parameter that is squared first."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.gain = nn.Linear(32, 32), nn.Parameter(torch.randn(32))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.tanh(self.layer(x.flatten(1))) * self.gain**2)


def _strided() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, stride=2, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(6, 6, 3, groups=3, dilation=2, padding=2, bias=False),
        nn.BatchNorm2d(6),
        nn.Flatten(),
        nn.Linear(24, 4),
    )


def _transposed() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 6, (3, 1), padding="same", padding_mode="circular"),
        nn.GroupNorm(2, 6),
        nn.Tanh(),
        nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
        nn.LayerNorm([4, 8, 8]),
        nn.Flatten(),
        nn.Linear(256, 4),
    )


def _other_dimensions() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(2),
        nn.Conv1d(2, 3, 4, stride=3, padding=2),
        nn.Tanh(),
        nn.Unflatten(1, (1, 3)),
        nn.Unflatten(3, (3, 2)),
        nn.Conv3d(1, 2, (2, 2, 1)),
        nn.Flatten(),
        nn.RMSNorm(16),
        nn.Linear(16, 2),
    )


NETS = {
    "strided, grouped, batch norm": _strided,
    "transposed, group norm, layer norm": _transposed,
    "one and three dimensions": _other_dimensions,
    "class token": Tokens,
    "recurrent": Recurrent,
    "shared and computed": Twice,
}
RULED_ALONE = {"strided, grouped, batch norm", "transposed, group norm, layer norm", "one and three dimensions"}
X = torch.randn(5, 2, 4, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def _vector(outputs: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(derived_seed(seed, "outputs"))
    return torch.randn(outputs, generator=generator, dtype=torch.float64)


@pytest.mark.quick
@pytest.mark.parametrize("name", NETS)
def test_equals_products_of_gradients_of_single_samples(name: str) -> None:
    model = member(NETS[name], 0, 0).double()
    plan = tangent_plan(model, X[:3])
    assert (not plan.rest) == (name in RULED_ALONE)
    features = tangent_features(model, X, plan, 2, 7)
    rows = naive.tangent_rows(model, X, _vector(model(X[:1]).shape[1], 7))
    exact = rows @ rows.T
    torch.testing.assert_close(features.gram(5), exact, rtol=1e-10, atol=1e-10 * float(exact.diagonal().mean()))
    torch.testing.assert_close(features.gram(2), exact[:2, 2:], rtol=1e-10, atol=1e-10 * float(exact.abs().mean()))
    assert features.mean_diagonal(5) == pytest.approx(float(exact.diagonal().mean()))


def test_float32_is_close() -> None:
    model = member(_strided, 0, 0)
    found = tangent_features(model, X.float(), tangent_plan(model, X[:3].float()), 3, 7).gram(5)
    rows = naive.tangent_rows(model.double(), X, _vector(4, 7))
    exact = rows @ rows.T
    assert float((found - exact).abs().max()) < 1e-6 * float(exact.diagonal().mean())


def test_bins_keep_the_mean_of_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within four standard errors over seeds of the signs, and the plain products are elsewhere for no seed alike."""
    monkeypatch.setattr(tangent_products, "MOST_WEIGHTS", 50)
    monkeypatch.setattr(tangent_products, "BINS", 32)
    model = member(_strided, 0, 0).double()
    plan = tangent_plan(model, X[:3])
    assert set(plan.binned) == {"0.weight", "2.weight"}
    monkeypatch.setattr(tangent_products, "_outputs_vector", lambda y, seed: torch.ones(4, dtype=torch.float64))
    found = torch.stack([tangent_features(model, X, plan, 5, seed).gram(5) for seed in range(200)])
    rows = naive.tangent_rows(model, X, torch.ones(4, dtype=torch.float64))
    errors = found.std(0) / 200**0.5
    assert bool((errors > 0).any())
    assert bool(((found.mean(0) - rows @ rows.T).abs() <= 4 * errors + 1e-9).all())


def test_a_model_that_vmap_does_not_take() -> None:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.ones(32))

        def forward(self, x: Tensor) -> Tensor:
            scale = self.gain**2
            return (x.flatten(1) * scale).sum(1, keepdim=True) * (1.0 if float(x.detach().sum()) < 1e9 else 2.0)

    model = member(Counted, 0, 0).double()
    found = tangent_features(model, X, tangent_plan(model, X[:3]), 5, 7).gram(5)
    rows = naive.tangent_rows(model, X, _vector(1, 7))
    torch.testing.assert_close(found, rows @ rows.T)
