"""Families as front doors use them: called in the user's way, lazy modules made whole, members as before."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.members import family_name, member
from netgrain.families.prepared import Prepared, materialised, prepared, prepared_model
from netgrain.families.reading import read
from netgrain.models import MLP

IMAGES = (1, 8, 8)


def plain() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(144, 3))


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.GELU(), nn.Flatten(), nn.LazyLinear(3))


@pytest.mark.quick
def test_a_lazy_family_is_the_family_of_its_sizes() -> None:
    """The same closed form, the same laws, and members that are functions of (seed, i) alone."""
    assert torch.equal(ng.average_geometry(lazy, IMAGES).matrix(), ng.average_geometry(plain, IMAGES).matrix())
    family = prepared(lazy, IMAGES)
    one, again, other = (member(family, 0, i).state_dict() for i in (0, 0, 1))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["4.weight"], other["4.weight"])
    law = read(family, IMAGES).initialisation.of("4.weight")
    assert (law.text, law.read_from) == ("uniform in ±0.08333", "program")


def test_lazy_members_are_sampled() -> None:
    G = ng.average_geometry(lazy, IMAGES, members=64, first_layer="never")
    assert abs(G.trace.value - ng.average_geometry(plain, IMAGES).trace.value) < 4 * G.trace.stderr
    assert G.trace.stderr < 0.1 * G.trace.value


def test_materialised_leaves_modes_and_whole_models_alone() -> None:
    model = lazy().train()
    model[2].eval()
    modes = [m.training for m in model.modules()]
    assert materialised(model, IMAGES) is model
    assert [m.training for m in model.modules()] == modes
    assert int(model[1].num_batches_tracked) == 0
    weights = model[4].weight.detach().clone()
    assert torch.equal(materialised(model, IMAGES)[4].weight, weights)
    with pytest.raises(ng.NetgrainError, match=r"failed on inputs of shape \(3,\)"):
        materialised(lazy(), (3,))


class Several(nn.Module):
    """Keyword inputs, and more than one."""

    def __init__(self) -> None:
        super().__init__()
        self.net = plain()

    def forward(self, *, pixel_values: Tensor, mask: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        return {"loss": pixel_values.sum(), "scores": self.net(pixel_values), "mask": mask}


def called(model: Several, x: Tensor) -> Tensor:
    return model(pixel_values=x, mask=torch.ones(len(x)))["scores"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "options",
    [{}, {"members": 3}, {"members": 3, "first_layer": "never"}, {"members": 3, "probe": ng.Gaussian(1.0)}],
    ids=["closed form", "first layer", "plain", "both ends"],
)
def test_a_called_model_has_the_geometry_of_the_model(options: dict) -> None:
    """By the same method, with the same layers integrated."""
    G = ng.average_geometry(Several, IMAGES, call=called, **options)
    H = ng.average_geometry(plain, IMAGES, **options)
    assert G.about.model == "Several"
    assert (G.method, G.exact) == (H.method, H.exact)
    if options:
        assert G.about.averaged.replace("model.net.", "") == H.about.averaged
    assert torch.allclose(G.matrix(), H.matrix(), rtol=1e-6, atol=1e-12)


def test_every_door_takes_a_call() -> None:
    X = torch.randn(6, *IMAGES, generator=torch.Generator().manual_seed(0))
    model = Several().eval()
    found = ng.geometry_of(model, ng.Data(X), call=called)
    assert torch.allclose(found.matrix(), ng.geometry_of(model.net, ng.Data(X)).matrix())
    assert found.about.model == "Several"
    assert ng.check(Several, IMAGES, call=called, members=64).agrees
    both = [
        ng.average_evolution(Several, X, members=2, call=called).matrix(),
        ng.average_evolution(plain, X, members=2).matrix(),
    ]
    assert torch.allclose(*both, rtol=1e-5)


def test_names_are_the_users() -> None:
    make = partial(MLP, channels=1, image_size=4)
    family = prepared(make, (1, 4, 4))
    assert family_name(family, member(family, 0, 0)) == family_name(make, make())
    assert prepared(family, (1, 4, 4)).keywords == make.keywords
    assert Prepared(make, (1, 4, 4)).name is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"call": "logits"}, r"call expects a function of the model and a batch, as in lambda.*found 'logits'"),
        ({"at": "embedding"}, "at expects 'embeddings', .*found 'embedding'"),
        ({"at": True}, "at expects 'embeddings'"),
    ],
)
def test_other_ways_are_refused_before_anything_is_built(options: dict, says: str) -> None:
    def never() -> nn.Module:
        raise AssertionError("built")

    for act in (
        lambda: ng.average_geometry(never, (3,), **options),
        lambda: ng.check(never, (3,), members=64, **options),
        lambda: prepared(never, (3,), **options),
        lambda: prepared_model(nn.Linear(3, 1), (3,), **options),
    ):
        with pytest.raises(ng.NetgrainError, match=says):
            act()


class ChannelsLast(nn.Module):
    """Takes images as (height, width, channels)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = coloured()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x.permute(0, 3, 1, 2))
        return out


def coloured() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 2))


def in_memory_order() -> nn.Module:
    return coloured().to(memory_format=torch.channels_last)


@pytest.mark.parametrize("options", [{}, {"members": 3}, {"members": 3, "probe": "data"}], ids=str)
def test_channels_last(options: dict) -> None:
    """In memory, in the model, in the data: the same G, its coordinates in the order of the input."""
    X = torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    order = torch.arange(108).reshape(3, 6, 6).permute(1, 2, 0).flatten()

    def geometry(make: type | object, X: Tensor) -> Tensor:
        probe = {"probe": ng.Data(X)} if "probe" in options else {}
        return ng.average_geometry(make, X.shape[1:], **(options | probe)).matrix()  # type: ignore[arg-type]

    expected = geometry(coloured, X)
    close = {"rtol": 1e-4, "atol": 1e-6 * float(expected.abs().max())}
    assert torch.allclose(geometry(in_memory_order, X.to(memory_format=torch.channels_last)), expected, **close)
    assert torch.allclose(geometry(ChannelsLast, X.permute(0, 2, 3, 1)), expected[order][:, order], **close)
