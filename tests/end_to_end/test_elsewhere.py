"""The pretended device refuses what a real one refuses, and nothing else."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn import functional as F

from tests.end_to_end.elsewhere import elsewhere

KINDS = ("cuda", "mps")
here = torch.arange(6.0).reshape(2, 3)

MISTAKES: dict[str, Callable[[Tensor], Any]] = {
    "sum": lambda there: there + here,
    "sum, the other way": lambda there: here + there,
    "product": lambda there: there @ here.T,
    "number there, tensor here": lambda there: here * there.sum(),
    "in place": lambda there: here.clone().add_(there),
    "number in place": lambda there: torch.zeros(()).add_(there.sum()),
    "joined": lambda there: torch.cat([there, here]),
    "numbers joined": lambda there: torch.stack([there.sum(), here.sum()]),
    "compared": lambda there: torch.equal(there, here),
    "index there": lambda there: here[torch.zeros(1, dtype=torch.int64, device=there.device)],
    "index for select": lambda there: there.index_select(0, torch.tensor([0])),
    "scattered": lambda there: there.__setitem__(torch.tensor([0, 1]), here),
    "labels": lambda there: F.cross_entropy(there, torch.tensor([0, 1])),
    "model": lambda there: nn.Linear(3, 1)(there),
    "moved model": lambda there: nn.Linear(3, 1).to(there.device)(here),
    "copied model": lambda there: copy.deepcopy(nn.Linear(3, 1).to(there.device))(here),
    "gradient": lambda there: _gradient(there) + here,
    "inside vmap": lambda there: vmap(lambda row: row + here[0])(there),
    "numpy": lambda there: there.numpy(),
    "numbers drawn": lambda there: torch.randn(3, device=there.device),
    "numbers drawn alike": lambda there: torch.rand_like(there),
    "numbers drawn into it": lambda there: there.normal_(),
}


def _gradient(x: Tensor) -> Tensor:
    x = x.detach().requires_grad_(True)
    return torch.autograd.grad(x.square().sum(), x)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_caught(name: str, kind: str) -> None:
    with elsewhere(kind) as device, pytest.raises((RuntimeError, TypeError), match=f"{kind}:0"):
        MISTAKES[name](here.to(device))


DOUBLE: list[Callable[[Tensor], Tensor]] = [
    lambda there: there.double(),
    lambda there: torch.zeros(2, dtype=torch.float64, device=there.device),
    lambda there: here.double().to(there.device),
    lambda there: there.sum(dtype=torch.float64),
    lambda there: there.to(torch.complex128),
]


@pytest.mark.parametrize("wide", DOUBLE)
def test_float64_exists_on_cuda_alone(wide: Callable[[Tensor], Tensor]) -> None:
    with elsewhere("cuda") as device:
        assert wide(here.to(device)).device.type == "cuda"
    with elsewhere("mps") as device, pytest.raises(TypeError, match="float64"):
        wide(here.to(device))


FINE: dict[str, Callable[[Tensor], Tensor]] = {
    "moved": lambda there: there,
    "named as a device": lambda there: here.to(torch.device(there.device)),
    "named in words": lambda there: torch.zeros(3, device=torch.device(there.device.type)),
    "like another": lambda there: here.to(there),
    "number from here": lambda there: there * torch.tensor(2.0),
    "index from here": lambda there: there[torch.tensor([1, 0])],
    "mask from here": lambda there: there[torch.tensor([True, False])],
    "value copied": lambda there: _filled(there, 0),
    "made there": lambda there: torch.arange(3, device=there.device) + there.new_zeros(3),
    "made alike": lambda there: torch.zeros_like(there),
    "view": lambda there: there.detach().T[1:].unsqueeze(0),
    "model": lambda there: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(there.device)(there),
    "gradient": _gradient,
    "members at once": lambda there: _members(there),
}


def _filled(there: Tensor, row: int) -> Tensor:
    there = there.clone()
    there[row] = here[1]
    return there.copy_(here)


def _members(x: Tensor) -> Tensor:
    nets = [nn.Linear(3, 2).to(x.device) for _ in range(2)]
    weights, _ = stack_module_state(nets)
    slopes = vmap(grad(lambda w: functional_call(nets[0], w, (x,)).square().sum()))(
        {name: t.detach() for name, t in weights.items()}
    )
    return slopes["weight"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FINE)
def test_what_a_device_allows_is_allowed(name: str, kind: str) -> None:
    with elsewhere(kind) as device:
        found = FINE[name](here.to(device))
        assert found.device == torch.device(kind, 0)
        assert found.cpu().device.type == "cpu"
        assert found.detach().cpu().numpy().shape == found.shape


def test_numbers_are_those_of_the_cpu_and_memory_is_not_shared() -> None:
    with elsewhere("cuda") as device:
        there = here.to(device)
        there += 1
        back = there.cpu()
        back += 1
    assert torch.equal(back, here + 2)
    assert here.flatten().tolist() == [0, 1, 2, 3, 4, 5]


def test_a_tensor_of_the_cpu_stays_there() -> None:
    with elsewhere("cuda") as device:
        kept = torch.zeros(2, 3)
        kept.copy_(here.to(device))
        kept[0] = here.to(device)[1]
        assert kept.device.type == "cpu"
        assert torch.equal(kept[0], here[1])
    assert (here + 1).device.type == "cpu"
