"""The front door: which method it takes, and why."""

from functools import partial

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain import NetgrainError
from netgrain.models import LeNet, ViT
from tests.families.residual_networks import OFF, ON


def test_auto_takes_the_closed_form_and_says_why_not() -> None:
    make = partial(LeNet, channels=1, image_size=16, activation="gelu")
    assert ng.average_geometry(make, (1, 16, 16)).method == "closed-form"
    assert ng.average_geometry(make, (1, 16, 16), members=4).method == "sampled"
    G = ng.average_geometry(partial(ViT, channels=1, width=1 / 6, depth=1), (1, 32, 32), tolerance=0.2)
    assert G.method == "sampled"
    assert any("is followed at the maps of members only" in note for note in G.about.notes)
    narrow = ng.average_geometry(partial(LeNet, channels=1, image_size=16, activation="gelu", width=0.3), (1, 16, 16))
    assert narrow.method == "sampled"
    assert any("too few for the wide limit" in note for note in narrow.about.notes)


@pytest.mark.quick
def test_one_linear_layer_by_hand() -> None:
    """Weights are uniform on ±1/√3, so E[w wᵀ] = 1/9 for each of two outputs."""
    G = ng.average_geometry(partial(nn.Linear, 3, 2), (3,))
    assert G.exact
    torch.testing.assert_close(G.matrix(), 2 / 9 * torch.eye(3, dtype=torch.float64))


def test_what_is_off_is_said_first() -> None:
    make = OFF["norm"][0]
    G = ng.average_geometry(make, (5,))
    assert G.about.off is not None
    assert not G.about.switched_on
    assert repr(G).startswith("Geometry(d=5, off at initialisation: all 1 norms start with weight zero ('norm.weight')")
    assert "switched_on=True" in repr(G)
    assert "geometry_of" in repr(G)
    on = ng.average_geometry(make, (5,), switched_on=True)
    assert on.about.switched_on
    assert on.about.off == G.about.off
    assert repr(on).startswith("Geometry(d=5, switched on: without that, all 1 norms start")
    plain = ng.average_geometry(ON["norm"], (5,), switched_on=True)
    assert plain.about.off is None
    torch.testing.assert_close(plain.matrix(), on.matrix())
    noted = ng.average_geometry(OFF["response norm"][0], (5,), members=2)
    assert "response norms" not in repr(noted)
    assert any("response norms start as the identity" in note for note in noted.about.notes)
    with pytest.raises(NetgrainError, match="switched_on expects True or False"):
        ng.average_geometry(make, (5,), switched_on="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["auto", "closed-form", "sampled"])
def test_a_zero_head_is_one_message(method: str) -> None:
    make = OFF["head"][0]
    with pytest.warns(ng.GrainWarning, match=r"exactly zero.*switched_on=True") as caught:
        G = ng.average_geometry(make, (5,), method=method)
    assert len(caught) == 1
    assert G.trace.value == 0
    assert G.flat is None
    assert "so that G = 0" in repr(G)
    assert G.summary()["directions_for"]["50%"] is None
    if method != "sampled":
        assert G.exact
        assert G.members == 0
    assert ng.average_geometry(make, (5,), method=method, switched_on=True).trace.value > 0


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
