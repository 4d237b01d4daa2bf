"""Training until a network fits or stands still, and the search for its rate."""

import math

import pytest
import torch
from torch import nn

from netgrain.experiments.learnability.reaching import (
    LARGEST,
    SMALLEST,
    AdamW,
    Momentum,
    Plateau,
    Recipe,
    at_edge,
    best_rate,
    train_until,
)


def test_adamw_as_published() -> None:
    """θ ← θ − η λ θ − η m̂ / (√v̂ + ε), entry by entry; the last tensor has no gradient."""
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(3, generator=generator, dtype=torch.float64) for _ in range(2)]
    expected, m, v = tensors[0].tolist(), [0.0] * 3, [0.0] * 3
    kept, optimizer = tensors[1].clone(), AdamW(tensors, decay=0.1)
    for t, rate in enumerate((0.01, 0.01, 0.003, 0.02), 1):
        g = torch.randn(3, generator=generator, dtype=torch.float64)
        optimizer.update([g, None], rate)
        for j, slope in enumerate(g.tolist()):
            m[j] = 0.9 * m[j] + 0.1 * slope
            v[j] = 0.999 * v[j] + 0.001 * slope**2
            step = (m[j] / (1 - 0.9**t)) / (math.sqrt(v[j] / (1 - 0.999**t)) + 1e-8)
            expected[j] += -rate * 0.1 * expected[j] - rate * step
    assert tensors[0].tolist() == pytest.approx(expected, rel=1e-10)
    assert torch.equal(tensors[1], kept)


def test_momentum_as_published() -> None:
    """v ← μ v + g + λ θ, θ ← θ − η v, entry by entry; the last tensor has no gradient."""
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(3, generator=generator, dtype=torch.float64) for _ in range(2)]
    expected, velocity = tensors[0].tolist(), [0.0] * 3
    kept, optimizer = tensors[1].clone(), Momentum(tensors, momentum=0.8, decay=0.1)
    for rate in (0.01, 0.05, 0.003):
        g = torch.randn(3, generator=generator, dtype=torch.float64)
        optimizer.update([g, None], rate)
        for j, slope in enumerate(g.tolist()):
            velocity[j] = 0.8 * velocity[j] + slope + 0.1 * expected[j]
            expected[j] -= rate * velocity[j]
    assert tensors[0].tolist() == pytest.approx(expected, rel=1e-12)
    assert torch.equal(tensors[1], kept)


def test_every_batch_is_augmented_with_its_own_number() -> None:
    """An augmentation that says what it was given: two epochs and one of cooling, two batches each."""
    X, y = samples()
    seen = []

    def augment(batch: torch.Tensor, number: tuple[int, int, int]) -> torch.Tensor:
        seen.append(number)
        return torch.zeros_like(batch)

    blind = train_until(make, X, y, 0.01, Recipe(2, cooling=1), seed=3, augment=augment)
    assert seen == [(3, epoch, step) for epoch in (1, 2, 3) for step in (0, 1)]
    plain = train_until(make, X, y, 0.01, Recipe(2, cooling=1), seed=3)
    same = train_until(make, X, y, 0.01, Recipe(2, cooling=1), seed=3, augment=lambda batch, _: batch)
    assert torch.equal(plain.model[0].weight, same.model[0].weight)
    assert not torch.equal(plain.model[0].weight, blind.model[0].weight)


def test_a_plateau_needs_patience() -> None:
    plateau = Plateau(2)
    assert [plateau.reached(x) for x in (1.0, 0.5, 0.499, 0.4, 0.399, 0.398)] == [False] * 5 + [True]


def samples(n: int = 100) -> tuple[torch.Tensor, torch.Tensor]:
    X = torch.randn(n, 4, generator=torch.Generator().manual_seed(0))
    return X, (X[:, 0] > 0).long()


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))


def test_training_ends_when_it_fits_stands_still_or_diverges() -> None:
    X, y = samples()
    fitted = train_until(make, X, y, 0.01, Recipe(300), seed=0)
    assert fitted.end == "fitted"
    assert fitted.train >= 0.99
    assert fitted.epochs < 300
    assert float(fitted.right(X, y).double().mean()) == fitted.train
    noise = torch.randint(2, (100,), generator=torch.Generator().manual_seed(1))
    stuck = train_until(lambda: nn.Linear(4, 2), X, noise, 0.01, Recipe(300, patience=5), seed=0)
    assert stuck.end == "plateau"
    assert stuck.train < 0.8
    assert train_until(make, X, y, 0.01, Recipe(1), seed=0).end == "epochs"
    assert train_until(make, X * 1e30, y, 1e30, Recipe(5), seed=0).end == "diverged"


def test_seeds_differ_and_repeat() -> None:
    X, y = samples()
    a, b, c = (train_until(make, X, y, 0.01, Recipe(2), seed=seed).model[0].weight for seed in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_the_last_step_of_cooling_is_almost_nothing() -> None:
    """With a rate that falls to zero, one long cooling ends nearer to its start than a constant rate would."""
    X, y = samples()
    start = train_until(make, X, y, 0.01, Recipe(1, cooling=0), seed=0).model[0].weight
    cooled = train_until(make, X, y, 0.01, Recipe(1, cooling=4), seed=0).model[0].weight
    constant = train_until(make, X, y, 0.01, Recipe(5, cooling=0), seed=0).model[0].weight
    assert 0 < float((cooled - start).detach().norm()) < float((constant - start).detach().norm())


@pytest.mark.parametrize("peak", [1e-4, 1e-3, 1e-2, 3.16e-2])
def test_the_best_rate_is_inside(peak: float) -> None:
    rate, found = best_rate(lambda rate: -abs(math.log(rate / peak)), (1e-3, 3.16e-3))
    assert rate == pytest.approx(peak)
    assert not at_edge(rate, found)
    assert all(SMALLEST <= r <= LARGEST for r in found)


def test_rates_end_somewhere() -> None:
    rate, found = best_rate(lambda rate: rate, (1e-3, 3.16e-3))
    assert rate == max(found) == 0.1
    assert at_edge(rate, found)
    rate, found = best_rate(lambda rate: math.nan if rate > 2e-3 else 1.0, (1e-3, 3.16e-3))
    assert rate < 2e-3
    assert max(best_rate(lambda rate: rate, (1e-2, 3.16e-2), limits=(1e-3, 1.0))[1]) == 1.0
    assert best_rate(lambda rate: math.nan, (1e-3, 3.16e-3))[1].keys() == {1e-3, 3.16e-3}
