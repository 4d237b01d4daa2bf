"""Values inside tuples, lists and dicts."""

import pytest
import torch
from torch import Tensor

from netgrain.families.nested import every, replaced


@pytest.mark.quick
def test_tensors_are_found_in_order_and_replaced_where_they_stand() -> None:
    a, b, c = (torch.full((1,), float(i)) for i in range(3))
    value = (a, [1, {"b": b}], {"c": (c, None)})
    assert [int(t) for t in every(value, Tensor)] == [0, 1, 2]
    assert replaced(value, Tensor, int) == (0, (1, {"b": 1}), {"c": (2, None)})
