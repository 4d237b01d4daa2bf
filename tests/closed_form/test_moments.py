"""Second moments over positions: structured and written out they are the same matrix."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from netgrain.closed_form import moments
from netgrain.closed_form.moments import (
    Full,
    Moment,
    Separable,
    check_room,
    identity,
    keep,
    largest,
    one_pass,
    ones,
)
from netgrain.families.convolution import Taps
from netgrain.runtime.memory import MemoryShortage, within
from tests.closed_form.networks import closed, sequence

TWO_LAYERS = sequence(
    *(lambda: nn.Conv2d(1, 8, 3, padding=1), nn.GELU, lambda: nn.Conv2d(8, 8, 3, padding=1), nn.GELU),
    *(lambda: nn.AdaptiveAvgPool2d(1), nn.Flatten, lambda: nn.Linear(8, 1)),
)


def test_too_many_positions_are_a_shortage_with_the_number() -> None:
    with pytest.raises(MemoryShortage, match=r"over 16384 positions would take 26 GB .* budget is 4 GB; pass memory="):
        closed(TWO_LAYERS, (1, 128, 128))
    with pytest.raises(MemoryShortage, match=r"over 256 positions would take .* budget is 2 MB; pass memory="):
        closed(TWO_LAYERS, (1, 16, 16), memory="2 MB")
    assert closed(TWO_LAYERS, (1, 16, 16), memory="20 MB").d == 256


def test_nothing_is_made_before_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tensor that grows with positions² is announced, at a size that it does not exceed."""
    asked, made = [], []
    monkeypatch.setattr(moments, "ask", lambda size, what: asked.append(size))
    plain = Full.__init__

    def noted(self: Full, *args: object) -> None:
        plain(self, *args)
        made.append(self.values.nbytes)
        assert self.values.nbytes <= max(asked, default=0)

    monkeypatch.setattr(Full, "__init__", noted)
    m = random_moment()
    full = m.full()
    full.spelled_out()
    full.mapped(1, A)
    full.mapped(2, A[:, :2].T)
    full.convolved(0, Taps(2, 4, 3, padding=2), back=False)
    assert len(made) >= 6


def test_what_a_pass_keeps_counts() -> None:
    full = random_moment().full()
    with within("1 MB"), one_pass():
        check_room(100)  # 12 matrices of 80 kB
        keep(full)
        keep(*[full] * 1000)
        with pytest.raises(MemoryShortage):
            check_room(100)
    with within("1 MB"):
        assert largest() == 102
        check_room(102)
        with pytest.raises(MemoryShortage):
            check_room(103)


def random_moment() -> Separable:
    """Three terms over 2 × 3 × 2 positions, the last axis the identity."""
    generator = torch.Generator().manual_seed(0)
    roots = [torch.randn(3, n, n, generator=generator, dtype=torch.float64) for n in (2, 3)]
    return Separable((2, 3, 2), torch.tensor([1.0, 2.0, 0.5]).double(), (*(A @ A.mT for A in roots), None))


A = torch.tensor([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]], dtype=torch.float64)
OPERATIONS: dict[str, Callable[[Moment], Moment]] = {
    "scaled": lambda m: m.scaled(2.5),
    "scaled in place": lambda m: m.permuted([0, 1, 2]).scaled_in_place(2.5),
    "convolved": lambda m: m.convolved(1, Taps(3, 2, 3, 2, 1), back=False).convolved(1, Taps(5, 2, 3, 2, 1), back=True),
    "not convolved": lambda m: m.convolved(0, Taps(2, 2, 1), back=False),
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
