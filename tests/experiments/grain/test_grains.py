"""What experiments on geometry share: the grain as a unit, directions inside blocks, images."""

from pathlib import Path
from typing import Any

import pytest
import torch

import netgrain as ng
from netgrain.experiments.grain.grains import (
    Grain,
    grains_of,
    in_order,
    make_of,
    model_config,
    pictures,
)
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner

SHAPE = (1, 16, 16)


@pytest.fixture
def runner(tmp_path: Path) -> Any:
    with RunFolder.create(tmp_path / "run", experiment="x", scale="s", config={}, resume=False) as folder:
        yield Runner(folder)


def test_the_grain_is_the_geometry_and_is_read_back(runner: Runner) -> None:
    lenet = model_config("LeNet", SHAPE, activation="gelu")
    (grain,) = grains_of(runner, {"LeNet": lenet}).values()
    G = ng.average_geometry(make_of(lenet), SHAPE)
    assert grain.method == "closed-form"
    assert torch.allclose(grain.geometry().matrix(), G.matrix(), atol=1e-10 * float(G.eigenvalues[0]))
    assert [b[1] for b in grain.blocks[:-1]] == [b[0] for b in grain.blocks[1:]]
    assert grain.blocks[-1][1] == len(grain.values) == 256
    before = runner.computed
    (again,) = grains_of(runner, {"LeNet": lenet}).values()
    assert runner.computed == before
    assert torch.equal(again.directions, grain.directions)


def test_directions_are_drawn_inside_their_block() -> None:
    eye = torch.eye(4, dtype=torch.float64).reshape(4, 1, 2, 2)
    grain = Grain(torch.tensor([2.0, 1, 1, 0], dtype=torch.float64), eye, [(0, 1), (1, 3), (3, 4)], None, "closed-form")
    assert torch.equal(grain.direction(0, seed=5), eye[0])
    assert torch.equal(grain.direction(-1, seed=5), eye[3])
    u, v, w = (grain.direction(i, seed=s) for i, s in ((1, 0), (1, 1), (2, 0)))
    for x in (u, v, w):
        assert float(x.norm()) == pytest.approx(1)
        assert float(x.flatten()[0].abs() + x.flatten()[3].abs()) == 0
    assert not torch.allclose(u, v)
    assert not torch.allclose(u, w)
    assert torch.equal(u, grain.direction(1, seed=0))


def test_a_narrow_resnet_has_the_geometry_of_the_full_one(runner: Runner) -> None:
    narrow = model_config("ResNet18", (1, 8, 8), activation="gelu", width=1 / 16)
    (grain,) = grains_of(runner, {"ResNet18": narrow}, twins=True).values()
    assert grain.twin is not None
    assert 0 < grain.twin.stderr < 1e-3  # the full one is sampled
    assert abs(grain.twin - 1) < 4 * grain.twin.stderr  # no biases: widths cancel


def test_names_widths_and_norms() -> None:
    assert in_order({"ViT": 1, "LeNet": 2, "MLP": 3}) == ["MLP", "LeNet", "ViT"]
    assert model_config("ResNet18", SHAPE, activation="relu")["width"] == 1 / 8
    assert model_config("ResNet18", SHAPE, activation="relu", width=1.0)["width"] == 1
    assert model_config("LeNet", SHAPE, activation="relu")["width"] == 1
    assert model_config("ViT", SHAPE, activation="relu", normed=True)["norm"] == "layer"
    assert model_config("LeNet", SHAPE, activation="relu", normed=True)["norm"] is None
    assert sum(p.numel() for p in make_of(model_config("LeNet", SHAPE, activation="relu"))().parameters()) == 14946


def test_enlarged_digits() -> None:
    split = pictures(name="digits", size=16, samples=50, tests=20, two=True)
    assert split.train.X.shape == (50, 1, 16, 16)
    assert torch.equal(split.train.X[..., ::2, ::2], split.train.X[..., 1::2, 1::2])
    plain = pictures(name="digits", size=8, samples=50, tests=20)
    assert torch.equal(split.train.y, (plain.train.y >= 5).long())
