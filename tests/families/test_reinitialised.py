"""A family from one model: its own methods draw the weights anew, and what they do not set is refused by name."""

import copy
import pickle
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.members import member
from netgrain.families.reading import read
from netgrain.families.reinitialised import fresh
from netgrain.runtime.randomness import seeded


def convolutional() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(144, 3))


class InitWeights(nn.Module):
    """As in timm: the constructor ends with init_weights()."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.token = nn.Linear(40, 40), nn.Parameter(torch.zeros(1, 40))
        self.init_weights()

    def init_weights(self, mode: str = "") -> None:
        nn.init.normal_(self.layer.weight, std=0.5)
        nn.init.normal_(self.token, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x) + self.token
        return out


class Applied(nn.Module):
    """As in Hugging Face: the constructor ends with apply(_init_weights)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.scale = nn.Linear(40, 40), nn.Parameter(torch.full((40,), 1e-6))
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.first(x)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 40), nn.Linear(40, 50, bias=False)
        self.embed.weight = self.head.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x)
        return out


FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "layers": convolutional,
    "attention": lambda: nn.TransformerEncoderLayer(32, 2, 64, batch_first=True),
    "recurrent": lambda: nn.LSTM(16, 32),
    "norms": lambda: nn.Sequential(nn.LayerNorm(8), nn.GroupNorm(2, 8), nn.Linear(8, 8), nn.PReLU()),
    "init_weights": InitWeights,
    "_init_weights": Applied,
    "tied": Tied,
    "channels last": lambda: nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last),
    "double": lambda: nn.Linear(30, 40).double(),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", FAMILIES)
def test_the_law_of_every_parameter_is_the_constructors(case: str) -> None:
    """As it is read from both programs, and on fresh draws: shape, type, stride, mean and spread."""
    make = FAMILIES[case]
    with seeded(1):
        instance = make()
    family = fresh(instance)
    ours, theirs = read(family, (1,)).initialisation, read(make, (1,)).initialisation
    made = [[dict(f().named_parameters()) for _ in range(12)] for f in (family, make)]
    for name, p in instance.named_parameters():
        a, b = (torch.stack([m[name].detach() for m in ms]) for ms in made)
        assert (a.shape, a.dtype, made[0][0][name].stride()) == (b.shape, b.dtype, p.stride())
        n = a.numel()
        a, b = a.double(), b.double()
        spread = float(b.std()) if float(b.min()) < float(b.max()) else 0.0
        assert abs(float(a.mean() - b.mean())) <= 8 * spread / n**0.5, name
        assert abs(float(a.std() - b.std())) <= 8 * spread / n**0.5, name
        assert bool((a[0] != p.double()).any()) == (spread > 0), name
        if name not in theirs.tied:
            assert ours.of(name, independent=False).variance == pytest.approx(
                theirs.of(name, independent=False).variance, rel=0.02
            )


def test_the_law_is_read_from_the_program() -> None:
    """Exactly, and on meta where the constructor's own is: no draws, and the same closed form."""
    laws = read(fresh(convolutional()), (1, 8, 8)).initialisation
    assert laws.on_meta
    assert (laws.of("0.weight").text, laws.of("0.weight").read_from) == ("uniform in ±0.3333", "program")
    both = [ng.average_geometry(make, (1, 8, 8)).matrix() for make in (fresh(convolutional()), convolutional)]
    assert torch.equal(*both)


def test_members_follow_the_seed_and_the_instance_is_left_as_found() -> None:
    instance = convolutional().train()
    instance(torch.randn(4, 1, 8, 8))  # running statistics move
    for p in instance.parameters():
        p.requires_grad_(False)
    before = copy.deepcopy(instance.state_dict())
    family = fresh(instance)
    one, again, other = (member(family, 0, i).state_dict() for i in (0, 0, 1))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["0.weight"], other["0.weight"])
    assert bool((one["1.running_var"] == 1).all())  # as a new batch norm has it
    assert all(torch.equal(t, before[name]) for name, t in instance.state_dict().items())
    assert family().training
    assert not any(p.requires_grad for p in family().parameters())
    assert all(a is not b for a, b in zip(family().parameters(), instance.parameters(), strict=True))


def test_what_is_shared_stays_shared() -> None:
    made = fresh(Tied())()
    assert made.head.weight is made.embed.weight
    assert pickle.dumps(fresh(nn.Linear(3, 3)))  # to other processes


def test_constants_stay_what_they_are() -> None:
    instance = Applied()
    assert fresh(instance).constants == {"scale": pytest.approx(1e-6)}
    assert torch.equal(fresh(instance)().scale, instance.scale)


class Random(nn.Module):
    """Its token is drawn by the constructor alone."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.token = nn.Linear(3, 3), nn.Parameter(torch.randn(3))


class Locked(nn.Linear):
    def __deepcopy__(self, memo: object) -> None:
        raise TypeError("cannot pickle a lock")


class Partly(nn.Linear):
    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.weight[0].fill_(1.0)


def trained_constant() -> nn.Module:
    model = Applied()
    with torch.no_grad():
        model.scale[3] = 0.5
    return model


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a random token": (
        Random,
        r"'token' of Random anew: no reset_parameters or init_weights .*lambda: Random\(\.\.\.\)\.$",
    ),
    "a constant that was trained": (trained_constant, "'scale' of Applied anew"),
    "a part of a tensor": (lambda: Partly(3, 3, bias=False), "'weight' of Partly anew"),
    "a computed weight": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), "parametrizations.weight"),
    "a lazy one": (lambda: nn.LazyLinear(3), "'weight' of LazyLinear has no shape before the first pass"),
    "one that cannot be copied": (lambda: Locked(3, 3), r"cannot copy Locked \(cannot pickle a lock\)"),
    "a class": (
        lambda: nn.Linear,
        "fresh expects one finished torch.nn.Module, found the class Linear.*family already",
    ),
    "a function": (lambda: convolutional, "found the function convolutional"),
    "nothing": (lambda: None, "found None"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_sentence(case: str) -> None:
    make, says = REFUSED[case]
    with pytest.raises(ng.NetgrainError, match=says) as caught:
        ng.fresh(make())  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_another_way_to_draw_is_noticed() -> None:
    """A constructor that draws by a function of its own, as torchvision's do: no method knows of it."""

    def drawn(std: float) -> nn.Module:
        net = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 2))
        nn.init.normal_(net[0].weight, std=std)
        return net

    with pytest.warns(ng.GrainWarning, match=r"'0.weight' have standard deviation 0\.3, and 0\.07.*lambda: Sequential"):
        fresh(drawn(0.3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(20):
            with seeded(seed):
                fresh(nn.Linear(64, 16))


def test_an_instance_on_meta_gets_numbers() -> None:
    with torch.device("meta"):
        instance = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    made = fresh(instance)()
    assert not any(p.is_meta for p in made.parameters())
    assert float(made[0].weight.detach().abs().max()) <= 0.5


def test_wrapped_instances_count_as_what_is_inside() -> None:
    assert type(fresh(nn.DataParallel(nn.Linear(3, 2)))()) is nn.Linear
