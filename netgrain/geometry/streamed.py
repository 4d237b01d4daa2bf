"""Members of an input too large for a dense matrix: rows while they fit, products for the error, sums on lattices.

Every member is handed over once. What is known of it afterwards are its products with a few fixed vectors (`probed`),
from which the expected Corr with the truth follows without holding parts, and its sums inside residue classes of
positions (`lattice`). Where the truth lies on such a lattice, or treats positions alike, an estimate that is projected
there has far less noise: a flat spectrum over 50,176 positions needs thousands of members as it is, and a few on its
lattice. Whether the truth lies there is measured: distinct members give the share of ‖G‖² inside without bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.families.convolution import ConvStem
from netgrain.geometry.correlation import applied, distinct_pairs, fidelity, jackknife_one
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.geometry.forms import Dense, Factored, Form, members_in_turn
from netgrain.geometry.lattice import Lattice, ResidueClasses
from netgrain.geometry.probed import Probed, many_vectors, test_vectors
from netgrain.geometry.products import Products
from netgrain.geometry.projection import Projection
from netgrain.geometry.sketch import FrequentDirections
from netgrain.geometry.spectrum import decompose
from netgrain.geometry.structured_forms import Spread

PARTS = 8  # members are joined into so many, in turn
FEWEST = 6  # members that may judge a projection: with fewer, the error of its share is not known
SKETCH = 4  # rows of the sketch per direction kept
PROMISING, FAR = 0.98, 4.0  # Corr from which a projection may be good enough, and standard errors that speak against it
AT_ONCE = 8  # test vectors that a member is multiplied with
EXCHANGED = 1024  # positions up to which it is tried whether all of them are alike


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
    that is seen not to reach it, however many members come, is not looked at again.
    """

    def __init__(
        self,
        size: int,
        scale: float,
        *,
        stem: ConvStem | None = None,
        grid: tuple[int, ...] = (),
        periods: tuple[tuple[int, ...], ...] = (),
        around: Callable[[Form], Form] = lambda core: core,
        keep: int = 64,
        memory: int = 2**30,
        goal: float = 0.0,
    ) -> None:
        self.size, self.scale, self.stem, self.around, self.keep, self.memory = size, scale, stem, around, keep, memory
        self.inputs = size if stem is None else stem.size
        self.goal = goal
        self.members = 0
        self._unit: float | None = None
        self._best: tuple[int, Candidate] | None = None
        self._rows: list[Tensor] = []
        self._sketch: FrequentDirections | None = None
        self._traces: list[float] = []
        lattices = {p: ResidueClasses(grid, p) for p in periods}
        self._lattices = {
            p: c for p, c in lattices.items() if 4 * PARTS * c.count * math.prod(c.each) ** 2 <= memory // 4
        }
        self._sums = {p: torch.zeros(PARTS, c.count, *[math.prod(c.each)] * 2) for p, c in self._lattices.items()}
        self._sides = torch.zeros(PARTS, 2, dtype=torch.float64)  # diagonal and whole sum of each part
        entries = 1 if stem is None else math.prod(stem.kernel)
        self._vectors = many_vectors(self.inputs, entries) if lattices else test_vectors(self.inputs)
        self._products = torch.zeros(PARTS, *self._vectors.shape)
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
        squares = rows.double().square().sum(0)
        self._traces.append(float(squares @ self._cover))
        self._sides[part] += torch.stack([squares.sum(), rows.double().sum(1).square().sum()])
        for period, classes in self._lattices.items():
            self._sums[period][part] += classes.grams(rows)
        self._keep_rows(rows)

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

    def _plain(self, whole: Form) -> Probed:
        counts = self._counts
        traces = torch.tensor(self._traces, dtype=torch.float64) * self.factor
        means = torch.stack([traces[i::PARTS].mean() for i in range(len(counts))])
        few = self._products[:, : len(test_vectors(self.inputs))].double()
        return Probed(whole, self._per_part(few), means, counts)

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
            whole = self._per_part(self._products)
            found += [judged(self._vectors, whole, form, kind, period) for form, kind, period in self._projected()]
            self._forget([c.projection for c in found if c.projection is not None])
        return max(found, key=lambda c: c.corr)

    def _forget(self, looked_at: list[Projection]) -> None:
        """Leave out lattices on which too little of the truth lies."""
        for projection, period in zip(looked_at, list(self._lattices), strict=False):
            if projection.share + FAR * projection.error < self.goal**2:
                del self._lattices[period], self._sums[period]

    def _projected(self) -> Iterator[tuple[Form, str, tuple[int, ...]]]:
        for period, classes in self._lattices.items():
            lattice = Lattice.from_pieces(classes, self._per_part(self._sums[period]), self._counts)
            kind = "diagonal" if period == classes.grid else "lattice"
            strides = (1,) * len(period) if self.stem is None else self.stem.stride
            spread = lattice if self.stem is None else lattice.spread(self.stem)
            yield spread, kind, tuple(n * s for n, s in zip(period, strides, strict=True))
        if 1 < self.size <= EXCHANGED and self.stem is None:
            yield _alike(self._per_part(self._sides), self.size, self._counts), "alike", ()

    def _spread(self, form: Form) -> Form:
        return form if self.stem is None else Spread(form, self.stem)

    def finish(self) -> tuple[Form, Estimate | None]:
        """The form over all inputs, and its whole trace where only leading directions could be kept."""
        best = self.best()
        if best.projection is not None:
            return self.around(best.form), None
        if self._sketch is None:
            by_part = [self._rows[i::PARTS] for i in range(len(self._counts))]
            sizes = tuple(sum(len(rows) for rows in part) for part in by_part)
            rows = Factored(torch.cat([rows for part in by_part for rows in part]), self.factor, self._counts, sizes)
            return self.around(self._plain(self._spread(rows))), None
        sketched = Factored(self._sketch.rows.double(), self.factor / self.members)
        spectrum = decompose(self._spread(sketched), self.keep)
        rows_kept = spectrum.vectors[: self.keep] * spectrum.values[: self.keep].sqrt()[:, None]
        trace = mean_of(torch.tensor(self._traces, dtype=torch.float64) * self.factor)
        form = self.around(Factored(rows_kept.float()))
        copies = form.size / self.inputs
        return form, Estimate(trace.value * copies, trace.stderr * copies, trace.n)


def judged(vectors: Tensor, whole: Tensor, projected: Form, kind: str, period: tuple[int, ...] = ()) -> Candidate:
    """A projection of an estimate, and the Corr with the truth to expect of it: √share · fidelity inside.

    The share of ‖G‖² inside is a ratio of products of distinct members, its error a jackknife over them; one standard
    error is taken off it, so that a share that is not known well does not count as large. vectors, whole: test vectors
    (vectors, size), and the products of every part of the sample with them. A few of them are enough to see that an
    estimate is not good enough yet; where it may be, all are used.
    """
    few = len(test_vectors(projected.size))
    products = _products(projected, vectors[:few])
    inside = fidelity(Probed(projected, products, projected.part_traces(), projected.counts))
    share, error = _share(products, whole[:, :few].double(), projected.counts)
    if inside >= PROMISING and share + FAR * error >= PROMISING**2 and len(vectors) > few:
        share, error = _share(_products(projected, vectors), whole.double(), projected.counts)
    if math.isnan(share):
        return Candidate(projected, 0.0, Projection(kind, math.nan, math.nan, period))
    error = 1.0 if math.isnan(error) else error
    expected = math.sqrt(min(max(share - error, 0.0), 1.0)) * inside
    return Candidate(projected, expected, Projection(kind, share, error, period))


def _products(form: Form, vectors: Tensor) -> Tensor:
    """Of every part, (parts, vectors, size)."""
    return torch.stack([form.part(i).matvec(vectors) for i in range(form.parts)])


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
