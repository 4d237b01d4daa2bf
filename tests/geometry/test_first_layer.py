"""First-layer integration equals plain sampling, with fewer members; a module that breaks a condition says so."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.families.reading import read
from netgrain.families.reasons import Reason
from netgrain.geometry.first_layer import first_layer_of
from netgrain.geometry.gradient_rows import Rows
from netgrain.models import MLP, LeNet, ResNet18, ViT


class Patches(nn.Module):
    """Tokens made by a reshape and a linear layer, channels last: x enters rearranged."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 5)
        self.head = nn.Linear(20, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(-1, 2, 2, 2, 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(-1, 4, 8)
        return self.head(torch.tanh(self.embed(tokens) + 0.3).flatten(1))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, stride=2, padding=1), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 2)
    )


def one_dimensional() -> nn.Module:
    return nn.Sequential(nn.Conv1d(1, 5, 4, dilation=2), nn.Tanh(), nn.Flatten(), nn.Linear(50, 1))


def tied_below() -> nn.Module:
    return ResNet18(channels=1, image_size=8, width=1 / 32, outputs=1, activation="gelu")


SAME = {
    "convolution, stride 2": (convolutional, (2, 4, 4), 500, 200),
    "rearranged tokens": (Patches, (2, 4, 4), 500, 200),
    "dilated, one dimension": (one_dimensional, (1, 16), 500, 200),
    "residual network": (tied_below, (1, 8, 8), 250, 60),
    "LeNet": (partial(LeNet, channels=1, image_size=16, outputs=1, activation="gelu"), (1, 16, 16), 300, 100),
}


@pytest.mark.parametrize("name", SAME)
def test_integration_equals_plain_sampling(name: str) -> None:
    make, shape, many, few = SAME[name]
    plain = ng.average_geometry(make, shape, members=many, first_layer="never", seed=1)
    smart = ng.average_geometry(make, shape, members=few, seed=2)
    assert smart.about.averaged.startswith("first layer integrated exactly"), smart.about.averaged
    scale = math.hypot(plain.trace.stderr, smart.trace.stderr)
    assert abs(plain.trace - smart.trace) < 4 * scale
    agreement = ng.corr(plain, smart)
    assert abs(agreement - 1) < 4 * agreement.stderr
    assert agreement.stderr < 0.05
    # entry by entry, against the smart one as if it were exact
    pieces = torch.stack([plain.form.batched(50).part(i).dense() for i in range(50)])
    error = pieces.std(0) / math.sqrt(50)
    z = (plain.matrix() - smart.matrix() * plain.trace.value / smart.trace.value) / error.clamp(min=1e-12 * error.max())
    assert float(z.square().mean()) < 2.0


def test_vit_needs_ten_members() -> None:
    make = partial(ViT, channels=1, outputs=1, activation="gelu", width=0.25)
    reference = ng.average_geometry(make, (1, 32, 32), members=80, seed=1)
    few = ng.average_geometry(make, (1, 32, 32), members=10, seed=2)
    plain = ng.average_geometry(make, (1, 32, 32), members=10, seed=2, first_layer="never")
    assert ng.corr(few, reference).plug_in >= 0.999
    assert ng.corr(plain, reference).plug_in < 0.7
    assert [b.size for b in few.blocks()] == [64, 960]


def test_vit_has_two_blocks_also_when_nobody_says_so() -> None:
    """Without the declared exchangeability the sample itself finds one 64-fold and one 960-fold eigenvalue."""

    class Silent(ViT):
        def __init__(self) -> None:
            super().__init__(channels=1, outputs=1, activation="gelu", width=0.25, depth=3)
            self.exchangeable_tokens = False

    G = ng.average_geometry(Silent, (1, 32, 32), members=60)
    assert "exchanged" not in G.about.averaged
    assert [b.size for b in G.blocks(by_error_bars=True)] == [64, 960]
    assert len(G.blocks()) == 16


def test_transposed_images_halve_the_noise_and_change_nothing_else() -> None:
    class Silent(LeNet):
        transposable_images = False

    families = {
        flag: partial(cls, channels=1, image_size=16, outputs=1, activation="gelu")
        for flag, cls in ((True, LeNet), (False, Silent))
    }
    G, plain = (ng.average_geometry(families[flag], (1, 16, 16), members=100) for flag in (True, False))
    assert "images transposed" in G.about.averaged
    assert "images transposed" not in plain.about.averaged
    turn = torch.arange(256).reshape(16, 16).T.flatten()
    M, N = G.matrix(), plain.matrix()
    torch.testing.assert_close(M, M[turn][:, turn], rtol=1e-5, atol=1e-6 * float(M.max()))
    torch.testing.assert_close(M, (N + N[turn][:, turn]) / 2, rtol=1e-5, atol=1e-6 * float(M.max()))
    assert 1 - G.fidelity < 0.7 * (1 - plain.fidelity)
    # the declaration is true: what the average throws away is noise
    parts = torch.stack([plain.form.batched(32).part(i).dense() for i in range(32)])
    odd = (parts - parts[:, turn][:, :, turn]) / 2
    z = odd.mean(0) / (odd.std(0) / math.sqrt(32)).clamp(min=1e-12 * float(M.max()))
    assert float(z[odd.std(0) > 0].square().mean()) < 1.3


def _normal(std: float, mean: float = 0.0) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        net = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 1))
        nn.init.normal_(net[0].weight, mean, std)
        return net

    return make


class Skip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)) + x)


class TwoWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.head = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.left(x)) * torch.tanh(self.right(x) + 1))


class InputNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first((x - 0.5) / 0.25)))


class UsedTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(torch.tanh(self.first(x)))))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


class TiedInSecret(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.first(x)) @ self.first.weight


def mirrored() -> nn.Module:
    net = nn.Sequential(nn.Conv1d(1, 8, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 1))
    with torch.no_grad():
        net[0].weight[..., 2] = net[0].weight[..., 0]
    return net


def uneven() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 1))
    with torch.no_grad():
        net[0].weight[:, 0] *= 3
    return net


def copied() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    with torch.no_grad():
        net[2].weight.copy_(net[0].weight.T)
    return net


def one_fixed_first_layer() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    nn.init.eye_(net[0].weight)
    return net


def normalised_weight() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)), nn.Tanh(), nn.Linear(6, 1))


def grouped() -> nn.Module:
    return nn.Sequential(nn.Conv1d(2, 4, 3, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(4, 1))


def circular() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(1, 4, 3, padding=1, padding_mode="circular"), nn.Tanh(), nn.Flatten(), nn.Linear(24, 1)
    )


REFUSED = {
    "around": (Skip, "around 'first'"),
    "two ways in": (TwoWays, "several layers \\(left, right\\)"),
    "input norm": (InputNorm, "does not enter through"),
    "used twice": (UsedTwice, "used 2 times"),
    "tied": (Tied, "shared"),
    "tied in secret": (TiedInSecret, "depends on the weights"),
    "mean": (_normal(0.1, mean=0.1), "mean zero"),
    "mirrored": (mirrored, "correlated with each other"),
    "uneven": (uneven, "same variance"),
    "copied": (copied, "shares its random numbers"),
    "fixed": (one_fixed_first_layer, "not random"),
    "weight norm": (normalised_weight, "computed from other parameters"),
    "grouped": (grouped, "grouped"),
    "circular": (circular, "pad in '0'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_module_that_breaks_a_condition_falls_back_with_the_reason(name: str) -> None:
    make, reason = REFUSED[name]
    shape = {"mirrored": (1, 6), "grouped": (2, 3), "circular": (1, 6)}.get(name, (6,))
    with pytest.raises(ng.NetgrainError, match=reason):
        ng.average_geometry(make, shape, members=4, first_layer="always")
    G = ng.average_geometry(make, shape, members=4)
    assert G.about.averaged.startswith("plain sampling: ")


@pytest.mark.quick
def test_lawful_initialisations_are_accepted_and_their_variance_read() -> None:
    from netgrain.models import LeNet

    for make, variance in ((_normal(0.3), 0.09), (_normal(2.0), 4.0)):
        G = ng.average_geometry(make, (6,), members=3)
        assert G.about.averaged.startswith("first layer integrated exactly"), G.about.averaged
        assert G.scale_error < 0.1
        assert G.form.core.scale == pytest.approx(variance, rel=4 * G.scale_error)
    for init in (nn.init.orthogonal_, nn.init.xavier_uniform_, nn.init.kaiming_normal_, nn.init.trunc_normal_):

        def make(init: Callable[[torch.Tensor], torch.Tensor] = init) -> nn.Module:
            net = LeNet(channels=1, image_size=16, outputs=1, activation="gelu")
            init(net.layers[0].weight)
            return net

        G = ng.average_geometry(make, (1, 16, 16), members=2)
        assert G.about.averaged.startswith("first layer integrated exactly"), (init, G.about.averaged)


def test_away_from_the_origin_integration_is_only_on_request() -> None:
    make = partial(MLP, channels=1, image_size=4, outputs=1, activation="gelu")
    plain = ng.average_geometry(make, (1, 4, 4), members=50, probe=ng.Gaussian(0.1))
    assert "away from the origin" in plain.about.averaged
    asked = ng.average_geometry(make, (1, 4, 4), members=400, probe=ng.Gaussian(0.1), first_layer="always")
    assert "approximately" in asked.about.averaged
    truth = ng.average_geometry(make, (1, 4, 4), members=400, probe=ng.Gaussian(0.1), seed=1)
    assert abs(asked.trace / truth.trace - 1) < 0.1


def test_data_tells_tokens_apart() -> None:
    """Exchangeable tokens are averaged only where the points are exchangeable too."""
    make = partial(ViT, channels=1, outputs=1, activation="gelu", width=0.1, depth=1, image_size=16)
    X = torch.zeros(4, 1, 16, 16)
    X[:, :, :8] = 5.0
    G = ng.average_geometry(make, (1, 16, 16), members=8, probe=ng.Data(X), first_layer="always")
    assert "approximately" in G.about.averaged
    assert "exchanged" not in G.about.averaged


def normed_vit() -> nn.Module:
    return ViT(channels=1, image_size=16, patch=8, width=1 / 4, depth=1, norm="layer", activation="gelu", outputs=2)


@pytest.mark.parametrize("make", [Patches, normed_vit], ids=["rearranged", "ViT"])
def test_symmetries_of_patches_are_averaged_over_exactly_away_from_the_origin(make: Callable[[], nn.Module]) -> None:
    """The same members without them, projected onto Q ⊗ I by hand."""
    shape = (2, 4, 4) if make is Patches else (1, 16, 16)
    reading = read(make, shape)
    plan = first_layer_of(reading)
    assert not isinstance(plan, Reason)
    assert plan.symmetric
    plan = replace(plan, by_symmetry=True, exchangeable=False)
    common = (make, 0, shape, ng.Gaussian(1.0), 3, "all")
    plain, own = (Rows(*common, p, torch.device("cpu")).one(0).arrays["rows"].double() for p in (None, plan))
    blocks = (plain.T @ plain)[plan.order][:, plan.order].reshape(plan.copies, 4, plan.copies, 4)
    by_hand = torch.stack([blocks[i, :, i] for i in range(plan.copies)]).mean(0)
    torch.testing.assert_close(own.T @ own * plan.scale, by_hand)
    side = Rows(*common, plan, torch.device("cpu")).side_by_side(range(2))
    torch.testing.assert_close(side[0].arrays["rows"].double(), own, rtol=1e-4, atol=1e-6)


def test_patches_at_gaussian_points_are_not_integrated_but_averaged_over_symmetries() -> None:
    G = ng.average_geometry(normed_vit, (1, 16, 16), probe=ng.Gaussian(1.0))
    assert str(G.about.integration) == (
        "averaged over symmetries of the first layer ('embed', entries exchanged, tokens exchanged)"
    )
    at_origin = ng.average_geometry(normed_vit, (1, 16, 16), probe=ng.Origin())
    assert "first layer integrated exactly" in str(at_origin.about.integration)
