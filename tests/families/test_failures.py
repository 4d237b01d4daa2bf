"""Models that fail, return no numbers or let no gradient through: the sentence names the place and the way out."""

import pytest
import torch
from torch import Tensor, nn

from netgrain.families.failures import (
    NotFinite,
    check_connected,
    check_finite_gradient,
    check_finite_outputs,
    check_not_lazy,
    unwrapped_model,
    why_it_failed,
)
from netgrain.runtime.errors import NetgrainError


class Root(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sqrt()


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((8, 8, 3), r"put the channels first, as in \(3, 8, 8\)\."),
        ((2, 3, 8, 8), r"leave out the batch: .* as in \(3, 8, 8\)\."),
        ((5, 8, 8), "do something else"),
    ],
)
def test_common_mistakes_get_their_own_advice(shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        nn.Conv2d(3, 4, 3)(torch.zeros(1, *shape))
    said = why_it_failed(caught.value, shape, "the model", "do something else")
    assert said.startswith(f"the model failed on inputs of shape {shape} (")
    with pytest.raises(NetgrainError, match=words):
        raise NetgrainError(said)


@pytest.mark.quick
def test_the_first_module_that_returns_no_numbers_is_named() -> None:
    model = nn.Sequential(nn.Identity(), Root(), nn.Tanh())
    x = torch.tensor([[-1.0, 4.0]])
    with pytest.raises(NotFinite, match=r"returns NaN or Inf, first in '1' \(Root\);"):
        check_finite_outputs(model(x), model, x)
    check_finite_outputs(model(x.abs()), model, x.abs())


def test_a_gradient_that_is_not_finite_is_named_behind_its_module() -> None:
    """The slope of a root at zero is infinite: the output of '0' is the last one with such a gradient."""
    model = nn.Sequential(nn.Identity(), Root())
    x = torch.zeros(1, 2)
    with pytest.raises(NotFinite, match=r"first behind '0' \(Identity\), although the outputs are finite"):
        check_finite_gradient(torch.full((1, 2), torch.inf), model, x)
    check_finite_gradient(torch.ones(1, 2), model, x)


def test_outputs_that_change_without_a_gradient_are_cut_off() -> None:
    with pytest.raises(NetgrainError, match="cut off from the inputs"):
        check_connected(torch.Tensor.detach, torch.zeros(1, 4))
    check_connected(torch.ones_like, torch.zeros(1, 4))


def test_a_lazy_layer_is_named() -> None:
    with pytest.raises(NetgrainError, match=r"the model: '1' \(LazyLinear\) has no weights before"):
        check_not_lazy(nn.Sequential(nn.Linear(2, 3), nn.LazyLinear(3)), "the model")
    check_not_lazy(nn.Linear(2, 3), "the model")


def test_wrappers_are_taken_off() -> None:
    inner = nn.Linear(2, 3)
    assert unwrapped_model(nn.DataParallel(nn.DataParallel(inner))) is inner
    assert unwrapped_model(inner) is inner
