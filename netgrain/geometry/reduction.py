"""From a stream of gradient rows to a form: keep the rows while they fit, else dense batches, else a sketch."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from netgrain.geometry.correlation import fidelity
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.geometry.forms import Dense, Factored, Form
from netgrain.geometry.sketch import FrequentDirections
from netgrain.geometry.spectrum import FULL_LIMIT, decompose
from netgrain.geometry.structured_forms import Kronecker
from netgrain.runtime.errors import NetgrainError

ROWS_MEMORY = 512 * 2**20  # bytes of rows kept before they are condensed
PIECES_MEMORY = 1024 * 2**20  # bytes of dense batches
SKETCH = 4  # rows of the sketch per direction kept


class Reduction:
    """Members arrive in order; each is a set of rows whose Gram matrix is its contribution.

    scale multiplies everything; as_form turns the second moment of the rows into the geometry over inputs; keep is the
    number of leading directions that survive a sketch, and sketch=True starts with one.
    """

    def __init__(
        self,
        size: int,
        scale: float,
        as_form: Callable[[Form], Form] = lambda form: form,
        *,
        keep: int = 64,
        rows_memory: int = ROWS_MEMORY,
        sketch: bool = False,
    ) -> None:
        self.size, self.scale, self.as_form, self.keep, self.rows_memory = size, scale, as_form, keep, rows_memory
        self.members = 0
        self._rows: list[Tensor] = []  # one entry per slice of a member
        self._owner: list[int] = []
        self._bytes = 0
        self._pieces: Tensor | None = None
        self._sketch = FrequentDirections(size, SKETCH * keep) if sketch else None
        self._traces: list[float] = []

    def add(self, rows: Tensor) -> None:
        """A whole member, rows (any number, size)."""
        self.start_member()
        self.extend(rows)

    def start_member(self) -> None:
        self.members += 1
        self._traces.append(0.0)

    def extend(self, rows: Tensor) -> None:
        """More rows of the current member."""
        if self._pieces is not None:
            self._into_pieces(rows, self.members - 1)
        elif self._sketch is not None:
            self._into_sketch(rows)
        else:
            self._rows.append(rows)
            self._owner.append(self.members - 1)
            self._bytes += rows.numel() * rows.element_size()
            if self._bytes > self.rows_memory:
                self._condense()

    @property
    def sketching(self) -> bool:
        return self._sketch is not None

    def corr(self) -> float | None:
        """Expected Corr of what was added with the truth; None if that cannot be measured."""
        return None if self.sketching else fidelity(self.form())

    def _condense(self) -> None:
        kept, owners = self._rows, self._owner
        self._rows, self._owner = [], []
        if self.size <= FULL_LIMIT:
            most = max(4, min(16, PIECES_MEMORY // (8 * self.size**2)))
            self._pieces = torch.zeros(most, self.size, self.size, dtype=torch.float64)
            for rows, owner in zip(kept, owners, strict=True):
                self._into_pieces(rows, owner)
        else:
            self._sketch = FrequentDirections(self.size, SKETCH * self.keep)
            self._traces = [0.0] * self.members
            for rows, owner in zip(kept, owners, strict=True):
                self._into_sketch(rows, owner)

    def _into_pieces(self, rows: Tensor, owner: int) -> None:
        assert self._pieces is not None
        double = rows.double()
        self._pieces[owner % len(self._pieces)].addmm_(double.T, double)

    def _into_sketch(self, rows: Tensor, owner: int = -1) -> None:
        assert self._sketch is not None
        self._traces[owner] += self.as_form(Factored(rows, self.scale)).trace()
        self._sketch.add(rows)

    def form(self) -> Form:
        """The geometry so far, with its parts."""
        if self._pieces is not None:
            return self.as_form(Dense.from_sums(self._pieces, self.members, self.scale))
        if self._sketch is not None:
            raise NetgrainError("a sketch has no parts; call finish().")
        per_member = [0] * self.members
        for rows, owner in zip(self._rows, self._owner, strict=True):
            per_member[owner] += len(rows)
        counts = torch.ones(self.members, dtype=torch.int64)
        return self.as_form(Factored(torch.cat(self._rows), self.scale, counts, tuple(per_member)))

    def finish(self) -> tuple[Form, Estimate | None]:
        """The form, and the whole trace where only leading directions could be kept."""
        if self._sketch is None:
            return self.form(), None
        sketched = self.as_form(Factored(self._sketch.rows.double(), self.scale / self.members))
        spectrum = decompose(sketched, self.keep)
        kept = min(math.ceil(self.keep / spectrum.copies), int((spectrum.values > 0).sum()))
        rows = spectrum.vectors[:kept] * spectrum.values[:kept].sqrt()[:, None]
        core: Form = Factored(rows.float())
        if isinstance(sketched, Kronecker):
            core = sketched.around(core)
        return core, mean_of(torch.tensor(self._traces, dtype=torch.float64))


def most_members(size: int, rows: int) -> int | None:
    """Members of so many rows that keep their parts; more of them end in a sketch. None: any number.

    >>> most_members(16, 80), most_members(3 * 64 * 64, 80)
    (None, 136)
    """
    return None if size <= FULL_LIMIT else ROWS_MEMORY // (4 * rows * size)


def memory_needed(size: int, kept: int) -> int:
    """Bytes that collecting rows of `kept` bytes takes at most: they and their copy in one piece, or what they are
    condensed to."""
    if kept <= ROWS_MEMORY:
        return 2 * kept
    return ROWS_MEMORY + (PIECES_MEMORY + 8 * size**2 if size <= FULL_LIMIT else 2 * 4 * size * SKETCH * 64)
