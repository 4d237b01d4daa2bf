"""Figure 4: eigenspaces of images, and claims that ask for more than label noise."""

import math
from dataclasses import replace

import pytest
import torch

from netgrain.experiments.grain import fig4, planted_claims
from netgrain.experiments.grain.grains import Grain
from netgrain.experiments.grain.planted_labels import CurveName
from netgrain.runtime.errors import NetgrainError
from tests.experiments.grain.planted_curves import FLAT, STEEP, all_curves, curve, verdict


def _axes(d: int = 16, values: torch.Tensor | None = None) -> Grain:
    values = torch.linspace(1, 0.1, d, dtype=torch.float64) if values is None else values
    directions = torch.eye(d, dtype=torch.float64).reshape(d, 1, 4, 4)
    return Grain(values, directions, [(i, i + 1) for i in range(d)], None, "by hand")


def test_share_of_an_eigenspace() -> None:
    blocks = [(0, 4), (4, 16)]
    G = replace(_axes(), blocks=blocks)
    other = _axes()
    mixed = other.directions.clone()
    mixed[0], mixed[4] = (
        (other.directions[0] + other.directions[4]) / math.sqrt(2),
        (other.directions[0] - other.directions[4]) / math.sqrt(2),
    )
    GSG = replace(other, directions=mixed)
    assert fig4.share(G, GSG, 0) == pytest.approx(0.5)
    assert fig4.share(G, GSG, 1) == 1
    assert fig4.share(G, GSG, 7) == 0
    assert fig4.share(G, replace(GSG, blocks=[(0, 8), (8, 16)]), 5) == pytest.approx(0.5)


def test_fig4_asks_for_more_than_label_noise() -> None:
    first = {i: float(i < 3) for i in range(6)}
    curves = all_curves(curve(*STEEP), curve(*FLAT))
    result = fig4.Result(fig4.PRESETS["smoke"], "digits", curves, first, {})
    found = {c.name: c for c in fig4.claims(result)}
    assert len(found) == len(fig4.claims(result))
    assert found["LeNet, linear: more than label noise"].verdict == "holds"
    noisy = replace(curve(*STEEP), ceiling=dict(enumerate(map(list, STEEP))))
    assert verdict(planted_claims.beyond_noise(CurveName("LeNet", "linear"), noisy)) == "fails"


def test_paper_scale_has_the_optimiser_of_the_text_and_that_of_the_code() -> None:
    text = fig4.PRESETS["paper"]
    code = replace(text, variant="code")
    assert text.settings("LeNet", "linear") == {
        "lr": 0.5, "momentum": 0.0, "batch": 128, "decay": "linear", "steps": 20 * 78
    }  # fmt: skip
    assert text.settings("ViT", "sinusoidal")["steps"] == 50 * 78
    assert [code.settings(n, "linear")["steps"] // 78 for n in ("LeNet", "ResNet18")] == [50, 30]
    assert code.settings("LeNet", "linear")["clip"] == 0.5
    assert fig4.PRESETS["laptop"].settings("LeNet", "quadratic")["lr"] == 0.2
    with pytest.raises(NetgrainError, match="variant expects 'text' or 'code', got 'both'"):
        replace(text, variant="both")
