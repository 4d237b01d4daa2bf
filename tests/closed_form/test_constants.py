"""Constants: their numbers, or the places of random entries."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from netgrain.closed_form.constants import MOVES, Known, known
from netgrain.families.initialisation import TensorLaw
from netgrain.families.reading import read
from netgrain.families.trace import Other, Unsupported, Weight


def constant_of(change: object, start: Tensor, law: TensorLaw) -> Known:
    """What is known of the factor in x * change(weight)."""

    class Times(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(start)

        def forward(self, x: Tensor) -> Tensor:
            return x * change(self.weight)  # type: ignore[operator]

    step = read(Times, (2, 3)).traced().steps[-1]
    assert isinstance(step.args[1], Weight | Other)
    return known(step.args[1], lambda weight: (law, tuple(start.shape)), "here")


ONE, RANDOM = TensorLaw(0.5, 0.0, "constant"), TensorLaw(1.0, 4.0, "normal")


@pytest.mark.quick
def test_numbers_are_worked_out() -> None:
    found = constant_of(lambda w: (2 * w.exp()).reshape(2, 1), torch.full((2,), 0.5), ONE)
    assert found.number == pytest.approx(2 * torch.tensor(0.5, dtype=torch.float64).exp().item())
    assert found.entries.shape == (2, 1)


@pytest.mark.quick
def test_places_of_random_entries() -> None:
    found = constant_of(lambda w: -w.T[:, None].expand(1, 3, 2).mT / 2, torch.randn(2, 1), RANDOM)
    assert found.law is not None
    assert (found.law.mean, found.law.variance) == (-0.5, 1.0)
    assert found.entries.tolist() == [[[0, 0, 0], [1, 1, 1]]]


def test_moves_change_no_entry() -> None:
    """Each function of the table, on the tensor that it is a method or attribute of."""
    w = torch.arange(6.0).reshape(1, 2, 3)
    given = {"reshape": (3, 2), "view": (3, 2), "permute": (2, 0, 1), "transpose": (1, 2), "unsqueeze": (0,)}
    given |= {"expand": (4, 2, 3), "unflatten": (2, (3, 1)), "select": (1, 0), "narrow": (1, 0, 1), "chunk": (3, 2)}
    given |= {"split": (1, 2), "repeat": (2, 1, 1), "swapaxes": (1, 2), "movedim": (0, 2), "to": (torch.float64,)}
    given |= dict.fromkeys(("view_as", "reshape_as", "expand_as", "type_as"), (w,))
    for name in MOVES - {"getitem", "T", "mT", "data", "t"}:
        out = getattr(w, name)(*given.get(name, ()))
        assert set((out[0] if isinstance(out, tuple) else out).flatten().tolist()) <= set(range(6)), name


def test_what_is_computed_from_random_numbers_is_refused() -> None:
    with pytest.raises(Unsupported, match="computed from random ones"):
        constant_of(lambda w: w.exp(), torch.randn(3), RANDOM)
