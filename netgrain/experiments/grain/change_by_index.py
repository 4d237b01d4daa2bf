"""How much the geometry changes along each eigenvector of G: |uᵀ(Gᵗ − G)u| against the index of u.

Footnote 4 of the paper: the invariance is a spectrum, and the change along u falls gradually with uᵀGu. Changes are
those of the same members, squared by products of different members, and averaged over bands of indices: along a single
direction they are mostly noise. Where G has no order (an MLP), or for random directions, nothing can fall.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netgrain.experiments.grain.drawing import error_bars
from netgrain.experiments.grain.following import estimate
from netgrain.experiments.grain.planted_claims import FEWEST
from netgrain.geometry.correlation import Deletions, distinct_pairs
from netgrain.geometry.estimate import Estimate, mean
from netgrain.geometry.spectrum import NULL, blocks_of
from netgrain.geometry.value import Geometry
from netgrain.runtime.randomness import generator_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HALVINGS = 6  # bands: the last half of the indices, the last half of what is left, and so on
RESAMPLES = 400  # of the members, for the error of a rank correlation
BASES = 16  # random ones, in place of the eigenvectors
WIDE = 16  # random directions in each band: all bands alike, so that no order is to be expected


@dataclass(frozen=True, eq=False)
class Directions:
    """The eigenvectors of G as rows, with the bands of indices that are looked at together."""

    values: Tensor  # (d,) descending
    vectors: Tensor  # (d, d)
    bands: list[tuple[int, int]]  # first index and the one after the last
    ordered: bool  # whether G tells its directions apart: an MLP's does not

    @classmethod
    def of(cls, G: Geometry) -> Directions:
        values = torch.zeros(G.d, dtype=torch.float64)
        values[: len(G.eigenvalues)] = G.eigenvalues
        blocks = blocks_of(values)
        few = 1 < len(blocks) < FEWEST
        bands = [(b.start, b.stop) for b in blocks] if few else halves(values)
        return cls(values, G.directions(G.d).flatten(1), bands, len(blocks) > 1)

    @property
    def few(self) -> bool:
        """Whether there are too few bands for a rank correlation, as in the two eigenspaces of a ViT."""
        return len(self.bands) < FEWEST

    @property
    def middles(self) -> list[float]:
        """The place of each band on a logarithmic axis of indices that begins with 1."""
        return [math.sqrt((a + 1) * b) for a, b in self.bands]


def halves(values: Tensor) -> list[tuple[int, int]]:
    """Bands of descending eigenvalues, each twice as wide as the one before; the null space is a band of its own.

    >>> halves(torch.tensor([8.0, 7, 6, 5, 4, 3, 2, 1, 0, 0]))
    [(0, 1), (1, 2), (2, 4), (4, 8), (8, 10)]
    """
    rank = int((values > NULL * values[0]).sum())
    edges = sorted({round(rank / 2**k) for k in range(HALVINGS + 1)} | {0, rank, len(values)})
    return list(itertools.pairwise(edges))


@dataclass(frozen=True, eq=False)
class Change:
    """The change of Gᵗ along the directions of one G, by band."""

    directions: Directions
    absolute: list[Estimate]  # root mean square of uᵀ(Gᵗ − G)u over the band and the times; plug-in beside it
    relative: list[Estimate]  # the same over the root mean square of uᵀGu
    order: Estimate  # rank correlation of the change with the number of the band
    relative_order: Estimate
    random: Estimate  # rank correlation along random directions, over bases
    fall: Estimate  # decades from the first band to the last

    @classmethod
    def nothing(cls, directions: Directions) -> Change:
        none = Estimate(math.nan, math.nan, 0)
        gone = [none] * len(directions.bands)
        return cls(directions, gone, gone, none, none, none, none)


def change_along(rows: Tensor, times: Sequence[int], directions: Directions) -> Change:
    """rows: (members, snapshots, probes, d), snapshot 0 before training; times: snapshots to look at."""
    if len(rows) < 3:
        return Change.nothing(directions)
    squares = _squares(rows, times, directions.vectors, directions.bands)
    n = torch.ones(len(rows), dtype=torch.float64)
    found = [distinct_pairs(P, n) for P in squares]
    sizes = torch.stack([directions.values[a:b].square().mean() for a, b in directions.bands])
    alive = sizes > (NULL * directions.values[0]) ** 2
    again, whole = _resampled(squares, _counts(len(rows))), torch.stack([c.whole for c in found])
    absolute = [_root(c, float(P.mean())) for c, P in zip(found, squares, strict=True)]
    return Change(
        directions,
        absolute,
        [
            _over(c, math.sqrt(float(s)) if good else math.nan)
            for c, s, good in zip(absolute, sizes, alive, strict=True)
        ],
        _order(whole, again, len(rows)),
        _order((whole / sizes)[alive], (again / sizes)[:, alive], len(rows)),
        _along_random(rows, times, directions),
        _spread(_decades(whole), _decades(again), len(rows)),
    )


def looks(snapshots: int) -> list[int]:
    """Which of so many snapshots are looked at: after a third, two thirds and all of them."""
    last = snapshots - 1
    return sorted({max(1, round(last * share)) for share in (1 / 3, 2 / 3, 1)})


def _squares(rows: Tensor, times: Sequence[int], vectors: Tensor, bands: Sequence[tuple[int, int]]) -> Tensor:
    """Products of the changes of two members, mean over a band and the times: (bands, members, members)."""
    start = (rows[:, 0].double() @ vectors.T).square().mean(1)  # (members, d)
    changes = [(rows[:, t].double() @ vectors.T).square().mean(1) - start for t in times]
    return torch.stack([torch.stack([c[:, a:b] @ c[:, a:b].T for c in changes]).mean(0) / (b - a) for a, b in bands])


def _counts(members: int) -> Tensor:
    """How often each member is taken, (resamples, members)."""
    drawn = torch.randint(members, (RESAMPLES, members), generator=generator_for(0, "resampled members"))
    return torch.stack([torch.bincount(row, minlength=members) for row in drawn]).double()


def _root(square: Deletions, plug_in: float) -> Estimate:
    """The root of a mean square; 0 where products of different members are negative on average."""
    found = estimate(square)
    root = math.sqrt(max(found.value, 0.0))
    error = found.stderr / (2 * root) if root > 0 else math.sqrt(found.stderr)
    return Estimate(root, error, found.n, math.sqrt(plug_in))


def _over(value: Estimate, by: float) -> Estimate:
    return Estimate(value.value / by, value.stderr / by, value.n, (value.plug_in or math.nan) / by)


def _resampled(squares: Tensor, counts: Tensor) -> Tensor:
    """Mean over pairs of different members, for members taken so many times: (resamples, bands)."""
    own = torch.einsum("kii,ri->rk", squares, counts.square())
    total = torch.einsum("ri,kij,rj->rk", counts, squares, counts)
    return (total - own) / (counts.sum(1).square() - counts.square().sum(1))[:, None]


def rank_correlation(values: Tensor) -> Tensor:
    """Of (…, bands) with the number of the band; without ties.

    >>> rank_correlation(torch.tensor([[4.0, 3, 2, 1], [1, 2, 4, 3]])).tolist()
    [-1.0, 0.8]
    """
    n = values.shape[-1]
    ranks = values.argsort(-1).argsort(-1).double()
    far = ranks - torch.arange(n, dtype=torch.float64)
    return 1 - 6 * far.square().sum(-1) / (n * (n * n - 1))


def _order(values: Tensor, again: Tensor, members: int) -> Estimate:
    if values.shape[-1] < FEWEST:
        return Estimate(math.nan, math.nan, members)
    return _spread(rank_correlation(values), rank_correlation(again), members)


def _decades(values: Tensor) -> Tensor:
    """How far mean squares fall from the first band to the last, as decades of their roots."""
    return (values[..., 0].clamp(min=0).log10() - values[..., -1].clamp(min=0).log10()) / 2


def _spread(value: Tensor, again: Tensor, members: int) -> Estimate:
    """A number with the spread of its resamples as its error."""
    known = again[torch.isfinite(again)]
    enough = len(known) > 0.95 * len(again) and bool(torch.isfinite(value))
    return Estimate(float(value), float(known.std()) if enough else math.nan, members)


def _along_random(rows: Tensor, times: Sequence[int], directions: Directions) -> Estimate:
    """The control: as many bands of random orthonormal directions."""
    if directions.few:
        return Estimate(math.nan, math.nan, 0)
    n, d, count = torch.ones(len(rows), dtype=torch.float64), rows.shape[-1], len(directions.bands)
    wide = min(WIDE, d // count)
    bands = [(k * wide, (k + 1) * wide) for k in range(count)]
    orders = []
    for basis in range(BASES):
        drawn = torch.randn(d, count * wide, generator=generator_for(basis, "random directions"), dtype=torch.float64)
        squares = _squares(rows, times, torch.linalg.qr(drawn)[0].T, bands)
        orders.append(float(rank_correlation(torch.stack([distinct_pairs(P, n).whole for P in squares]))))
    return mean(orders)


def draw_change(ax: Axes, change: Change, colour: str, label: str, *, absolute_only: bool = False) -> None:
    """Absolute changes over the first band's (full) and relative ones (dashed), on logarithmic axes."""
    x = change.directions.middles
    for curve, style, of in ((change.absolute, "o-", label), (change.relative, "s--", ""))[: 1 if absolute_only else 2]:
        top = curve[0].value
        scaled = [Estimate(v.value / top, v.stderr / top, v.n) if top > 0 else v for v in curve]
        drawn = [(a, v) for a, v in zip(x, scaled, strict=True) if v.value > 0]
        if drawn:
            error_bars(
                ax, [a for a, _ in drawn], [v for _, v in drawn], fmt=style, color=colour, ms=4, capsize=2,
                label=of or None,
            )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="index of u + 1")
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, 0.1), max(high, 10))
    ax.set_ylabel("|uᵀ(Gᵗ − G)u|, first band = 1")
