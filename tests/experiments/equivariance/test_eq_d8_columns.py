"""Two columns of the Fourier matrix: claims that can fail."""

from typing import Any

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_d8_columns
from netgrain.experiments.equivariance import studies as shared
from tests.experiments.equivariance.made_up import outcomes, verdict


def columns(**changes: Any) -> list[Claim]:
    trained = {
        (depth, method, net): outcomes(ratio=changes.get(f"{net} {method} {depth}", eq_d8_columns.LIMITS[depth]))
        for depth in eq_d8_columns.DEPTHS
        for method in eq_d8_columns.METHODS
        for net in shared.NETS
    }
    return eq_d8_columns.claims(eq_d8_columns.Result(eq_d8_columns.PRESETS["smoke"], trained))


def test_columns_can_fail() -> None:
    good = columns(**{"fully-connected sgd 3": 11.0, "circular sgd 3": 10.0, "circular flow 3": 9.4})
    assert verdict(good, "G-CNN of depth 3 ends") == "holds"
    assert verdict(good, "below the CNN") == "holds"
    assert verdict(good, "not there yet") == "fails"  # here it is
    assert verdict(good, "CNN ends elsewhere") == "holds"
    bad = columns(**{"group-cnn flow 3": 5.8, "group-cnn sgd 3": 13.0})
    assert verdict(bad, "G-CNN of depth 3 ends") == "fails"
    assert verdict(bad, "below the FC") == "fails"
    assert verdict(bad, "training lowers the ratio of the G-CNN more") == "fails"
    assert verdict(bad, "not there yet") == "holds"
    assert verdict(bad, "CNN ends elsewhere") == "fails"
