"""Implicit gradient regularisation: orders that follow the numbers, and one seed against a slow loop."""

from dataclasses import asdict

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from netgrain.experiments.heuristics import gc_implicit
from netgrain.experiments.heuristics.gc_implicit import FLOWS, PRESETS, Config, Result, claims
from netgrain.runtime.randomness import derived_seed

RATES = (1 / 8, 1 / 16, 1 / 32)
LARGE = (0.1, 0.2, 0.3, 0.4)


def _result(powers: dict[str, float], epoch: dict[str, float], ends: dict[str, float]) -> Result:
    def rows(power: float) -> list[list[float]]:
        return [[size * r**power for r in RATES] for size in (1.0, 2.0, 3.0)]

    gaps = {name: rows(p) for name, p in powers.items()}
    same = {
        n: [[1 + (end - 1) * j * size for j in range(1, 5)] for size in (0.2, 0.22, 0.25)] for n, end in ends.items()
    }
    return Result(
        Config(seeds=3, rates=RATES, large=LARGE), gaps, gaps, {n: rows(p) for n, p in epoch.items()}, same, 0.0
    )


@pytest.mark.quick
def test_claims_follow_the_numbers() -> None:
    right = _result(
        {"L": 1, "modified": 2, "twice": 1},
        {"L": 2, "modified": 2, "batches": 3},
        {"descent": 0.9, "modified": 0.9, "opposite": 1.1},
    )
    assert {c.verdict for c in claims(right)} == {"holds"}
    wrong = _result(
        {"L": 2, "modified": 1, "twice": 2},
        {"L": 2, "modified": 3, "batches": 2},
        {"descent": 1.1, "modified": 1.1, "opposite": 0.9},
    )
    assert {c.verdict for c in claims(wrong)} == {"fails"}
    bases = {c.basis for c in claims(right)}
    assert bases == {"derived", "paper", "own"}


def test_gaps_are_those_of_another_integrator() -> None:
    """SciPy's adaptive Runge–Kutta stands for the flows."""
    config = PRESETS["smoke"]
    numbers = gc_implicit._one({"seed": 0, "config": asdict(config)}).numbers
    net = gc_implicit.network(config)
    start = net.start(config.scale, torch.Generator().manual_seed(derived_seed(0, "implicit")))
    rate = config.rates[0]
    end = start
    for _ in range(round(config.time / rate)):
        end = end - rate * net.gradient(end)
    for name, share in FLOWS.items():

        def velocity(_: float, theta: np.ndarray, strength: float = share * rate) -> np.ndarray:
            return -net.modified_gradient(torch.from_numpy(theta), strength).numpy()

        flow = solve_ivp(velocity, (0, config.time), start.numpy(), rtol=1e-6, atol=1e-8).y[:, -1]
        assert numbers["gaps"][name][0] == pytest.approx(float((end - torch.from_numpy(flow)).norm()), rel=0.02)
    assert numbers["numerical"] < 0.05


def test_complexity_is_compared_where_the_loss_is_the_target() -> None:
    config = PRESETS["smoke"]
    net = gc_implicit.network(config)
    start = net.start(config.scale, torch.Generator().manual_seed(1))
    coarse, fine = (
        gc_implicit._at_loss(net, start, config, lambda t, h=h: t - h * net.gradient(t), h) for h in (0.02, 0.002)
    )
    assert coarse == pytest.approx(fine, rel=2e-3)
    never = Config(seeds=1, time=0.1, target=1e-9)
    assert gc_implicit._at_loss(net, start, never, lambda t: t - 0.1 * net.gradient(t), 0.1) is None
