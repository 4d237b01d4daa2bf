"""Curves through noisy points: the sharpness of the loss."""

from functools import partial

import pytest
import torch

from netgrain.experiments.heuristics import gc_regression
from netgrain.families.members import member


def test_sharpness_is_that_of_the_hessian_at_a_perfect_fit() -> None:
    """Where all residuals are zero the Gauss–Newton matrix is the Hessian of the loss."""
    net = member(partial(gc_regression._network, 1.0), 0, 0).double()
    x = torch.linspace(-1, 1, 7, dtype=torch.float64)[:, None]
    y = net(x).detach()
    names = [n for n, _ in net.named_parameters()]
    sizes = [p.numel() for p in net.parameters()]
    shapes = [p.shape for p in net.parameters()]

    def loss(theta: torch.Tensor) -> torch.Tensor:
        parts = [t.reshape(s) for t, s in zip(theta.split(sizes), shapes, strict=True)]
        return (torch.func.functional_call(net, dict(zip(names, parts, strict=True)), (x,)) - y).square().mean() / 2

    theta = torch.cat([p.detach().flatten() for p in net.parameters()])
    H = torch.autograd.functional.hessian(loss, theta)
    assert gc_regression._sharpness(net, x) == pytest.approx(float(torch.linalg.eigvalsh(H)[-1]), rel=1e-8)
