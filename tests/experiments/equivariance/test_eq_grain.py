"""The geometry of predictors."""

import math

import pytest
import torch

import netgrain as ng
from netgrain.equivariant import GroupCNN, predictor
from netgrain.experiments.equivariance import eq_grain, fourier_descent
from netgrain.groups import dihedral
from netgrain.runtime.units import Outcome
from tests.experiments.equivariance.made_up_curves import seeds_with, verdicts


def test_the_geometry_of_predictors_is_the_geometry_of_their_networks() -> None:
    group = dihedral(order=8)
    nets = [GroupCNN(group, 3, seed=s).float() for s in range(4)]
    betas = torch.stack([predictor(n).detach().double() for n in nets])
    probe = ng.Data(torch.randn(2, 8))
    ours, theirs = eq_grain.geometry(betas), ng.geometry_of([n.eval() for n in nets], probe)
    assert torch.allclose(ours.matrix(), theirs.matrix(), atol=1e-6)
    assert ours.effective_rank.value == pytest.approx(theirs.effective_rank.value, rel=1e-4)


def test_white_filters_have_no_grain_and_one_predictor_has_nothing_else() -> None:
    group = dihedral(order=12)
    layers = fourier_descent.initial_layers(12, 3, range(400))
    start = fourier_descent.recorded(fourier_descent.steps_in_fourier(group, layers, layers[0, :1]), [0]).betas[0]
    found = ng.corr(eq_grain.geometry(start), torch.eye(12))
    assert abs(found.value - 1) < 4 * found.stderr + 0.01
    same = eq_grain.geometry(start[:1].repeat(10, 1))
    assert same.effective_rank.value == pytest.approx(1)
    assert ng.corr(same, torch.eye(12)).value == pytest.approx(1 / math.sqrt(12))


def test_grain_claims_can_fail() -> None:
    def result(identity: float, rank: float, aligned: float) -> eq_grain.Result:
        noise = torch.linspace(0.999, 1.001, 4, dtype=torch.float64)[:, None]

        ends = {"identity": (1.0, identity), "rank": (60, rank), "aligned": (1 / 60, aligned)}
        found = seeds_with(
            {n: torch.tensor([e], dtype=torch.float64) * torch.cat([noise, noise**2], 1) for n, e in ends.items()}
        )
        limits = {2: [1 / rank] * 2 + [0.999 / rank], 3: [0.5, 0.51, 0.52]}
        at_limit = {L: seeds_with({}, {"agreement": values}) for L, values in limits.items()}
        return eq_grain.Result(eq_grain.PRESETS["smoke"], dict.fromkeys(eq_grain.DEPTHS, found), at_limit)

    trained, nothing = (verdicts(eq_grain.claims(result(*v))) for v in ((0.13, 1.001, 0.9), (1.0, 70.0, 1 / 60)))
    for name in ("training gives a grain, depth 2", "the effective rank falls, depth 3"):
        assert trained[name] == "holds"
        assert nothing[name] == "fails"
    assert trained["at depth 2 every start has the same limit"] == "holds"
    assert nothing["at depth 2 every start has the same limit"] == "fails"
    assert trained["at depth 3 starts end in different places"] == "holds"
    assert nothing["the geometry turns to the data's limit predictor, depth 2"] == "fails"


def test_agreement_of_limits_by_hand() -> None:
    basis = torch.eye(3, dtype=torch.float64)
    assert eq_grain.agreement(basis) == 0
    assert eq_grain.agreement(torch.stack([basis[0], -3 * basis[0], basis[1]])) == pytest.approx(1 / 3)
    half = torch.stack([basis[0], basis[0] + basis[1]])
    assert eq_grain.agreement(half) == pytest.approx(0.5)


def test_members_of_different_data_sets_are_different_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[range] = []

    def noted(n: int, depth: int, seeds: range) -> torch.Tensor:
        asked.append(seeds)
        return torch.stack([torch.stack([torch.randn(n, dtype=torch.float64) for _ in seeds]) for _ in range(depth)])

    monkeypatch.setattr(eq_grain, "initial_layers", noted)
    for seed in range(2):
        unit = {"members": 4, "steps": 1, "records": 2, "depth": 2, "seed": seed, "log_norm": 6.0}
        assert isinstance(eq_grain._one(unit), Outcome)
    assert not set(asked[0]) & set(asked[1])
