"""Members of an input too large for a dense matrix: rows while they fit, products for the error, sums on lattices.

Every member is handed over once. What is known of it afterwards are its products with a few fixed vectors (`probed`),
from which the expected Corr with the truth follows without holding parts, and its sums inside residue classes of
positions (`lattice`). Where the truth lies on such a lattice, or treats positions alike, an estimate that is projected
there has far less noise: a flat spectrum over 50,176 positions needs thousands of members as it is, and a few on its
lattice. Whether the truth lies there is measured: distinct members give the share of ‖G‖² inside without bias.
Where no lattice holds it and members alone would be many, cells of alike positions are tried (`cells`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netgrain.families.convolution import ConvStem
from netgrain.geometry.cells import Cells, Partition
from netgrain.geometry.correlation import applied, distinct_pairs, effective_rank, fidelity, jackknife_one
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.geometry.forms import Dense, Factored, Form, members_in_turn
from netgrain.geometry.lattice import Lattice, ResidueClasses
from netgrain.geometry.probed import Probed, many_vectors, test_vectors
from netgrain.geometry.products import Products
from netgrain.geometry.projection import Projection
from netgrain.geometry.sketch import FrequentDirections
from netgrain.geometry.spectrum import decompose
from netgrain.geometry.standardised_forms import Centred, Contrasts, joined_channels, trace_of_common
from netgrain.geometry.structured_forms import Kronecker, Spread

PARTS = 8  # members are joined into so many, in turn
FEWEST = 6  # members that may judge a projection: with fewer, the error of its share is not known
SKETCH = 4  # rows of the sketch per direction kept
PROMISING, FAR = 0.98, 4.0  # Corr from which a projection may be good enough, and standard errors that speak against it
AT_ONCE = 8  # test vectors that a member is multiplied with
EXCHANGED = 1024  # positions up to which it is tried whether all of them are alike
MANY, USUAL = 32, 0.99  # members beyond which, for a Corr of the goal (or else this one), cells take their place


@dataclass(frozen=True, eq=False)
class Candidate:
    """An estimate of the core of G, and its expected Corr with the truth."""

    form: Form
    corr: float
    projection: Projection | None = None


class StreamedReduction:
    """Members arrive in order, each a set of rows at the stem's output (or at the input, without a stem).

    size: positions of a row. scale: multiplies everything. stem: spreads positions to inputs; None if they are
    inputs. grid, periods: positions as a grid, and periods of lattices to try on it. memory: bytes for rows, beyond
    which a sketch of `keep` directions takes their place. goal: the Corr with the truth that is wanted; a projection
    that is seen not to reach it, however many members come, is not looked at again. partitions: of positions into
    cells. standardised: number and coordinates of the channels that a layer of standardised weights sees; `around` is
    then of no use.
    """

    def __init__(
        self,
        size: int,
        scale: float,
        *,
        stem: ConvStem | None = None,
        grid: tuple[int, ...] = (),
        periods: tuple[tuple[int, ...], ...] = (),
        partitions: tuple[Partition, ...] = (),
        around: Callable[[Form], Form] = lambda core: core,
        standardised: tuple[int, Tensor] | None = None,
        keep: int = 64,
        memory: int = 2**30,
        goal: float = 0.0,
    ) -> None:
        self.size, self.scale, self.stem, self.around, self.keep, self.memory = size, scale, stem, around, keep, memory
        self.inputs = size if stem is None else stem.size
        self.standardised, self.goal = standardised, goal
        self.members = 0
        self.full_rank: Estimate | None = None  # of all members, where only leading directions could be kept
        self._unit: float | None = None
        self._best: tuple[int, Candidate] | None = None
        self._rows: list[Tensor] = []
        self._sketch: FrequentDirections | None = None
        self._traces: list[float] = []
        lattices = {p: ResidueClasses(grid, p) for p in periods}
        strides = 1 if stem is None else math.prod(stem.stride)  # at the input a period has as many more classes
        self._lattices = {
            p: c for p, c in lattices.items() if 8 * PARTS * strides * c.count * math.prod(c.each) ** 2 <= memory // 2
        }
        self._sums = {p: torch.zeros(PARTS, c.count, *[math.prod(c.each)] * 2) for p, c in self._lattices.items()}
        self._cells = {p: torch.zeros(PARTS, len(p.sizes) + 1, len(p.sizes)) for p in partitions}
        self._sides = torch.zeros(PARTS, 2, dtype=torch.float64)  # diagonal and whole sum of each part
        entries = 1 if stem is None else math.prod(stem.kernel)
        self._vectors = many_vectors(self.inputs, entries) if lattices else test_vectors(self.inputs)
        self._products = torch.zeros(PARTS, *self._vectors.shape)
        # of U Q Uᵀ, the term of standardised weights
        self._common = None if standardised is None or stem is None else torch.zeros_like(self._products)
        self._common_traces: list[float] = []
        self._seen = self._vectors[:, None] if stem is None else stem.gather(self._vectors)  # (vectors, entries, size)
        ones = torch.ones(1, self.inputs)
        self._cover = ones[0].double() if stem is None else stem.gather(ones)[0].sum(0).double()

    def add(self, rows: Tensor) -> None:
        """A whole member, rows (any number, size)."""
        if self._unit is None:
            # gradients of 1e-17 or 1e9 would leave the range of float32 when they are squared
            largest = float(rows.abs().max())
            self._unit = 2.0 ** math.floor(math.log2(largest)) if largest > 0 else 1.0
        rows = rows.float() / self._unit
        part = self.members % PARTS
        self.members += 1
        for seen, products in zip(self._seen.split(AT_ONCE), self._products[part].split(AT_ONCE), strict=True):
            moved = ((seen.flatten(0, 1) @ rows.T) @ rows).reshape(seen.shape)
            products += moved[:, 0] if self.stem is None else self.stem.scatter(moved)
        if self._common is not None:
            self._add_common(rows, part)
        squares = rows.double().square().sum(0)
        self._traces.append(float(squares @ self._cover))
        self._sides[part] += torch.stack([squares.sum(), rows.double().sum(1).square().sum()])
        for period, classes in self._lattices.items():
            self._sums[period][part] += classes.grams(rows)
        for partition, sums in self._cells.items():
            sums[part] += Cells.piece(partition, rows)
        self._keep_rows(rows)

    def _add_common(self, rows: Tensor, part: int) -> None:
        assert self.stem is not None
        assert self._common is not None
        seen = self._seen.sum(1)
        self._common[part] += self.stem.scattered_alike((seen @ rows.T) @ rows)
        self._common_traces.append(trace_of_common(Factored(rows), self.stem))

    def _keep_rows(self, rows: Tensor) -> None:
        if self._sketch is not None:
            self._sketch.add(rows)
            return
        self._rows.append(rows)
        if sum(r.numel() for r in self._rows) * 4 > self.memory:
            self._sketch = FrequentDirections(self.size, SKETCH * self.keep)
            for kept in self._rows:
                self._sketch.add(kept)
            self._rows = []

    # --- what is known so far -----------------------------------------------------------------------------------

    @property
    def factor(self) -> float:
        """What sums over members are multiplied with."""
        return self.scale * (self._unit or 1.0) ** 2

    @property
    def _counts(self) -> Tensor:
        return members_in_turn(self.members, PARTS)

    def _per_part(self, sums: Tensor) -> Tensor:
        counts = self._counts
        return sums[: len(counts)] * (self.factor / counts).reshape(-1, *[1] * (sums.dim() - 1)).to(sums.dtype)

    def _plain(self, whole: Form, centred: Form | None = None) -> Form:
        """The mean of members, whose matrices are not put together yet unless given."""
        few = len(test_vectors(self.inputs))
        contrast = Probed(whole, self._per_part(self._products[:, :few].double()), self._part_traces(), self._counts)
        if self._common is None:
            return self._joined(contrast, None)
        entries = math.prod(self.stem.kernel) if self.stem is not None else 1
        common = self._per_part(self._common[:, :few].double()) / entries
        traces = contrast.traces - self._mean_over_parts(self._common_traces) / entries
        return self._joined(contrast, Probed(centred or whole, contrast.products - common, traces, self._counts))

    def _part_traces(self) -> Tensor:
        return self._mean_over_parts(self._traces)

    def _mean_over_parts(self, of_members: list[float]) -> Tensor:
        each = torch.tensor(of_members, dtype=torch.float64) * self.factor
        return torch.stack([each[i::PARTS].mean() for i in range(len(self._counts))])

    def _joined(self, contrast: Form, mean: Form | None) -> Form:
        """What contrasts between channels see, and what their mean does, in one matrix."""
        return contrast if self.standardised is None else joined_channels(contrast, mean, *self.standardised)

    def _centred(self, spread: Form, source: Form) -> Form | None:
        return None if self._common is None or self.stem is None else Centred(spread, source, self.stem)

    def _whole_products(self) -> Tensor:
        """Of every part with all vectors, as `part_products_with` has them."""
        contrast = self._per_part(self._products)
        if self._common is None or self.standardised is None or self.stem is None:
            return contrast
        mean = contrast - self._per_part(self._common) / math.prod(self.stem.kernel)
        copies = self.standardised[0]
        return torch.cat([contrast * math.sqrt(copies - 1), mean], -1) if copies > 1 else mean

    def corr(self) -> float:
        """Expected Corr of the best estimate with the truth."""
        return self.best().corr

    def best(self) -> Candidate:
        """The estimate with the highest expected Corr, projected or not; the matrix itself comes with `finish`."""
        if self._best is not None and self._best[0] == self.members:
            return self._best[1]
        self._best = (self.members, self._chosen())
        return self._best[1]

    def _chosen(self) -> Candidate:
        if self.members < 2 or not any(self._traces):
            return Candidate(self._plain(_unwritten(self.inputs)), math.nan)
        plain = self._plain(_unwritten(self.inputs))
        found = [Candidate(plain, fidelity(plain))]
        if self.members >= FEWEST:
            whole, orthogonal = self._whole_products(), self._common is None
            found += [
                judged(self._vectors, whole, form, kind, period, orthogonal=orthogonal)
                for form, kind, period in self._projected()
            ]
            looked_at = [c.projection for c in found if c.projection is not None]
            self._forget(looked_at)
            if self._cells and not any(may_hold(p, self.goal or USUAL) for p in looked_at):
                needed = members_needed(found[0].corr, self.members, self.goal or USUAL)
                found += [] if needed <= MANY else [self._in_cells(p, whole) for p in self._cells]
        return max(found, key=lambda c: c.corr)

    def _in_cells(self, partition: Partition, whole: Tensor) -> Candidate:
        cells = Cells.from_pieces(partition, self._per_part(self._cells[partition]), self._counts)
        spread = self._spread(cells)
        form = self._joined(spread, self._centred(spread, cells))
        strides = (1,) * len(partition.cell) if self.stem is None else self.stem.stride
        size = tuple(n * s for n, s in zip(partition.cell, strides, strict=True))
        return judged(self._vectors, whole, form, "cells", size, orthogonal=False)

    def _forget(self, looked_at: list[Projection]) -> None:
        """Leave out lattices on which too little of the truth lies."""
        for projection, period in zip(looked_at, list(self._lattices), strict=False):
            if not may_hold(projection, self.goal):
                del self._lattices[period], self._sums[period]

    def _projected(self) -> Iterator[tuple[Form, str, tuple[int, ...]]]:
        for period, classes in self._lattices.items():
            lattice = Lattice.from_pieces(classes, self._per_part(self._sums[period]), self._counts)
            kind = "diagonal" if period == classes.grid else "lattice"
            strides = (1,) * len(period) if self.stem is None else self.stem.stride
            spread = lattice if self.stem is None else lattice.spread(self.stem)
            yield (
                self._joined(spread, self._centred(spread, lattice)),
                kind,
                tuple(n * s for n, s in zip(period, strides, strict=True)),
            )
        if 1 < self.size <= EXCHANGED and self.stem is None:
            alike = _alike(self._per_part(self._sides), self.size, self._counts)
            yield self._joined(alike, None), "alike", ()

    def _spread(self, form: Form) -> Form:
        return form if self.stem is None else Spread(form, self.stem)

    def finish(self) -> tuple[Form, Estimate | None]:
        """The form over all inputs, and its whole trace where only leading directions could be kept."""
        best = self.best()
        around = self.around if self.standardised is None else lambda form: form
        if best.projection is not None:
            return around(best.form), None
        if self._sketch is None:
            by_part = [self._rows[i::PARTS] for i in range(len(self._counts))]
            sizes = tuple(sum(len(rows) for rows in part) for part in by_part)
            rows = Factored(torch.cat([rows for part in by_part for rows in part]), self.factor, self._counts, sizes)
            spread = self._spread(rows)
            return around(self._plain(spread, self._centred(spread, rows))), None
        sketched = Factored(self._sketch.rows.double(), self.factor / self.members)
        spread = self._spread(sketched)
        centred = self._centred(spread, sketched)
        kept = [None if block is None else self._kept(block) for block in (spread, centred)]
        assert kept[0] is not None
        truncated = self._joined(kept[0], kept[1])
        plain = self._plain(_unwritten(self.inputs))
        alike = plain.inner(truncated) / math.sqrt(plain.norm2() * plain.norm2_of(truncated) or 1.0)
        self._best = (self.members, replace(best, corr=best.corr * min(alike, 1.0)))
        self.full_rank = effective_rank(around(plain))
        form = around(truncated)
        return form, self._full_trace(form)

    def _kept(self, form: Form) -> Form:
        """Its leading directions."""
        spectrum = decompose(form, self.keep)
        return Factored((spectrum.vectors[: self.keep] * spectrum.values[: self.keep].sqrt()[:, None]).float())

    def _full_trace(self, form: Form) -> Estimate:
        """Of all members, what was not kept of them included."""
        traces = torch.tensor(self._traces, dtype=torch.float64) * self.factor
        copies = form.size / self.inputs
        if self.standardised is not None and self.stem is None:
            copies -= 1  # the mean over channels is zero
        traces = traces * copies
        if self._common is not None and self.stem is not None:
            common = torch.tensor(self._common_traces, dtype=torch.float64) * self.factor
            traces = traces - common / math.prod(self.stem.kernel)
        return mean_of(traces)


def may_hold(projection: Projection, corr: float) -> bool:
    """Whether so much of the truth may lie inside that an estimate there can reach a Corr."""
    return not projection.share + FAR * projection.error < corr**2


def members_needed(corr: float, members: int, goal: float) -> float:
    """Members for a Corr of the goal, where some have reached another one: 1/Corr² − 1 falls as one over their number.

    >>> round(members_needed(0.5**0.5, 10, 0.5**0.5))
    10
    """
    return members * (1 / corr**2 - 1) / (1 / goal**2 - 1) if corr > 0 else math.inf


def judged(
    vectors: Tensor,
    whole: Tensor,
    projected: Form,
    kind: str,
    period: tuple[int, ...] = (),
    *,
    orthogonal: bool = True,
) -> Candidate:
    """A projection of an estimate, and the Corr with the truth to expect of it: √share · fidelity inside.

    The share of ‖G‖² inside is a ratio of products of distinct members, its error a jackknife over them; one standard
    error is taken off it, so that a share that is not known well does not count as large. vectors, whole: test vectors
    (vectors, size), and the products of every part of the sample with them. A few of them are enough to see that an
    estimate is not good enough yet; where it may be, all are used. orthogonal: what is kept is orthogonal to what is
    not. Else the squared cosine of what is kept of the truth with all of it takes the place of the share.
    """
    few = len(test_vectors(vectors.shape[1]))
    products = part_products_with(projected, vectors[:few])
    inside = fidelity(Probed(projected, products, torch.zeros(len(products)), projected.counts))
    ratio = _share if orthogonal else _cosine2
    share, error = ratio(products, whole[:, :few].double(), projected.counts)
    if inside >= PROMISING and share + FAR * error >= PROMISING**2 and len(vectors) > few:
        more = part_products_with(projected, vectors[few:])
        share, error = ratio(torch.cat([products, more], 1), whole.double(), projected.counts)
    projected = known_by(products, projected)
    if math.isnan(share):
        return Candidate(projected, 0.0, Projection(kind, math.nan, math.nan, period))
    error = 1.0 if math.isnan(error) else error
    expected = math.sqrt(min(max(share - error, 0.0), 1.0)) * inside
    return Candidate(projected, expected, Projection(kind, share, error, period))


def part_products_with(form: Form, vectors: Tensor) -> Tensor:
    """Of every part, (parts, vectors, size); of all that channels see behind one another, each times √its number."""
    if isinstance(form, Contrasts):
        found = [part_products_with(form.contrast, vectors)]
        if isinstance(form.mean, Centred) and form.mean.spread is form.contrast:
            parts = [form.mean.part(i) for i in range(form.parts)]
            found.append(found[0] - torch.stack([p.common(vectors) for p in parts if isinstance(p, Centred)]))
        elif form.mean is not None:
            found.append(part_products_with(form.mean, vectors))
        return torch.cat([math.sqrt(n) * of for (n, _), of in zip(form.blocks, found, strict=True)], -1)
    if isinstance(form, Kronecker):
        return part_products_with(form.core, vectors)
    return torch.stack([form.part(i).matvec(vectors) for i in range(form.parts)])


def known_by(products: Tensor, form: Form) -> Form:
    """The form with those products in the place of parts, where inner products would take the whole matrix."""
    if isinstance(form, Contrasts):
        found, start = [], 0
        for n, block in form.blocks:
            found.append(known_by(products[:, :, start : start + block.size] / math.sqrt(n), block))
            start += block.size
        return form.around(found[0], found[1] if len(found) > 1 else None)
    if isinstance(form, Kronecker):
        return form.around(known_by(products, form.core))
    if isinstance(form, Spread | Centred):
        return Probed(form, products, form.part_traces(), form.counts)
    return form


def _share(inside: Tensor, whole: Tensor, counts: Tensor) -> tuple[float, float]:
    """The share of the squared norm, from products of every part with the same vectors; NaN where it is not known."""
    n = counts.double()
    norms = []
    for products in (inside, whole):
        flat = products.flatten(1)
        norms.append(distinct_pairs(n[:, None] * n * (flat @ flat.T), n))
    within, everything = norms
    if not (float(everything.whole) > 0 and float(within.whole) > 0 and bool((everything.one > 0).all())):
        return math.nan, math.nan
    return jackknife_one(applied(torch.divide, within, everything))


def _cosine2(inside: Tensor, whole: Tensor, counts: Tensor) -> tuple[float, float]:
    """⟨P, G⟩² / ‖P‖² ‖G‖² for what is kept, P, and the whole, G; as `_share` has it."""
    n = counts.double()
    weights = n[:, None] * n
    kept, everything = inside.flatten(1), whole.flatten(1)
    pairs = [distinct_pairs(weights * (a @ b.T), n) for a, b in ((kept, everything), (kept, kept), (everything,) * 2)]
    if not all(float(s.whole) > 0 and bool((s.one > 0).all()) for s in pairs):
        return math.nan, math.nan
    return jackknife_one(applied(lambda ab, aa, bb: ab.square() / (aa * bb), *pairs))


def _unwritten(size: int) -> Form:
    """A matrix of which nobody asks more than its products with the test vectors."""

    def refuse(V: Tensor) -> Tensor:
        raise AssertionError("the rows are not put together yet")

    return Products(size, refuse)


def _alike(sides: Tensor, size: int, counts: Tensor) -> Form:
    """a·I + b·11ᵀ for every part: the mean over all permutations of the positions."""
    diagonal = sides[:, 0] / size
    off = (sides[:, 1] - sides[:, 0]) / (size * (size - 1))
    pieces = off[:, None, None].expand(-1, size, size).clone()
    pieces.diagonal(dim1=1, dim2=2).copy_(diagonal[:, None].expand(-1, size))
    return Dense.from_pieces(pieces, counts)
