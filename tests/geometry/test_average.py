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


def grown() -> nn.Module:
    """Every step has a rule, and activations vary over 256 positions."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.GELU(), nn.Conv2d(8, 8, 3, padding=1), nn.GELU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 1)),
    )


def test_a_closed_form_that_does_not_fit_is_sampled_for_that_reason() -> None:
    shape = (1, 16, 16)
    assert ng.average_geometry(grown, shape).method == "closed-form"
    G = ng.average_geometry(grown, shape, memory="2 MB", tolerance=0.3)
    assert G.method == "sampled"
    (note,) = [note for note in G.about.notes if "sampled because" in note]
    assert "a closed form over 256 positions would take 6.3 MB of memory, and the budget is 2 MB" in note
    with pytest.raises(ng.NetgrainError, match=r"would take 6.3 MB of memory, .*; pass memory='6.9 MB' or more"):
        ng.average_geometry(grown, shape, method="closed-form", memory="2 MB")
    assert ng.average_geometry(grown, shape, method="closed-form", memory="20 MB").d == 256


def test_memory_that_is_not_free_is_an_error_and_no_other_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netgrain.runtime.memory.free_memory", lambda: 10**6)
    monkeypatch.setattr("netgrain.runtime.memory.WORTH_LOOKING", 10**6)
    with pytest.raises(ng.NetgrainError, match=r"takes 6.3 MB of memory and 1 MB are free"):
        ng.average_geometry(grown, (1, 16, 16))
