"""Figure 10: claims from curves made up by hand."""

from dataclasses import replace

from netgrain.experiments.grain import fig10
from netgrain.geometry.estimate import Estimate
from tests.experiments.grain.planted_curves import FLAT, STEEP, all_curves, curve


def test_fig10_claims() -> None:
    result = fig10.Result(
        fig10.PRESETS["smoke"], all_curves(curve(*STEEP), curve(*FLAT)), 3, {"ViT": Estimate(0.99, 0.001, 16)}
    )
    found = {c.name: c for c in fig10.claims(result)}
    assert len(found) == len(fig10.claims(result))
    assert found["LeNet, linear: falls"].verdict == "holds"
    assert found["MLP, linear: does not care"].verdict == "holds"
    assert "an identity, no evidence" in found["MLP, linear: does not care"].note
    assert found["ViT, linear: first eigenspace"].verdict == "holds"
    assert found["ViT: narrow as full"].verdict == "holds"
    swapped = fig10.Result(result.config, all_curves(curve(*FLAT), curve(*STEEP)), 3, {"ViT": Estimate(0.9, 0.001, 16)})
    found = {c.name: c.verdict for c in fig10.claims(swapped)}
    for name in ("LeNet, linear: falls", "MLP, linear: does not care", "ViT: narrow as full"):
        assert found[name] == "fails"
    rising = curve(*[row[::-1] for row in STEEP])
    found = {c.name: c.verdict for c in fig10.claims(replace(result, curves=all_curves(curve(*STEEP), rising)))}
    assert found["MLP, linear: does not care"] == "fails"


def test_an_mlp_that_learns_nothing_says_nothing() -> None:
    chance = curve([50.0, 51.0], [51.0, 50.0], [50.0, 50.5])
    result = fig10.Result(fig10.PRESETS["smoke"], all_curves(curve(*STEEP), chance), 3, {})
    found = {c.name: c for c in fig10.claims(result)}["MLP, sinusoidal: does not care"]
    assert found.verdict == "undecided"
    assert "nothing is learnt" in found.note
    assert found.basis == "identity"
