"""Read the initialisation law of one weight tensor from fresh draws: is it centred, uncorrelated, of equal variance?

First-layer integration needs second moments only: E[W] = 0, E[W_a W_b] = v·δ_ab, and independence of everything else.
Each is tested on fresh draws; a law that fails one test is refused with the reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

FALSE_ALARM = 1e-4  # chance that a lawful initialisation is refused by one test (it then only costs time)
EXCESS = 0.1  # tolerated excess of the mean squared correlation over that of independent entries


@dataclass(frozen=True)
class Law:
    """Variance of a centred, uncorrelated weight tensor; `error` is its relative standard error (0: known exactly)."""

    variance: float
    error: float
    name: str


def read_law(draws: Tensor, others: Tensor, fan_in: int, seed: int = 0) -> Law | str:
    """draws: (n, entries) of the weight, others: (n, some entries of other parameters). A Law, or why there is none."""
    draws, others = draws.double(), others.double()
    n, entries = draws.shape
    variance = float(draws.square().mean())
    if variance == 0 or float(draws.var(0).max()) == 0:
        return "its weights are not random"
    kurtosis = float(draws.pow(4).mean()) / variance**2

    pooled = float(draws.mean()) / math.sqrt(variance / draws.numel())
    means = draws.mean(0) / (draws.std(0).clamp(min=1e-300) / math.sqrt(n))
    if abs(pooled) > 5 or _tail(means, n) < FALSE_ALARM:
        return f"its weights do not have mean zero (pooled mean is {abs(pooled):.1f} standard errors away)"

    ratios = draws.square().mean(0) / variance - 1
    expected = max(kurtosis - 1, 1e-9) / n
    excess = (float(ratios.square().mean()) / expected - 1) * math.sqrt(entries / 2)
    # entries far more variable than the pooled fourth moment allows, beyond a tenth (short draws estimate it roughly)
    if excess > 6 and float(ratios.square().mean()) > 1.1 * expected:
        return "its weights do not all have the same variance"

    chosen = draws[:, torch.randperm(entries, generator=torch.Generator().manual_seed(seed))[:2048]]
    if (reason := _correlated(chosen, None)) is not None:
        return f"its weights are correlated with each other ({reason})"
    if others.shape[1]:
        varying = others[:, others.std(0) > 0]
        if (reason := _correlated(chosen, varying)) is not None:
            return f"its weights depend on other parameters ({reason})"
        if (reason := _correlated(chosen.abs(), (varying - varying.mean(0)).abs())) is not None:
            return f"the size of its weights depends on other parameters ({reason})"

    error = math.sqrt(max(kurtosis - 1, 0.0) / draws.numel())
    bound = 1 / math.sqrt(fan_in)
    default = bound**2 / 3
    largest = float(draws.abs().max())
    if largest <= bound * (1 + 1e-5) and largest > 0.98 * bound and abs(variance / default - 1) < 5 * error:
        return Law(default, 0.0, f"uniform in ±1/√{fan_in}")
    return Law(variance, error, f"variance {variance:.4g} ± {variance * error:.1g}")


def _tail(t: Tensor, n: int) -> float:
    """Bonferroni-corrected two-sided p-value of the largest |t| with n − 1 degrees of freedom."""
    from scipy.special import stdtr

    return min(1.0, 2 * float(stdtr(n - 1, -float(t.abs().max()))) * t.numel())


def _correlated(a: Tensor, b: Tensor | None) -> str | None:
    """A reason when columns of a are correlated with each other (b is None) or with columns of b.

    Correlations are between ranks: their scatter is known whatever the law, while heavy tails coincide by chance.
    """
    n = len(a)
    u, v = _ranked(a), _ranked(a if b is None else b)
    r = (u.T @ v).clamp(-1, 1)
    if b is None:
        r.fill_diagonal_(0)
    pairs = r.numel() - (len(r) if b is None else 0)
    if pairs == 0:
        return None
    largest = float(r.abs().max())
    t = torch.tensor(largest * math.sqrt((n - 2) / max(1 - largest**2, 1e-12)))
    p = _tail(t, n - 1) * pairs / (2 if b is None else 1)
    if p < FALSE_ALARM:
        return f"largest rank correlation {largest:.2f} over {n} draws"
    mean_square = float(r.square().sum()) / pairs * (n - 1)
    # a mean of squared correlations scatters by about √(2/pairs) around 1
    if b is None and mean_square > 1 + EXCESS + 6 * math.sqrt(4 / pairs):
        return f"mean squared correlation {mean_square:.2f} times that of independent weights"
    return None


def _ranked(x: Tensor) -> Tensor:
    """Columns replaced by their centred ranks, of unit length."""
    ranks = x.argsort(0).argsort(0).double()
    return torch.nn.functional.normalize(ranks - ranks.mean(0), dim=0)
