"""Maps of reactions: linear networks by hand, finite differences, planted marks, and what is left as it was."""

import copy
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.auditing.reaction_maps import ReactionMap, blurred, reaction_map, reaction_maps, widths
from netgrain.families.members import member
from netgrain.runtime.errors import NetgrainError

SIDE = 12


def network() -> nn.Module:
    """Looks for small marks anywhere: filters, the largest of each map, a readout."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 2),
    )


PLUS = torch.tensor([[-1.0, 1, -1], [1, 1, 1], [-1, 1, -1]])
CROSS = torch.tensor([[1.0, -1, 1], [-1, 1, -1], [1, -1, 1]])
BARS = torch.tensor([[1.0, 1, -1], [1, 1, -1], [-1, -1, -1]])


def planted(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Noise with a plus or a cross anywhere, which alone decides the label, and a mark of equal strength that does not.

    The last tensor is (2, count, rows, columns): where the one is and where the other.
    """
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(count, 1, SIDE, SIDE, generator=generator)
    y = torch.randint(0, 2, (count,), generator=generator)
    where = torch.zeros(2, count, SIDE, SIDE, dtype=torch.bool)
    for i in range(count):
        halves = torch.randperm(2, generator=generator) * (SIDE // 2)  # so that they do not meet
        for kind, mark in enumerate((PLUS if y[i] else CROSS, BARS)):
            r = int(halves[kind] + torch.randint(0, SIDE // 2 - 2, (), generator=generator))
            c = int(torch.randint(0, SIDE - 2, (), generator=generator))
            X[i, 0, r : r + 3, c : c + 3] = 3 * mark
            where[kind, i, r : r + 3, c : c + 3] = True
    return X, y, where


def shares(model: nn.Module, X: Tensor, where: Tensor) -> list[float]:
    """Mean share of the map on the mark that decides, and on the one that does not."""
    maps = torch.stack([r.map / r.map.sum() for r in reaction_maps(model, X)])
    return [float((maps * w).sum((1, 2)).mean()) for w in where]


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net, (X, y, _) = network(), planted(384, 0)
        weights = list(net.parameters())
        moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in weights]
        for _ in range(80):  # Adam by hand: torch's own imports its compiler, which takes seconds
            slopes = torch.autograd.grad(F.cross_entropy(net(X), y), weights)
            for w, g, (m, v) in zip(weights, slopes, moments, strict=True):
                m.lerp_(g, 0.1), v.lerp_(g.square(), 0.02)
                w.data -= 0.03 * m / (v.sqrt() + 1e-4)
    return net.eval()


def test_most_of_the_map_lies_on_the_mark_that_decides_the_label(trained: nn.Module) -> None:
    X, y, where = planted(40, 1)
    assert float((trained(X).argmax(1) == y).float().mean()) > 0.9
    decides, other = shares(trained, X, where)
    assert decides > 0.6
    assert other < 0.2
    fresh = torch.tensor([shares(member(network, 0, i), X, where) for i in range(8)]).mean(0)
    assert fresh[0] < min(0.4, fresh[1] + 0.1)  # it does not prefer the mark that decides


def test_fading_what_the_map_shows_changes_the_answer(trained: nn.Module) -> None:
    X, y, _ = planted(60, 2)
    maps = torch.stack([r.map for r in reaction_maps(trained, X)]).flatten(1)
    right = {}
    for name, order in (
        ("mapped", maps),
        ("random", torch.rand(maps.shape, generator=torch.Generator().manual_seed(0))),
    ):
        faded = X.flatten(1).scatter(1, order.topk(9).indices, 0.0).reshape(X.shape)
        right[name] = int((trained(faded).argmax(1) == y).sum())
    assert right["random"] > 48
    assert right["mapped"] < 40


def test_a_linear_network_by_hand() -> None:
    """Contributions are the weights times the differences of blurred copies, and add up to the whole change."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    x = torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(0))
    (found,) = reaction_maps(net, x[None], output=1)
    w = ((net[1].weight[1] - net[1].weight[0]) / 2).detach().double().reshape(8, 8)
    copies = [
        x.double(),
        *(blurred(x[None], s)[0].double() for s in widths((1, 8, 8))[:-1]),
        x.mean().double().expand(1, 8, 8),
    ]
    steps = [(w * (a - b)[0]).square() for a, b in pairwise(copies)]
    assert found.steps[0] == pytest.approx(float(steps[0].sum()), rel=1e-5)
    assert found.change == pytest.approx(float((w * (x[0] - x.mean())).sum()), abs=1e-5)
    assert found.map.min() >= 0


def test_contributions_are_finite_differences_and_add_up_to_the_change_of_the_answer() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(144, 3)).eval()
    x = 0.3 * torch.randn(1, 1, 8, 8)
    (found,), double = reaction_maps(net, x), copy.deepcopy(net).double()

    def answer(image: Tensor) -> Tensor:
        y = double(image.double())[0].detach()
        return y[found.output] - y.mean()

    middle = (x + blurred(x, widths((1, 8, 8))[0])) / 2
    step = 1e-5 * torch.eye(64, dtype=torch.float64).reshape(64, 1, 1, 8, 8)
    slopes = torch.stack([(answer(middle + e) - answer(middle - e)) / 2e-5 for e in step]).reshape(8, 8).detach()
    first = (slopes * (x - blurred(x, widths((1, 8, 8))[0]))[0, 0]).square().sum()
    assert found.steps[0] == pytest.approx(float(first), rel=1e-3)
    assert found.change == pytest.approx(float(answer(x) - answer(x.mean().expand_as(x))), rel=0.02)


def test_the_network_is_left_as_it_was(trained: nn.Module) -> None:
    net, x = copy.deepcopy(trained).train(), planted(1, 3)[0][0]
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    first, again = reaction_map(net, x), reaction_map(net, x)
    assert torch.equal(first.values, again.values)
    assert net.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in net.parameters())
    fresh = [reaction_map(network, x, members=2, seed=s).values for s in (0, 0, 1)]
    assert torch.equal(fresh[0], fresh[1])
    assert not torch.equal(fresh[0], fresh[2])


def test_what_it_shows(trained: nn.Module) -> None:
    found = reaction_map(trained, planted(1, 4)[0][0])
    assert float(found.values.sum()) == pytest.approx(1)
    assert sum(share for _, share in found.sizes) == pytest.approx(1)
    assert repr(found).startswith(f"ReactionMap(output {found.output}, half of the reaction in ")
    assert found.plot().get_title() == "what one network reacts to"
    nothing: ReactionMap = reaction_map(trained, torch.ones(1, SIDE, SIDE))
    assert float(nothing.values.sum()) == 0
    assert "no reaction" in repr(nothing)


@pytest.mark.parametrize(
    ("x", "options", "said"),
    [
        (torch.zeros(4, 1, 8, 8), {}, r"expects one image of shape \(channels, height, width\), found shape \(4, 1, 8"),
        ("image", {}, "found str"),
        (torch.randn(1, SIDE, SIDE), {"output": 2}, "output 2 was asked for, the network has outputs 0 to 1"),
        (torch.full((1, SIDE, SIDE), torch.nan), {}, "NaN"),
    ],
)
def test_what_is_wrong_is_said(trained: nn.Module, x: Tensor, options: dict[str, int], said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        reaction_map(trained, x, **options)  # type: ignore[arg-type]
