"""Products and sums with constants against sampled networks: exact at the origin."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from tests.closed_form.networks import S, closed, thorough


class Given(nn.Module):
    """A function of the input and some parameters."""

    def __init__(self, function: Callable[..., Tensor], **tensors: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, **dict(self.named_parameters()))


def random_norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels)
    nn.init.normal_(norm.weight, 1.0, 0.5)
    nn.init.normal_(norm.bias, 0.0, 0.3)
    return norm


def response(x: Tensor, g: Tensor, b: Tensor) -> Tensor:
    """timm's global response norm."""
    size = x.norm(dim=(2, 3), keepdim=True)
    return x + torch.addcmul(b, g, x * (size / (size.mean(1, keepdim=True) + 1e-6)))


STEPS: dict[str, Callable[[], nn.Module]] = {
    "reshaped": lambda: Given(lambda x, g: x * g.reshape(1, -1, 1, 1), g=torch.full((4,), 0.3)),
    "exponential": lambda: Given(lambda x, t: t.exp() * x, t=torch.full((), 0.7)),
    "two products": lambda: Given(lambda x, g: x * (2 * g[:, None, None]), g=torch.randn(4)),
    "LayerScale with a law": lambda: Given(lambda x, g: x * g.view(-1, 1, 1), g=1 + 0.5 * torch.randn(4)),
    "addcmul": lambda: Given(
        lambda x, a, b: torch.addcmul(b, a, x), a=torch.randn(4, 1, 1), b=0.4 * torch.randn(4, 1, 1)
    ),
    "norm with random weights": lambda: random_norm(4),
    "response norm at zero": lambda: Given(response, g=torch.zeros(4, 1, 1), b=torch.zeros(4, 1, 1)),
}


def around(step: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        return S(
            *(nn.Conv2d(2, 4, 3, padding=1, bias=False), step(), nn.GELU()),
            *(nn.Conv2d(4, 3, 3, padding=1, bias=False), nn.Flatten(), nn.Linear(75, 2)),
        )

    return make


@pytest.mark.quick
@pytest.mark.parametrize("name", STEPS)
def test_constants_are_exact_at_the_origin(name: str) -> None:
    result = ng.check(around(STEPS[name]), (2, 5, 5), members=thorough(1600), workers=1, progress=False)
    assert result.closed.exact
    assert result.agrees, str(result)


def test_a_position_embedding() -> None:
    embedding = lambda: Given(lambda x, p: x + p, p=0.5 * torch.randn(1, 4, 5, 5))  # noqa: E731
    result = ng.check(around(embedding), (2, 5, 5), members=thorough(1600), workers=1, progress=False)
    assert result.agrees, str(result)


def test_random_gains_are_observed_with_their_slopes() -> None:
    """Away from the origin the slope behind a random gain knows that gain; the closed form reads both off members."""

    def make() -> nn.Module:
        gain = Given(lambda x, g: x * g.view(-1, 1, 1), g=3 * torch.rand(64))
        return S(nn.Conv2d(1, 64, 3), gain, nn.Tanh(), nn.Flatten(), nn.Linear(256, 2))

    probe = ng.Gaussian(2.0)
    observed = closed(make, (1, 4, 4), probe=probe, probes=32)
    sampled = ng.average_geometry(make, (1, 4, 4), probe=probe, members=100, seed=5, method="sampled", workers=1)
    assert {note.kind for note in observed.about.steps} == {"exact", "observed"}
    assert float(observed.trace.value) == pytest.approx(float(sampled.trace.value), rel=0.1)


def test_what_a_known_zero_multiplies_needs_no_rule() -> None:
    class Off(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv1d(1, 3, 2, bias=False), nn.Conv1d(3, 3, 1, bias=False)
            self.norm, self.c = nn.BatchNorm1d(3), nn.Linear(9, 1)
            nn.init.zeros_(self.norm.weight)

        def forward(self, x: Tensor) -> Tensor:
            h = self.a(x)
            return self.c(F.gelu(h + self.norm(self.b(h.cumsum(2)))).flatten(1))

    def on() -> nn.Module:
        return S(nn.Conv1d(1, 3, 2, bias=False), nn.GELU(), nn.Flatten(), nn.Linear(9, 1))

    assert torch.allclose(closed(Off, (1, 4)).matrix(), closed(on, (1, 4)).matrix(), rtol=1e-12)
