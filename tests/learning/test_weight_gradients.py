"""Rules for single layers against gradients of single samples; whole networks are in test_tangent_products."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from netgrain.learning.weight_gradients import layer_gradient

CONVOLUTIONS = {
    "even kernel": ((2, 4, 7), (3, 4, 4), {"padding": "same"}, 0),
    "stride beyond the kernel": ((2, 4, 9), (3, 4, 2), {"stride": 4}, 0),
    "uneven end": ((2, 4, 8, 7), (6, 2, 3, 2), {"stride": (3, 2), "padding": (1, 0), "groups": 2}, 0),
    "dilated": ((2, 1, 9, 9), (2, 1, 3, 3), {"dilation": (2, 3)}, 0),
    "transposed": ((2, 4, 3, 5), (4, 3, 3, 2), {"stride": 3, "padding": 1, "output_padding": 2, "groups": 2}, 1),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_convolutions(name: str) -> None:
    inputs, weights, options, turned = CONVOLUTIONS[name]
    generator = torch.Generator().manual_seed(0)
    a, w = (torch.randn(s, generator=generator, dtype=torch.float64) for s in (inputs, weights))
    kind = f"conv{'_transpose' * turned}{len(weights) - 2}d"
    function = getattr(F, kind)
    w.requires_grad_(True)
    out: Tensor = function(a, w, None, **options)
    b = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    found = layer_gradient(kind, function, (a, w, None), options, out, lambda t: t is w)
    assert found is not None
    rows = found.parameters[id(w)](b)
    for i in range(2):
        (exact,) = torch.autograd.grad((function(a[i : i + 1], w, None, **options) * b[i : i + 1]).sum(), w)
        torch.testing.assert_close(rows[i], exact.flatten())


def test_calls_without_a_rule() -> None:
    a, p = torch.ones(3, 2), torch.ones(3, 2)
    known = lambda t: t is p  # noqa: E731
    assert layer_gradient("sinc", torch.sinc, (p,), {}, p, known) is None
    assert layer_gradient("mul", torch.mul, (a, p), {}, a * p, known) is None  # one row for each sample: not shared
    assert layer_gradient("linear", F.linear, (a, torch.ones(4, 2)), {}, torch.ones(3, 4), known) is None
