"""The engine of this process: one unit after the other, each on one thread, none before it is asked for."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from netgrain.runtime.engine_in_use import is_inside_unit
from netgrain.runtime.local import Local
from netgrain.runtime.units import Outcome
from tests.runtime.tried import units_of


@pytest.mark.quick
def test_units_run_in_order_one_at_a_time_on_one_thread() -> None:
    begun = []

    def work(unit: Mapping[str, Any]) -> Outcome:
        begun.append(unit["n"])
        return Outcome({"n": unit["n"], "threads": torch.get_num_threads(), "inside": is_inside_unit()})

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        running = Local().run(work, units_of(3))
        assert begun == []
        first = next(running)[1]
        assert begun == [0]
        assert torch.get_num_threads() == 2  # between units the caller has its own
        assert not is_inside_unit()
        found = [first, *(outcome for _, outcome in running)]
    finally:
        torch.set_num_threads(before)
    assert [o.numbers for o in found] == [{"n": n, "threads": 1, "inside": True} for n in range(3)]
