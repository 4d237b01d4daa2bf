"""One reading of a module: both ends, calls, the origin and the laws, for modules that can be traced and others."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from netgrain.families.ends import Entry, LastLayer
from netgrain.families.members import member
from netgrain.families.reading import read
from netgrain.families.reasons import Reason
from netgrain.families.trace import Trace
from tests.families.networks import NO_ENTRY, NO_LAST, mlp, opaque, strided, tokens, two

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


@pytest.mark.parametrize("name", NO_ENTRY)
def test_why_there_is_no_entry(name: str) -> None:
    make, kind, where = NO_ENTRY[name]
    found = read(make, (6,)).entry()
    assert isinstance(found, Reason)
    assert (found.kind, found.where) == (kind, where), found


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


@pytest.mark.parametrize("name", NO_LAST)
def test_why_there_is_no_last_layer(name: str) -> None:
    make, kind = NO_LAST[name]
    found = read(make, (1, 6) if name == "none" else (6,)).last_layer()
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
        assert reading.at_origin() is reading.at_origin()
    assert made == 1  # on the meta device; nothing was drawn
    assert reading.member is reading.member
    assert made == 2
