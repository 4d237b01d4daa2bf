"""Units are named by what they are asked to do, and outcomes come in the order that was asked for."""

import pytest

from netgrain.runtime.units import Outcome, Unit, fingerprint, in_order, timed


@pytest.mark.quick
def test_a_unit_is_named_by_its_configuration_alone() -> None:
    assert Unit({"a": 1, "b": [1, 2]}).id == Unit({"b": [1, 2], "a": 1}).id
    assert Unit({"a": 1, "b": [1, 2]}).id != Unit({"a": 1, "b": [2, 1]}).id
    # SHA-256 of {}: run folders of earlier versions are found by such names
    assert fingerprint({}) == "44136fa355b3678a"
    with pytest.raises(ValueError, match="not JSON compliant"):
        fingerprint({"a": float("nan")})


def test_outcomes_come_in_order_and_none_is_fetched_too_early() -> None:
    units = [Unit({"n": n}) for n in range(4)]
    fetched = []

    def found():
        for n in (2, 0, 1, 3):
            fetched.append(n)
            yield units[n], Outcome({"n": n})

    ordered = in_order(found(), units)
    assert next(ordered).numbers == {"n": 0}
    assert fetched == [2, 0]
    assert [o.numbers["n"] for o in ordered] == [1, 2, 3]


def test_time_is_added_and_nothing_else() -> None:
    found = timed(lambda config: Outcome({"sum": sum(range(config["n"]))}), {"n": 100_000})
    assert found.numbers == {"sum": 4999950000}
    assert 0 < found.seconds < 10
