"""The local learning coefficient of models whose coefficient is known."""

import copy
import math
import warnings
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from netgrain.complexity.learning_coefficient import local_learning_coefficient
from netgrain.runtime.errors import GrainWarning, NetgrainError


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


N = 1000


ONES = torch.ones(N, 1)


NB = N / math.log(N)


class Weights(nn.Module):
    """f(x) = w for every x: its loss is whatever function of w one likes."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor) -> Tensor:
        return self.w.expand(len(x), -1)


@pytest.mark.parametrize("d", [2, 5, 10])
def test_a_regular_model_has_half_its_parameters(d: int) -> None:
    step = 1e-3
    options = {"step": step, "localisation": 0.0, "draws": 1500, "burn_in": 100}
    found = local_learning_coefficient(Weights(d), ONES, torch.zeros(N, d), "sse", **options)
    assert abs(found.value - d / 2) < 0.15 * d / 2
    # what a finite step does to a quadratic is known: 1/(1 − ε·nβ/4). Effective draws from the time of relaxation
    assert abs(found.value - d / 2 / (1 - step * NB / 4)) < 4 * math.sqrt(d / 2 / (4 * 1500 * step * NB / 2))
    assert found.parameters == d
    assert found.warnings == ()
    assert found.traces.shape == (4, 1500)
    assert "experimental" in repr(found)


def test_curvature_does_not_count_but_flat_directions_do() -> None:
    """L = ½(9w₁² + w₂²), w₃ free: λ = 1 although there are three parameters."""

    def loss(f: Tensor, y: Tensor) -> Tensor:
        return (f[:, 0].square() * 9 + f[:, 1].square()).sum() / 2

    options = {"step": 5e-4, "localisation": 0.0, "draws": 1500, "burn_in": 100}
    found = local_learning_coefficient(Weights(3), ONES, torch.zeros(N), loss, **options)
    expected = sum(0.5 / (1 - 5e-4 * NB * h / 4) for h in (9, 1))  # 1.11, of which 0.11 are the step's
    assert abs(found.value - expected) < 4 * math.sqrt(0.5 / (4 * 1500 * 5e-4 * NB / 2))
    assert abs(found.value - 1) < 0.35


def test_localisation_takes_its_share() -> None:
    options = {"step": 1e-3, "draws": 1500, "burn_in": 100}
    found = local_learning_coefficient(Weights(10), ONES, torch.zeros(N, 10), "sse", localisation=NB, **options)
    expected = 5 * NB / (2 * NB) / (1 - 1e-3 * 2 * NB / 4)
    assert abs(found.value - expected) < 4 * math.sqrt(10 / 8 / (4 * 1500 * 1e-3 * NB))


def test_a_quartic_has_a_quarter() -> None:
    def loss(f: Tensor, y: Tensor) -> Tensor:
        return f.pow(4).sum()

    options = {"step": 3e-3, "localisation": 0.0, "draws": 2500, "burn_in": 200}
    found = local_learning_coefficient(Weights(1), ONES, torch.zeros(N), loss, **options)
    assert abs(found.value - 0.25) < 0.05
    assert abs(found.value - 0.25) < 4 * found.value.stderr


def test_batches_and_seeds() -> None:
    y = noise(N, 2).float()
    net = Weights(2)
    net.w.data.copy_(y.mean(0))  # the minimum
    run = partial(local_learning_coefficient, net, ONES, y, "sse", step=1e-3, localisation=0.0, draws=300)
    batched, again, other = run(batch=50), run(batch=50), run(batch=50, seed=1)
    assert torch.equal(batched.traces, again.traces)
    assert not torch.equal(batched.traces, other.traces)
    # chains do not know of each other
    assert torch.equal(run(batch=50, chains=2).traces, batched.traces[:2])
    assert len({float(c) for c in batched.chains}) == 4
    # the choice of a batch moves L by 0.1 and nβL by 14, yet what w adds is found
    assert abs(run(draws=1000, burn_in=100, batch=500).value - 1) < 0.35
    with warnings.catch_warnings():  # weights that hardly move have no loss of their own
        warnings.simplefilter("ignore", GrainWarning)
        still = run(step=1e-14, draws=20, batch=50)
    assert float((still.traces - still.loss).abs().max()) < 1e-5


def test_warnings() -> None:
    net = Weights(2)
    targets = torch.full((N, 2), 3.0)  # far from the minimum: the loss can only fall
    options = {"localisation": 0.0, "draws": 100, "burn_in": 0}
    with pytest.warns(GrainWarning) as caught:
        found = local_learning_coefficient(net, ONES, targets, "sse", step=1e-3, **options)
    assert any("negative" in str(w.message) for w in caught)
    assert any("drifts" in str(w.message) for w in caught)
    assert found.value < 0
    assert len(found.warnings) == 2
    assert "negative" in repr(found)
    with pytest.raises(NetgrainError, match=r"4 of 4 chains diverged with step=1; pass a smaller step"):
        local_learning_coefficient(Weights(2), ONES, torch.zeros(N, 2), "sse", step=1.0, **options)


def test_a_chain_that_diverges_is_left_out() -> None:
    def loss(f: Tensor, y: Tensor) -> Tensor:
        # a wall: beyond it the loss is not a number
        return torch.where(f.abs() > 0.22, math.nan, 1.0) @ torch.ones(1) @ torch.ones(len(f)) + f.square().sum() / 2

    options = {"step": 2e-3, "localisation": 0.0, "draws": 100, "burn_in": 0, "chains": 6}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = local_learning_coefficient(Weights(1), ONES, torch.zeros(N), loss, **options)
    lost = int(found.chains.isnan().sum())
    assert 0 < lost < 5
    assert found.value.n == 6 - lost
    assert any(f"{lost} of 6 chains diverged" in str(w.message) for w in caught)


def test_a_real_network_is_left_as_found() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)).eval()
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    X, y = noise(60, 3).float(), torch.arange(60) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GrainWarning)
        found = local_learning_coefficient(net, X, y, draws=40, burn_in=0, chains=2)
    assert found.parameters == sum(p.numel() for p in net.parameters())
    assert math.isclose(found.loss, float(nn.functional.cross_entropy(net(X), y).detach()), rel_tol=1e-5)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in net.parameters())
    net[0].requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GrainWarning)
        part = local_learning_coefficient(net, X, y, draws=40, burn_in=0, chains=2)
    assert part.parameters == found.parameters - 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0.0}, "step > 0"),
        ({"localisation": -1.0}, "localisation ≥ 0"),
        ({"chains": 1}, "2 chains"),
        ({"draws": 5}, "20 draws"),
        ({"batch": 0}, "batch of 1 to 1000"),
    ],
)
def test_bad_samplers(options: dict[str, float], message: str) -> None:
    with pytest.raises(NetgrainError, match=message):
        local_learning_coefficient(Weights(2), ONES, torch.zeros(N, 2), "sse", **options)
