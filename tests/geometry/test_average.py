"""The front door: which method it takes, and why."""

from functools import partial

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.models import LeNet, ViT


def test_auto_takes_the_closed_form_and_says_why_not() -> None:
    make = partial(LeNet, channels=1, image_size=16, activation="gelu")
    assert ng.average_geometry(make, (1, 16, 16)).method == "closed-form"
    assert ng.average_geometry(make, (1, 16, 16), members=4).method == "sampled"
    G = ng.average_geometry(partial(ViT, channels=1, width=1 / 6, depth=1), (1, 32, 32), tolerance=0.2)
    assert G.method == "sampled"
    assert any("sampled because cat in" in note for note in G.about.notes)
    narrow = ng.average_geometry(partial(LeNet, channels=1, image_size=16, activation="gelu", width=0.3), (1, 16, 16))
    assert narrow.method == "sampled"
    assert any("too few for the wide limit" in note for note in narrow.about.notes)


@pytest.mark.quick
def test_one_linear_layer_by_hand() -> None:
    """Weights are uniform on ±1/√3, so E[w wᵀ] = 1/9 for each of two outputs."""
    G = ng.average_geometry(partial(nn.Linear, 3, 2), (3,))
    assert G.exact
    torch.testing.assert_close(G.matrix(), 2 / 9 * torch.eye(3, dtype=torch.float64))
