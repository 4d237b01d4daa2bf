"""Gains after every layer: hand-known matrices, the law that ties the last one to G, and who loses what."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain import Data, Gaussian, average_geometry
from netgrain.auditing.layer_gains import LayerProfile, layer_profile
from netgrain.families.members import member
from netgrain.models import LeNet
from netgrain.runtime.errors import NetgrainError

SHAPE = (1, 8, 8)
BOARD = torch.tensor([[(-1.0) ** (i + j) for j in range(8)] for i in range(8)])[None]


def linear(*matrices: list[list[float]]) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layers = [nn.Linear(len(m[0]), len(m), bias=False) for m in matrices]
        for layer, m in zip(layers, matrices, strict=True):
            layer.weight.data = torch.tensor(m)
        return nn.Sequential(*layers)

    return make


class Pooled(nn.Module):
    """conv, then a pool that is a module, a function, or a module called twice; then a readout."""

    def __init__(self, kind: str = "module", activation: type[nn.Module] = nn.Identity) -> None:
        super().__init__()
        self.kind = kind
        self.conv = nn.Conv2d(1, 4, 1, bias=False)
        self.act = activation()
        self.pool = nn.AvgPool2d(2)
        self.head = nn.Linear(4 * (4 if kind == "twice" else 16), 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.act(self.conv(x))
        h = F.avg_pool2d(h, 2) if self.kind == "function" else self.pool(h)
        if self.kind == "twice":
            h = self.pool(h)
        return self.head(h.flatten(1))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.branch, self.skip, self.head = (nn.Linear(4, n, bias=False) for n in (4, 4, 4, 1))

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)
        left = F.gelu(self.branch(h))
        return self.head(self.skip(h) + left)


def test_a_singular_matrix_by_hand() -> None:
    profile = layer_profile(linear([[1.0, 0, 0], [0, 2, 0], [0, 0, 0]], [[1.0, 1.0, 5.0]]), torch.eye(3), members=2)
    # ‖A e‖² = 1, 4, 0 over their mean 5/3; then (1, 2, 0) squared over the same mean 5/3
    assert profile.names == ("0", "1")
    expected = torch.tensor([[0.6, 0.6], [2.4, 2.4], [0.0, 0.0]], dtype=torch.float64)
    assert torch.allclose(profile.gains, expected, atol=1e-8)
    assert torch.allclose(profile.factors[:2], torch.tensor([[0.6, 1.0], [2.4, 1.0]]).double(), atol=1e-8)
    assert profile.factors[2].tolist() == [0.0, 1.0]  # what is lost is not lost again
    assert profile.loser(2).layer == "0"
    assert profile.loser(2).factor == 0
    assert float(profile.errors.abs().max()) < 1e-8  # all members are equal
    assert repr(profile).startswith("LayerProfile(2 layers, 2 members, probe origin; direction 0: gain 0.6, least at 0")


def test_rounding_is_not_a_gain() -> None:
    profile = layer_profile(linear([[0.1, 0.3], [0.2, 0.6]]), torch.tensor([[3.0, -1.0]]), members=1)
    assert profile.gains.tolist() == [[0.0]]


def test_the_average_direction_is_drawn_afresh_for_each_member() -> None:
    make = linear(torch.diag(torch.arange(12.0)).tolist())
    first, second = (layer_profile(make, torch.eye(12)[5:6], members=30, random=2, seed=s) for s in (0, 1))
    assert first.gains.item() != second.gains.item()
    assert first.gains.item() == pytest.approx(25 * 12 / 506, abs=4 * first.errors.item())  # Σ i² = 506
    assert first.errors.item() > 0


def test_the_second_matrix_can_be_the_loser() -> None:
    profile = layer_profile(linear([[3.0, 0], [0, 3.0]], [[0.1, 0], [0, 1.0]]), torch.eye(2), members=1)
    assert profile.loser(0).layer == "1"
    assert profile.loser(0).factor == pytest.approx(0.01 / (1.01 / 2))
    assert profile.gain(0, "0") == pytest.approx(1.0)


def smooth() -> nn.Module:
    convolution = nn.Conv2d(1, 16, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(256, 3))


@pytest.mark.parametrize(
    ("make", "shape"),
    [(smooth, SHAPE), (partial(LeNet, channels=1, image_size=16, outputs=2), (1, 16, 16))],  # the second has kinks
    ids=["gelu", "relu"],
)
def test_the_last_gain_is_that_of_the_geometry(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    G = average_geometry(make, shape, tolerance=0.002, progress=False)
    U = torch.cat([G.directions(1), torch.randn(1, *shape, generator=torch.Generator().manual_seed(0))])
    profile = layer_profile(make, U, members=64, seed=5)
    expected = G.score(U) * G.d / G.trace.value
    assert bool(((profile.gains[:, -1] - expected).abs() <= 4 * profile.errors[:, -1]).all())
    assert bool((profile.errors[:, -1] < 0.5 * profile.gains[:, -1]).all())  # the bars are not idle


def test_an_average_pool_loses_the_checkerboard() -> None:
    U = torch.stack([BOARD, torch.ones(SHAPE)])
    profile = layer_profile(Pooled, U, members=4)
    assert profile.names == ("conv", "act", "pool", "head")
    assert profile.loser(0).layer == "pool"
    assert profile.loser(0).factor == 0
    assert profile.gain(0, "act") == pytest.approx(1.0, abs=1e-6)  # a 1 × 1 filter treats all directions alike
    assert profile.gain(1, "pool").value == pytest.approx(4.0, rel=0.5)  # 1/4 of the dimensions are left


def test_work_outside_modules_is_named() -> None:
    profile = layer_profile(partial(Pooled, "function"), BOARD[None], members=2)
    assert profile.names == ("conv", "act", "before head", "head")
    assert profile.loser(0).layer == "before head"


class Shared(nn.Module):
    """Two modules that are called twice: h = act(mix(act(mix(x)))), between them work that is no module."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.act, self.head = nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2)

    def stages(self, x: Tensor) -> list[Tensor]:
        """What every call returns, written out by hand."""
        first = x @ self.mix.weight.T + self.mix.bias
        second = (3 * first.tanh()) @ self.mix.weight.T + self.mix.bias
        return [first, first.tanh(), 3 * first.tanh(), second, second.tanh(), self.head(second.tanh())]

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.mix(3 * self.act(self.mix(x)))))


def test_a_module_called_twice_has_a_gain_after_each_call() -> None:
    """Against Jacobians by autograd, averaged over the members and over a whole basis."""
    U, members, x = torch.eye(3)[:2].double(), 5, torch.tensor([[0.3, -1.0, 0.8]])
    profile = layer_profile(Shared, U, members=members, probe=Data(x))
    names = ("mix (1 of 2)", "act (1 of 2)", "mix (2 of 2)", "act (2 of 2)", "head")
    assert profile.names == names  # a factor of 3 changes no gain, so it is no step of its own
    assert profile.notes == ()
    along, average = torch.zeros(2, 6).double(), torch.zeros(6).double()
    for i in range(members):
        net = member(Shared, 0, i).double()
        jacobians = torch.func.jacrev(lambda x, net=net: net.stages(x))(x[0].double())
        along += torch.stack([(J @ U.T).square().sum(0) for J in jacobians], 1)
        average += torch.stack([J.square().sum() / 3 for J in jacobians])
    expected = (along / average)[:, [0, 1, 3, 4, 5]]
    torch.testing.assert_close(profile.gains, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(profile.factors[:, 1:], expected[:, 1:] / expected[:, :-1], rtol=1e-6, atol=0)
    assert not torch.allclose(profile.gains[:, 0], profile.gains[:, 2], rtol=0.01)  # the calls differ


def test_the_call_that_loses_a_direction_is_named() -> None:
    checks = F.interpolate(BOARD[None, :, :4, :4], scale_factor=2)[0]  # survives the first pool, not the second
    profile = layer_profile(partial(Pooled, "twice"), torch.stack([BOARD, checks]), members=2)
    assert profile.names == ("conv", "act", "pool (1 of 2)", "pool (2 of 2)", "head")
    assert [profile.loser(j).layer for j in (0, 1)] == ["pool (1 of 2)", "pool (2 of 2)"]
    assert [profile.loser(j).factor for j in (0, 1)] == [0, 0]


def test_branches_are_compared_with_where_they_started() -> None:
    U = torch.eye(4)[:2]
    profile = layer_profile(Residual, U, members=3)
    assert profile.names == ("stem", "branch", "skip", "before head", "head")
    assert torch.allclose(profile.factors[:, 1:3], profile.gains[:, 1:3] / profile.gains[:, :1])
    assert torch.allclose(profile.factors[:, 4], profile.gains[:, 4] / profile.gains[:, 3])


def test_errors_fall_with_members_and_do_not_lie() -> None:
    make = partial(Pooled, "module", nn.GELU)
    U = torch.randn(1, *SHAPE, generator=torch.Generator().manual_seed(1))
    few, many = (layer_profile(make, U, members=n) for n in (9, 81))
    assert 1.5 < float(few.errors[0, -1] / many.errors[0, -1]) < 6  # √9 = 3
    assert abs(float(few.gains[0, -1] - many.gains[0, -1])) < 4 * float(few.errors[0, -1])


def test_everything_is_left_as_found_and_follows_the_seed() -> None:
    torch.manual_seed(3)
    state = torch.get_rng_state()
    U = 7 * BOARD[None]  # any length
    made: list[nn.Module] = []

    def make() -> nn.Module:
        made.append(Pooled(activation=partial(nn.ReLU, inplace=True)))  # type: ignore[arg-type]
        return made[-1]

    first = layer_profile(make, U, members=2, random=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert float(U.max()) == 7
    assert not any(m._forward_hooks or m._forward_pre_hooks for net in made for m in net.modules())
    assert torch.equal(first.gains, layer_profile(make, U, members=2, random=3).gains)
    assert not torch.equal(first.gains, layer_profile(make, U, members=2, random=3, seed=1).gains)
    # work in place does not reach back: the convolution's gain is that before the activation
    assert first.gain(0, "conv") == pytest.approx(1.0, abs=1e-6)


def test_a_network_that_refuses_double_precision_is_still_measured() -> None:
    class Single(Pooled):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x @ torch.eye(8))

    profile = layer_profile(Single, BOARD[None], members=2, probe=Gaussian(1.0))
    assert profile.loser(0).layer == "pool"
    assert "single precision" in profile.notes[-1]


@pytest.mark.parametrize(
    ("directions", "options", "said"),
    [
        (torch.zeros(2, 8), {}, "direction 0 has length 0; expected finite and not zero"),
        (torch.full((1, 8), torch.nan), {}, "direction 0 has length nan"),
        (torch.ones(8), {}, r"expected directions of shape \(k, \*input_shape\), found \(8,\)"),
        (torch.ones(1, 3, 8, 8), {}, r"failed on inputs of shape \(3, 8, 8\)"),
        (torch.ones(1, *SHAPE), {"members": 0}, "members expects a whole number from 1 upwards, found 0"),
    ],
)
def test_what_is_wrong_is_said(directions: Tensor, options: dict[str, int], said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        layer_profile(Pooled, directions, **options)


def test_names_that_are_not_there() -> None:
    profile: LayerProfile = layer_profile(Pooled, BOARD[None], members=1, probe=Gaussian(1.0))
    assert profile.probe == "gaussian:1"
    with pytest.raises(NetgrainError, match="there is no layer 'pool9'; expected one of conv, act, pool, head"):
        profile.gain(0, "pool9")
    with pytest.raises(NetgrainError, match="direction 1 was asked for; expected 0 to 0"):
        profile.loser(1)
