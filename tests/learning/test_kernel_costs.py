"""Fixed models of cost."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from netgrain.families.reading import read
from netgrain.learning.kernel_costs import (
    batch_for,
    calibration_samples,
    check_kernel_fits,
    members_for,
    tangent_worth_it,
)
from netgrain.learning.layer_grams import products
from netgrain.runtime.errors import NetgrainError


def wide() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


SMALL = read(lambda: nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), (8,))
LARGE = read(wide, (3, 224, 224))


@pytest.mark.quick
def test_members_are_fewer_for_large_networks_and_many_samples() -> None:
    assert [members_for(kind, SMALL, 1000) for kind in ("layers", "last", "tangent")] == [8, 16, 4]
    assert members_for("layers", LARGE, 5000) == 5
    assert members_for("layers", LARGE, 10**6) == 2


def test_a_kernel_beyond_the_budget_is_refused_with_the_way_out() -> None:
    check_kernel_fits(5000, 5000, 8)
    with pytest.raises(
        NetgrainError, match=r"8000 × 8000 samples and 8 members would take .* ng.learnability takes more"
    ):
        check_kernel_fits(8000, 8000, 8)


def test_a_tangent_kernel_of_large_images_is_not_worth_it() -> None:
    assert tangent_worth_it(SMALL, 5000)
    assert tangent_worth_it(LARGE, 500)
    assert not tangent_worth_it(LARGE, 10_000)


def test_batches_are_smaller_for_large_inputs() -> None:
    assert batch_for("layers", SMALL) == 128
    assert 1 <= batch_for("tangent", LARGE) < batch_for("layers", LARGE) < 128


def test_calibration_takes_all_samples_that_fit_whatever_their_order() -> None:
    few = torch.randn(50, 8)
    assert calibration_samples(SMALL, few) is few
    many = torch.arange(60.0).reshape(-1, 1, 1, 1).expand(60, 3, 224, 224)
    chosen = calibration_samples(LARGE, many)
    assert 8 <= len(chosen) < 60
    assert torch.equal(chosen, calibration_samples(LARGE, many.flip(0)))
    assert float(products(chosen[:, 0, 0, :1], len(chosen))[-1, -1]) == 59.0**2
