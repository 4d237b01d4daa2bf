"""Δ = dG/dt, a symmetric matrix with eigenvalues of both signs, and the evolution of a family that it belongs to."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import MOST_PARTS, Dense, Factored, Form
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.spectrum import FULL_LIMIT, Spectrum, settled
from netgrain.geometry.value import Geometry, corr
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.packed import read_packed, write_packed
from netgrain.runtime.threads import one_thread
from netgrain.training.pairs import SymmetricPairs
from netgrain.training.projection import Projection, factor

LAYOUT = 1  # of the file; a newer one is refused, not guessed at


class Delta(Geometry):
    """A symmetric matrix over an input space with error bars, its eigenvalues of either sign.

    All that a geometry can do without being positive: matrix, matvec, trace, corr; eigenvalues descend from the most
    positive to the most negative one.
    """

    @cached_property
    def _spectrum(self) -> Spectrum:
        if self.d <= FULL_LIMIT:
            values, vectors = torch.linalg.eigh(self.form.dense())
            rows = vectors.T
        elif isinstance(self.form, SymmetricPairs) and 2 * len(self.form.right) <= FULL_LIMIT:
            basis = torch.linalg.qr(torch.cat([self.form.left.rows, self.form.right]).double().T)[0].T
            values, vectors = torch.linalg.eigh(self.form.matvec(basis) @ basis.T)
            rows = vectors.T @ basis
        else:
            raise NetgrainError(f"the spectrum of a {self.d}-dimensional Δ is not available here; use matvec(v).")
        # each sign by itself: the rule for single vectors looks at the largest value first
        up = settled(values[values > 0].flip(0), rows[values > 0].flip(0), complete=True)
        down = settled(-values[values <= 0], rows[values <= 0], complete=True)
        return Spectrum(
            torch.cat([up.values, -down.values.flip(0)]), torch.cat([up.vectors, down.vectors.flip(0)]), 1, True
        )

    def directions(self, k: int | None = None, *, bottom: bool = False) -> Tensor:
        """Eigenvectors (k, *input_shape), along which G grows most; bottom=True: along which it shrinks most, last."""
        known = self._spectrum.vectors
        k = len(known) if k is None else k
        if not 1 <= k <= len(known):
            raise NetgrainError(f"expected between 1 and {len(known)} directions, found {k}.")
        return (known[-k:] if bottom else known[:k]).reshape(k, *self.input_shape).clone()

    def _leading(self, k: int) -> Spectrum:
        return self._spectrum

    def _whole_spectrum(self) -> Spectrum:
        return self._spectrum

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NetgrainError(
            "this matrix has eigenvalues of both signs, so what is asked for is not defined; "
            "expected matrix(), matvec, eigenvalues, directions, trace or corr (an Evolution is saved as a whole)."
        )

    flip = random_direction = blocks = save = plot_spectrum = plot_directions = summary = _refuse
    directions_for = _refuse

    @property
    def condition(self) -> float:
        return math.nan

    def inner(self, H: Geometry | Tensor) -> Estimate:
        """⟨Δ, H⟩ = tr(Δ H) with its standard error over members, for a symmetric H that counts as exact."""
        form = H.form if isinstance(H, Geometry) else Geometry.from_matrix(H).form
        value = self.form.inner(form)
        if self.form.parts < 2:
            return Estimate(value, math.nan if self.form.parts else 0.0, self.form.parts)
        n, each = self.form.counts.double(), self.form.part_inner(form)
        spread = float((n * (each - value).square()).sum()) / (self.form.parts - 1) / float(n.sum())
        return Estimate(value, math.sqrt(spread), self.form.parts)

    def errors(self) -> Tensor:
        """Standard error over members of every entry of matrix(), (d, d)."""
        form = self.form.batched(MOST_PARTS)
        if form.parts < 2:
            return torch.full((self.d, self.d), math.nan if form.parts else 0.0, dtype=torch.float64)
        weights = form.counts.double() / form.counts.sum()
        spread = torch.zeros(self.d, self.d, dtype=torch.float64)
        for i, weight in enumerate(weights.tolist()):
            spread += weight * (form.part(i).dense() - form.dense()).square()
        return (spread / (form.parts - 1)).sqrt()

    def __repr__(self) -> str:
        facts = [f"d={self.d}", f"{self.members} members", f"trace {self.trace!r}"]
        return f"Delta({', '.join(facts)})"


@dataclass(frozen=True, eq=False, repr=False)
class Evolution:
    """Δ = M + Mᵀ = E[b aᵀ + a bᵀ], a = ∇ₓf, b = d/dt ∇ₓf, and G = E[a aᵀ] of the same members."""

    delta: Delta
    G: Geometry
    loss: str
    samples: int  # in the data set whose loss drives the flow
    differentiation: str  # "forward over reverse", "reverse over reverse", or "by hand" (one hidden layer)
    labels_used: bool  # False: they drop out, and were not looked at
    dense_M: Tensor | None = None  # M where the rows were too many to keep

    @property
    def d(self) -> int:
        return self.delta.d

    @property
    def members(self) -> int:
        return self.delta.members

    @property
    def about(self) -> Provenance:
        return self.delta.about

    @property
    def form(self) -> Form:
        """Δ as it is held, with its parts."""
        return self.delta.form

    @property
    def trace(self) -> Estimate:
        """tr Δ: how fast the mean squared input gradient grows."""
        return self.delta.trace

    @property
    def fidelity(self) -> float:
        """Expected plug-in Corr of this estimate with the true Δ."""
        return self.delta.fidelity

    def matrix(self) -> Tensor:
        """Δ, dense (d, d) float64."""
        return self.delta.matrix()

    def errors(self) -> Tensor:
        """Standard errors of the entries of Δ, (d, d)."""
        return self.delta.errors()

    def matvec(self, v: Tensor) -> Tensor:
        return self.delta.matvec(v)

    @property
    def M(self) -> Tensor:
        """E[(∇²_{x,θ} f · θ̇) ∇ₓfᵀ], dense (d, d) float64, not symmetric; Δ = M + Mᵀ."""
        if self.dense_M is not None:
            return self.dense_M.clone()
        assert isinstance(self.form, SymmetricPairs)
        return self.form.half()

    def corr(self, other: Geometry | Evolution | Tensor, *, paired: bool = False) -> Estimate:
        """Corr(Δ, other), bias-corrected, with its sign; `.plug_in` beside it. With `self.G` it is paired."""
        if isinstance(other, Evolution):
            other = other.delta
        return corr(self.delta, other, paired=paired or other is self.G)

    def corr_identity(self) -> Estimate:
        """Corr(Δ, I)."""
        return corr(self.delta, torch.eye(self.d))

    @one_thread()
    def corr_projected(self, S: Geometry | Tensor) -> Estimate:
        """Corr(Δ, G S G) with G of the same members (Conjecture 1), debiased in Δ and in both factors G.

        Needs at least 6 members (training.projection). `.plug_in` is the naive Corr(Δ, G S G). With a G that you know
        better, use corr(G.project(S)).
        """
        S = S if isinstance(S, Geometry) else Geometry.from_matrix(S)
        return Projection(self.G.form, factor(S.form)).corr(self.form)

    # --- files ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """One safetensors file with rows, provenance and checksum; written whole or not at all."""
        tensors: dict[str, Tensor] = {}
        header: dict[str, Any] = {
            "layout": LAYOUT,
            "input_shape": list(self.G.input_shape),
            "about": asdict(self.about),
            **{name: getattr(self, name) for name in ("loss", "samples", "differentiation", "labels_used")},
        }
        if isinstance(self.form, SymmetricPairs):
            left = self.form.left
            tensors |= {"a": left.rows, "b": self.form.right, "counts": left.counts}
            header |= {"scale": left.scale, "rows_per_part": list(left.rows_per_part)}
        else:
            pieces = {"delta": _pieces(self.form), "G": _pieces(self.G.form), "M": self.M}
            tensors |= {**pieces, "counts": self.form.counts}
        return write_packed(path, "evolution", header, tensors)

    @staticmethod
    def load(path: str | Path) -> Evolution:
        """Read a file written by `save`; anything else is refused with a sentence."""
        header, tensors = read_packed(path, "evolution")
        if header.get("layout") != LAYOUT:
            raise NetgrainError(
                f"{path} has file layout {header.get('layout')}, this netgrain reads {LAYOUT}; use a matching version."
            )
        G: Form
        delta: Form
        if "a" in tensors:
            G = Factored(tensors["a"], header["scale"], tensors["counts"], tuple(header["rows_per_part"]))
            delta = SymmetricPairs(G, tensors["b"])
        else:
            G, delta = (Dense.from_pieces(tensors[name], tensors["counts"]) for name in ("G", "delta"))
        shape, about = tuple(header["input_shape"]), Provenance.from_dict(header["about"])
        facts = {name: header[name] for name in ("loss", "samples", "differentiation", "labels_used")}
        return Evolution(Delta(delta, shape, about), Geometry(G, shape, about), **facts, dense_M=tensors.get("M"))

    def __repr__(self) -> str:
        about = self.about
        facts = [
            f"d={self.d}",
            f"{self.loss} on {self.samples} sample{'s' * (self.samples != 1)}",
            f"{self.members} member{'s' * (self.members != 1)} of {about.model}",
            f"probe {about.probe}",
            f"trace {self.trace!r}",
        ]
        if not self.labels_used:
            facts.append("labels drop out")
        if "heads (" in about.integration:
            facts.append(about.integration)
        if not math.isnan(self.fidelity):
            facts.append(f"Corr with the truth about {self.fidelity:.4f}")
        return f"Evolution({', '.join(facts)})"


def _pieces(form: Form) -> Tensor:
    assert isinstance(form, Dense)
    assert form.pieces is not None
    return form.pieces
