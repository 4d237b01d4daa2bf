"""One reading of a module: both ends, calls, the origin and the laws, for modules that can be traced and others."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from netgrain.families.ends import Entry, LastLayer
from netgrain.families.members import member
from netgrain.families.reading import read
from netgrain.families.reasons import Reason
from netgrain.families.trace import Trace
from netgrain.runtime.errors import NetgrainError


class Net(nn.Module):
    """Any forward over a few named layers."""

    def __init__(self, forward: Callable[[nn.Module, Tensor], Tensor], **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.run = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


class Opaque(torch.autograd.Function):
    """The identity, which no trace sees through."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, g: Tensor) -> Tensor:
        return g


def opaque(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """The same network, behind a step that cannot be traced."""

    def wrapped() -> nn.Module:
        return Net(lambda net, x: Opaque.apply(net.inner(x)), inner=make())

    return wrapped


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


def tokens() -> nn.Module:
    def forward(net: nn.Module, x: Tensor) -> Tensor:
        patches = x.reshape(-1, 1, 3, 2).flip(3).permute(0, 2, 1, 3).reshape(-1, 3, 2)
        return net.head(torch.tanh(net.embed(patches)).flatten(1)).squeeze(-1)

    return Net(forward, embed=nn.Linear(2, 4), head=nn.Linear(12, 1))


def strided() -> nn.Module:
    return nn.Sequential(nn.Conv1d(2, 3, 2, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(12, 2))


# --- the entry ------------------------------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(("make", "shape"), [(mlp, (1, 6)), (tokens, (6,)), (strided, (2, 3))])
def test_the_entry_says_what_the_layer_does_to_x(
    make: Callable[[], nn.Module], shape: tuple[int, ...], hidden: bool
) -> None:
    """Σ_Δ S_Δ Q S_Δᵀ with Q = I, spread over the coordinates, is E[W'W'ᵀ]/v of the layer as a matrix W'."""
    reading = read(opaque(make) if hidden else make, shape)
    entry = reading.entry()
    assert isinstance(entry, Entry), entry
    assert isinstance(reading.trace, Reason) == hidden
    x = torch.zeros(1, *shape, requires_grad=True)
    squares = torch.zeros(6, 6)
    for i in range(300):
        model = member(make, 1, i)
        layer = model.get_submodule(entry.name.removeprefix("inner."))
        seen: list[Tensor] = []
        handle = layer.register_forward_hook(lambda _m, _i, out, seen=seen: seen.append(out))
        model(x)
        handle.remove()
        outputs = seen[0].flatten()
        for j in range(len(outputs)):
            (row,) = torch.autograd.grad(outputs[j], x, retain_graph=True)
            squares += row.reshape(6, 1) * row.reshape(1, 6) / 300
    expected = torch.eye(entry.positions, dtype=torch.float64)
    core = expected if entry.stem is None else entry.stem.push(expected)
    spread = torch.zeros(6, 6, dtype=torch.float64)
    spread[entry.order[:, None], entry.order] = torch.kron(torch.eye(entry.copies, dtype=torch.float64), core)
    channels = {"1": 5, "embed": 4, "0": 3}[entry.name.removeprefix("inner.")]
    torch.testing.assert_close(squares, (channels * entry.law.variance * spread).float(), rtol=0.2, atol=0.06)


def test_coordinates_of_a_rearranged_input() -> None:
    """Token t has the features x[2t + 1] and x[2t]."""
    entry = read(tokens, (6,)).entry()
    assert isinstance(entry, Entry)
    assert (entry.positions, entry.copies, entry.order.tolist()) == (3, 2, [1, 3, 5, 0, 2, 4])


def test_traced_and_tried_entries_are_the_same() -> None:
    for make, shape in ((mlp, (1, 6)), (tokens, (6,)), (strided, (2, 3))):
        traced, tried = read(make, shape).entry(), read(opaque(make), shape).entry()
        assert isinstance(traced, Entry)
        assert isinstance(tried, Entry)
        assert tried.name == f"inner.{traced.name}"
        assert (traced.stem, traced.positions, traced.copies) == (tried.stem, tried.positions, tried.copies)
        assert torch.equal(traced.order, tried.order)
        assert (traced.law.variance, traced.law.error) == (tried.law.variance, tried.law.error)
        assert traced.law.read_from == "program"


def two(forward: Callable[[nn.Module, Tensor], Tensor]) -> Callable[[], nn.Module]:
    return lambda: Net(forward, a=nn.Linear(6, 6), b=nn.Linear(6, 6))


def hooked() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))
    net[0].register_forward_hook(lambda _m, _i, out: out**2)
    return net


NO_ENTRY = {
    "around": (two(lambda n, x: n.b(n.a(x).tanh() + x)), "other way", "a"),
    "several": (two(lambda n, x: n.a(x) * n.b(x)), "several entries", ""),
    "ReLU first": (two(lambda n, x: n.b(n.a(x.relu()).tanh())), "no entry", ""),
    "sorted first": (two(lambda n, x: n.b(n.a(x.sort(1).values).tanh())), "no entry", ""),
    "mixed samples": (two(lambda n, x: n.b(n.a(x.flip(0)).tanh())), "no entry", ""),
    "by hand": (two(lambda n, x: n.b(F.linear(x, n.a.weight).tanh())), "no entry", ""),
    "used twice": (two(lambda n, x: n.a(n.a(x).tanh())), "used elsewhere", "a"),
    "seen again": (two(lambda n, x: n.b(n.a(x).tanh()) @ n.a.weight), "used elsewhere", "a"),
    "seen through a norm": (two(lambda n, x: n.b(n.a(x).tanh()) / n.a.weight.norm()), "used elsewhere", "a"),
    "seen by Python": (two(lambda n, x: n.b(n.a(x).tanh()) / float(n.a.weight.norm())), "used elsewhere", "a"),
    "hooked": (hooked, "own layer", "0"),
    "parametrised": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)), nn.Linear(6, 1)),
        "computed weight",
        "0",
    ),
}


@pytest.mark.parametrize("name", NO_ENTRY)
def test_why_there_is_no_entry(name: str) -> None:
    make, kind, where = NO_ENTRY[name]
    found = read(make, (6,)).entry()
    assert isinstance(found, Reason)
    assert (found.kind, found.where) == (kind, where), found


@pytest.mark.parametrize("name", ["around", "several", "used twice", "seen again", "seen through a norm"])
def test_trying_finds_the_same_reasons(name: str) -> None:
    make, kind, where = NO_ENTRY[name]
    found = read(opaque(make), (6,)).entry()
    assert isinstance(found, Reason)
    assert (found.kind, found.where.removeprefix("inner").removeprefix(".")) == (kind, where), found


def test_uses_that_do_not_matter() -> None:
    """Shapes, blanks and dead branches are no ways around."""

    def forward(net: nn.Module, x: Tensor) -> Tensor:
        net.b(x)
        return net.b(net.a(x).tanh() + torch.zeros_like(x)) * x.shape[1]

    entry = read(two(forward), (6,)).entry()
    assert isinstance(entry, Entry), entry
    assert entry.name == "a"


# --- the last layer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [False, True])
def test_the_last_layer(hidden: bool) -> None:
    found = read(opaque(mlp) if hidden else mlp, (1, 6)).last_layer()
    assert isinstance(found, LastLayer), found
    assert (found.name.removeprefix("inner."), found.outputs, found.ends, found.symmetric) == ("3", 2, True, True)
    pooled = read(two(lambda n, x: 2 * n.b(n.a(x).tanh()).mean(1, keepdim=True)), (6,)).last_layer()
    assert isinstance(pooled, LastLayer)
    assert not pooled.ends


def centred_exponential() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 4, bias=False))
    with torch.no_grad():
        net[2].weight.copy_(-torch.rand(4, 40).log() - 1)
    return net


def test_a_skewed_law_is_centred_and_not_symmetric() -> None:
    found = read(centred_exponential, (6,)).last_layer()
    assert isinstance(found, LastLayer)
    assert not isinstance(found.law, Reason)
    assert found.law.read_from == "draws"
    assert found.law.variance == pytest.approx(1, rel=5 * found.law.error)
    assert not found.symmetric


NO_LAST = {
    "softmax": (two(lambda n, x: n.b(n.a(x)).softmax(1)), "not linear"),
    "square": (two(lambda n, x: (y := n.b(n.a(x))) * y), "not linear"),
    "inverse": (two(lambda n, x: 1 / n.b(n.a(x))), "not linear"),
    "around": (two(lambda n, x: n.b(n.a(x).tanh()) + x), "other way"),
    "scaled": (two(lambda n, x: n.b(n.a(x).tanh()) * n.a.bias), "other way"),
    "none": (lambda: nn.Conv1d(1, 1, 3), "no last layer"),
    "tied": (two(lambda n, x: n.a(n.a(x).tanh())), "used elsewhere"),
}


@pytest.mark.parametrize("name", NO_LAST)
def test_why_there_is_no_last_layer(name: str) -> None:
    make, kind = NO_LAST[name]
    found = read(make, (1, 6) if name == "none" else (6,)).last_layer()
    assert isinstance(found, Reason)
    assert found.kind == kind


@pytest.mark.parametrize("name", ["softmax", "around", "scaled", "tied"])
def test_trying_finds_why_there_is_no_last_layer(name: str) -> None:
    make, kind = NO_LAST[name]
    found = read(opaque(make), (6,)).last_layer()
    assert isinstance(found, Reason)
    assert found.kind == kind


# --- calls, the origin, the trace -----------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [False, True])
def test_calls_in_order_with_repetitions(hidden: bool) -> None:
    def make() -> nn.Module:
        act = nn.ReLU()
        return nn.Sequential(nn.Linear(6, 6), act, nn.Sequential(nn.Linear(6, 6), act), nn.Identity())

    calls = read(opaque(make) if hidden else make, (6,)).calls()
    names = [call.name.removeprefix("inner.") for call in calls]
    assert names == ["0", "1", "2.0", "1", "3"]
    assert [call.repeated for call in calls] == [False, True, False, True, False]
    assert [call.nth for call in calls] == [0, 0, 0, 1, 0]


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(
    ("layers", "kind", "homogeneous"),
    [
        (lambda: [nn.Linear(6, 9), nn.ReLU()], "smooth", False),
        (lambda: [nn.Linear(6, 9, bias=False), nn.Tanh()], "smooth", False),
        (lambda: [nn.Linear(6, 9, bias=False), nn.ReLU()], "kink", True),
        (lambda: [nn.Linear(6, 9, bias=False), nn.ELU(0.5)], "kink", False),
        (lambda: [nn.Linear(6, 9, bias=False), nn.LayerNorm(9)], "constant norm", False),
    ],
)
def test_at_the_origin(layers: Callable[[], list[nn.Module]], kind: str, homogeneous: bool, hidden: bool) -> None:
    def make() -> nn.Module:
        return nn.Sequential(*layers(), nn.Linear(9, 2))

    found = read(opaque(make) if hidden else make, (6,)).at_origin()
    assert (found.kind, found.homogeneous) == (kind, homogeneous)


def test_a_module_that_cannot_be_traced_says_why() -> None:
    reading = read(two(lambda n, x: n.b(n.a(x)) if x.sum() > 1 else n.a(x)), (6,))
    assert isinstance(reading.trace, Reason)
    assert reading.trace.kind == "not traced"
    assert "looks at numbers" in str(reading.trace)
    assert isinstance(read(mlp, (1, 6)).trace, Trace)


def test_running_out_of_memory_is_no_reason() -> None:
    def greedy(net: nn.Module, x: Tensor) -> Tensor:
        return net.b(net.a(x)) + x.new_zeros(2**55).sum()

    with pytest.raises(NetgrainError, match="memory"):
        _ = read(two(greedy), (6,)).trace


def test_answers_are_worked_out_once() -> None:
    made = 0

    def counting() -> nn.Module:
        nonlocal made
        made += 1
        return mlp()

    reading = read(counting, (1, 6))
    for _ in range(2):
        assert reading.entry() is reading.entry()
        assert reading.last_layer() is reading.last_layer()
        reading.calls()
    assert made == 1  # on the meta device; nothing was drawn
    reading.at_origin()
    assert reading.at_origin() is reading.at_origin()
    assert made == 2
