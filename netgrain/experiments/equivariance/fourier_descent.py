"""Gradient descent of linear networks over groups, entirely in Fourier space."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from netgrain.equivariant.descent import RECORDS
from netgrain.equivariant.limits import make_network
from netgrain.groups.constructors import cyclic
from netgrain.groups.fourier import Fourier
from netgrain.groups.group import Group
from netgrain.runtime.threads import one_thread

GROWTH, TURN = 1.0, 0.02  # a step: the soft margin grows by at most this much, w moves by at most this share of |w|


@dataclass(frozen=True, eq=False)
class PredictorPath:
    """Predictors along normalised gradient descent; record 0 is the initialisation."""

    betas: Tensor  # (records, members, n)
    margins: Tensor  # (records, members): min_i y_i <x_i, β>


def records(steps: int, count: int) -> list[int]:
    """About `count` steps from 0 to the last, denser at the start."""
    return sorted({0, *np.unique(np.geomspace(1, max(steps, 1), count - 1).round().astype(int)).tolist(), steps})


@dataclass(frozen=True)
class Pace:
    """How steps are made: normalised full-batch ones, or with `lr` plain ones on the mean exponential loss.

    Plain steps take the batches in turn (point i is in batch i modulo their number), and the learning rate grows by a
    tenth every 100 epochs as in the authors' code.
    """

    lr: float | None = None
    batches: int = 1

    def pull(self, margins: Tensor, Z: Tensor, step: int) -> Tensor:
        """z = Σ q_i Z_i, (members, n): the direction in which β is asked to move."""
        if self.lr is None:
            return torch.softmax(-margins, -1) @ Z
        mine = slice(step % self.batches, None, self.batches)
        losses = (-margins[..., mine]).exp()
        return losses @ Z[mine] / losses.shape[-1]

    def rate(self, squared_gradient: Tensor, squared_norm: Tensor, step: int) -> Tensor:
        if self.lr is None:
            turn = TURN * (squared_norm / squared_gradient).sqrt()
            return torch.minimum(GROWTH / squared_gradient, turn)
        return torch.full_like(squared_norm, self.lr * 1.1 ** (step // self.batches // 100))


NORMALISED = Pace()


def recorded_steps(epochs: int) -> Tensor:
    """The steps at which `netgrain.equivariant.exponential_descent` records, when it runs to the end."""
    return torch.from_numpy(np.unique(np.geomspace(1, epochs + 1, RECORDS).astype(int) - 1))


Steps = Iterator[tuple[Tensor, Tensor]]  # β (members, n) and margins (members, points) before every step, without end


@one_thread()
def recorded(steps: Steps, noted: Sequence[int]) -> PredictorPath:
    """Descend to the last of the noted steps, and keep what is found at each of them."""
    found = [pair for step, pair in zip(range(noted[-1] + 1), steps, strict=False) if step in noted]
    betas, margins = zip(*found, strict=True)
    return PredictorPath(torch.stack(betas), torch.stack([m.amin(-1) for m in margins]))


def steps_in_fourier(group: Group, layers: Tensor, Z: Tensor, pace: Pace = NORMALISED) -> Steps:
    """Gradient descent of linear group CNNs on the exponential loss, entirely in Fourier space.

    layers: (L, members, n), w_1 first; Z: (points, n), y_i x_i. With P = w_L * … * w_{l+1} and S = w_{l-1} * … * w_1
    the gradient is ĝ_l = P̂⁺ ẑ Ŝ⁺, z = Σ q_i Z_i, and a step in ŵ is the step in w because the transform is linear. Two
    transforms a step, of z and of β; each member takes the steps it would take alone.
    """
    hats = [list(group.fourier(w).stacks) for w in layers]  # [layer][size of block]: (members, count, d, d)
    depth, sizes = len(hats), range(len(hats[0]))
    for step in itertools.count():
        befores: list[list[Tensor]] = [hats[0]]  # w_l … w_1
        for w in hats[1:]:
            befores.append([w[k] @ befores[-1][k] for k in sizes])
        beta = Fourier(group, tuple(befores[-1]), real=True).inverse()
        margins = beta @ Z.T
        yield beta, margins
        left = list(group.fourier(pace.pull(margins, Z, step)).stacks)  # P̂⁺ ẑ
        grads: list[list[Tensor]] = [[] for _ in hats]
        for l in reversed(range(depth)):
            grads[l] = [left[k] @ befores[l - 1][k].mH for k in sizes] if l else left
            left = [hats[l][k].mH @ left[k] for k in sizes]
        size, norm = (_squared_norm(group, parts) for parts in (grads, hats))
        rate = pace.rate(size, norm, step)[:, None, None, None]
        for l in range(depth):
            hats[l] = [w + rate * g for w, g in zip(hats[l], grads[l], strict=True)]


def _squared_norm(group: Group, layers: list[list[Tensor]]) -> Tensor:
    """Σ_l |w_l|², (members,), by Plancherel."""
    sums = [s.shape[-1] * torch.view_as_real(s).square().flatten(1).sum(1) for stacks in layers for s in stacks]
    return torch.stack(sums).sum(0) / group.order


def dense_steps(weights: Sequence[Tensor], Z: Tensor, pace: Pace = NORMALISED) -> Steps:
    """The same steps for a fully connected network w_L W_{L-1} … W_1; weights as (out, in), one member."""
    Ws = [w.detach().clone() for w in weights]
    for step in itertools.count():
        afters = [Ws[-1]]  # w_L … W_l, rows; last layer first
        for W in reversed(Ws[:-1]):
            afters.append(afters[-1] @ W)
        beta = afters[-1][0]
        margins = Z @ beta
        yield beta[None], margins[None]
        h = pace.pull(margins, Z, step)
        sides = []  # the gradient of layer l is the outer product of its two sides
        for l, W in enumerate(Ws):
            back = afters[len(Ws) - 2 - l][0] if l < len(Ws) - 1 else torch.ones(1, dtype=h.dtype)
            sides.append((back, h))
            h = W @ h
        size = torch.stack([a.square().sum() * b.square().sum() for a, b in sides]).sum()
        rate = float(pace.rate(size, torch.stack([W.square().sum() for W in Ws]).sum(), step))
        for W, (a, b) in zip(Ws, sides, strict=True):
            W.addr_(a, b, alpha=rate)


def descend(
    net: str,
    group: Group,
    Z: Tensor,
    *,
    seed: int,
    noted: Sequence[int],
    width: int | None = None,
    pace: Pace = NORMALISED,
) -> PredictorPath:
    """Train the three-layer "group-cnn", "circular" or "fully-connected" network from netgrain's initial weights."""
    if net == "fully-connected":
        weights = list(make_network(group, net, 3, width=width, seed=seed).weights)
        return recorded(dense_steps(weights, Z, pace), noted)
    over = group if net == "group-cnn" else cyclic(group.order)
    return recorded(steps_in_fourier(over, initial_layers(group.order, 3, [seed]), Z, pace), noted)


def initial_layers(n: int, depth: int, seeds: Sequence[int]) -> Tensor:
    """The initial filters of a one-channel group CNN or circular CNN on n elements, (depth, members, n)."""
    members = [list(make_network(cyclic(n), "circular", depth, seed=s).weights) for s in seeds]
    return torch.stack([torch.stack([m[l].detach().reshape(n) for m in members]) for l in range(depth)])
