"""Edits: weights that stay, layers that are made anew where sizes ask for it, and families that do not run."""

import pickle
from functools import partial

import pytest
import torch
from torch import nn

from netgrain.auditing.edits import (
    Edit,
    Edited,
    another_kernel,
    fitted,
    followed,
    he_weights,
    places_in,
    preceded,
    replaced,
    reset,
    scaled,
)
from netgrain.auditing.preprocessing import EvenContrast, Resized
from netgrain.families.members import member

SHAPE = (1, 8, 8)


def make() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    )


def weights(model: nn.Module, name: str) -> torch.Tensor:
    return model.get_parameter(f"{name}.weight")


def test_weights_that_need_not_change_are_those_of_the_same_member() -> None:
    family = Edited(make, {"0": partial(reset, stride=(1, 1)), "2": partial(replaced, make=nn.Identity)})
    whole = fitted(family, SHAPE)
    assert whole is not None
    before, after = member(make, 0, 5), member(whole, 0, 5)
    assert torch.equal(weights(before, "0"), weights(after, "0"))
    assert weights(after, "4").shape == (3, 256)  # 8 × 8 positions of four maps
    assert sorted(whole.edits) == ["0", "2", "4"]
    assert after(torch.zeros(2, *SHAPE)).shape == (2, 3)
    again = pickle.loads(pickle.dumps(whole))  # noqa: S301
    assert torch.equal(weights(member(again, 0, 5), "4"), weights(after, "4"))


@pytest.mark.parametrize(
    "edits",
    [
        {"2": partial(replaced, make=partial(nn.AvgPool2d, 16))},  # no position is left
        {"4": partial(replaced, make=partial(nn.Linear, 16, 5))},  # other outputs
        {"0": partial(replaced, make=partial(nn.Conv2d, 2, 4, 3))},  # other channels
    ],
)
def test_what_does_not_run_or_answers_otherwise_is_no_change(edits: dict[str, Edit]) -> None:
    assert fitted(Edited(make, edits), SHAPE) is None


def test_something_before_the_input() -> None:
    front = EvenContrast()
    family = fitted(Edited(make, {}, front), SHAPE)
    assert family is not None
    x = torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(member(family, 0, 1)(x), member(make, 0, 1)(front(x)))
    larger = fitted(Edited(make, {}, Resized(16)), SHAPE)
    assert larger is not None
    assert weights(member(larger, 0, 0), "network.4").shape == (3, 64)


def test_places_are_calls_in_order_with_the_shapes_of_a_sample() -> None:
    found = places_in(member(make, 0, 0), SHAPE)
    assert [(p.name, p.before, p.after) for p in found][:3] == [
        ("0", (1, 8, 8), (4, 4, 4)),
        ("1", (4, 4, 4), (4, 4, 4)),
        ("2", (4, 4, 4), (4, 2, 2)),
    ]


def test_edits_by_hand() -> None:
    layer = nn.Linear(400, 300)
    before = layer.weight.detach().clone()
    assert torch.equal(scaled(layer, factor=2.0).get_parameter("weight").detach(), 2 * before)
    he = he_weights(nn.Linear(400, 300))
    assert float(he.get_parameter("weight").detach().var() * 400) == pytest.approx(2, rel=0.05)
    assert not he.get_parameter("bias").any()
    conv = another_kernel(nn.Conv1d(2, 3, 3, stride=2, padding=1, bias=False), kernel=(5,), padding=(2,))
    assert isinstance(conv, nn.Conv1d)
    assert (conv.kernel_size, conv.stride, conv.padding, conv.bias) == ((5,), (2,), (2,), None)
    x = torch.tensor([[-1.0, 2.0]])
    assert followed(nn.ReLU(), by=nn.Flatten)(x).tolist() == preceded(nn.ReLU(), by=nn.Flatten)(x).tolist()
