"""Minimum-norm fits of random features, against finite differences."""

import pytest
import torch

from netgrain.experiments.heuristics import gc_double_descent
from netgrain.runtime.randomness import derived_seed


def test_double_descent_slopes_are_those_of_the_fit() -> None:
    """Finite differences of the fitted function, rebuilt here from the same random numbers."""
    unit = {"seed": 0, "samples": 12, "features": [5, 12, 30]}
    found = gc_double_descent._fit(unit).numbers
    generator = torch.Generator().manual_seed(derived_seed(0, "double descent"))
    d = gc_double_descent.DIMENSION

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    truth, X, X_test, W = normal(d) / d**0.5, normal(12, d), normal(gc_double_descent.TESTS, d), normal(30, d) / d**0.5
    y = X @ truth + gc_double_descent.NOISE * normal(12)
    for p, complexity, error in zip(unit["features"], found["complexity"], found["error"], strict=True):
        a = torch.linalg.lstsq((X @ W[:p].T).relu(), y, driver="gelsd").solution

        def f(x: torch.Tensor, p: int = p, a: torch.Tensor = a) -> torch.Tensor:
            return (x @ W[:p].T).relu() @ a

        steps = 1e-6 * torch.eye(d, dtype=torch.float64)
        slopes = torch.stack([(f(X + e) - f(X - e)) / 2e-6 for e in steps], 1)
        assert complexity == pytest.approx(float(slopes.square().sum(1).mean()), rel=1e-6)
        assert error == pytest.approx(float((f(X_test) - X_test @ truth).square().mean()), rel=1e-6)
