"""Layouts of tensors: what they read, and when the channel is whole."""

from __future__ import annotations

import pytest
import torch

from netgrain.closed_form.layouts import BATCH, CHANNEL, Layout, piece

HEADS = Layout(
    ((BATCH, 1), (piece(0),), (0,), (piece(1),)), pieces=(2, 3)
)  # (batch · windows, heads, tokens, features)


@pytest.mark.quick
def test_a_tensor_is_read_as_samples_channels_and_positions() -> None:
    batch, tokens, windows = 2, 5, 4
    tensor = torch.randn(batch * windows, 2, tokens, 3, generator=torch.Generator().manual_seed(0))
    found = HEADS.read(tensor, 6, (tokens, windows))
    assert HEADS.shape(batch, 6, (tokens, windows)) == tuple(tensor.shape)
    for b, h, f, n, w in ((0, 0, 0, 0, 0), (1, 1, 2, 4, 3), (1, 0, 1, 2, 1), (0, 1, 0, 3, 2)):
        assert found[b, 3 * h + f, n * windows + w] == tensor[b * windows + w, h, n, f].double()


def test_pieces_side_by_side_are_the_channel_again() -> None:
    assert HEADS.together() is HEADS
    merged = Layout(((BATCH,), (0,), (piece(0), piece(1))), pieces=(2, 3)).together()
    assert merged == Layout(((BATCH,), (0,), (CHANNEL,)))
    assert merged.standard() == ((0,), (CHANNEL,))
    shuffled = Layout(((BATCH,), (piece(1), piece(0)), (0,)), pieces=(2, 3))
    assert not shuffled.in_order()
    assert shuffled.together().standard() == ((CHANNEL,), (0,))


def test_the_batch_comes_back_where_it_was() -> None:
    windows = Layout(((BATCH, 0), (1,), (CHANNEL,)))
    assert windows.without_batch(2) == ((0,), (1,), (CHANNEL,))
    assert windows.with_axes(((3,), (2,), (CHANNEL,))) == Layout(((BATCH, 3), (2,), (CHANNEL,)))
    assert windows.with_axes(((2,), (CHANNEL,))) is None
    first = Layout(((0,), (BATCH,), (CHANNEL,)))
    assert first.standard() is None
    assert first.with_axes(first.without_batch(1)) == first
