"""Initialisation laws: read from the program where possible, else from draws, else refused with the reason."""

from __future__ import annotations

import copy
import math
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from netgrain.families.initialisation import CannotRead, Initialisation, TensorLaw
from netgrain.families.members import member
from netgrain.models import MLP, VGG11, LeNet, ResNet18, ViT
from netgrain.runtime.errors import NetgrainError

MEMBERS = 30


class Counted:
    """A make() that counts its calls: reading the program takes one, drawing takes dozens."""

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        self.make, self.calls = make, 0

    def __call__(self) -> nn.Module:
        self.calls += 1
        return self.make()


class Holder(nn.Module):
    """One parameter `w`, made by a function."""

    def __init__(self, w: Callable[[], Tensor]) -> None:
        super().__init__()
        self.w = nn.Parameter(w())


def linear() -> nn.Module:
    return nn.Linear(12, 10)


def edited(edit: Callable[[nn.Module], object], base: Callable[[], nn.Module] = linear) -> nn.Module:
    model = base()
    with torch.no_grad():
        edit(model)
    return model


def weight(edit: Callable[[Tensor], object], base: Callable[[], nn.Module] = linear) -> Counted:
    return Counted(lambda: edited(lambda m: edit(m.weight), base))


def differs(law: TensorLaw, values: Tensor) -> str:
    """Empty where mean and variance of i.i.d. values are within four standard errors of the law's."""
    values = values.double()
    if law.variance == 0:
        return "" if torch.allclose(values, torch.full_like(values, law.mean), rtol=1e-6, atol=0) else "not constant"
    centred = (values - law.mean) / math.sqrt(law.variance)
    n = values.numel()
    mean = float(centred.mean()) * math.sqrt(n)
    square = centred.square()
    variance = float(square.mean() - 1) / math.hypot(float(square.std()) / math.sqrt(n), law.error)
    return "" if max(abs(mean), abs(variance)) < 4 else f"mean {mean:.1f}, variance {variance:.1f} standard errors"


def check_against_members(make: Callable[[], nn.Module], laws: Initialisation, names: list[str] | None = None) -> None:
    models = [member(make, 123, i) for i in range(MEMBERS)]
    tensors = [{**dict(m.named_parameters()), **dict(m.named_buffers())} for m in models]
    for name in names or list(tensors[0]):
        values = torch.stack([t[name].detach().double() for t in tensors])
        assert differs(laws.of(name), values) == "", name


@pytest.mark.quick
def test_the_comparison_rejects_wrong_laws() -> None:
    values = torch.randn(3000, generator=torch.Generator().manual_seed(0))
    assert differs(TensorLaw(0.0, 1.0, "normal"), values) == ""
    assert differs(TensorLaw(0.1, 1.0, "normal"), values) != ""
    assert differs(TensorLaw(0.0, 1.15, "normal"), values) != ""
    assert differs(TensorLaw(0.0, 0.0, "constant"), values) != ""
    assert differs(TensorLaw(1.0, 0.0, "constant"), torch.ones(3)) == ""


FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "mlp": partial(MLP, channels=1, image_size=8, width=0.2),
    "mlp-layer": partial(MLP, channels=1, image_size=8, width=0.2, norm="layer"),
    "lenet": partial(LeNet, channels=1, image_size=16),
    "vgg": partial(VGG11, width=1 / 16),
    "resnet": partial(ResNet18, width=1 / 16),
    "resnet-batch": partial(ResNet18, width=1 / 16, norm="batch"),
    "vit": partial(ViT, width=1 / 12, depth=2),
    "vit-layer": partial(ViT, width=1 / 12, depth=1, norm="layer"),
    "linear": partial(nn.Linear, 12, 10),
    "conv1": partial(nn.Conv1d, 3, 4, 3),
    "conv3": partial(nn.Conv3d, 2, 4, 3),
    "grouped": partial(nn.Conv2d, 4, 8, 3, groups=2),
    "transposed": partial(nn.ConvTranspose2d, 3, 4, 3),
    "embedding": partial(nn.Embedding, 20, 8),
    "bilinear": partial(nn.Bilinear, 3, 4, 5),
    "lstm": partial(nn.LSTM, 3, 5),
    "attention": partial(nn.MultiheadAttention, 8, 2),
    "encoder-layer": partial(nn.TransformerEncoderLayer, 8, 2, 16),
    "norms": lambda: nn.Sequential(nn.LayerNorm(4), nn.BatchNorm2d(3), nn.GroupNorm(2, 4), nn.PReLU()),
    "double": lambda: nn.Linear(12, 10).double(),
    "channels-last": lambda: nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last),
    "reshaped": lambda: Holder(lambda: torch.randn(6, 20).t().reshape(30, 4)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_defaults_are_read_from_the_program(name: str) -> None:
    make = Counted(FAMILIES[name])
    laws = Initialisation(make)
    tensors = [n for n, _ in laws.model.named_parameters()] + [n for n, _ in laws.model.named_buffers()]
    assert all(laws.of(n).error == 0 for n in tensors)
    assert laws.on_meta
    assert make.calls == 1
    check_against_members(make, laws)


def timm_trunc_normal(w: Tensor, mean: float, std: float, a: float, b: float) -> None:
    """The inverse-cdf implementation that many libraries carry, and older versions of torch."""
    low, high = (0.5 * (1 + math.erf((z - mean) / std / math.sqrt(2))) for z in (a, b))
    w.uniform_(2 * low - 1, 2 * high - 1).erfinv_().mul_(std * math.sqrt(2)).add_(mean).clamp_(min=a, max=b)


PROGRAMS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "kaiming normal": (weight(nn.init.kaiming_normal_), f"normal, sd {math.sqrt(2 / 12):.4g}"),
    "xavier gain": (weight(lambda w: nn.init.xavier_uniform_(w, gain=2.0)), f"uniform in ±{2 * math.sqrt(6 / 22):.4g}"),
    "normal, mul_": (weight(lambda w: w.normal_(0, 0.1).mul_(3)), "normal, sd 0.3"),
    "data.normal_": (weight(lambda w: w.data.normal_(0, 0.1)), "normal, sd 0.1"),
    "*= 2": (weight(lambda w: w.__imul__(2)), f"uniform in ±{2 / math.sqrt(12):.4g}"),
    "/= 0-dim": (weight(lambda w: w.div_(torch.tensor(2.0))), f"uniform in ±{0.5 / math.sqrt(12):.4g}"),
    "times ones": (weight(lambda w: w.normal_().mul_(torch.full((10, 12), 0.5))), "normal, sd 0.5"),
    "copied": (weight(lambda w: w.copy_(torch.rand(10, 12) - 0.5)), "uniform in ±0.5"),
    "data =": (weight(lambda w: setattr(w, "data", 3 * torch.randn(10, 12))), "normal, sd 3"),
    "shifted": (weight(lambda w: w.normal_(0, 0.1).neg_().add_(1, alpha=2)), "normal, mean 2, sd 0.1"),
    "rsub": (partial(Holder, lambda: 1 - 2 * torch.rand(5, 4)), "uniform in ±1"),
    "rsub of a constant": (partial(Holder, lambda: 3 - torch.ones(4)), "constant 2"),
    "sub": (partial(Holder, lambda: torch.randn(5, 4) - torch.tensor(2.0)), "normal, mean -2, sd 1"),
    "randn * 0.02": (partial(Holder, lambda: torch.randn(3, 4) * 0.02), "normal, sd 0.02"),
    "ones * 1e-5": (partial(Holder, lambda: torch.ones(4) * 1e-5), "constant 1e-05"),
    "number": (partial(Holder, lambda: torch.tensor(0.07)), "constant 0.07"),
    "full_like": (partial(Holder, lambda: torch.full_like(torch.randn(3), 2.0)), "constant 2"),
    "half precision": (partial(Holder, lambda: torch.randn(30, 40).half().float()), "normal, sd 1"),
    "overwritten": (weight(lambda w: nn.init.constant_(nn.init.eye_(w), 2.0)), "constant 2"),
    "nothing left": (weight(lambda w: w.mul_(0.0)), "constant 0"),
    "trunc_normal_": (weight(lambda w: nn.init.trunc_normal_(w, 0, 0.5, -1, 0.5)), "normal, sd 0.5, cut to -1 to 0.5"),
    "trunc_normal_ far": (weight(lambda w: nn.init.trunc_normal_(w, std=0.02)), "normal, sd 0.02"),
    "trunc by erfinv": (
        weight(lambda w: timm_trunc_normal(w, 0.0, 0.5, -1.0, 0.5)),
        "normal, sd 0.5, cut to -1 to 0.5",
    ),
    "trunc, then mul_": (
        weight(lambda w: nn.init.trunc_normal_(w, 0, 1, -1, 2).mul_(-2)),
        "normal, sd 2, cut to -4 to 2",
    ),
    # not on meta: the program needs numbers, or asks where it is
    "reads a number": (weight(lambda w: w.normal_(0, torch.ones(3).sum().item())), "normal, sd 3"),
    "trunc on cpu": (
        weight(lambda w: nn.init.trunc_normal_(w.cpu(), 0, 0.5, -1, 0.5)),
        "normal, sd 0.5, cut to -1 to 0.5",
    ),
    "other on meta": (weight(lambda w: None if w.device.type == "meta" else w.normal_()), "normal, sd 1"),
    "is_meta": (weight(lambda w: None if w.is_meta else w.normal_()), "normal, sd 1"),
    "default device": (
        weight(lambda w: None if torch.get_default_device().type == "meta" else w.normal_()),
        "normal, sd 1",
    ),
    "torch.normal": (weight(lambda w: setattr(w, "data", torch.normal(0.0, 2.0, (10, 12)))), "normal, sd 2"),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_programs(case: str) -> None:
    make, text = PROGRAMS[case]
    make = Counted(make)
    laws = Initialisation(make)
    name = "w" if "w" in dict(laws.model.named_parameters()) else "weight"
    law = laws.of(name)
    assert law.text == text
    assert law.error == 0
    assert make.calls <= 2  # on meta, and really made where that fails: no draws
    check_against_members(make, laws, [name])


def zero_row(w: Tensor) -> None:
    w[3].zero_()


def reject(w: Tensor) -> None:
    while bool((w.abs() > 0.25).any()):
        w.normal_(0, 0.1)


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "orthogonal": (weight(nn.init.orthogonal_), "'weight': its weights are not independent"),
    "sparse": (weight(lambda w: nn.init.sparse_(w, 0.3)), "'weight': 30.0% of its weights are exactly zero"),
    "eye": (weight(nn.init.eye_), "'weight': its weights are not random"),
    "dirac": (weight(nn.init.dirac_, partial(nn.Conv2d, 3, 4, 3)), "'weight': its weights are not random"),
    "zero row": (weight(zero_row), "'weight': 12 of its 120 weights are not random"),
    "padding": (partial(nn.Embedding, 20, 8, padding_idx=0), "'weight': 8 of its 160 weights are not random"),
    "first columns": (weight(lambda w: w.data[:, :2].normal_(0, 3)), "'weight': its weights are not independent"),
    "numpy memory": (weight(lambda w: w.numpy().__setitem__(0, 0.0)), "'weight': 12 of its 120 weights"),
    "numpy array": (weight(lambda w: np.asarray(w).__setitem__(0, 0.0)), "'weight': 12 of its 120 weights"),
    "seeded": (lambda: (torch.manual_seed(0), nn.Linear(12, 10))[1], "'weight': its weights are not random"),
    "own generator": (
        weight(lambda w: w.normal_(generator=torch.Generator().manual_seed(0))),
        "'weight': its weights are not random",
    ),
    "random scale": (weight(lambda w: w.normal_().mul_(torch.rand(()))), "'weight': its weights are not independent"),
    "scale of python": (weight(lambda w: w.normal_(0, random.random())), "'weight': its weights are not independent"),
    "scale of numpy": (weight(lambda w: w.normal_(0, np.random.rand())), "'weight': its weights are not independent"),
    "looked at": (weight(lambda w: w.mul_(1 / w.norm().item())), "'weight': its weights are not independent"),
    "expanded": (partial(Holder, lambda: torch.randn(1, 12).expand(10, 12)), "'w': its weights are not independent"),
    "expanded copy": (partial(Holder, lambda: torch.randn(1, 12).expand(10, 12).clone()), "'w': its weights"),
    "broadcast": (partial(Holder, lambda: torch.randn(1, 12) * torch.ones(10, 12)), "'w': its weights"),
    "clamped": (weight(lambda w: w.clamp_(min=0.0)), "'weight': .* of its weights are exactly zero"),
    "reinterpreted": (
        partial(Holder, lambda: torch.ones(4, dtype=torch.float64).view(torch.float32)),
        "'w': its weights are not random",
    ),
    "shifted drawn": (weight(lambda w: w.exponential_()), "'weight': its weights do not have mean zero"),
    "never set": (partial(Holder, lambda: torch.empty(3)), "'w': it is never initialised"),
    "not finite": (partial(Holder, lambda: torch.full((3,), math.inf)), "'w': its entries are not finite"),
    "complex": (
        partial(Holder, lambda: torch.randn(3, dtype=torch.complex64)),
        "'w': it has no entries, or complex ones",
    ),
    "lazy": (partial(nn.LazyLinear, 3), "'weight': it has no shape before the first forward pass"),
    "weight norm": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)),
        "'weight': .* computed from 'parametrizations.weight.original0' and 'parametrizations.weight.original1'",
    ),
    "no such name": (partial(Holder, lambda: torch.ones(3)), "'weight': the module has no parameter or buffer"),
    "random shape": (
        lambda: nn.Linear(random.randint(3, 9), 4),
        "'weight': not every member has it, in one shape",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    make, message = REFUSED[case]
    laws = Initialisation(make)
    with pytest.raises(CannotRead, match=message):
        laws.of("w" if message.startswith("'w'") else "weight")
    if case not in ("lazy", "never set", "not finite"):
        for name, _ in laws.model.named_parameters():
            if name == "bias" and case not in ("seeded", "weight norm", "random shape"):
                assert laws.of("bias").kind in ("uniform", "drawn")  # the rest of the module is read all the same


def test_fixed_weights_from_a_file_are_not_random() -> None:
    state = nn.Linear(12, 10).state_dict()
    zeros = {k: torch.zeros_like(v) for k, v in state.items()}
    for assign in (False, True):
        laws = Initialisation(lambda a=assign: edited(lambda m: m.load_state_dict(copy.deepcopy(state), assign=a)))
        with pytest.raises(CannotRead, match="'weight': its weights are not random"):
            laws.of("weight")
        laws = Initialisation(lambda a=assign: edited(lambda m: m.load_state_dict(copy.deepcopy(zeros), assign=a)))
        assert laws.of("weight").text == "constant 0"


DRAWN: dict[str, Callable[[], nn.Module]] = {
    "numpy": weight(lambda w: w.copy_(torch.from_numpy(np.random.randn(10, 12)))),
    "laplace": weight(lambda w: w.exponential_().mul_(torch.bernoulli(torch.full_like(w, 0.5)).mul_(2).sub_(1))),
    "two halves": weight(lambda w: (w[:5].normal_(0, 0.3), w[5:].normal_(0, 0.3))),
    "rejection": weight(reject),
    "joined": partial(Holder, lambda: torch.cat([torch.randn(5, 6), torch.randn(5, 6)])),
}


@pytest.mark.parametrize("case", DRAWN)
def test_unexplained_laws_are_drawn(case: str) -> None:
    make = Counted(DRAWN[case])
    laws = Initialisation(make)
    name = "w" if case == "joined" else "weight"
    before = make.calls
    law = laws.of(name)
    drawn = make.calls
    assert (law.kind, drawn - before) == ("drawn", 64)
    assert law.text.startswith("drawn: variance ")
    assert 0 < law.error < 0.1
    check_against_members(make, laws, [name])
    nodes, weights = law.quadrature()
    assert 1000 < len(nodes) <= 4096
    assert float(weights @ nodes) == pytest.approx(0, abs=1e-12)
    assert float(weights @ nodes.square()) == pytest.approx(law.variance, rel=1e-9)
    calls = make.calls
    assert laws.of(name) is law
    if name == "weight":
        laws.of("bias")
    assert make.calls == calls  # drawn once, for all


def test_default_uniform_is_recognised_in_draws() -> None:
    law = Initialisation(
        weight(lambda w: w.copy_(torch.from_numpy(np.random.uniform(-1, 1, (10, 12)) / math.sqrt(12))))
    ).of("weight")
    assert (law.kind, law.error) == ("uniform", 0.0)
    assert law.variance == pytest.approx(1 / 36)


@pytest.mark.quick
def test_constants_and_whole_numbers() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3))
            self.register_buffer("steps", torch.zeros(2, dtype=torch.long))
            self.register_buffer("flags", torch.ones(2, dtype=torch.bool))
            self.register_buffer("index", torch.arange(4))
            self.register_buffer("fours", torch.arange(4).clamp(min=4))
            self.register_buffer("table", torch.tensor([1.0, 2.0]))
            self.register_buffer("noise", torch.randint(5, (6,)))
            self.register_buffer("rounded", (10 * torch.randn(6)).long())

    laws = Initialisation(Mixed)
    assert [laws.of(n).text for n in ("steps", "flags", "fours")] == ["constant 0", "constant 1", "constant 4"]
    for name in ("index", "table", "noise", "rounded"):
        with pytest.raises(CannotRead, match=f"'{name}': "):
            laws.of(name)


def test_copies_of_one_draw_are_refused_and_tied_weights_are_one() -> None:
    class Pair(nn.Module):
        def __init__(self, second: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            self.first = nn.Linear(6, 6)
            self.second = nn.Linear(6, 6)
            self.second.weight = nn.Parameter(second(self.first.weight.data))

    copies: list[Callable[[Tensor], Tensor]] = [
        torch.clone,
        lambda w: w * 2,
        lambda w: w.t(),
        lambda w: torch.empty(6, 6).copy_(w),
        lambda w: w @ w,
        lambda w: w[:3],
    ]
    for second in copies:
        laws = Initialisation(partial(Pair, second))
        for name, other in (("first", "second"), ("second", "first")):
            with pytest.raises(CannotRead, match=f"'{name}.weight': shares its random numbers with '{other}.weight'"):
                laws.of(f"{name}.weight")
        assert laws.of("second.bias").kind == "uniform"
    for second in (torch.zeros_like, torch.rand_like, lambda w: w.new_zeros(w.shape).uniform_()):
        assert Initialisation(partial(Pair, second)).of("first.weight").kind == "uniform"

    tied = Initialisation(
        lambda: edited(lambda m: setattr(m.second, "weight", m.first.weight), partial(Pair, torch.clone))
    )
    assert tied.tied == {"second.weight": "first.weight"}
    assert tied.of("second.weight") is tied.of("first.weight")
    same_memory = Initialisation(partial(Pair, lambda w: w))
    assert same_memory.tied == {"second.weight": "first.weight"}
    assert same_memory.of("second.weight").kind == "uniform"


def test_generator_put_back_repeats_the_numbers() -> None:
    def make() -> nn.Module:
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(3, 4))
        state = torch.get_rng_state()
        model[0].reset_parameters()
        torch.set_rng_state(state)
        model[1].reset_parameters()
        return model

    laws = Initialisation(make)
    with pytest.raises(CannotRead, match=r"'0.weight': shares its random numbers with '1.weight'"):
        laws.of("0.weight")
    assert laws.of("2.weight").kind == "uniform"


def test_cloned_layers_of_an_encoder_share_their_numbers() -> None:
    layer = partial(nn.TransformerEncoderLayer, 8, 2, 16)
    laws = Initialisation(lambda: nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False))
    with pytest.raises(CannotRead, match=r"shares its random numbers with 'layers.1.linear1.weight'"):
        laws.of("layers.0.linear1.weight")


def test_spectral_norm_depends_on_its_vectors() -> None:
    laws = Initialisation(lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4)))
    with pytest.raises(CannotRead, match=r"shares its random numbers with 'parametrizations.weight.0._u'"):
        laws.of("parametrizations.weight.original")
    assert laws.of("bias").kind == "uniform"


def test_lazy_layer_beside_others() -> None:
    laws = Initialisation(lambda: nn.Sequential(nn.Linear(3, 4), nn.LazyLinear(3), nn.Embedding(4, 3, padding_idx=0)))
    assert laws.of("0.weight").kind == "uniform"
    with pytest.raises(CannotRead, match=r"'2.weight': its law needs fresh draws, and '1.bias' has no shape yet"):
        laws.of("2.weight")


def test_model_is_frozen_in_eval_mode() -> None:
    for make in (partial(ResNet18, width=1 / 16, norm="batch"), lambda: nn.Linear(3, int(torch.ones(1).item()))):
        model = Initialisation(make).model
        assert not model.training
        assert not any(p.requires_grad for p in model.parameters())


def test_full_resnet_is_never_materialised() -> None:
    make = Counted(ResNet18)
    laws, seconds = None, math.inf
    for _ in range(3):
        start = time.perf_counter()
        laws = Initialisation(make)
        texts = {laws.of(n).text for n, _ in laws.model.named_parameters()}
        seconds = min(seconds, time.perf_counter() - start)
    assert laws is not None
    assert seconds < 0.15
    assert all(p.is_meta for p in laws.model.parameters())
    assert f"uniform in ±{1 / math.sqrt(9 * 512):.4g}" in texts
    assert make.calls == 3


def test_the_compiler_is_not_imported() -> None:
    code = """
import sys, torch
from torch import nn
from netgrain.families.initialisation import Initialisation
from netgrain.models import ViT
def w():
    a = torch.empty(3, 4).normal_(0, 1).mul_(2).add_(1).sub_(1).div_(2).neg_()
    b = torch.zeros_like(a) + torch.ones_like(a) * 2 - torch.full_like(a, 1) / 3
    c = torch.randn(3, 4) - (1 - torch.rand_like(a)) + torch.randn_like(a).clone()[:, :2].clone().sum()
    return a.copy_(b).fill_(torch.tensor(2.0))
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(w())
assert Initialisation(M).of("w").text == "constant 2"
assert Initialisation(ViT).on_meta
print("sympy" in sys.modules or "torch._dynamo" in sys.modules)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def generators() -> tuple[object, ...]:
    numpy_state = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), numpy_state[1].tolist(), numpy_state[2]  # type: ignore[index]


def test_generators_are_left_as_they_were() -> None:
    def make() -> nn.Module:
        torch.manual_seed(7)
        np.random.seed(7)
        random.seed(7)
        return edited(lambda m: m.weight[0].zero_())

    before = generators()
    laws = Initialisation(make)
    assert generators() == before
    with pytest.raises(CannotRead):
        laws.of("weight")
    assert generators() == before


@pytest.mark.parametrize("error", [ValueError("no such width"), KeyboardInterrupt("stopped")])
def test_no_mode_is_left_active_after_an_error(error: BaseException) -> None:
    def make() -> nn.Module:
        nn.Linear(3, 4)
        raise error

    before = generators()
    with pytest.raises(type(error), match=str(error)):
        Initialisation(make)
    assert _get_current_dispatch_mode_stack() == []
    assert _get_current_function_mode_stack() == []
    assert torch.zeros(1).device.type == "cpu"
    assert generators() == before


def test_what_is_not_a_module() -> None:
    with pytest.raises(NetgrainError, match=r"expected a callable that returns a torch\.nn\.Module"):
        Initialisation(lambda: 3)  # type: ignore[arg-type, return-value]


def test_warnings_of_the_user_stay() -> None:
    def make() -> nn.Module:
        warnings.warn("deprecated layer", UserWarning, stacklevel=1)
        return nn.Linear(3, 4)

    assert Initialisation(make).of("weight").kind == "uniform"  # on meta they are hushed: members will say it


def test_same_seed_same_draws() -> None:
    make = DRAWN["laplace"]
    a, b, c = (Initialisation(make, seed=s).of("weight") for s in (0, 0, 1))
    assert a.variance == b.variance != c.variance
