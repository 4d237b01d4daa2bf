"""Second moments over positions: structured and written out they are the same matrix."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.closed_form.moments import Moment, Separable, identity, ones
from tests.closed_form.networks import closed, sequence


def test_too_many_positions_are_refused_with_the_number() -> None:
    make = sequence(
        *(lambda: nn.Conv2d(1, 8, 3, padding=1), nn.GELU, lambda: nn.Conv2d(8, 8, 3, padding=1), nn.GELU),
        *(lambda: nn.AdaptiveAvgPool2d(1), nn.Flatten, lambda: nn.Linear(8, 1)),
    )
    with pytest.raises(ng.NetgrainError, match=r"16384 positions.* 2\.0 GiB"):
        closed(make, (1, 128, 128))


def random_moment() -> Separable:
    """Three terms over 2 × 3 × 2 positions, the last axis the identity."""
    generator = torch.Generator().manual_seed(0)
    roots = [torch.randn(3, n, n, generator=generator, dtype=torch.float64) for n in (2, 3)]
    return Separable((2, 3, 2), torch.tensor([1.0, 2.0, 0.5]).double(), (*(A @ A.mT for A in roots), None))


A = torch.tensor([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]], dtype=torch.float64)
OPERATIONS: dict[str, Callable[[Moment], Moment]] = {
    "scaled": lambda m: m.scaled(2.5),
    "mapped": lambda m: m.mapped(1, A),
    "mapped identity": lambda m: m.mapped(2, A[:, :2]),
    "traced": lambda m: m.traced([0, 2]),
    "with_identity": lambda m: m.with_identity([1], [2]),
    "permuted": lambda m: m.permuted([2, 0, 1]),
    "merged": lambda m: m.merged(1, 2),
    "split": lambda m: m.merged(0, 2).split(0, (2, 3)),
    "plus": lambda m: m.plus(ones((2, 3, 2))),
    "times": lambda m: m.times(m.scaled(3.0)),
    "compressed": lambda m: m.compressed() if isinstance(m, Separable) else m,
}


@pytest.mark.quick
@pytest.mark.parametrize("name", OPERATIONS)
def test_structured_and_written_out_are_the_same(name: str) -> None:
    moment = random_moment()
    change = OPERATIONS[name]
    found, expected = change(moment), change(moment.full().spelled_out())
    assert found.sizes == expected.sizes
    torch.testing.assert_close(
        found.full().spelled_out().matrices(), expected.full().spelled_out().matrices(), rtol=1e-12, atol=1e-12
    )


def test_written_out_by_hand() -> None:
    moment = random_moment()
    a, b, _ = moment.factors
    assert a is not None
    assert b is not None
    eye = torch.eye(2, dtype=torch.float64)
    terms = [w * torch.kron(torch.kron(x, y), eye) for w, x, y in zip(moment.weights, a, b, strict=True)]
    torch.testing.assert_close(moment.full().spelled_out().matrices()[0], sum(terms[1:], terms[0]))
    (traced,) = identity((2, 3)).traced([0]).full().spelled_out().matrices()
    assert torch.equal(traced, 2 * torch.eye(3, dtype=torch.float64))
    found = ones((2, 3)).scaled(4.0).constant()
    assert found is not None
    assert found.tolist() == [4.0]
    assert identity((2,)).constant() is None
