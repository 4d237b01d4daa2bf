"""The two blocks of a ViT, and claims on probes that come out as they should from made-up numbers."""

import math

import pytest
import torch

from netgrain.experiments.grain import probes
from netgrain.experiments.grain.probe_claims import Result, block_ratio, cosine, two_blocks
from netgrain.experiments.theory.networks import exchangeable

SMOKE = probes.PRESETS["smoke"]


def _blocks(a: float, b: float, noise: float = 0.0, seed: int = 0) -> torch.Tensor:
    """(aI + b·11ᵀ) over the four patches of a 16 × 16 image, with symmetric noise."""
    tokens = (
        torch.kron(torch.eye(4), torch.eye(64)).double() * a + torch.kron(torch.ones(4, 4), torch.eye(64)).double() * b
    )
    order = torch.arange(256).reshape(2, 8, 2, 8).permute(0, 2, 1, 3).flatten()
    G = torch.zeros(256, 256, dtype=torch.float64)
    G[order[:, None], order] = tokens
    E = torch.randn(256, 256, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return G + noise * (E + E.T)


def test_the_two_blocks_are_told_from_noise_and_from_others() -> None:
    plain = _blocks(1.0, 2.0)
    torch.testing.assert_close(exchangeable(plain, 8), plain)
    noisy = [_blocks(1.0, 2.0, 0.05, seed) for seed in range(4)]
    share = two_blocks(noisy, 16)
    assert share.value == pytest.approx(1, abs=0.05)  # products of different seeds: noise does not count
    assert cosine(noisy[0], plain) ** 2 < 0.99
    other = [plain + torch.diag(torch.linspace(-3, 3, 256, dtype=torch.float64))] * 3
    assert two_blocks(other, 16).value < 0.9
    assert math.isnan(two_blocks(noisy[:2], 16).stderr)


def test_ratio_of_the_two_eigenvalues() -> None:
    assert block_ratio(_blocks(1.0, 2.0), 16) == pytest.approx(9)  # a + 4b over a
    assert block_ratio(torch.eye(256, dtype=torch.float64), 16) == pytest.approx(1)


def _result(gelu: float, relu: float) -> Result:
    """Made-up numbers: what both activations reach at small σ; ReLU and σ = 1 in general are worse by 0.1."""
    values = {"gelu": [[gelu + 0.01 * k for k in range(3)] for _ in range(2)], "relu": [[relu] * 3, [relu] * 3]}
    values = {a: [*rows, [v - 0.1 - 0.002 * k for k, v in enumerate(rows[0])]] for a, rows in values.items()}
    vit = {name: [_blocks(1.0, 2.0, 0.01, seed) for seed in range(3)] for name in probes.OPTIONS}
    accuracy = [[95.0, 80.0, 60.0, 50.0]] * 3
    near = {"gelu": [1.0, 0.99, 0.95], "relu": [1.0, 0.99, 0.5]}
    return Result(SMOKE, values, values, values, [0.0] * 3, near, {"gelu": 0.3, "relu": 0.6}, accuracy, accuracy, vit)


def test_claims_follow_the_numbers() -> None:
    found = {c.name: c for c in probes.claims(_result(0.9, 0.6))}
    assert found["MLP: GELU against ReLU at the same small σ"].verdict == "holds"
    assert found["MLP: small σ against σ = 1"].verdict == "holds"
    assert found["MLP, gelu: G(0) for σ = 1"].verdict == "holds"
    assert found["MLP, relu: G(0) for σ = 1"].verdict == "fails"
    assert found["MLP, relu: control: the identity"].verdict == "fails"
    assert found["ViT, both: first block"].verdict == "holds"
    assert {c.basis for c in found.values()} == {"paper", "own", "derived", "identity"}
    turned = {c.name: c for c in probes.claims(_result(0.6, 0.9))}
    assert turned["MLP: GELU against ReLU at the same small σ"].verdict == "fails"
    assert turned["MLP: order at small σ"].verdict == "fails"
    assert len(probes.figure(_result(0.9, 0.6)).axes) == 4
