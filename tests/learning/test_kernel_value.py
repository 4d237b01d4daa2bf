"""A kernel as a value."""

from __future__ import annotations

import math
import re

import pytest
import torch

import netgrain as ng
from netgrain.learning.kernel_value import Kernel, KernelAbout

PARTS = torch.tensor([[[1.0, 0.0]], [[1.0, 0.5]], [[1.0, 1.0]]])


@pytest.mark.quick
def test_errors_are_those_over_members() -> None:
    K = Kernel("last", PARTS.mean(0), PARTS, KernelAbout("sampled", "MLP", 3))
    assert K.matrix.dtype == torch.float64
    torch.testing.assert_close(K.stderr, torch.tensor([[0.0, 0.5 / math.sqrt(3)]], dtype=torch.float64))
    assert K.relative_error == pytest.approx(0.5 / math.sqrt(3) / math.sqrt(1.25))
    assert repr(K) == "Kernel(last layer of MLP, 1 × 2, 3 members, relative error 0.26)"
    cells = re.findall("<td[^>]*>(.*?)</td>", K._repr_html_())
    assert cells == ["MLP", "last layer", "1 × 2", "3 members, relative error 0.26"]


def test_one_member_has_an_unknown_error_and_a_given_model_none() -> None:
    one = PARTS[:1]
    assert "1 member, relative error unknown" in repr(Kernel("layers", one[0], one, KernelAbout("sampled", "", 1)))
    given = Kernel("tangent", one[0], one, KernelAbout("given", "Net", 1))
    assert given.relative_error == 0
    assert repr(given) == "Kernel(tangent kernel of Net, 1 × 2, one given model)"
    closed = Kernel("last", one[0], None, KernelAbout("closed-form", "Net", exact=True))
    assert "closed form, exact at any width" in repr(closed)
    assert not closed.stderr.any()


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ng.NetgrainError, match="matrix expects shape"):
        Kernel("last", torch.zeros(2), None, KernelAbout("closed-form"))
    with pytest.raises(ng.NetgrainError, match="parts expects shape"):
        Kernel("last", torch.zeros(2, 2), torch.zeros(3, 2, 1), KernelAbout("sampled"))
