"""Answers of workers: outcomes, warnings and what went wrong."""

import warnings
from collections.abc import Mapping
from typing import Any

import pytest

import netgrain as ng
from netgrain.runtime.answers import UnitError
from netgrain.runtime.local import Local
from netgrain.runtime.units import Engine, Outcome
from tests.runtime.tried import TRIED, units_of


@pytest.mark.parametrize("via", TRIED)
def test_what_goes_wrong_in_a_worker_is_told_here(via: Engine) -> None:
    def work(unit: Mapping[str, Any]) -> Outcome:
        if unit["n"] == 1:
            raise ng.NetgrainError("number one")
        return Outcome()

    def buggy(unit: Mapping[str, Any]) -> Outcome:
        return Outcome({"x": {}["missing"]})

    def warns(unit: Mapping[str, Any]) -> Outcome:
        warnings.warn("mind the gap", ng.GrainWarning, stacklevel=1)
        return Outcome()

    with pytest.raises(ng.NetgrainError, match="number one"):
        list(via.run(work, units_of(3)))
    with pytest.raises(KeyError if via == Local() else UnitError, match="missing"):
        list(via.run(buggy, units_of(1)))
    with pytest.warns(ng.GrainWarning, match="mind the gap"):
        list(via.run(warns, units_of(1)))
