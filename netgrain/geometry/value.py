"""The average geometry G = E[JᵀJ] of a network family, J = ∇ₓf: one object for every way to hold and obtain it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.geometry import correlation
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Dense, Factored, Form, in_slices
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.spectrum import (
    FULL_LIMIT,
    NULL,
    EigenvalueBlock,
    Spectrum,
    blocks_of,
    decompose,
    resolved_blocks,
)
from netgrain.geometry.structured_forms import Kronecker
from netgrain.runtime.arguments import found, is_number
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Geometry:
    """A positive semi-definite matrix over an input space, with error bars where it was sampled.

    G = E_θ E_x[J(x)ᵀJ(x)], d × d with d = prod(input_shape); never formed unless asked for.

    >>> G = Geometry.from_matrix(torch.diag(torch.tensor([3.0, 1.0, 1.0, 0.0])))
    >>> G.trace.value, round(G.effective_rank, 3), [b.size for b in G.blocks()]
    (5.0, 2.273, [1, 2, 1])
    >>> [round(v, 6) for v in G.flip().matrix().diagonal().tolist()]
    [0.0, 1.0, 1.0, 3.0]
    """

    form: Form
    input_shape: tuple[int, ...]
    about: Provenance
    scale_error: float = 0.0  # relative standard error of a common factor (an estimated weight variance)
    full_trace: Estimate | None = None  # set when only the leading directions were kept

    @classmethod
    def from_matrix(cls, matrix: Tensor, input_shape: Sequence[int] | None = None) -> Geometry:
        """Wrap a symmetric matrix that you have."""
        matrix = _as_tensor(matrix, "a finite square matrix").double()
        if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or not bool(torch.isfinite(matrix).all()):
            raise NetgrainError(f"expected a finite square matrix, found shape {tuple(matrix.shape)}.")
        if not torch.allclose(matrix, matrix.T, rtol=1e-5, atol=1e-8 * float(matrix.abs().max())):
            raise NetgrainError("expected a symmetric matrix; symmetrise it first, for example (M + M.T) / 2.")
        shape = tuple(input_shape) if input_shape is not None else (matrix.shape[0],)
        if math.prod(shape) != matrix.shape[0]:
            raise NetgrainError(f"a {matrix.shape[0]}-dimensional matrix does not fit inputs of shape {shape}.")
        return cls(Dense((matrix + matrix.T) / 2), shape, Provenance("given", exact=True))

    # --- what it is -------------------------------------------------------------------------------------------

    @property
    def d(self) -> int:
        """Dimension of the input space."""
        return self.form.size

    @property
    def method(self) -> str:
        """ "closed-form", "sampled", or how else it was made."""
        return self.about.method

    @property
    def exact(self) -> bool:
        """No sampling error at all."""
        return self.about.exact

    @property
    def members(self) -> int:
        """Networks it was averaged over (0: none)."""
        return self.about.members

    @property
    def _core(self) -> Form:
        return self.form.core if isinstance(self.form, Kronecker) else self.form

    @property
    def _copies(self) -> int:
        return self.form.copies if isinstance(self.form, Kronecker) else 1

    # --- numbers ----------------------------------------------------------------------------------------------

    @cached_property
    def trace(self) -> Estimate:
        """tr G: over data, the mean squared Jacobian norm (the geometric complexity)."""
        t = self.full_trace if self.full_trace is not None else correlation.trace(self.form)
        return Estimate(t.value, math.hypot(t.stderr, t.value * self.scale_error), t.n)

    @cached_property
    def effective_rank(self) -> Estimate:
        """(tr G)² / ‖G‖²: how many directions carry the geometry (d for the identity, 1 for one direction)."""
        if self.full_trace is not None:
            return Estimate(self.full_trace.value**2 / self.form.norm2(), math.nan, self.members)
        return correlation.effective_rank(self.form)

    @cached_property
    def fidelity(self) -> float:
        """Expected plug-in Corr with what more sampling would give, see `fidelity_with` (NaN: cannot be said)."""
        limit = self.about.method == "closed-form" and not self.exact and not self.form.parts
        return math.nan if self.full_trace is not None or limit else correlation.fidelity(self.form)

    @property
    def fidelity_with(self) -> str:
        """What `fidelity` counts: all sampling noise, or for a limit of wide layers that of the probe points alone."""
        limit = self.about.method == "closed-form" and not self.exact
        return "this limit over all probe points" if limit else "the truth"

    @cached_property
    def _spectrum(self) -> Spectrum:
        return decompose(self.form)

    @property
    def eigenvalues(self) -> Tensor:
        """Descending, float64; d of them, or as many as the known rank."""
        return self._spectrum.all_values

    def eigenvalue_errors(self, k: int | None = None) -> Tensor:
        """Standard error over members of vᵀGv for the k leading eigenvectors v (zeros: nothing was sampled).

        This is the noise along given directions. That they were chosen on the same sample biases the largest
        eigenvalues upwards and the smallest downwards; blocks(by_error_bars=True) accounts for it.
        """
        spectrum = self._spectrum
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
        """Largest over smallest eigenvalue; infinite for a singular matrix, NaN when not all are known."""
        values = self.eigenvalues
        if self.full_trace is not None or not self._spectrum.complete:
            return math.nan
        smallest = float(values[-1]) if len(values) == self.d else 0.0
        return float(values[0]) / smallest if smallest > NULL * float(values[0]) else math.inf

    def blocks(self, *, by_error_bars: bool = False) -> list[EigenvalueBlock]:
        """Runs of equal eigenvalues, inside which single eigenvectors mean nothing.

        Equal means closer than 1e-6 (relative). by_error_bars=True joins what the sample cannot tell apart.
        """
        if by_error_bars and self.form.parts:
            return resolved_blocks(self.form)
        found = blocks_of(self._spectrum.values, self._copies)
        known = sum(b.size for b in found)
        if known < self.d and self._spectrum.complete and self.full_trace is None:
            found.append(EigenvalueBlock(known, self.d - known, 0.0))
        return found

    # --- directions -------------------------------------------------------------------------------------------

    def directions(self, k: int | None = None, *, bottom: bool = False) -> Tensor:
        """The k leading eigenvectors, shape (k, *input_shape), unit norm, in the order of the eigenvalues.

        Inside a block of equal eigenvalues the basis is chosen by a fixed rule (geometry.spectrum); copies of a
        Kronecker core follow one another. bottom=True gives the last k instead, the very last one last.
        """
        k = self.d if k is None else k
        if not (is_number(k) and k == int(k) and 1 <= k <= self.d):
            raise NetgrainError(f"expected between 1 and {self.d} directions, found {found(k)}.")
        k = int(k)
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
        return out.reshape(k, *self.input_shape)

    def _leading(self, k: int) -> Spectrum:
        if "_spectrum" in self.__dict__ and len(self._spectrum.values) * self._copies >= k:
            return self._spectrum
        spectrum = decompose(self.form, k)
        if len(spectrum.values) * self._copies < k and self.full_trace is None:
            return self._whole_spectrum()
        return spectrum

    def _whole_spectrum(self) -> Spectrum:
        """All d pairs, null space included."""
        self._refuse_if_truncated("the whole spectrum")
        if "_spectrum" in self.__dict__ and len(self._spectrum.values) == self._core.size:
            return self._spectrum
        if self._core.size > FULL_LIMIT:
            raise NetgrainError(
                f"the whole spectrum of a {self._core.size} x {self._core.size} matrix is not computed (the limit is "
                f"{FULL_LIMIT}); use eigenvalues or directions(k) for the leading ones."
            )
        spectrum = decompose(Dense(self._core.dense()))
        return replace(spectrum, copies=self._copies)

    def random_direction(self, block: EigenvalueBlock, *, seed: int = 0) -> Tensor:
        """A unit vector drawn uniformly inside a block's eigenspace, shape input_shape."""
        basis = self._whole_spectrum() if block.value == 0 else self._leading(block.stop)
        rows = range(block.start // self._copies, math.ceil(block.stop / self._copies))
        generator = torch.Generator().manual_seed(seed)
        weights = torch.randn(self._copies, len(rows), generator=generator, dtype=torch.float64)
        flat = weights @ basis.vectors[rows.start : rows.stop]  # (copies, core)
        vector: Tensor = self.form.from_copies(flat)[0] if isinstance(self.form, Kronecker) else flat[0]
        return torch.reshape(vector / torch.linalg.vector_norm(vector), self.input_shape)

    # --- as a matrix ------------------------------------------------------------------------------------------

    def matrix(self) -> Tensor:
        """The dense (d, d) matrix; refused above a size, with the number."""
        self._refuse_if_truncated("the matrix")
        return torch.clone(self.form.dense())

    def matvec(self, v: Tensor) -> Tensor:
        """G v for one vector or a batch, flat (…, d) or shaped (…, *input_shape); same shape back."""
        flat = self._flat(v)
        return self.form.matvec(flat).reshape(v.shape)

    def project(self, S: Geometry | Tensor) -> Geometry:
        """G S G: what the architecture lets through of a data covariance S (a Geometry or a (d, d) tensor)."""
        self._refuse_if_truncated("a projection")
        form = S.form if isinstance(S, Geometry) else Geometry.from_matrix(S).form
        if form.size != self.d:
            raise NetgrainError(f"G is {self.d}-dimensional, S is {form.size}-dimensional; use the same input shape.")
        about = replace(self.about, method="derived", exact=False, notes=(*self.about.notes, "G S G"))
        if isinstance(form, Factored) and form.parts == 0:
            rows = torch.cat([self.form.matvec(rows.double()) for rows in in_slices(form.rows)])
            return Geometry(Factored(rows, form.weight), self.input_shape, about)
        G = self.form.dense()
        return Geometry(Dense(G @ form.dense() @ G), self.input_shape, about)

    def flip(self) -> Geometry:
        """Same eigenvectors, eigenvalues in reverse order; a block of equal eigenvalues moves as a whole."""
        spectrum = self._whole_spectrum()
        found = blocks_of(spectrum.values)
        values = torch.empty_like(spectrum.values)
        for block, mirror in zip(found, reversed(found), strict=True):
            values[block.start : block.stop] = mirror.value
        core: Form = Dense((spectrum.vectors.T * values) @ spectrum.vectors)
        if isinstance(self.form, Kronecker):
            core = Kronecker(core, self.form.copies, self.form.order)
        about = replace(self.about, method="derived", notes=(*self.about.notes, "flipped"))
        return Geometry(core, self.input_shape, about)

    def score(self, X: Tensor) -> Tensor:
        """xᵀGx / ‖x‖² for every sample, shape (samples,): how strongly fresh networks react along x."""
        X = _as_tensor(X, "samples (samples, …)")
        if X.dim() < 2 or X[0].numel() != self.d:
            alone = "; one sample alone is X[None]" if X.numel() == self.d else ""
            raise NetgrainError(
                f"expected samples of shape (samples, {self.d}) or (samples, …) of inputs {self.input_shape}, "
                f"found {tuple(X.shape)}{alone}."
            )
        scores = []
        for rows in in_slices(X.reshape(len(X), -1)):
            flat = self._flat(rows)
            scores.append((flat * self.form.matvec(flat)).sum(1) / flat.square().sum(1))
        return torch.cat(scores)

    def corr(self, other: Geometry, *, paired: bool = False) -> Estimate:
        """Corr(self, other), see `netgrain.corr`."""
        return corr(self, other, paired=paired)

    # --- files and pictures -----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """One safetensors file with the numbers and where they came from; written whole or not at all."""
        from netgrain.geometry.storage import Contents, save

        return save(Contents(self.form, self.input_shape, self.about, self.scale_error, self.full_trace), path)

    @staticmethod
    def load(path: str | Path) -> Geometry:
        """Read a file written by `save`; anything else is refused with a sentence."""
        from netgrain.geometry.storage import Contents, load

        def build(found: Contents) -> Geometry:
            made = Geometry(found.form, found.input_shape, found.about, found.scale_error, found.full_trace)
            repr(made)  # a damaged provenance shows here
            return made

        return load(path, build)

    def plot_matrix(self, ax: Axes | None = None) -> Axes:
        """G as an image."""
        from netgrain.geometry import plots

        return plots.matrix(self, ax=ax)

    def plot_spectrum(self, ax: Axes | None = None) -> Axes:
        """Eigenvalues against their index."""
        from netgrain.geometry import plots

        return plots.spectrum(self, ax=ax)

    def plot_directions(self, k: int = 8) -> Figure:
        """The k leading and the k last eigenvectors as images."""
        from netgrain.geometry import plots

        return plots.directions(self, k)

    def summary(self) -> dict[str, Any]:
        """The numbers worth a table, as plain values."""
        return {
            "model": self.about.model,
            "d": self.d,
            "input_shape": list(self.input_shape),
            "method": self.method,
            "exact": self.exact,
            "probe": self.about.probe,
            "output": self.about.output,
            "seed": self.about.seed,
            "members": self.members,
            "integration": self.about.integration,
            "zero_share": self.about.zero_share,
            "notes": list(self.about.notes),
            "leaves_out": list(self.about.leaves_out),
            "trace": self.trace.as_dict(),
            "effective_rank": self.effective_rank.as_dict(),
            "fidelity": None if math.isnan(self.fidelity) else self.fidelity,
            "directions_for": {f"{share:.0%}": self.directions_for(share) for share in (0.5, 0.9, 0.99)},
            "condition": None if not math.isfinite(self.condition) else self.condition,
            "largest_eigenvalue": float(self.eigenvalues[0]) if len(self.eigenvalues) else 0.0,
            "blocks": len(self.blocks()),
            "versions": self.about.versions,
        }

    def directions_for(self, share: float) -> int | None:
        """How many leading directions carry this share of the trace (None: more than are known)."""
        total = self.trace.value
        enough = (self.eigenvalues.cumsum(0) >= share * total * (1 - 1e-12)).nonzero()
        return int(enough[0]) + 1 if len(enough) and total > 0 else None

    # --- inside -----------------------------------------------------------------------------------------------

    def _flat(self, v: Tensor) -> Tensor:
        v = torch.as_tensor(v).cpu()
        if v.shape and v.shape[-1] == self.d:
            return v.reshape(-1, self.d).double()
        if tuple(v.shape[v.dim() - len(self.input_shape) :]) == self.input_shape:
            return v.reshape(-1, self.d).double()
        raise NetgrainError(
            f"expected vectors of shape (…, {self.d}) or (…, {self.input_shape}), found {tuple(v.shape)}."
        )

    def _refuse_if_truncated(self, what: str) -> None:
        if self.full_trace is not None:
            raise NetgrainError(
                f"only the {self._copies * len(self._core_rows())} leading directions of this geometry "
                f"(d = {self.d}) were kept, so {what} is not available; use a smaller input or directions(k)."
            )

    def _core_rows(self) -> Tensor:
        core = self._core
        return core.rows if isinstance(core, Factored) else torch.zeros(0)

    def __repr__(self) -> str:
        about = self.about
        if about.method == "sampled":
            how = [f"sampled from {about.members} member{'s' * (about.members != 1)}"]
            if about.integration.startswith("first layer integrated"):
                how.append("first layer integrated")
        elif about.method == "closed-form":
            how = ["closed form", "exact at any width" if about.exact else "wide limit"]
        else:
            how = [about.method]
        facts = [f"d={self.d}", *how]
        if about.model:
            facts.append(about.model)
        if about.probe:
            facts.append(f"probe {about.probe}")
        if self.trace.value == 0:
            return f"Geometry({', '.join([*facts, 'zero: the network does not react to its input'])})"
        rank = self.effective_rank
        facts.append(f"effective rank {rank.value:.4g}" + (f" ± {rank.stderr:.2g}" if rank.stderr > 0 else ""))
        if not math.isnan(self.fidelity) and self.form.parts:
            facts.append(f"Corr with {self.fidelity_with} about {self.fidelity:.4f}")
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
        return f"Geometry({', '.join(facts)})"


def _as_tensor(value: Any, wanted: str) -> Tensor:
    """On the CPU, without a gradient."""
    try:
        tensor: Tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as e:  # torch raises all three
        raise NetgrainError(f"expected {wanted}, found {found(value)}.") from e
    return tensor.detach().cpu()


def corr(A: Geometry | Tensor, B: Geometry | Tensor, *, paired: bool = False) -> Estimate:
    """Corr(A, B) = tr(AᵀB) / (‖A‖ ‖B‖), bias-corrected for sampled matrices, `.plug_in` beside it.

    paired=True when both are made of the same members, part by part. Tensors count as exact.

    >>> import torch
    >>> I = torch.eye(4)
    >>> corr(I, torch.diag(torch.tensor([1.0, 0, 0, 0]))).value
    0.5
    """
    for m in (A, B):
        if not isinstance(m, Geometry) and not hasattr(m, "shape"):
            raise NetgrainError(f"expected a Geometry or a square matrix, found {found(m)}.")
    a, b = (m.form if isinstance(m, Geometry) else Geometry.from_matrix(m).form for m in (A, B))
    return correlation.correlation(a, b, paired=paired)
