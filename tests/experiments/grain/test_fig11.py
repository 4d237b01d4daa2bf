"""Figure 11: claims say how many samples a parameter has."""

from dataclasses import replace

from netgrain.experiments.grain import fig11
from netgrain.experiments.grain.planted_labels import CurveName
from tests.experiments.grain.planted_curves import FLAT, STEEP, curve


def test_fig11_says_how_many_samples_a_parameter_has() -> None:
    curves = {CurveName("images", "linear"): curve(*STEEP), CurveName("isotropic", "linear"): curve(*FLAT)}
    config = replace(fig11.PRESETS["smoke"], samples=500)
    found = {
        c.name: c for c in fig11.claims(fig11.Result(config, "digits", curves, {"images": 1000, "isotropic": 250}))
    }
    assert found["images, linear: falls"].verdict == "holds"
    assert "1000 parameters, 0.50 samples" in found["images, linear: falls"].note
    assert found["isotropic, linear: falls"].verdict == "fails"
