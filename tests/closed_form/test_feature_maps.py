"""Feature maps: axes made of channels and positions, by hand."""

from types import SimpleNamespace
from typing import cast

import pytest
import torch

from netgrain.closed_form.channels import ConstantChannel
from netgrain.closed_form.feature_maps import CHANNEL, ChannelBlock, FeatureMap, Term, arranged, reshaped
from netgrain.closed_form.moments import identity
from netgrain.families.trace import Step, Unsupported

STEP = cast(Step, SimpleNamespace(where="view in 'net'"))


def four_channels() -> FeatureMap:
    """Of 2 × 3 positions."""
    block = ChannelBlock(4, ConstantChannel(1.0, (2, 3)), frozenset())
    return FeatureMap(((CHANNEL,), (0,), (1,)), (2, 3), (block,), holds=True)


@pytest.mark.quick
@pytest.mark.parametrize("shape", [(4, 2, 3), (4, 6), (24,), (8, 3), (4, 2, 3, 1)])
def test_reshaping_regroups_channels_and_positions(shape: tuple[int, ...]) -> None:
    """Whatever the shape, the same numbers are at the same channels and positions."""
    tensor = torch.arange(48.0).reshape(2, 4, 2, 3)
    found = reshaped(four_channels(), shape, STEP)
    assert found.shape() == shape
    (seen,) = found.observed(tensor.reshape(2, *shape))
    assert torch.equal(seen.values, tensor.reshape(2, 4, 6).double())


def test_shapes_that_cut_channels_are_refused() -> None:
    with pytest.raises(Unsupported, match="view in 'net' splits channels into groups"):
        reshaped(four_channels(), (2, 2, 6), STEP)
    with pytest.raises(Unsupported, match="does not follow its channels and positions"):
        reshaped(four_channels(), (3, 8), STEP)


def test_gradients_of_one_way_are_added_and_turned_back() -> None:
    x = four_channels()
    turned = arranged(x, [[1], [0]], ((CHANNEL,), (0,), (1,)), STEP)
    assert turned.sizes == (3, 2)
    D = torch.arange(1.0, 7.0, dtype=torch.float64).diag()
    kernel = identity((3, 2)).full().spelled_out()
    gradient = type(kernel)((3, 2), D.reshape(1, 3, 2, 3, 2))
    for _ in range(2):
        turned.receive(0, Term(gradient))
    ((term,),) = x.terms
    expected = 2 * torch.tensor([1.0, 3, 5, 2, 4, 6], dtype=torch.float64).diag()  # transposed positions
    assert torch.equal(term.moment.full().spelled_out().matrices()[0], expected)
