"""Members side by side give the gradients that they give one by one, or say why they cannot."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.gradients import gradients
from netgrain.families.members import member
from netgrain.families.outputs import Output
from netgrain.families.reading import read
from netgrain.families.side_by_side import rows_of_members, why_not_side_by_side
from netgrain.geometry.first_layer import first_layer_of
from netgrain.models import MLP, VGG11, LeNet, ResNet18, SmallLeNet, ViT
from netgrain.runtime.errors import NetgrainError

MODELS = {"mlp": MLP, "lenet": LeNet, "smalllenet": SmallLeNet, "vgg11": VGG11, "resnet18": ResNet18, "vit": ViT}
SHAPE = (1, 16, 16)
CASES = [(name, norm) for name in MODELS for norm in (None, "batch", "layer") if (name, norm) != ("vit", "batch")]


def family(name: str, norm: str | None = None) -> Callable[[], nn.Module]:
    return partial(MODELS[name], channels=1, image_size=16, outputs=3, width=0.125, activation="gelu", norm=norm)


def three(make: Callable[[], nn.Module], dtype: torch.dtype = torch.float32) -> list[nn.Module]:
    """Members that differ in their running statistics as well, as trained ones do."""
    models = [member(make, 0, i).to(dtype) for i in range(3)]
    for i, model in enumerate(models):
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.fill_(0.1 * i)  # type: ignore[union-attr]
                module.running_var.fill_(1.0 + i)  # type: ignore[union-attr]
    return models


def points(count: int = 2, shape: tuple[int, ...] = SHAPE, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(3, count, *shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def loop(models: list[nn.Module], x: Tensor, output: Output = "all") -> Tensor:
    return torch.stack([gradients(model, one, output).flatten(1) for model, one in zip(models, x, strict=True)])


def error(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    assert float(expected.abs().max()) > 0
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize(("name", "norm"), CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
@pytest.mark.quick
def test_every_built_in_model(name: str, norm: str | None, dtype: torch.dtype, tolerance: float) -> None:
    models, x = three(family(name, norm), dtype), points(dtype=dtype)
    assert why_not_side_by_side(models, x) is None
    assert error(rows_of_members(models, x), loop(models, x)) < tolerance


OUTPUTS: list[Output] = ["all", "mean", 1, 2, ("diff", 0, 2), lambda y: y.square().sum(1)]


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda o: "custom" if callable(o) else str(o))
def test_every_choice_of_outputs(output: Output) -> None:
    models, x = three(family("lenet"), torch.float64), points(dtype=torch.float64)
    assert error(rows_of_members(models, x, output), loop(models, x, output)) < 1e-10


def test_more_points_than_are_taken_at_once() -> None:
    models = three(lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), torch.float64)
    x = points(130, (4,), torch.float64)
    assert error(rows_of_members(models, x), loop(models, x)) < 1e-10


@pytest.mark.parametrize("name", MODELS)
def test_gradients_at_the_first_layer(name: str) -> None:
    make = family(name)
    plan = first_layer_of(read(make, SHAPE))
    models, x = three(make, torch.float64), torch.zeros(3, 1, *SHAPE, dtype=torch.float64)
    assert why_not_side_by_side(models, x, at=plan.name) is None
    expected = torch.stack([plan.rows(model, one, "all") for model, one in zip(models, x, strict=True)])
    assert error(plan.rows_of_members(models, x, "all"), expected) < 1e-10


class Odd(nn.Module):
    """A network with one peculiarity."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.linear, self.what = nn.Linear(4, 2), what
        self.scale = float(torch.rand(()))  # belongs to the member, and is no tensor

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        if self.what == "branch" and bool((y > 0).all()):
            return -y
        if self.what == "attribute":
            return self.scale * y
        if self.what == "noise":
            return y + torch.randn_like(y)
        if self.what == "slow":
            return torch.renorm(y, 2, 0, 1.0)
        return y


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("branch", "vmap does not take"),
        ("attribute", "member 1 differs"),
        ("noise", "vmap does not take"),
        ("slow", "performance drop"),
    ],
)
def test_a_model_that_cannot_be_stacked_says_why(what: str, says: str) -> None:
    models = three(partial(Odd, what))
    assert says in str(why_not_side_by_side(models, points(shape=(4,))))
    assert why_not_side_by_side(three(partial(Odd, "nothing")), points(shape=(4,))) is None


def test_members_of_different_kinds() -> None:
    x = points(shape=(4,))
    a, b = nn.Linear(4, 2), nn.Linear(4, 2)
    assert why_not_side_by_side([], x) == "there are no members"
    assert "shape" in str(why_not_side_by_side([a, nn.Linear(4, 3)], x))
    assert "'bias'" in str(why_not_side_by_side([a, nn.Linear(4, 2, bias=False)], x))
    assert "type" in str(why_not_side_by_side([a, nn.Linear(4, 2).double()], x))
    assert "member 1 is a Sequential" in str(why_not_side_by_side([a, nn.Sequential(b)], x))
    assert "eval" in str(why_not_side_by_side([a, b.eval()], x))
    with pytest.raises(NetgrainError, match=r"side by side.*one by one"):
        rows_of_members([a, nn.Linear(4, 3)], x[:2])
    with pytest.raises(NetgrainError, match=r"expected points .* for 1 members, found shape \(3, 2, 4\)"):
        rows_of_members([a], x)


def test_models_and_points_are_left_as_they_were() -> None:
    models, x = [model.requires_grad_(True) for model in three(family("lenet", "batch"))], points()
    before, kept = [{n: t.clone() for n, t in m.state_dict().items()} for m in models], x.clone()
    layer = next(name for name, m in models[0].named_modules() if isinstance(m, nn.Conv2d))
    for at in (None, layer):
        assert why_not_side_by_side(models, x, at=at) is None
    for model, state in zip(models, before, strict=True):
        assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())
        assert all(p.grad is None and p.requires_grad for p in model.parameters())
        assert not any(m._forward_hooks for m in model.modules())
    assert torch.equal(x, kept)
    assert not x.requires_grad


def test_a_network_that_ignores_its_input_has_zero_gradients() -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Parameter(torch.ones(2))

        def forward(self, x: Tensor) -> Tensor:
            return self.value.expand(len(x), 2)

    assert torch.equal(rows_of_members([Constant(), Constant()], torch.ones(2, 3, 4)), torch.zeros(2, 6, 4))


@pytest.mark.parametrize("first_layer", ["always", "never"])
def test_members_side_by_side_give_the_same_geometry(first_layer: str) -> None:
    make = partial(LeNet, channels=1, outputs=2, image_size=16, activation="gelu")
    alone, together = (
        ng.average_geometry(
            make, (1, 16, 16), members=20, first_layer=first_layer, vmapped=v, probe=ng.Gaussian(1.0), chunk=8
        )
        for v in (False, True)
    )
    assert not torch.equal(alone.matrix(), together.matrix())  # rounding shows that it went another way
    assert torch.allclose(alone.matrix(), together.matrix(), rtol=1e-3, atol=1e-5 * float(alone.matrix().max()))
    assert together.about.notes == alone.about.notes


def test_members_that_cannot_run_side_by_side_run_one_by_one() -> None:
    class Branches(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            return y if bool(y.isfinite().all()) else y * 0

    G = ng.average_geometry(partial(Branches, 3, 1), (3,), members=6, vmapped=True)
    assert "members one by one: vmap does not take the model" in G.about.notes[-1]
