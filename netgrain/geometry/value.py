"""The average geometry G = E[JᵀJ] of a network family, J = ∇ₓf: one object for every way to hold and obtain it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.geometry import correlation
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.flat_spectrum import FlatSpectrum, flat_spectrum
from netgrain.geometry.flipping import reversed_blocks, reversed_values
from netgrain.geometry.forms import Dense, Factored, Form, in_slices
from netgrain.geometry.provenance import Integration, Provenance
from netgrain.geometry.spectrum import (
    FULL_LIMIT,
    NULL,
    EigenvalueBlock,
    Spectrum,
    blocks_of,
    decompose,
    resolved_blocks,
)
from netgrain.geometry.storage import Contents, load, save
from netgrain.geometry.structured_forms import Kronecker
from netgrain.geometry.symmetric import SymmetricMatrix, dense_form, form_of, plain_tensor
from netgrain.geometry.tails import Tails
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.snippets import snippet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Geometry(SymmetricMatrix):
    """The input geometry G = E_θ E_x[J(x)ᵀ J(x)] of networks, J = ∂f/∂x.

    A positive semi-definite d × d matrix, d = prod(input_shape), with error bars where it was
    sampled. It is never formed unless asked for. `average_geometry`, `geometry_of` and
    `Geometry.from_matrix` make one.

    Parameters
    ----------
    form : Form
        How the matrix is held, with the parts that error bars are made of.
    input_shape : tuple of int
        Shape of one input.
    about : Provenance
        How the geometry was obtained.
    scale_error : float, default 0.0
        Relative standard error of a common factor, such as a measured variance of weights.
    full_trace : Estimate, optional
        The whole trace, where only the leading directions were kept.
    full_rank : Estimate, optional
        The effective rank of the whole matrix, in the same case.

    See Also
    --------
    average_geometry : The geometry of a family at initialisation.
    geometry_of : The geometry of given, trained networks.

    Examples
    --------
    The effective rank of diag(3, 1, 1, 0) is 5² / (9 + 1 + 1), and its two equal eigenvalues form a
    block. Reversing the order of the eigenvalues makes the last entry the strong one.

    >>> G = Geometry.from_matrix(torch.diag(torch.tensor([3.0, 1.0, 1.0, 0.0])))
    >>> G.trace.value, round(G.effective_rank, 3), [b.size for b in G.blocks()]
    (5.0, 2.273, [1, 2, 1])
    >>> [round(v, 6) for v in G.flip().matrix().diagonal().tolist()]
    [0.0, 1.0, 1.0, 3.0]
    """

    scale_error: float = 0.0
    full_trace: Estimate | None = None
    full_rank: Estimate | None = None

    @classmethod
    def from_matrix(cls, matrix: Tensor, input_shape: Sequence[int] | None = None) -> Geometry:
        """Wrap a symmetric matrix that you have.

        Parameters
        ----------
        matrix : Tensor of shape (d, d)
            Finite and symmetric.
        input_shape : sequence of int, optional
            Shape of one input, with d entries; ``(d,)`` by default.

        Returns
        -------
        Geometry
            With ``method == "given"``; it counts as exact.

        Raises
        ------
        NetgrainError
            If the matrix is not finite, square and symmetric, or does not fit `input_shape`.

        Examples
        --------
        >>> Geometry.from_matrix(torch.eye(4), (1, 2, 2)).effective_rank.value
        4.0
        """
        form = dense_form(matrix, input_shape)
        shape = (form.size,) if input_shape is None else tuple(input_shape)
        return cls(form, shape, Provenance("given", exact=True))

    @property
    def truncated(self) -> bool:
        """Whether only the leading directions were kept, of an input too large for more."""
        return self.full_trace is not None

    @property
    def _core(self) -> Form:
        return self.form.core if isinstance(self.form, Kronecker) else self.form

    @property
    def _copies(self) -> int:
        return self.form.copies if isinstance(self.form, Kronecker) else 1

    # --- numbers ----------------------------------------------------------------------------------------------

    @cached_property
    def trace(self) -> Estimate:
        """Trace of G: over data, the mean squared Jacobian norm (the geometric complexity)."""
        t = self.full_trace if self.full_trace is not None else correlation.trace(self.form)
        return Estimate(t.value, math.hypot(t.stderr, t.value * self.scale_error), t.n)

    @cached_property
    def effective_rank(self) -> Estimate:
        """Number of directions that carry the geometry, (tr G)² / ‖G‖²; d for the identity."""
        if self.full_rank is not None:
            return self.full_rank
        if self.full_trace is not None:
            return Estimate(self.full_trace.value**2 / self.form.norm2(), math.nan, self.members)
        return correlation.effective_rank(self.form)

    @cached_property
    def fidelity(self) -> float:
        """Expected plug-in Corr with what more sampling would give; NaN if it cannot be measured."""
        if self.about.expected is not None:
            return self.about.expected
        limit = self.about.method == "closed-form" and not self.exact and not self.form.parts
        return math.nan if self.full_trace is not None or limit else correlation.fidelity(self.form)

    @property
    def fidelity_with(self) -> str:
        """What `fidelity` compares with: the truth, or this wide limit over all points."""
        limit = self.about.method == "closed-form" and not self.exact
        return "this limit over all probe points" if limit else "the truth"

    @cached_property
    def flat(self) -> FlatSpectrum | None:
        """The block of nearly equal eigenvalues, if no direction leads; None if one does."""
        return flat_spectrum(self.form, self.trace, self.effective_rank, kept=self.truncated)

    @cached_property
    def tails(self) -> Tails | None:
        """Median and trimmed mean of the traces of single networks; None where there are too few."""
        return self.about.tails or Tails.of(self.form.part_traces())

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigenvalues and eigenvectors of the core, as many as are cheap to compute."""
        return decompose(self.form)

    def eigenvalue_errors(self, k: int | None = None) -> Tensor:
        """Standard errors over members of vᵀGv for the leading eigenvectors v.

        This is the noise along given directions. Because the directions were chosen on the same
        sample, the largest eigenvalues are biased upwards and the smallest downwards;
        ``blocks(by_error_bars=True)`` accounts for that.

        Parameters
        ----------
        k : int, optional
            Number of eigenvectors; all known ones by default.

        Returns
        -------
        Tensor of shape (k,)
            Zeros if nothing was sampled, NaN if there is only one member.
        """
        spectrum = self.spectrum
        form = self._core.batched()
        k = len(spectrum.values) * self._copies if k is None else k
        vectors = spectrum.vectors[: math.ceil(k / self._copies)]
        if form.parts < 2:
            fill = 0.0 if form.parts == 0 else math.nan
            return torch.full((k,), fill, dtype=torch.float64)
        along = torch.stack([(vectors * form.part(i).matvec(vectors)).sum(1) for i in range(form.parts)])
        weights = form.counts.double() / form.counts.sum()
        mean = (weights[:, None] * along).sum(0)
        variance = (weights[:, None] * (along - mean).square()).sum(0) / (form.parts - 1)
        return variance.sqrt().repeat_interleave(self._copies)[:k]

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue; inf if singular, NaN if not all are known."""
        values = self.eigenvalues
        if self.full_trace is not None or not self.spectrum.complete:
            return math.nan
        if not len(values):
            return math.inf  # G = 0
        smallest = float(values[-1]) if len(values) == self.d else 0.0
        return float(values[0]) / smallest if smallest > NULL * float(values[0]) else math.inf

    def blocks(self, *, by_error_bars: bool = False) -> list[EigenvalueBlock]:
        """Blocks of equal eigenvalues, inside which single eigenvectors are not defined.

        Parameters
        ----------
        by_error_bars : bool, default False
            Join eigenvalues that the sample cannot tell apart; by default those closer than 1e-6
            (relative).

        Returns
        -------
        list of EigenvalueBlock
            With ``start``, ``size`` and ``value``, in descending order.
        """
        if by_error_bars and self.form.parts:
            return resolved_blocks(self.form)
        found = blocks_of(self.spectrum.values, self._copies)
        known = sum(b.size for b in found)
        if known < self.d and self.spectrum.complete and self.full_trace is None:
            found.append(EigenvalueBlock(known, self.d - known, 0.0))
        return found

    def directions_for(self, share: float) -> int | None:
        """Number of leading directions that carry a share of the trace.

        Parameters
        ----------
        share : float
            Between 0 and 1.

        Returns
        -------
        int or None
            None if more directions are needed than are known.
        """
        total = self.trace.value
        enough = (self.eigenvalues.cumsum(0) >= share * total * (1 - 1e-12)).nonzero()
        return int(enough[0]) + 1 if len(enough) and total > 0 else None

    # --- directions -------------------------------------------------------------------------------------------

    @property
    def _known_directions(self) -> int:
        return self.d

    def _eigenvectors(self, k: int, bottom: bool) -> Tensor:
        """Copies of a Kronecker core follow one another."""
        if bottom:
            spectrum, skip = self._whole_spectrum(), self.d - k
        else:
            spectrum, skip = self._leading(k), 0
        if spectrum.copies * len(spectrum.values) < skip + k:
            raise NetgrainError(
                f"only {spectrum.copies * len(spectrum.values)} directions of this geometry are known "
                f"(its rank), {k} were asked for."
            )
        out = torch.zeros(k, self.d, dtype=torch.float64)
        order = self.form.order if isinstance(self.form, Kronecker) else torch.arange(self.d)
        places = order.reshape(self._copies, -1)
        for row, index in enumerate(range(skip, skip + k)):
            core_index, copy = divmod(index, self._copies)
            out[row, places[copy]] = spectrum.vectors[core_index]
        return out

    def _leading(self, k: int) -> Spectrum:
        if "spectrum" in self.__dict__ and len(self.spectrum.values) * self._copies >= k:
            return self.spectrum
        spectrum = decompose(self.form, k)
        if len(spectrum.values) * self._copies < k and self.full_trace is None:
            return self._whole_spectrum()
        return spectrum

    def _whole_spectrum(self) -> Spectrum:
        """All d pairs, null space included."""
        self._refuse_if_truncated("the whole spectrum")
        if "spectrum" in self.__dict__ and len(self.spectrum.values) == self._core.size:
            return self.spectrum
        if self._core.size > FULL_LIMIT:
            raise NetgrainError(
                f"the whole spectrum of a {self._core.size} x {self._core.size} matrix is not computed (the limit is "
                f"{FULL_LIMIT}); use eigenvalues or directions(k) for the leading ones."
            )
        spectrum = decompose(Dense(self._core.dense()))
        return replace(spectrum, copies=self._copies)

    def random_direction(self, block: EigenvalueBlock, *, seed: int = 0) -> Tensor:
        """Draw a unit vector uniformly from the eigenspace of a block.

        Parameters
        ----------
        block : EigenvalueBlock
            One of `blocks`.
        seed : int, default 0
            Of the draw.

        Returns
        -------
        Tensor of shape input_shape
            In float64.
        """
        basis = self._whole_spectrum() if block.value == 0 else self._leading(block.stop)
        rows = range(block.start // self._copies, math.ceil(block.stop / self._copies))
        generator = torch.Generator().manual_seed(seed)
        weights = torch.randn(self._copies, len(rows), generator=generator, dtype=torch.float64)
        flat = weights @ basis.vectors[rows.start : rows.stop]  # (copies, core)
        vector: Tensor = self.form.from_copies(flat)[0] if isinstance(self.form, Kronecker) else flat[0]
        return torch.reshape(vector / torch.linalg.vector_norm(vector), self.input_shape)

    # --- as a matrix ------------------------------------------------------------------------------------------

    def matrix(self) -> Tensor:
        """Write the matrix out, entry by entry.

        Returns
        -------
        Tensor of shape (d, d)
            In float64, a copy.

        Raises
        ------
        NetgrainError
            If d is too large to do so, or only leading directions were kept.
        """
        self._refuse_if_truncated("the matrix")
        return super().matrix()

    def project(self, S: Geometry | Tensor) -> Geometry:
        """Product G S G: what the architecture lets through of a data covariance S.

        Parameters
        ----------
        S : Geometry or Tensor of shape (d, d)
            Such as `data_covariance(X)`.

        Returns
        -------
        Geometry
            G S G, with ``method == "derived"``.

        Examples
        --------
        >>> G = Geometry.from_matrix(torch.diag(torch.tensor([2.0, 0.0])))
        >>> G.project(torch.ones(2, 2)).matrix().tolist()
        [[4.0, 0.0], [0.0, 0.0]]
        """
        self._refuse_if_truncated("a projection")
        form = form_of(S)
        if form.size != self.d:
            raise NetgrainError(f"G is {self.d}-dimensional, S is {form.size}-dimensional; use the same input shape.")
        about = replace(self.about, method="derived", exact=False, remarks=(*self.about.remarks, "G S G"))
        if isinstance(form, Factored) and form.parts == 0:
            rows = torch.cat([self.form.matvec(rows.double()) for rows in in_slices(form.rows)])
            return Geometry(Factored(rows, form.weight), self.input_shape, about)
        G = self.form.dense()
        return Geometry(Dense(G @ form.dense() @ G), self.input_shape, about)

    def flip(self, *, seed: int = 0) -> Geometry:
        """Reverse the order of the eigenvalues, keep the eigenvectors.

        Every eigenvalue occurs as often as before, so trace, norms and spectrum are those of G. Inside a
        block of equal eigenvalues the eigenvectors are not defined: which of its directions become the
        strong ones is a seeded choice. Equal channels (or patches) stay equal.

        Parameters
        ----------
        seed : int, default 0
            Of the choice inside blocks; without blocks it makes no difference.

        Returns
        -------
        Geometry
            The least visible direction of G is the most visible one here. A geometry of one block does not change.

        Raises
        ------
        NetgrainError
            If not all eigenvalues are known.

        See Also
        --------
        flip_blocks : The same without a random choice, but with other eigenvalues.

        Examples
        --------
        >>> G = Geometry.from_matrix(torch.diag(torch.tensor([5.0, 2.0, 2.0, 2.0])))
        >>> F = G.flip(seed=1)
        >>> [round(v, 6) for v in F.eigenvalues.tolist()], round(float(F.matrix()[0, 0]), 6)
        ([5.0, 2.0, 2.0, 2.0], 2.0)
        """
        self._refuse_if_truncated("a flip")
        core, size = self._core, self._core.size
        low_rank = isinstance(core, Factored) and len(core.rows) < size and len(core.rows) <= FULL_LIMIT
        spectrum = self.spectrum if low_rank else self._whole_spectrum()
        if len(spectrum.values) == size and len(blocks_of(spectrum.values)) == 1:
            return self._flipped(core)
        return self._flipped(reversed_values(spectrum, size, seed))

    def flip_blocks(self) -> Geometry:
        """Reverse the order of the blocks of equal eigenvalues, keep the eigenvectors.

        A block moves as a whole, so the result depends only on G. Where blocks differ in size, eigenvalues occur more
        or less often than before, and the trace changes.

        Returns
        -------
        Geometry
            The least visible block of G is the most visible one here.

        See Also
        --------
        flip : Keeps the eigenvalues, with a seeded choice inside blocks.

        Examples
        --------
        >>> G = Geometry.from_matrix(torch.diag(torch.tensor([5.0, 2.0, 2.0, 2.0])))
        >>> [round(v, 6) for v in G.flip_blocks().matrix().diagonal().tolist()]
        [2.0, 5.0, 5.0, 5.0]
        """
        return self._flipped(reversed_blocks(self._whole_spectrum()))

    def _flipped(self, core: Form) -> Geometry:
        form = self.form.around(core) if isinstance(self.form, Kronecker) else core
        about = replace(self.about, method="derived", remarks=(*self.about.remarks, "flipped"))
        return Geometry(form, self.input_shape, about)

    def score(self, X: Tensor) -> Tensor:
        """How strongly fresh networks react along each sample, xᵀGx / ‖x‖².

        Parameters
        ----------
        X : Tensor of shape (samples, *input_shape) or (samples, d)
            Samples.

        Returns
        -------
        Tensor of shape (samples,)
            NaN for a sample of zeros.

        See Also
        --------
        score : The same for data with a common offset.
        """
        X = plain_tensor(X, "samples (samples, …)")
        if X.dim() < 2 or X[0].numel() != self.d:
            alone = "; one sample alone is X[None]" if X.numel() == self.d else ""
            raise NetgrainError(
                f"expected samples of shape (samples, {self.d}) or (samples, …) of inputs {self.input_shape}, "
                f"found {tuple(X.shape)}{alone}."
            )
        scores = []
        for rows in in_slices(X.reshape(len(X), -1)):
            flat = self._flat(rows)
            scores.append(self.form.energies(flat) / flat.square().sum(1))
        return torch.cat(scores)

    # --- files and pictures -----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the geometry and how it was obtained to one safetensors file.

        Writing is atomic: an interrupted call leaves no partial file.

        Parameters
        ----------
        path : str or Path
            Name of the file.

        Returns
        -------
        Path
            Where it is.
        """
        contents = Contents(self.form, self.input_shape, self.about, self.scale_error, self.full_trace, self.full_rank)
        return save(contents, path)

    @staticmethod
    def load(path: str | Path) -> Geometry:
        """Read a geometry that `save` wrote.

        Parameters
        ----------
        path : str or Path
            Name of the file; files of older versions are read as well.

        Returns
        -------
        Geometry
            As it was saved.

        Raises
        ------
        NetgrainError
            If the file holds anything else, or is damaged.
        """

        def build(found: Contents) -> Geometry:
            made = Geometry(
                found.form, found.input_shape, found.about, found.scale_error, found.full_trace, found.full_rank
            )
            repr(made)  # a damaged provenance shows here
            return made

        return load(path, build)

    def plot_spectrum(self, ax: Axes | None = None) -> Axes:
        """Draw the eigenvalues against their index.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a figure of its own by default.

        Returns
        -------
        Axes
            With the curve.
        """
        from netgrain.geometry import plots

        return plots.spectrum(self, ax=ax)

    def plot_directions(self, k: int = 8) -> Figure:
        """Draw leading and last eigenvectors as images.

        Parameters
        ----------
        k : int, default 8
            Number of each.

        Returns
        -------
        Figure
            Two rows of images.
        """
        from netgrain.geometry import plots

        return plots.directions(self, k)

    def summary(self) -> dict[str, Any]:
        """Collect the numbers worth a table, as plain values.

        Returns
        -------
        dict
            Ready for JSON.
        """
        return {
            "model": self.about.model,
            "d": self.d,
            "input_shape": list(self.input_shape),
            "method": self.method,
            "exact": self.exact,
            "probe": str(self.about.probe),
            "output": self.about.output,
            "seed": self.about.seed,
            "members": self.members,
            "integration": self.about.averaged,
            "zero_share": self.about.zero_share,
            "off": None if self.about.off is None else asdict(self.about.off),
            "switched_on": self.about.switched_on,
            "notes": list(self.about.notes),
            "leaves_out": list(self.about.leaves_out),
            "trace": self.trace.as_dict(),
            "effective_rank": self.effective_rank.as_dict(),
            "flat": None if self.flat is None else str(self.flat),
            "trace_of_members": None if self.tails is None else asdict(self.tails),
            "fidelity": None if math.isnan(self.fidelity) else self.fidelity,
            "directions_for": {f"{share:.0%}": self.directions_for(share) for share in (0.5, 0.9, 0.99)},
            "condition": None if not math.isfinite(self.condition) else self.condition,
            "largest_eigenvalue": float(self.eigenvalues[0]) if len(self.eigenvalues) else 0.0,
            "blocks": len(self.blocks()),
            "versions": self.about.versions,
        }

    # --- inside -----------------------------------------------------------------------------------------------

    def _refuse_if_truncated(self, what: str) -> None:
        if self.full_trace is not None:
            known = len(self._core.rows) if isinstance(self._core, Factored) else 0
            raise NetgrainError(
                f"only the {self._copies * known} leading directions of this geometry "
                f"(d = {self.d}) were kept, so {what} is not available; use a smaller input or directions(k)."
            )

    def __repr__(self) -> str:
        about, how, facts = self.about, *self._described()
        model = [about.model] if about.model else []
        probe = [f"probe {about.probe}"] if about.probe.used else []
        return f"Geometry({', '.join([f'd={self.d}', *how, *model, *probe, *facts])})"

    def _repr_html_(self) -> str:
        about, how, facts = self.about, *self._described()
        shape = " × ".join(map(str, self.input_shape))
        rows = [("network", about.model), ("input", f"{shape}, d = {self.d}" if "×" in shape else f"d = {self.d}")]
        rows += [("obtained", ", ".join(how)), ("probe", str(about.probe) if about.probe.used else "")]
        return snippet("Geometry", [row for row in rows if row[1]] + [("", fact) for fact in facts])

    def _described(self) -> tuple[list[str], list[str]]:
        """How it was obtained, and what is worth saying of it."""
        about = self.about
        if about.method == "sampled":
            how = [f"sampled from {about.members} member{'s' * (about.members != 1)}"]
            if isinstance(about.integration, Integration) and about.integration.part == "first layer":
                how.append("first layer integrated")
        elif about.method == "closed-form":
            how = ["closed form", "exact at any width" if about.exact else "wide limit"]
        else:
            how = [about.method]
        switches = about.switches()
        how = [switches, *how] if switches else how
        if self.trace.value == 0:
            return how, [] if switches else ["zero: the network does not react to its input"]
        return how, self._facts()

    def _facts(self) -> list[str]:
        """What is worth saying of a geometry that is not zero."""
        about, rank = self.about, self.effective_rank
        facts = [f"effective rank {rank.value:.4g}" + (f" ± {rank.stderr:.2g}" if rank.stderr > 0 else "")]
        if not math.isnan(self.fidelity) and self.form.parts:
            facts.append(f"Corr with {self.fidelity_with} about {self.fidelity:.4f}")
        if self.flat is not None:
            facts.append(str(self.flat))
        if about.tails is not None:
            facts.append(str(about.tails))
        if about.leaves_out:
            facts.append(f"leaves out: {'; '.join(about.leaves_out)}")
        if self.full_trace is not None:
            kept = float(self.eigenvalues.sum()) / self.trace.value
            facts.append(f"{len(self.eigenvalues)} leading directions with {kept:.0%} of the trace")
        elif self._core.size <= 1024 and about.method != "closed-form":
            found = self.blocks()
            if len(found) < self.d:
                sizes = sorted({b.size for b in found})
                shape = f"of {sizes[0]}" if len(sizes) == 1 else f"of {sizes[0]} to {sizes[-1]}"
                facts.append(f"{len(found)} block{'s' * (len(found) != 1)} {shape} equal eigenvalues")
        if about.zero_share:
            facts.append(f"{about.zero_share:.0%} of the members have a zero gradient")
        return facts
