"""Statements at smoke scale, each measured once for all tests."""

from functools import cache

from netgrain.experiments.theory.measuring import measure_statements
from netgrain.experiments.theory.statements import Statement


@cache
def rows(name: str) -> list[Statement]:
    return measure_statements(name, progress=False)
