"""Pictures of a prediction: axes in, axes out, and what they show."""

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

from netgrain.learning.outcome import Learnability
from netgrain.learning.plots import curve, picture, shares
from netgrain.learning.predictions import learnability


@pytest.fixture(scope="module")
def found() -> Learnability:
    X = torch.randn(100, 5, generator=torch.Generator().manual_seed(0))

    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))

    return learnability(make, X, (X[:, 0] > 0).long(), kinds=("last",), members=2, trial=True)


def test_the_curve_has_its_points_and_the_prediction(found: Learnability) -> None:
    ax = curve(found)
    assert ax.get_xscale() == "log"
    assert ax.get_ylabel() == "accuracy"
    labels = ax.get_legend_handles_labels()[1]
    assert set(labels) == {"leave-one-out of subsets", "forecast", "predicted", "trial"}
    own = Figure().subplots()
    assert found.plot_curve(own) is own


def test_the_bars_are_the_bands_that_are_shown(found: Learnability) -> None:
    ax = shares(found)
    assert [t.get_text() for t in ax.get_xticklabels()] == [band.name for band in found.shares.shown]
    own = Figure().subplots()
    assert shares(found, own) is own


def test_one_picture_has_both(found: Learnability) -> None:
    assert len(picture(found).axes) == 2
    assert isinstance(found.plot(), Figure)
