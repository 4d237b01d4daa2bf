"""The catalogue: all of it runs on every built-in family, and what does not fit is counted."""

from functools import partial

import pytest
import torch

from netgrain.auditing.catalogue import catalogue, resolution_change
from netgrain.auditing.known_network import Known
from netgrain.families.members import Family, member
from netgrain.models import MLP, LeNet, ResNet18, ViT
from netgrain.models.specs import load_model

FAMILIES: dict[str, tuple[Family, tuple[int, ...]]] = {
    "LeNet": (load_model("lenet:width=0.5", channels=1, image_size=16, outputs=3), (1, 16, 16)),
    "ViT": (partial(ViT, channels=1, image_size=16, outputs=3, patch=8, depth=2, width=1 / 6), (1, 16, 16)),
    "ResNet": (partial(ResNet18, channels=2, image_size=8, outputs=3, width=1 / 32), (2, 8, 8)),
    "table": (partial(MLP, channels=6, image_size=1, outputs=3), (6,)),
}


def names(make: Family, X: torch.Tensor) -> dict[str, str]:
    found = catalogue(make, X)
    for change in found.changes:
        model = member(change.family, 0, 1)
        assert model(X[:3]).shape == (3, 3), change.change
    assert len({c.change for c in found.changes}) == len(found.changes)  # a change is known by what it says
    return {c.change: c.action for c in found.changes}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_change_runs(name: str) -> None:
    make, shape = FAMILIES[name]
    state = torch.get_rng_state()
    X = 3 * torch.randn(40, *shape, generator=torch.Generator().manual_seed(0))
    found = names(make, X)
    assert torch.equal(torch.get_rng_state(), state)
    assert any(change.startswith("standardise") for change in found)
    assert "twice the width" in found
    if name == "LeNet":
        assert found["batch norm"] == "use the model lenet:width=0.5,norm=batch"
        assert found["another family: mlp"] == "use the model mlp"
        assert found["images of 32 × 32"] == "resize the images (--size 32)"
    if name == "ViT":
        assert found["patches of 4 × 4"] == "set patch=4 in ViT"
    if name == "ResNet":
        assert "global max pooling" in found
        assert "standardise each channel" in found
        assert "whitening" not in found  # 128 entries cannot be decorrelated by 40 samples
    if name == "table":
        assert "whitening" in found
        assert "standardise each feature" in found
        assert "the same contrast for every sample" not in found


def test_what_does_not_fit_is_counted_and_standard_data_are_left_alone() -> None:
    make, shape = FAMILIES["ViT"]
    found = catalogue(make, torch.randn(60, *shape, generator=torch.Generator().manual_seed(0)))
    assert found.unfit >= 1  # without a stride there are more patches than positions
    assert "stride" not in {c.kind for c in found.changes if "no stride" in c.change}
    assert "standardise" not in {c.change for c in found.changes}


def test_another_resolution_by_hand() -> None:
    known = Known(partial(LeNet, channels=1, image_size=16, outputs=2), torch.zeros(2, 1, 16, 16))
    change = resolution_change(known, 20)
    assert change is not None
    assert member(change.family, 0, 0)(torch.zeros(1, 1, 16, 16)).shape == (1, 2)
    assert resolution_change(known, 8) is None  # LeNet takes no images below 16
