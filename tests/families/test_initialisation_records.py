"""What is known of a storage, operation after operation."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from netgrain.families.initialisation import CannotRead, Initialisation
from netgrain.families.initialisation_records import Record, truncated_normal


@pytest.mark.quick
def test_constants_and_whole_numbers() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3))
            self.register_buffer("steps", torch.zeros(2, dtype=torch.long))
            self.register_buffer("flags", torch.ones(2, dtype=torch.bool))
            self.register_buffer("index", torch.arange(4))
            self.register_buffer("fours", torch.arange(4).clamp(min=4))
            self.register_buffer("table", torch.tensor([1.0, 2.0]))
            self.register_buffer("noise", torch.randint(5, (6,)))
            self.register_buffer("rounded", (10 * torch.randn(6)).long())

    laws = Initialisation(Mixed)
    assert [laws.of(n).text for n in ("steps", "flags", "fours")] == ["constant 0", "constant 1", "constant 4"]
    for name in ("index", "table", "noise", "rounded"):
        with pytest.raises(CannotRead, match=f"'{name}': "):
            laws.of(name)


def test_records_by_hand() -> None:
    record = Record("uniform", 1.0, 2.0)
    assert record.affine(-3, 4) == Record("uniform", 1.0, -6.0)
    assert record.affine(0, 5) == Record("constant", 5.0)
    assert record.stored_as(torch.long).base == "unknown"
    assert Record("constant", 2.0).stored_as(torch.long).shift == 2.0
    assert Record("constant", 2.0).stored_as(torch.bool).shift == 1.0
    assert Record("constant", 2.5).stored_as(torch.long).base == "unknown"
    assert truncated_normal(1.0, 2.0, -1.0, 5.0) == Record("truncated", 1.0, 2.0, (-1.0, 2.0))
    assert truncated_normal(1.0, 2.0, -99.0, 99.0) == Record("normal", 1.0, 2.0)
    assert truncated_normal(1.0, 2.0, 50.0, 60.0) is None
