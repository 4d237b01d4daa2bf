"""A golden geometry notices what changed and says so; what did not change passes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from netgrain import NetgrainError
from netgrain.geometry.golden import UPDATE, assert_same_grain, write_golden
from netgrain.models import LeNet, ResNet18, ViT
from netgrain.runtime.packed import read_packed, write_packed

SHAPE = (1, 16, 16)


def small(*, border: str = "zeros", pool: int = 2, gain: float = 1.0, head: float | None = None) -> nn.Module:
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.GELU(),
        nn.AvgPool2d(pool),
        nn.Conv2d(8, 8, 3, padding=1, padding_mode=border, bias=False),
        nn.Flatten(),
        nn.LazyLinear(2),
    )
    net(torch.zeros(1, *SHAPE))
    with torch.no_grad():
        net[0].weight.mul_(gain)
        if head is not None:
            net[-1].weight.fill_(head)
    return net


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return write_golden(small, tmp_path / "golden.safetensors", input_shape=SHAPE)


@pytest.mark.quick
def test_the_same_family_passes_and_the_file_is_small(golden: Path) -> None:
    assert_same_grain(small, golden)
    assert_same_grain(small, golden, tol=1e-6)  # a closed form has no noise
    assert golden.stat().st_size < 40_000


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (partial(small, gain=1.1), r"factor of 1.21: was the initialisation"),
        (partial(small, head=0.0), "initialised to zero"),
        (partial(small, border="circular"), "at the border: was padding"),
        (partial(small, pool=4), "was the architecture"),
    ],
)
def test_what_changed_is_said(golden: Path, changed: Callable[[], nn.Module], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        assert_same_grain(changed, golden)


@pytest.mark.parametrize(
    "make", [partial(LeNet, channels=1, image_size=16), partial(ResNet18, channels=1, image_size=16)]
)
def test_built_in_families_at_other_seeds(tmp_path: Path, make: Callable[[], nn.Module]) -> None:
    file = write_golden(make, tmp_path / "g", input_shape=SHAPE, seed=3)
    assert_same_grain(make, file, seed=4)


def test_sampled_families_are_compared_within_their_noise(tmp_path: Path) -> None:
    make = partial(ViT, channels=1, image_size=16, width=0.25, depth=2, outputs=1)
    file = write_golden(make, tmp_path / "g", input_shape=SHAPE, seed=3)
    assert_same_grain(make, file, seed=4)

    def larger() -> nn.Module:
        net = make()
        with torch.no_grad():
            list(net.parameters())[-2].mul_(3)
        return net

    with pytest.raises(AssertionError, match="factor of"):
        assert_same_grain(larger, file, seed=4)


def test_a_file_that_lacks_something_is_refused(tmp_path: Path, golden: Path) -> None:
    header, tensors = read_packed(golden, "golden geometry")
    spoiled = [
        *(({k: v for k, v in header.items() if k != name}, tensors) for name in header if name != "layout"),
        *((header, {k: v for k, v in tensors.items() if k != name}) for name in tensors),
        (header | {"input_shape": [3]}, tensors),
        (header | {"trace": None}, tensors),
        (header | {"noise": float("nan")}, tensors),
        (header, tensors | {"diagonal": tensors["diagonal"] * torch.nan}),
    ]
    for changed, parts in spoiled:
        file = write_packed(tmp_path / "other", "golden geometry", changed, parts)
        with pytest.raises(NetgrainError, match="holds no whole golden geometry"):
            assert_same_grain(small, file)


def test_making_and_updating_the_file(tmp_path: Path, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NetgrainError, match="does not exist; make it once"):
        assert_same_grain(small, tmp_path / "none")
    with pytest.raises(NetgrainError, match=r"is for inputs of shape \(1, 16, 16\)"):
        assert_same_grain(small, golden, input_shape=(1, 8, 8))
    with pytest.raises(NetgrainError, match="expected tol"):
        assert_same_grain(small, golden, tol=float("nan"))
    monkeypatch.setenv(UPDATE, "1")
    with pytest.raises(NetgrainError, match="needs input_shape="):
        assert_same_grain(small, tmp_path / "none")
    assert_same_grain(partial(small, gain=1.5), golden)
    monkeypatch.delenv(UPDATE)
    assert_same_grain(partial(small, gain=1.5), golden)
    with pytest.raises(AssertionError):
        assert_same_grain(small, golden)
