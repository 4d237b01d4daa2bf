"""Figure 9: numbers of matrices known by hand."""

import math

import pytest
import torch

from netgrain.experiments.grain import fig9


def test_fig9_keeps_what_a_network_cannot_see_at_zero() -> None:
    """Rounded to float32, the null space of LeNet would have eigenvalues of 1e-9 of the largest in the picture."""
    unit = {"network": "lenet:norm=batch", "size": 16, "width": 1.0, "members": 4, "first_layer": "auto", "seed": 0}
    values = torch.linalg.eigvalsh(fig9._one(unit).arrays["G"].double())
    relative = values.abs() / values.max()
    unseen = relative[relative < 1e-7]
    assert 0 < len(unseen) < 256
    assert float(unseen.max()) < 1e-12


def test_fig9_numbers_on_matrices_known_by_hand() -> None:
    size = 16
    d = size * size
    assert math.isnan(fig9._banded(torch.eye(d, dtype=torch.float64), size))
    rows, columns = torch.arange(d) // size, torch.arange(d) % size
    near = ((rows[:, None] - rows).abs() <= 2) & ((columns[:, None] - columns).abs() <= 2)
    assert fig9._banded(near.double(), size) == 1
    step = ((rows[:, None] - rows) % 8 == 0) & ((columns[:, None] - columns) % 8 == 0)
    assert math.isinf(fig9._periodic(step.double(), size))
    assert fig9._periodic(torch.ones(d, d, dtype=torch.float64), size) == pytest.approx(1)
    assert fig9._banded(torch.ones(d, d, dtype=torch.float64), size) < 0.7
