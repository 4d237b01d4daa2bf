"""A linear rule: by coordinates and by products alike, and as scikit-learn has it."""

import math

import pytest
import torch
from torch import Tensor

from netgrain.auditing.linear_rules import Part, linear_accuracy, shrunk


def task(n: int, d: int, classes: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n + d)
    y = torch.randint(classes, (n,), generator=generator)
    X = torch.randn(n, d, generator=generator, dtype=torch.float64) * torch.linspace(0.3, 2, d)
    return X + 0.8 * torch.randn(classes, d, generator=generator, dtype=torch.float64)[y], y


@pytest.mark.parametrize(("n", "d"), [(60, 4), (60, 29), (60, 200), (41, 41)])
def test_coordinates_and_products_give_the_same_rule(n: int, d: int) -> None:
    X, y = task(n, d)
    halves = torch.arange(n // 2), torch.arange(n // 2, n)
    found = [linear_accuracy(part, y, halves) for part in (Part(d, X), Part(d, products=X @ X.T))]
    assert found[0] == found[1] > 0.4
    shifted = X - X.mean(0)
    assert linear_accuracy(Part(d, products=shifted @ shifted.T), y, halves) == found[0]


def test_the_cheaper_way_is_taken() -> None:
    assert Part.of(torch.zeros(10, 5)).products is None
    assert Part.of(torch.zeros(10, 6)).coordinates is None


def test_a_class_that_one_half_lacks_is_never_chosen_there() -> None:
    X, y = task(60, 6, 2)
    y[-1] = 2
    halves = torch.arange(30), torch.arange(30, 60)
    for part in (Part(6, X), Part(6, products=X @ X.T)):
        assert 0.5 < linear_accuracy(part, y, halves) < 1


def test_shrinkage_keeps_the_trace() -> None:
    W = torch.diag(torch.tensor([4.0, 0.0], dtype=torch.float64))
    assert shrunk(W, 1000).diagonal().tolist() == pytest.approx([0.9 * 4 + 0.2, 0.2])
    assert shrunk(W, 4).diagonal().tolist() == pytest.approx([3, 1])
    assert math.isclose(float(shrunk(W, 1).trace()), 4)
