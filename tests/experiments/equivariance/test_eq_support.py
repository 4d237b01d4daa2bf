"""Support against the order: slopes by hand, claims that can fail."""

import pytest

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_support
from netgrain.experiments.equivariance.studies import Seeds
from netgrain.runtime.units import Outcome
from tests.experiments.equivariance.made_up import verdict

CONFIG = eq_support.Config({"cyclic": ("C4", "C8", "C16")}, points=2, seeds=3, rank=2, draws=4, log_norm=20.0)


def made_up(ours: float, theirs: float, product: float = 1.5) -> eq_support.Result:
    """Supports grow as |G|^ours (G-CNN) and |G|^theirs (diagonal); the ranks of ours are |G|/support × product."""
    found = {}
    for group, n in (("C4", 4), ("C8", 8), ("C16", 16)):
        rows = []
        for i in range(3):
            wide, narrow = (1 + 0.01 * i) * n**ours, (1 + 0.01 * i) * n**theirs
            rows.append(
                {"order": n, "support group-cnn": wide, "rank group-cnn": product * n / wide, "kkt group-cnn": 0.0}
                | {"support diagonal": narrow, "rank diagonal": n / narrow, "support random": wide}
                | {"product random": product}
            )
        found["cyclic", group] = Seeds(Outcome(row) for row in rows)
    return eq_support.Result(CONFIG, found)


def test_slopes_are_exponents() -> None:
    assert eq_support.slopes(made_up(0.75, 0.0), "cyclic", "support group-cnn") == pytest.approx([0.75] * 3)


def test_claims_can_fail() -> None:
    def judged(*values: float) -> list[Claim]:
        return eq_support.claims(made_up(*values))

    good, bad = judged(0.9, 0.1), judged(0.2, 0.8, 0.7)
    for part in (
        "trained β grows",
        "hardly grows",
        "bound holds",
        "grows faster",
        "sparse control",
        "smallest support",
    ):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"


def test_a_unit_by_its_laws() -> None:
    unit = {"group": "D12", "seed": 0, "points": 2, "rank": 2, "draws": 5, "log_norm": 50.0}
    numbers = eq_support._one(unit).numbers
    assert numbers["support diagonal"] <= 2 < numbers["support group-cnn"]
    assert numbers["rank diagonal"] >= 12 / numbers["support diagonal"]
    assert numbers["support random"] >= 6
    assert numbers["product random"] >= 1
