"""Laws read from draws, where no program tells them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from netgrain.families.initialisation import CannotRead, Initialisation
from tests.families.laws import Counted, Holder, check_against_members, edited, weight


def reject(w: Tensor) -> None:
    while bool((w.abs() > 0.25).any()):
        w.normal_(0, 0.1)


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


@pytest.mark.quick
def test_default_uniform_is_recognised_in_draws() -> None:
    law = Initialisation(
        weight(lambda w: w.copy_(torch.from_numpy(np.random.uniform(-1, 1, (10, 12)) / math.sqrt(12))))
    ).of("weight")
    assert (law.kind, law.error) == ("uniform", 0.0)
    assert law.variance == pytest.approx(1 / 36)


def test_same_seed_same_draws() -> None:
    make = DRAWN["laplace"]
    a, b, c = (Initialisation(make, seed=s).of("weight") for s in (0, 0, 1))
    assert a.variance == b.variance != c.variance
