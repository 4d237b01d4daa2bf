"""Initialisations for tests, and the comparison of a law with members."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from netgrain.families.initialisation import Initialisation, TensorLaw
from netgrain.families.members import member

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


def generators() -> tuple[object, ...]:
    numpy_state = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), numpy_state[1].tolist(), numpy_state[2]  # type: ignore[index]
