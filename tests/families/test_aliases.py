"""Writes in place through one of several tensors: the recorded steps, run again, give what the module gave."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from netgrain.families.aliases import Aliases, same_entries, with_item
from netgrain.families.nested import replaced
from netgrain.families.trace import Other, Ref, Trace, Unsupported, record

X = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self, run: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x * 2)


def again(trace: Trace, x: Tensor) -> Tensor:
    """The output of the recorded steps, none of which may see what another one writes."""
    values: dict[Ref, Tensor] = {Ref(-1): x}
    for step in trace.steps:
        args, kwargs = replaced((step.args, step.kwargs), Ref, lambda ref: values[ref].clone())
        args, kwargs = replaced((args, kwargs), Other, lambda other: other.value.clone())
        out = step.function(*args, **kwargs)
        for item, t in enumerate(out if isinstance(out, tuple | list) else [out]):
            values[Ref(step.index, item)] = t.clone()
    return values[trace.output]


def views(x: Tensor) -> Tensor:
    a, b = x.chunk(2, 1)
    a += 1
    b *= a
    return x.flatten(1)


def views_of_views(x: Tensor) -> Tensor:
    part = x[:, 1:]
    inner = part[..., 2:4]
    inner += 3
    part -= 1
    return torch.cat([x, inner.sum(-1, keepdim=True).expand(-1, -1, 6), part], 1)


def overlapping(x: Tensor) -> Tensor:
    left, right = x[..., :4], x[..., 2:]
    left += 1
    right.shape  # noqa: B018  # shapes may be asked of what has fallen behind
    return torch.cat([x, left], -1)


def reshaped(x: Tensor) -> Tensor:
    flat = x.flatten(1)
    flat += 1
    return torch.cat([x.flatten(1), flat], 1)


def whole(x: Tensor) -> Tensor:
    part = x[:, :2]
    x += 1
    return part + 1


def augmented(x: Tensor) -> Tensor:
    x[:, 1:3] += x[:, :2].clone()
    x[..., 0] = 0
    return x


def of_constants(x: Tensor) -> Tensor:
    out = torch.ones(len(x), 4, 6)
    out[:, :1] = x[:, 3:]
    return out + x


def twice(x: Tensor) -> Tensor:
    view = x[:, 1:]
    view += 1
    y = x + 1
    view.mul_(2)
    return x + y


@pytest.mark.quick
@pytest.mark.parametrize(
    "run",
    [views, views_of_views, overlapping, reshaped, whole, augmented, of_constants, twice],
    ids=lambda f: f.__name__,
)
def test_recorded_steps_say_what_happened(run: Callable[[Tensor], Tensor]) -> None:
    net = Net(run)
    trace = record(net, X)
    assert torch.equal(again(trace, X), net(X))
    last = trace.steps[trace.output.step]
    assert torch.equal(last.outputs[trace.output.item], net(X))


def transposed(x: Tensor) -> Tensor:
    turned = x.mT
    turned += 1
    return x + 1


def right_of_left(x: Tensor) -> Tensor:
    left, right = x[..., :4], x[..., 2:]
    left += 1
    return right + 1


def constant_behind_a_view(x: Tensor) -> Tensor:
    out = torch.zeros(len(x), 4, 6)
    out[:, :2].add_(x[:, :2])
    return out + x


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (transposed, "writes in place into a tensor that is also used elsewhere"),
        (right_of_left, "writes in place into a tensor that is also used elsewhere"),
        (constant_behind_a_view, "into which something computed from x was written"),
    ],
)
def test_what_cannot_be_followed(run: Callable[[Tensor], Tensor], message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        record(Net(run), X)


def test_disjoint_parts_do_not_fall_behind() -> None:
    x = X.clone()
    a, b, whole = x[:, :2], x[:, 2:], x
    aliases = Aliases()
    for t in (a, b, whole):
        aliases.hold(t)
    aliases.write(a, "here")
    assert aliases.patches(b) == []
    (patch,) = aliases.patches(whole)
    assert (patch.name, patch.key, patch.source is a) == ("setitem", (slice(None), slice(0, 2), slice(None)), True)
    assert same_entries(whole[patch.key], a)
    assert not same_entries(b, a)
    assert torch.equal(with_item(torch.zeros_like(x), patch.key, a)[:, :2], x[:, :2])


def test_a_recording_holds_no_tensor_that_its_module_has_dropped() -> None:
    dropped = []

    def run(x: Tensor) -> Tensor:
        wide = x * 2
        held = weakref.ref(wide)
        y = wide.sum(-1)
        del wide
        dropped.append(held() is None)
        return y

    record(Net(run), X, outputs=False)
    assert dropped == [True]
