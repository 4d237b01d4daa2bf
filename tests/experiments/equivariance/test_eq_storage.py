"""Cut predictors, by hand."""

import pytest
import torch

from netgrain.experiments.equivariance import eq_storage
from netgrain.experiments.equivariance.studies import Seeds
from netgrain.groups import Group, cyclic, dihedral, direct, p4m
from tests.experiments.equivariance.made_up_curves import seeds_with, verdicts


def test_cutting_in_fourier_space_by_hand() -> None:
    group = dihedral(order=8)
    delta = torch.eye(8, dtype=torch.float64)[0]  # every block is the identity: d σ² is 1 for d = 1, and 2 for d = 2
    cost, cut = eq_storage.cut_in_fourier(group, delta)
    assert cost.tolist() == [4 * 4 + 2, min(4 * (4 + 4) + 2 * 5, 32)]  # the 2×2 block whole; then everything
    assert torch.allclose(cut[-1], delta)
    assert torch.allclose(cut[0], group.irreps[4].character.real / 4)  # (1/8) · 2 · χ


@pytest.mark.parametrize(
    "group", [dihedral(order=60), p4m(4), direct(cyclic(5), dihedral(order=6))], ids=lambda g: g.name
)
def test_cuts_stay_real_grow_nearer_and_end_at_the_whole(group: Group) -> None:
    beta = torch.randn(group.order, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for cost, cut in (eq_storage.cut_in_fourier(group, beta), eq_storage.cut_in_real_space(beta)):
        error = torch.linalg.vector_norm(cut - beta, dim=1)
        assert (error.diff() < 1e-9).all()
        assert error[-1] < 1e-9
        assert (cost.diff() >= 0).all()
        assert cost[-1] == 4 * group.order
        # what was cut away is orthogonal to what was kept: the pair of a complex irrep was not torn apart
        assert torch.allclose((cut * (beta - cut)).sum(1), torch.zeros(len(cut), dtype=torch.float64), atol=1e-9)


def test_a_rank_one_block_costs_two_vectors() -> None:
    group = dihedral(order=8)
    block = group.fourier(torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).blocks[4]
    U, values, Vh = torch.linalg.svd(block)
    stacks = [torch.zeros(d, d, dtype=torch.complex128) for d in group.dimensions]
    stacks[4] = values[0] * torch.outer(U[:, 0], Vh[0])  # of a real function again
    beta = group.inverse_fourier(stacks, real=True)
    cost, cut = eq_storage.cut_in_fourier(group, beta)
    assert cost.tolist() == [4 * 4 + 2]
    assert torch.allclose(cut[0], beta)


def test_storage_claims_can_fail() -> None:
    def case(first: float) -> Seeds:
        needed = {w: [100.0, 101.0, 102.0] for w in eq_storage.WAYS} | {eq_storage.WAYS[0]: [first, 1.1 * first, first]}
        return seeds_with({}, needed)

    for first, verdict in ((20.0, "holds"), (230.0, "fails")):
        result = eq_storage.Result(eq_storage.PRESETS["smoke"], {"D60": case(first)})
        assert set(verdicts(eq_storage.claims(result)).values()) == {verdict}
