"""Δ = dG/dt, a symmetric matrix with eigenvalues of both signs, and the evolution of a family that it belongs to."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from netgrain.geometry.correlation import over_parts
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import MOST_PARTS, Dense, Factored, Form
from netgrain.geometry.provenance import Integration, Provenance
from netgrain.geometry.spectrum import FULL_LIMIT, Spectrum, settled
from netgrain.geometry.storage import check_layout
from netgrain.geometry.symmetric import SymmetricMatrix, corr, form_of
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.packed import read_packed, write_packed
from netgrain.runtime.threads import one_thread
from netgrain.training.pairs import SymmetricPairs
from netgrain.training.projection import Projection, factor

LAYOUT = 2  # of the file; a newer one is refused, not guessed at
READABLE = (1, 2)  # layout 1 held sentences in the place of facts
FACTS = ("loss", "samples", "differentiation", "labels_used")  # of an evolution, in its file


class Delta(SymmetricMatrix):
    """The change Δ = dG/dt of a geometry under gradient flow.

    A symmetric matrix over an input space with error bars. Its eigenvalues have either sign and
    descend from the most positive to the most negative one.

    See Also
    --------
    Evolution : Δ together with the geometry of the same members.
    """

    @cached_property
    def spectrum(self) -> Spectrum:
        """All eigenvalues and eigenvectors."""
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

    @property
    def _known_directions(self) -> int:
        return len(self.spectrum.vectors)

    def _eigenvectors(self, k: int, bottom: bool) -> Tensor:
        """Along the first G grows most, along the last it shrinks most."""
        known = self.spectrum.vectors
        return (known[-k:] if bottom else known[:k]).clone()

    def inner(self, H: SymmetricMatrix | Tensor) -> Estimate:
        """Inner product ⟨Δ, H⟩ = tr(Δ H) with a matrix that counts as exact.

        Parameters
        ----------
        H : SymmetricMatrix or Tensor of shape (d, d)
            Symmetric.

        Returns
        -------
        Estimate
            With its standard error over members.
        """
        form = form_of(H)
        return over_parts(self.form, self.form.inner(form), lambda: self.form.part_inner(form))

    def errors(self) -> Tensor:
        """Standard errors over members of every entry of `matrix`.

        Returns
        -------
        Tensor of shape (d, d)
            Zeros where nothing was sampled.
        """
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
    """How the geometry of networks moves when training begins.

    Δ = M + Mᵀ = E[b aᵀ + a bᵀ] with a = ∇ₓf and b = d/dt ∇ₓf, and G = E[a aᵀ] of the same members.
    `average_evolution` and `evolution_of` make one.

    Parameters
    ----------
    delta : Delta
        Δ, with its error bars.
    G : Geometry
        The geometry of the same members.
    loss : str
        Name of the loss that drives the weights.
    samples : int
        Number of samples in the data set of that loss.
    differentiation : str
        How b was computed: forward over reverse, reverse over reverse, or by hand (one hidden layer).
    labels_used : bool
        False if the labels drop out of the formula and were not used.
    dense_M : Tensor of shape (d, d), optional
        M itself, if there were too many rows to keep.

    See Also
    --------
    average_evolution : The evolution of a family at initialisation.
    evolution_of : The evolution of given networks.
    """

    delta: Delta
    G: Geometry
    loss: str
    samples: int
    differentiation: str
    labels_used: bool
    dense_M: Tensor | None = None

    @property
    def d(self) -> int:
        """Dimension of the input space."""
        return self.delta.d

    @property
    def members(self) -> int:
        """Number of networks behind Δ."""
        return self.delta.members

    @property
    def about(self) -> Provenance:
        """How Δ was obtained."""
        return self.delta.about

    @property
    def form(self) -> Form:
        """Δ as it is held, with its parts."""
        return self.delta.form

    @property
    def trace(self) -> Estimate:
        """Trace of Δ: how fast the mean squared input gradient grows."""
        return self.delta.trace

    @property
    def fidelity(self) -> float:
        """Expected plug-in Corr of this estimate with the true Δ."""
        return self.delta.fidelity

    def matrix(self) -> Tensor:
        """Write Δ out, entry by entry.

        Returns
        -------
        Tensor of shape (d, d)
            In float64.
        """
        return self.delta.matrix()

    def errors(self) -> Tensor:
        """Standard errors of the entries of Δ over members.

        Returns
        -------
        Tensor of shape (d, d)
            In float64.
        """
        return self.delta.errors()

    def matvec(self, v: Tensor) -> Tensor:
        """Multiply Δ with one vector or a batch of them.

        Parameters
        ----------
        v : Tensor of shape (..., d) or (..., *input_shape)
            Vectors, flat or shaped like inputs.

        Returns
        -------
        Tensor of the shape of v
            In float64.
        """
        return self.delta.matvec(v)

    @property
    def M(self) -> Tensor:
        """Matrix M = E[(∇²_{x,θ} f · θ̇) ∇ₓfᵀ] of shape (d, d), not symmetric; Δ = M + Mᵀ."""
        if self.dense_M is not None:
            return self.dense_M.clone()
        assert isinstance(self.form, SymmetricPairs)
        return self.form.half()

    def corr(self, other: SymmetricMatrix | Evolution | Tensor, *, paired: bool = False) -> Estimate:
        """Correlation of Δ with another matrix, with its sign and corrected for noise.

        Parameters
        ----------
        other : Geometry, Delta, Evolution or Tensor of shape (d, d)
            A tensor is treated as exact.
        paired : bool, default False
            Whether both are made of the same members; with ``self.G`` they always are.

        Returns
        -------
        Estimate
            See `netgrain.corr`.
        """
        matrix = other.delta if isinstance(other, Evolution) else other
        return corr(self.delta, matrix, paired=paired or other is self.G)

    def corr_identity(self) -> Estimate:
        """Correlation of Δ with the identity.

        Returns
        -------
        Estimate
            See `netgrain.corr`.
        """
        return corr(self.delta, torch.eye(self.d))

    @one_thread()
    def corr_projected(self, S: Geometry | Tensor) -> Estimate:
        """Correlation of Δ with G S G, where G is that of the same members.

        The noise of Δ and of both factors G is removed. If you have a more accurate G, use ``corr(G.project(S))``.

        Parameters
        ----------
        S : Geometry or Tensor of shape (d, d)
            Covariance of the data.

        Returns
        -------
        Estimate
            Needs at least 6 members; ``plug_in`` is the naive Corr(Δ, G S G).

        References
        ----------
        .. [1] Movahedi, Orvieto, Moosavi-Dezfooli, "Geometric Inductive Biases of Deep Networks: the
           Role of Data and Architecture", Conjecture 1.
        """
        return Projection(self.G.form, factor(form_of(S))).corr(self.form)

    # --- files ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the evolution to one safetensors file, atomically.

        Parameters
        ----------
        path : str or Path
            Name of the file.

        Returns
        -------
        Path
            Where it is.
        """
        tensors: dict[str, Tensor] = {}
        header: dict[str, Any] = {
            "layout": LAYOUT,
            "input_shape": list(self.G.input_shape),
            "about": asdict(self.about),
            **{name: getattr(self, name) for name in FACTS},
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
        """Read an evolution that `save` wrote.

        Parameters
        ----------
        path : str or Path
            Name of the file; files of older versions are read as well.

        Returns
        -------
        Evolution
            As it was saved.

        Raises
        ------
        NetgrainError
            If the file holds anything else, or is damaged.
        """
        header, tensors = read_packed(path, "evolution")
        check_layout(header, path, READABLE, "use a matching version")
        G: Form
        delta: Form
        if "a" in tensors:
            G = Factored(tensors["a"], header["scale"], tensors["counts"], tuple(header["rows_per_part"]))
            delta = SymmetricPairs(G, tensors["b"])
        else:
            G, delta = (Dense.from_pieces(tensors[name], tensors["counts"]) for name in ("G", "delta"))
        shape, about = tuple(header["input_shape"]), Provenance.from_dict(header["about"])
        facts = {name: header[name] for name in FACTS}
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
        if isinstance(about.integration, Integration):
            facts.append(str(about.integration))
        if not math.isnan(self.fidelity):
            facts.append(f"Corr with the truth about {self.fidelity:.4f}")
        return f"Evolution({', '.join(facts)})"


def _pieces(form: Form) -> Tensor:
    assert isinstance(form, Dense)
    assert form.pieces is not None
    return form.pieces
