"""Four networks on one data set: the own norm is smallest, and claims that can fail."""

import itertools

import pytest

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_four_networks
from netgrain.experiments.equivariance.studies import Seeds
from netgrain.runtime.units import Outcome
from tests.experiments.equivariance.made_up import verdict

NETS = eq_four_networks.NETS


def test_each_network_is_smallest_in_its_own_norm_on_a_small_group() -> None:
    unit = {"group": "D8", "points": 3, "seed": 1, "depth": 2, "log_norm": 200.0}
    found = Seeds([eq_four_networks._one(unit)])
    assert all(eq_four_networks.lead(found, net)[0] > -1e-4 for net in NETS)
    assert found[0].numbers["margin"] == pytest.approx(1)
    assert found[0].numbers["again"] < 0.01
    assert found[0].arrays["betas"].shape == (4, 8)
    assert found[0].numbers["fully-connected of diagonal"] == pytest.approx(float(found[0].arrays["betas"][1].norm()))


def judged(own: float, apart: float, again: float, margin: float) -> list[Claim]:
    def row(i: int) -> Outcome:
        numbers = {f"{norm} of {net}": 1.0 if net == norm else own + 0.01 * i for net in NETS for norm in NETS}
        numbers |= {f"{a} and {b}": apart * (1 + 0.01 * i) for a, b in itertools.combinations(NETS, 2)}
        return Outcome({**numbers, "again": again, "margin": margin})

    config = eq_four_networks.Config("D8", points=3, seeds=4, depths=(2,), log_norm=50.0)
    return eq_four_networks.claims(eq_four_networks.Result(config, {2: Seeds(row(i) for i in range(4))}))


def test_claims_can_fail() -> None:
    good, bad = judged(1.5, 0.2, 1e-4, 1.0), judged(0.8, 1e-4, 0.3, 0.5)
    for part in ("smallest in its own norm", "different ways", "fit the training data", "two starts"):
        assert verdict([c for c in good if part in c.name], part) == "holds"
        assert verdict([c for c in bad if part in c.name], part) == "fails"


def test_norms_have_names() -> None:
    assert [eq_four_networks.norm_name(net, 2) for net in NETS] == ["ℓ₂", "ℓ 1", "ℓ 1 of the DFT", "Schatten 1"]
    assert eq_four_networks.norm_name("group-cnn", 3) == "Schatten 2/3"
