"""The bound on label noise: planted noise lies below it, and it does not lie far above."""

import pytest
import torch

from netgrain.learning.label_noise import label_noise_bound
from netgrain.learning.learning_curves import learning_curve
from netgrain.learning.targets import targets_of


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_planted_noise_is_found(noise: float) -> None:
    g = torch.Generator().manual_seed(0)
    n = 800
    F = torch.randn(n, 12, generator=g, dtype=torch.float64)
    y = (F[:, 0] + 0.5 * F[:, 1] > 0).long()
    wrong = torch.rand(n, generator=g) < noise
    y = torch.where(wrong, 1 - y, y)
    bound = label_noise_bound(learning_curve(F @ F.T, targets_of(y)))
    assert float(bound) > float(wrong.double().mean()) - 2 * bound.stderr
    assert float(bound) < noise + 0.06
    assert 0 < bound.stderr < 0.05


def test_hard_clean_tasks_have_a_large_bound() -> None:
    """A product of signs is clean, and out of reach of a linear kernel: the bound is no measurement."""
    g = torch.Generator().manual_seed(0)
    F = torch.randn(300, 5, generator=g, dtype=torch.float64)
    y = (F[:, 0] * F[:, 1] > 0).long()
    assert label_noise_bound(learning_curve(F @ F.T, targets_of(y))) > 0.3
