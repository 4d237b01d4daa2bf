"""Logits are found in what models return; where it is not clear, the sentence lists what was found."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.logits import NotFound, answering, logits_of, remark_on
from netgrain.families.members import forward
from netgrain.families.trace import Unsupported, record

X = torch.arange(6.0).reshape(2, 3)
Y, Z = X[:, :1] + 1, X + 2


@dataclass
class Output:
    """What a model of Hugging Face returns."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


@dataclass
class Features:
    last_hidden_state: Tensor
    pooler_output: Tensor | None = None


class Pair(NamedTuple):
    scores: Tensor
    extra: Tensor | None


class WithAux(NamedTuple):
    aux: Tensor
    logits: Tensor


class Bag:
    """Neither a dataclass nor a mapping."""

    logits = Y


FOUND: dict[str, Any] = {
    "a tensor": Y,
    "a dataclass": Output(logits=Y, hidden_states=(X, Z)),
    "a dataclass with a loss": Output(loss=Z.sum(), logits=Y),
    "features alone": Features(Y),
    "a dict": {"hidden": Z, "logits": Y},
    "a dict of torchvision": OrderedDict(out=Y, aux=Z),
    "output": {"aux": Z, "output": Y},
    "prediction": {"aux": Z, "prediction": Y},
    "preds": {"aux": Z, "preds": Y},
    "a dict of one": {"anything": Y, "loss": Z.sum(), "name": "a"},
    "a named tuple": WithAux(Z, Y),
    "a named tuple without names that say it": Pair(Y, Z),
    "a named tuple with nothing else": Pair(Y, None),
    "a tuple": (Y, Z),
    "a tuple with something else": (Y, None, [Z]),
    "a tuple with the input": (X, Y),
    "a tuple with a loss": (Z.sum(), Y),
    "a list of one": [Y],
    "an object": Bag(),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", FOUND)
def test_found(case: str) -> None:
    assert logits_of(FOUND[case], X) is Y


UNCLEAR: dict[str, tuple[Any, str]] = {
    "both kinds of features": (Features(Z, Y), r"pooler_output: tensor \(2, 1\).*model\(x\)\.pooler_output\.$"),
    "a dict of two": ({"a": Y, "b": Z}, r"dict \(a: tensor \(2, 1\), b: tensor \(2, 3\)\).*model\(x\)\['b'\]\.$"),
    "a list": ([Y, Z], r"list \(0: tensor \(2, 1\), 1: tensor \(2, 3\)\).*model\(x\)\[1\]\.$"),
    "a list of dicts": ([{"boxes": Z}, {"boxes": Z}], r"list \(0: dict, 1: dict\)"),
    "a tuple that begins with a loss": ((Z.sum(), Y, Z), r"tuple \(0: tensor \(\), 1: "),
    "an empty dict": ({}, r"dict \(empty\)"),
    "a dict without tensors": ({"a": 1}, r"dict \(a: int\)"),
    "many": ({str(i): Y for i in range(9)}, "and 3 more"),
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_unclear(case: str) -> None:
    returned, says = UNCLEAR[case]
    with pytest.raises(NotFound, match=says) as caught:
        logits_of(returned, X)
    assert "\n" not in str(caught.value)


def test_what_is_no_container_is_left_to_others() -> None:
    assert logits_of(None, X) is None
    assert logits_of("text", X) == "text"


def test_a_choice_is_remarked_on() -> None:
    assert remark_on((Y, Z), X) == "the outputs are the first of 2 tensors that the model returns"
    for sure in (Y, (Y,), (Y, None), (X, Y), {"logits": Y, "a": Z}, WithAux(Z, Y), [Y]):
        assert remark_on(sure, X) == ""


class Net(nn.Module):
    """Its outputs are packed by a function."""

    def __init__(self, packed: Callable[[Tensor], Any] = lambda y: y) -> None:
        super().__init__()
        self.first, self.head, self.packed = nn.Linear(3, 5), nn.Linear(5, 2), packed

    def forward(self, x: Tensor) -> Any:
        return self.packed(self.head(self.first(x).tanh()))


PACKED: dict[str, Callable[[Tensor], Any]] = {
    "dataclass": lambda y: Output(logits=y),
    "dict": lambda y: {"out": y, "aux": y * 2},
    "tuple": lambda y: (y, y * 2),
}


@pytest.mark.parametrize("kind", PACKED)
def test_everything_that_calls_the_model_finds_them(kind: str) -> None:
    """The same numbers as those of the network that returns a tensor, by every way to call it."""
    from netgrain.training import Settings, train, train_member

    def make() -> nn.Module:
        return Net(PACKED[kind])

    assert torch.equal(ng.average_geometry(make, (3,)).matrix(), ng.average_geometry(Net, (3,)).matrix())
    for options in ({"first_layer": "never"}, {"vmapped": True}, {"probe": ng.Gaussian(1.0)}, {"output": 1}):
        both = [ng.average_geometry(m, (3,), members=3, **options).matrix() for m in (make, Net)]
        assert torch.equal(*both), options
    X, y = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2
    assert torch.equal(*(ng.average_evolution(m, X, members=3).matrix() for m in (make, Net)))
    one, other = Net(PACKED[kind]).eval(), Net().eval()
    other.load_state_dict(one.state_dict())
    assert ng.geometric_complexity(one, X).value == ng.geometric_complexity(other, X).value
    assert torch.equal(*(ng.geometry_of(m, ng.Data(X)).matrix() for m in (one, other)))
    for vmapped in (False, True):
        settings = Settings(lr=0.1, steps=3, batch=4)
        found = [train(m, X, y, settings, members=2, vmapped=vmapped)[1] for m in (make, Net)]
        assert torch.equal(found[0].losses, found[1].losses)
        assert found[0].train_accuracy == found[1].train_accuracy
    penalised = partial(train_member, X=X, y=y, settings=Settings(lr=0.1, steps=3), seed=0, i=0)
    found = [penalised(m, regularizer=ng.regularizers.GeometricComplexity(0.1)) for m in (make, Net)]
    assert torch.equal(found[0].losses, found[1].losses)


def test_the_trace_and_the_forward_pass_say_the_same() -> None:
    model = Net(lambda y: {"a": y, "b": y * 2})
    with pytest.raises(ng.NetgrainError, match=r"returned dict .*call=lambda") as told:
        forward(model, X)
    with pytest.raises(Unsupported, match=r"returned dict .*call=lambda") as recorded:
        record(model, X)
    assert str(recorded.value) == str(told.value).rstrip(".")
    assert answering(Net(PACKED["dict"]))(X).shape == (2, 2)


def test_a_tuple_leaves_a_note() -> None:
    note = "the outputs are the first of 2 tensors that the model returns"
    for options in ({}, {"members": 3}):
        assert note in ng.average_geometry(lambda: Net(PACKED["tuple"]), (3,), **options).about.notes
        assert note not in ng.average_geometry(lambda: Net(PACKED["dict"]), (3,), **options).about.notes
