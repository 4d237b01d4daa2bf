"""Initialisation laws: read from the program where possible, else from draws, else refused with the reason."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from netgrain.families.initialisation import CannotRead, Initialisation, TensorLaw
from netgrain.models import ResNet18
from netgrain.runtime.errors import NetgrainError
from tests.families.laws import Holder, differs, edited, generators, weight


@pytest.mark.quick
def test_the_comparison_rejects_wrong_laws() -> None:
    values = torch.randn(3000, generator=torch.Generator().manual_seed(0))
    assert differs(TensorLaw(0.0, 1.0, "normal"), values) == ""
    assert differs(TensorLaw(0.1, 1.0, "normal"), values) != ""
    assert differs(TensorLaw(0.0, 1.15, "normal"), values) != ""
    assert differs(TensorLaw(0.0, 0.0, "constant"), values) != ""
    assert differs(TensorLaw(1.0, 0.0, "constant"), torch.ones(3)) == ""


def zero_row(w: Tensor) -> None:
    w[3].zero_()


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


def test_what_is_not_a_module() -> None:
    with pytest.raises(NetgrainError, match=r"expected a callable that returns a torch\.nn\.Module"):
        Initialisation(lambda: 3)  # type: ignore[arg-type, return-value]


def test_warnings_of_the_user_stay() -> None:
    def make() -> nn.Module:
        warnings.warn("deprecated layer", UserWarning, stacklevel=1)
        return nn.Linear(3, 4)

    assert Initialisation(make).of("weight").kind == "uniform"  # on meta they are hushed: members will say it
