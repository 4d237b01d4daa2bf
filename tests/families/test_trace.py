"""What a module does, step by step: names, shapes, weights, and what cannot be recorded."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from netgrain.families.trace import Other, Ref, Unsupported, Weight, others_in, record, recorded, refs_in, weights_in


class Net(nn.Module):
    """Any forward over two linear layers."""

    def __init__(self, run: Callable[[nn.Module, Tensor], Tensor], device: str = "cpu") -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4, device=device), nn.Linear(4, 2, device=device)
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


X = torch.zeros(2, 4)


@pytest.mark.quick
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_steps_with_weights_and_shapes(device: str) -> None:
    trace = record(Net(lambda n, x: n.b(n.a(x).tanh() + 1), device).requires_grad_(False), X)
    assert [(s.name, s.module, s.kind) for s in trace.steps] == [
        ("linear", "a", "Linear"),
        ("tanh", "", "Net"),
        ("add", "", "Net"),
        ("linear", "b", "Linear"),
    ]
    assert [s.shapes for s in trace.steps] == [((2, 4),), ((2, 4),), ((2, 4),), ((2, 2),)]
    assert [w.name for w in weights_in(trace.steps[0].args)] == ["a.weight", "a.bias"]
    assert [list(refs_in(s.args)) for s in trace.steps] == [[Ref(-1)], [Ref(0)], [Ref(1)], [Ref(2)]]
    assert (trace.output, trace.calls) == (Ref(3), (("a", "Linear"), ("b", "Linear")))


def test_only_needed_steps_count() -> None:
    def forward(net: nn.Module, x: Tensor) -> Tensor:
        net.a(x)
        return net.b(x * 2)

    trace = record(Net(forward), X)
    assert [trace.steps[i].name for i in sorted(trace.needed() - {-1})] == ["mul", "linear"]


def test_weights_are_followed_where_x_is_not() -> None:
    trace = record(Net(lambda n, x: x @ (2 * n.a.weight).mT * n.b.weight.sum() / float(n.a.bias.sum())), X)
    (product,) = others_in(trace.steps[0].args)
    assert isinstance(product, Other)
    assert product.weights == {"a.weight"}
    (total,) = others_in(trace.steps[1].args)
    assert total.weights == {"b.weight"}
    assert trace.looked_at == {"a.bias"}
    assert Weight("a.weight") in list(weights_in(record(Net(lambda n, x: x @ n.a.weight), X).steps[0].args))


def test_a_recording_may_stop() -> None:
    net = Net(lambda n, x: n.b(n.a(x).tanh()))
    assert [s.name for s in recorded(net, X, stop_after=1)] == ["linear", "tanh"]
    assert recorded(net, X, stop_after=-1) == []


def in_place(net: nn.Module, x: Tensor) -> Tensor:
    h = net.a(x)
    view = h.view(-1, 2, 2).mT
    h += 1
    return net.b(view.flatten(1))


def without_gradients(net: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return net.b(x)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda n, x: n.a(x) if x.sum() > 0 else n.b(x), "looks at numbers"),
        (lambda n, x: n.b(x + float("nan")), "add is given NaN"),
        (lambda n, x: n.a.weight, "not a tensor computed from its input"),
        (lambda n, x: n.b(x[:, :3]), "could not be traced in 'b'"),
        (in_place, "writes in place into a tensor that is also used elsewhere"),
        (without_gradients, "switches gradients off"),
    ],
)
def test_what_cannot_be_recorded(run: Callable[[nn.Module, Tensor], Tensor], message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        record(Net(run).requires_grad_(False), X)
