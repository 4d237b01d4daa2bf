"""A random vector at the input of the last layer stands for all of its outputs."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.reading import read
from netgrain.families.reasons import Reason
from netgrain.geometry.options import Options
from netgrain.geometry.sampled import sampled


def test_a_random_vector_stands_for_the_last_layer() -> None:
    """Ten outputs, one backward pass: the same mean, scale included."""

    def make() -> nn.Sequential:
        return nn.Sequential(nn.Flatten(), nn.Linear(9, 40), nn.Tanh(), nn.Linear(40, 10))

    asked = Options((1, 3, 3), probe=ng.Gaussian(1), members=300, engine="local")
    fast = sampled(read(make, asked.shape), asked)
    plain = sampled(read(make, asked.shape, 1), replace(asked, last_layer="never", seed=1))
    assert "last layer integrated" in fast.about.averaged
    assert "last layer integrated" not in plain.about.averaged
    difference = fast.trace.value - plain.trace.value
    assert abs(difference) < 4 * (fast.trace.stderr**2 + plain.trace.stderr**2) ** 0.5
    same = ng.corr(fast, plain)
    assert abs(same.value - 1) < 4 * same.stderr


@pytest.mark.quick
@pytest.mark.parametrize(
    ("layers", "why"),
    [
        (lambda: [nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 3), nn.Softmax(1)], "is not linear in the weight"),
        (lambda: [nn.Linear(9, 4), nn.Tanh()], "is not linear in the weight"),
        (lambda: [nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 1)], "one output"),
        (lambda: [nn.Linear(9, 6), nn.Tanh(), nn.Unflatten(1, (2, 3)), nn.Linear(3, 2)], "is not the last step"),
    ],
)
def test_a_last_layer_that_is_not_averaged_over(layers: Callable[[], list[nn.Module]], why: str) -> None:
    from netgrain.geometry.random_head import random_head_of

    def make() -> nn.Sequential:
        return nn.Sequential(nn.Flatten(), *layers())

    found = random_head_of(read(make, (1, 3, 3)), "all")
    assert isinstance(found, Reason)
    assert why in str(found)


@pytest.mark.quick
@pytest.mark.parametrize("prepares", [False, True])
def test_kinds_of_linear_layers(prepares: bool) -> None:
    """A layer of another class counts where it does nothing else to its input."""
    from netgrain.geometry.random_head import RandomHead, random_head_of

    class Own(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x * 2 if prepares else x)

    found = random_head_of(read(lambda: nn.Sequential(nn.Linear(9, 4), nn.Tanh(), Own(4, 3)), (9,)), "all")
    assert isinstance(found, RandomHead) == (not prepares)
