"""What starts at zero is found by what it multiplies, not by its name."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from netgrain.families.gradients import gradients
from netgrain.families.members import member
from netgrain.families.reading import read
from netgrain.families.switched_off import OffPart, SwitchedOff, switches_of
from tests.families.networks import Net, opaque
from tests.families.residual_networks import OFF, ON, WIDTH, Make, multiplied, residual


@pytest.mark.quick
@pytest.mark.parametrize("name", OFF)
def test_what_is_off_is_found(name: str) -> None:
    make, kind, count, of, parameter, value = OFF[name]
    off = switches_of(read(make, (5,))).off
    assert off is not None
    (part,) = off.parts
    assert (part.kind, part.count, part.of, part.names) == (kind, count, of, (parameter,))
    assert part.value == pytest.approx(value, rel=1e-6)
    assert off.matters == (kind != "response norm")
    # whether G is zero is what the gradients of a member say
    model = member(make, 0, 0)
    rows = gradients(model, torch.randn(3, 5, generator=torch.Generator().manual_seed(0)), "all")
    assert off.zero == (not bool(rows.any()))


@pytest.mark.parametrize("name", ON)
def test_nothing_is_off(name: str) -> None:
    switches = switches_of(read(ON[name], (5,)))
    assert switches.off is None
    assert not switches.found


def test_a_small_factor_on_the_only_way_is_no_switch() -> None:
    def make() -> nn.Module:
        net = Net(lambda net, x: net.b(net.a(x).tanh() * net.gamma), a=nn.Linear(5, WIDTH), b=nn.Linear(WIDTH, 2))
        net.gamma = nn.Parameter(torch.full((WIDTH,), 1e-6))
        return net

    assert switches_of(read(make, (5,))).off is None


def test_one_head_of_two_leaves_something() -> None:
    def make() -> nn.Module:
        net = Net(lambda net, x: net.a(x) + net.b(x), a=nn.Linear(5, 2), b=nn.Linear(5, 2))
        nn.init.zeros_(net.b.weight)
        return net

    off = switches_of(read(make, (5,))).off
    assert off is not None
    assert (off.parts[0].kind, off.zero) == ("head", False)


def test_laws_that_no_program_tells_are_read_from_a_member() -> None:
    def hidden() -> Tensor:
        return torch.from_numpy(torch.zeros(WIDTH).numpy())  # memory that others hold

    off = switches_of(read(residual(multiplied, gamma=hidden), (5,))).off
    assert off is not None
    assert off.parts[0].kind == "gain"


class Branch(nn.Module):
    """x + γ·(norm of x), in a module that cannot be traced from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.gamma = nn.LayerNorm(5), nn.Parameter(torch.full((5,), 1e-6))
        nn.init.zeros_(self.norm.weight)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gamma * self.norm(x)


def test_a_module_that_cannot_be_traced_is_judged_by_names() -> None:
    def make() -> nn.Module:
        net = nn.Sequential(Branch(), nn.LayerNorm(5), nn.Linear(5, 2))
        nn.init.zeros_(net[2].weight)
        return net

    off = switches_of(read(opaque(make), (5,))).off
    assert off is not None
    assert [(p.kind, p.count, p.of) for p in off.parts] == [("head", 1, 1), ("norm", 1, 2), ("layer scale", 1, 1)]
    assert switches_of(read(opaque(lambda: nn.Linear(5, 2)), (5,))).off is None


def test_sentences_and_plain_values() -> None:
    norms = OffPart("norm", 8, 20, ("a.weight", "b.weight"))
    off = SwitchedOff((norms, OffPart("response norm", 2, 2, ("grn.weight",))))
    assert SwitchedOff.from_dict(asdict(off)) == off
    assert "8 of 20 norms start with weight zero ('a.weight', 'b.weight', …)" in off.sentence()
    assert "only the skip paths" in off.sentence()
    assert "--switched-on switches everything on" in off.sentence("--switched-on")
    scaled = SwitchedOff((OffPart("layer scale", 4, 4, ("gamma",), 1e-6),))
    assert "all 4 layer scales start at 1e-06" in scaled.sentence()
    assert "almost only" in scaled.sentence()
    head = SwitchedOff((OffPart("head", 1, 1, ("head.weight",)),), zero=True)
    assert "so that G = 0" in head.sentence()


needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")


@needs_timm
@pytest.mark.parametrize(
    ("name", "size", "kind", "count", "of"),
    [
        ("resnet18", 32, "norm", 8, 20),
        ("nf_resnet26", 32, "gain", 8, 29),
        ("convnext_atto", 32, "layer scale", 12, 12),
        ("convnextv2_atto", 32, "response norm", 12, 12),
        ("mixer_s32_224", 224, "head", 1, 1),
        ("efficientnet_b0", 32, None, 0, 0),
    ],
)
def test_families_of_timm(name: str, size: int, kind: str | None, count: int, of: int) -> None:
    from netgrain.models.timm_models import import_timm

    make: Make = partial(import_timm("timm").create_model, name, num_classes=10)
    off = switches_of(read(make, (3, size, size))).off
    if kind is None:
        assert off is None
        return
    assert off is not None
    assert [(p.kind, p.count, p.of) for p in off.parts] == [(kind, count, of)]
    assert off.zero == (kind == "head")
