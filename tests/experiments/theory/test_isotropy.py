"""Theorem A.2 at fixed x: paths, shares off the diagonal, the mean gradient; each can come out otherwise."""

import itertools

import pytest
import torch

from netgrain.experiments.theory import isotropy, statements
from tests.experiments.theory.measured_rows import rows

pytestmark = pytest.mark.xdist_group("statements")  # one process measures each of them once


def test_paths_against_a_walk() -> None:
    steps = list(itertools.product((-1, 0, 1), repeat=2))

    def walks(r: int, c: int, left: int) -> int:
        if not (0 <= r < 4 and 0 <= c < 4):
            return 0
        return 1 if left == 0 else sum(walks(r + a, c + b, left - 1) for a, b in steps)

    expected = [walks(r, c, 2) for r in range(4) for c in range(4)]
    assert isotropy.paths(2, 4).tolist() == expected


def test_shares_off_the_diagonal_are_found() -> None:
    g = torch.randn(8000, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert abs(statements.corrected(isotropy._batch_off_diagonal(g))) < 0.02
    alike = g[:, :1] + 0.5 * g  # E ggᵀ = 11ᵀ + I/4 but for the first entry
    G = torch.ones(64, 64, dtype=torch.float64) + torch.eye(64, dtype=torch.float64) / 4
    G[0, :], G[:, 0], G[0, 0] = 1.5, 1.5, 2.25
    expected = 1 - float(G.diagonal().square().sum() / G.square().sum())
    assert statements.corrected(isotropy._batch_off_diagonal(alike)).value == pytest.approx(expected, abs=0.005)
    with_I = statements.corrected(isotropy._batch_corr(alike, torch.eye(64, dtype=torch.float64)))
    assert with_I.value == pytest.approx(float(G.trace() / 8 / G.norm()), abs=0.01)


def test_share_of_the_mean() -> None:
    g = torch.randn(4000, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert abs(isotropy.mean_share(g)) < 4 * isotropy.mean_share(g).stderr
    assert isotropy.mean_share(g + 1).value == pytest.approx(0.5, abs=0.02)


def test_the_theorem_at_one_point_and_its_control() -> None:
    found = {s.quantity: s for s in rows("theorem-a2")}
    assert all(s.corrected in ("holds", "undecided") for s in found.values())
    assert found["Corr(G(x), I) at one x, MLP"].paper == "holds"
    assert found["Corr(G(x), I) at one x, CNN with zero padding"].paper == "fails"
    assert found["share of ‖G(x)‖² off the diagonal, the CNN with an average pooling"].measured.value > 0.3


def test_the_mean_gradient_and_its_control() -> None:
    none, some, *_ = rows("mean-gradient")
    assert (none.paper, some.corrected) == ("holds", "holds")
