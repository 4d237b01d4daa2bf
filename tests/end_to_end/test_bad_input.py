"""Bad input gets one sentence that says what was expected, what was found and what to do."""

from functools import partial

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.cli.parsing import parse_probe
from netgrain.models import MLP, ResNet18

tiny = partial(MLP, channels=1, image_size=4, outputs=2)
SHAPE = (1, 4, 4)


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(nn.functional.dropout(x.flatten(1), 0.5, training=True))


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 2)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [self.head(x.flatten(1)), x.flatten(1)]


class Divides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (
            self.head(x.flatten(1)).square().sum(1, keepdim=True).sqrt() + x.flatten(1).norm(dim=1, keepdim=True).log()
        )


def nan_weights() -> nn.Module:
    net = tiny()
    next(net.parameters()).data[0, 0] = float("nan")
    return net


def embedding() -> nn.Module:
    return nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(64, 2))


_instance = MLP(channels=1, image_size=4)

CASES = {
    "wrong shape": (lambda: ng.average_geometry(tiny, (3, 8, 8), members=2), "failed on inputs of shape \\(3, 8, 8\\)"),
    "shape with zero": (lambda: ng.average_geometry(tiny, (1, 0, 4)), "positive sizes without the batch"),
    "shape not sizes": (lambda: ng.average_geometry(tiny, "abc"), "positive sizes"),
    "no parameters": (lambda: ng.average_geometry(nn.Flatten, SHAPE), "no parameters"),
    "not a module": (lambda: ng.average_geometry(dict, SHAPE), "returns dict"),
    "same module": (lambda: ng.average_geometry(lambda: _instance, SHAPE), "geometry_of"),
    "stochastic": (lambda: ng.average_geometry(Dropped, SHAPE, members=2), "stochastic in eval mode"),
    "nan weights": (lambda: ng.average_geometry(nan_weights, SHAPE), "NaN or Inf in parameter 'layers.1.weight'"),
    "nan gradients": (
        lambda: ng.average_geometry(Divides, SHAPE, members=2, probe=ng.Data(torch.zeros(2, *SHAPE))),
        "returns NaN or Inf at x = 0, first in the model's own forward",
    ),
    "zero members": (lambda: ng.average_geometry(tiny, SHAPE, members=0), "at least one member, found 0"),
    "both": (lambda: ng.average_geometry(tiny, SHAPE, members=2, tolerance=0.1), "found both"),
    "tolerance": (lambda: ng.average_geometry(tiny, SHAPE, tolerance=2.0), "between 0 and 1"),
    "probes": (lambda: ng.average_geometry(tiny, SHAPE, members=2, probes=0), "at least one probe"),
    "workers": (lambda: ng.average_geometry(tiny, SHAPE, members=2, workers=0), "at least one worker"),
    "first layer": (lambda: ng.average_geometry(tiny, SHAPE, first_layer="maybe"), "'auto', 'never' or 'always'"),
    "method": (lambda: ng.average_geometry(tiny, SHAPE, method="exact"), "found 'exact'"),
    "closed form": (
        lambda: ng.average_geometry(
            lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4), nn.Flatten(), nn.Linear(16, 2)),
            (1, 4, 4),
            method="closed-form",
            probe=ng.Gaussian(1),
        ),
        "there is no closed form: instance_norm in '1' .*use method='sampled'",
    ),
    "closed form of members": (
        lambda: ng.average_geometry(tiny, SHAPE, method="closed-form", members=5),
        "members= belongs to sampling",
    ),
    "origin of a norm": (
        lambda: ng.average_geometry(
            partial(ResNet18, channels=1, norm="layer"), (1, 8, 8), method="closed-form", probe=ng.Origin()
        ),
        "the origin has no limit for this model: 'stem.1' normalises a constant",
    ),
    "check of too few": (lambda: ng.check(tiny, SHAPE, members=10), "at least 64 members"),
    "statistics of one sample": (lambda: ng.data_statistics(tiny, torch.zeros(1, 3)), "at least two finite"),
    "statistics without a batch norm": (ng.data_statistics(tiny, torch.zeros(4, 1, 4, 4)), "model with batch norms"),
    "output": (lambda: ng.average_geometry(tiny, SHAPE, members=2, output=7), "the model has 2 outputs"),
    "list": (lambda: ng.average_geometry(Pair, SHAPE, members=2), "returned list.*call=lambda model, x: model"),
    "integers wanted": (lambda: ng.average_geometry(embedding, (16,), members=2), "looks up tokens"),
    "integer data": (lambda: ng.Data(torch.zeros(3, 4, dtype=torch.uint8)), "X.float\\(\\) / 255"),
    "nan data": (lambda: ng.Data(torch.full((3, 4), float("nan"))), "finite samples"),
    "flat data": (lambda: ng.Data(torch.zeros(3)), "add a first axis"),
    "data shape": (
        lambda: ng.average_geometry(tiny, SHAPE, members=2, probe=ng.Data(torch.zeros(3, 16))),
        "samples of shape \\(16,\\)",
    ),
    "sigma": (lambda: ng.Gaussian(-1.0), "positive sigma"),
    "no models": (lambda: ng.geometry_of([], ng.Data(torch.zeros(1, 4))), "at least one model"),
    "no shape": (lambda: ng.geometry_of(tiny(), ng.Gaussian()), "input_shape="),
    "train mode": (
        lambda: ng.geometry_of(ResNet18(width=1 / 32, norm="batch"), ng.Data(torch.zeros(1, 3, 8, 8))),
        "batch norm 'stem.1' of model 0 is in train mode",
    ),
    "model type": (lambda: ng.geometry_of([len], ng.Data(torch.zeros(1, 4))), "found builtin_function_or_method"),
    "probe": (lambda: parse_probe("gausian:1"), "expected auto, origin"),
    "probe number": (lambda: parse_probe("gaussian:x"), "a number after the colon"),
    "probe file": (lambda: parse_probe("data:nowhere.npz"), "is not a file"),
}


@pytest.mark.parametrize("name", CASES)
def test_sentence(name: str) -> None:
    call, message = CASES[name]
    with pytest.raises(ng.NetgrainError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_dropout_left_on_in_a_given_model() -> None:
    model = nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5), nn.Linear(50, 1)).train()
    with pytest.raises(ng.NetgrainError, match="stochastic"):
        ng.geometry_of(model, ng.Data(torch.randn(5, 4)))


def test_weights_that_ignore_the_seed_are_said() -> None:
    generator = torch.Generator().manual_seed(0)

    def make() -> nn.Module:
        net = nn.Linear(4, 1)
        net.weight.data = torch.randn(1, 4, generator=generator)
        return net

    with pytest.warns(ng.GrainWarning, match="cannot be repeated"):
        ng.average_geometry(make, (4,), members=3)


def test_probe_files(tmp_path) -> None:
    import numpy as np

    X = np.random.default_rng(0).normal(size=(5, 1, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "a.npz", X=X)
    np.save(tmp_path / "a.npy", X)
    for name in ("a.npz", "a.npy"):
        assert torch.equal(parse_probe(f"data:{tmp_path / name}").X, torch.from_numpy(X))
    np.savez(tmp_path / "b.npz", Y=X)
    np.save(tmp_path / "c.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "d.npy").write_bytes(b"nothing")
    (tmp_path / "e.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:200])
    (tmp_path / "f.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:200])
    cases = {"b.npz": "arrays found: Y"} | dict.fromkeys(("c.npy", "d.npy", "e.npz", "f.npy"), "cannot be read")
    for name, message in cases.items():
        with pytest.raises(ng.NetgrainError, match=message):
            parse_probe(f"data:{tmp_path / name}")
