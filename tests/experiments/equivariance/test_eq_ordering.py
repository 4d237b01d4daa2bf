"""The order of three networks: claims that can be reversed."""

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_ordering
from tests.experiments.equivariance.made_up import outcomes, verdict


def ordering(gcnn: float, others: float) -> list[Claim]:
    trained = {
        ("D8", 2, net): outcomes(ratio=v, objective=v, real=-v)
        for net, v in (("group-cnn", gcnn), ("circular", others), ("fully-connected", others))
    }
    return eq_ordering.claims(eq_ordering.Result(eq_ordering.Config(problems=(("D8", 2, 4),)), trained))


def test_ordering_can_be_reversed_and_rates_are_told() -> None:
    good, bad = ordering(5, 7), ordering(7, 5)
    for part in ("Fourier ratio", "objective", "real ratio"):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"
    assert all("in 1.00 of the draws" in c.note for c in good if "ratio" in c.name)
    assert all("in 0.00 of the draws" in c.note for c in bad if "ratio" in c.name)
    assert verdict(good, "stationary") == "holds"


def test_a_tie_is_not_a_defeat() -> None:
    nets = {"group-cnn": outcomes(ratio=5.0), "circular": outcomes(ratio=5.0 - 1e-9), "fully-connected": outcomes()}
    assert eq_ordering._best(nets, "ratio", 1) == [True] * 4
    nets["circular"] = outcomes(ratio=4.9)
    assert eq_ordering._best(nets, "ratio", 1) == [False] * 4
