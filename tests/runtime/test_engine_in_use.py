"""The engine in use: outside, inside `using`, inside a unit."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

import netgrain as ng
from netgrain.runtime.engine_in_use import using
from netgrain.runtime.engines import engine_for
from netgrain.runtime.local import Local
from netgrain.runtime.processes import Processes
from netgrain.runtime.units import Outcome
from tests.runtime.tried import units_of


def test_units_start_nothing_themselves() -> None:
    def work(unit: Mapping[str, Any]) -> Outcome:
        via = engine_for(None, 7)
        return Outcome({"name": "none" if via is None else via.name})

    with using(Processes(2)):
        assert engine_for(None, None) == Processes(2)
        assert [o.numbers["name"] for _, o in Local().run(work, units_of(1))] == ["local"]
        assert [o.numbers["name"] for _, o in Processes(2).run(work, units_of(2))] == ["local"] * 2
    assert engine_for(None, None) is None
    assert engine_for(None, 1) == Local()
    with pytest.raises(ng.NetgrainError, match="workers=2 belongs to the engine that was given"):
        engine_for(Local(), 2)
    assert engine_for(None, None, torch.device("cuda")) == Local()
