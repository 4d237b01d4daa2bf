"""A softmax over branches or positions, whose numbers then weigh something: selective kernels, spatial weights.

With s = softmax(z) along some positions, J = diag(s) − s sᵀ and gradients of second moment B at s, z gets E[J B J], s
from real members and E the mean over channels. Where the softmax goes over a part of the channels (logits of all
branches come from one layer), branches count as positions from there on: logits are independent channels, so that of
E[J B J] only the entries of a branch with itself are sent on. What s and B have in common is left out.
Attention maps, which multiply values by a matrix product, have a rule of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from netgrain.closed_form.channels import ObservedChannel
from netgrain.closed_form.feature_maps import CHANNEL, ChannelBlock, FeatureMap, Term
from netgrain.closed_form.layouts import BATCH, FIRST_PIECE
from netgrain.closed_form.moments import Full, Moment, check_room
from netgrain.closed_form.rules import Pass, arguments, followed_locally, rule
from netgrain.families.trace import Ref, Step, Unsupported

AT_ONCE = 2**20  # entries of channels × positions²


@rule("softmax", layouts=True)
def _softmax(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x = values[0]
    followed_locally(step, "weighs something by a softmax", run)
    (dim,) = arguments(step, "dim")
    atoms = x.whole().axes[dim]
    if atoms and all(a >= 0 for a in atoms) and x.layout is None:
        y = FeatureMap(x.axes, x.sizes, x.blocks, step)
        shares = _numbers(y, run.tensor(Ref(step.index)))

        def send(block: int, term: Term) -> None:
            x.receive(block, sent_back(run.average(term), shares[block], list(atoms), x.sizes))

        y.send = send
        return y
    return _over_branches(step, x, atoms, run)


def _over_branches(step: Step, x: FeatureMap, atoms: tuple[int, ...], run: Pass) -> FeatureMap:
    """Over one of two pieces of the channels: that piece becomes a position, the other one the channels."""
    layout = x.whole()
    others = [a for a in layout.atoms if a <= FIRST_PIECE and a not in atoms]
    split = len(layout.pieces) == 2 and len(atoms) == 1 and atoms[0] <= FIRST_PIECE and len(others) == 1
    if not split or layout.axes[0] != (BATCH,) or len(x.blocks) > 1:
        raise Unsupported(f"{step.where} is taken over something else than positions or branches")
    count, new = layout.pieces[FIRST_PIECE - atoms[0]], len(x.sizes)
    number = {atoms[0]: new, others[0]: CHANNEL}
    axes = tuple(tuple(number.get(a, a) for a in axis) for axis in layout.axes[1:])
    (block,) = x.blocks
    sizes = (*x.sizes, count)
    channel = ObservedChannel(torch.zeros(0), sizes)
    made = ChannelBlock(block.channels // count, channel, block.sources, False, block.narrow, block.beneath, block.part)
    y = FeatureMap(axes, sizes, (made,), step)
    (shares,) = _numbers(y, run.tensor(Ref(step.index)))

    def send(_block: int, term: Term) -> None:
        sent = sent_back(run.average(term), shares, [new], sizes)
        x.receive(0, sent.moved(lambda m: m.traced([new]).scaled(1 / count)))

    y.send = send
    return y


def _numbers(y: FeatureMap, tensor: Tensor) -> list[Tensor]:
    """A real tensor of this layout, (points, channels, positions) for each block."""
    return [channel.values for channel in y.observed(tensor)]


def sent_back(term: Term, shares: Tensor, along: Sequence[int], sizes: tuple[int, ...]) -> Term:
    """E[J B J] over channels, J the derivative of a softmax along some atoms at real numbers."""
    order = [*(k for k in range(len(sizes)) if k not in along), *along]
    back = [order.index(k) for k in range(len(sizes))]
    moved = [sizes[k] for k in order]
    inner = math.prod(sizes[k] for k in along)
    positions = math.prod(sizes)
    points, channels = shares.shape[:2]
    s = shares.reshape(points, channels, *sizes).permute(0, 1, *(2 + k for k in order)).reshape(points, channels, -1)
    check_room(positions, points)
    some = max(1, AT_ONCE // positions**2)

    def mapped(m: Moment) -> Moment:
        B = m.permuted(order).full().spelled_out().matrices()
        total = torch.zeros(points, positions, positions, dtype=torch.float64)
        for i in range(points):
            b = B[i if len(B) > 1 else 0]
            for part in s[i].split(some):
                once = _times_derivative(part, b.expand(len(part), -1, -1), inner)
                total[i] += _times_derivative(part, once.mT, inner).sum(0)
        return Full(tuple(moved), (total / channels).reshape(points, *moved, *moved)).permuted(back)

    return replace(term, moment=mapped(term.moment), averaged=True, weights=None)


def _times_derivative(s: Tensor, M: Tensor, inner: int) -> Tensor:
    """J M for every channel: s (channels, positions), M (channels, positions, any), the softmax along the last ones."""
    weighed = s[:, :, None] * M
    sums = weighed.reshape(len(s), -1, inner, M.shape[2]).sum(2, keepdim=True)
    taken = sums.expand(-1, -1, inner, -1).reshape(M.shape)
    return weighed - s[:, :, None] * taken
