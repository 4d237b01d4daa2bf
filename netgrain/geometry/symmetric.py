"""What G and Δ share: a symmetric matrix over an input space, held in a form, with error bars where it was sampled."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.geometry import correlation
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Dense, Form
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.spectrum import Spectrum
from netgrain.runtime.arguments import found, is_number
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class SymmetricMatrix(ABC):
    """A symmetric matrix over an input space; the base of `Geometry` and `Delta`.

    Parameters
    ----------
    form : Form
        How the matrix is held, with the parts that error bars are made of.
    input_shape : tuple of int
        Shape of one input; d = prod(input_shape).
    about : Provenance
        How the matrix was obtained.
    """

    form: Form
    input_shape: tuple[int, ...]
    about: Provenance

    @property
    def d(self) -> int:
        """Dimension of the input space."""
        return self.form.size

    @property
    def method(self) -> str:
        """How it was obtained: closed-form, sampled, data, derived or given."""
        return self.about.method

    @property
    def exact(self) -> bool:
        """Whether it has no sampling error and holds at any width."""
        return self.about.exact

    @property
    def members(self) -> int:
        """Number of networks it was averaged over; 0 if none was sampled."""
        return self.about.members

    @property
    def truncated(self) -> bool:
        """Whether only the leading directions were kept, of an input too large for more."""
        return False

    # --- numbers ----------------------------------------------------------------------------------------------

    @cached_property
    def trace(self) -> Estimate:
        """Trace of the matrix, with its standard error over members."""
        return correlation.trace(self.form)

    @cached_property
    def fidelity(self) -> float:
        """Expected plug-in Corr with the true matrix; NaN where the sample cannot tell."""
        return correlation.fidelity(self.form)

    @cached_property
    @abstractmethod
    def spectrum(self) -> Spectrum:
        """Eigenvalues and eigenvectors, as many as are cheap to compute."""

    @property
    def eigenvalues(self) -> Tensor:
        """Eigenvalues, descending, float64; d of them, or as many as the known rank."""
        return self.spectrum.all_values

    def directions(self, k: int | None = None, *, bottom: bool = False) -> Tensor:
        """Leading eigenvectors, of unit norm, in the order of the eigenvalues.

        Inside a block of equal eigenvalues single eigenvectors are not defined; a fixed rule then
        chooses the basis.

        Parameters
        ----------
        k : int, optional
            Number of directions; all of them by default.
        bottom : bool, default False
            Return the last `k` instead, the very last one last.

        Returns
        -------
        Tensor of shape (k, *input_shape)
            In float64.

        Raises
        ------
        NetgrainError
            If `k` is out of range, or more directions are asked for than are known.

        Examples
        --------
        >>> from netgrain.geometry.value import Geometry
        >>> Geometry.from_matrix(torch.diag(torch.tensor([1.0, 3.0]))).directions(1).abs().tolist()
        [[0.0, 1.0]]
        """
        most = self._known_directions
        k = most if k is None else k
        if not (is_number(k) and k == int(k) and 1 <= k <= most):
            raise NetgrainError(f"expected between 1 and {most} directions, found {found(k)}.")
        return self._eigenvectors(int(k), bottom).reshape(int(k), *self.input_shape)

    @property
    @abstractmethod
    def _known_directions(self) -> int:
        """The largest k of `directions`."""

    @abstractmethod
    def _eigenvectors(self, k: int, bottom: bool) -> Tensor:
        """The first (or last) k of them, (k, d)."""

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
            If d is too large; the message gives the number.
        """
        return torch.clone(self.form.dense())

    def matvec(self, v: Tensor) -> Tensor:
        """Multiply the matrix with one vector or a batch of them.

        Parameters
        ----------
        v : Tensor of shape (..., d) or (..., *input_shape)
            Vectors, flat or shaped like inputs.

        Returns
        -------
        Tensor of the shape of v
            In float64.
        """
        return self.form.matvec(self._flat(v)).reshape(v.shape)

    def corr(self, other: SymmetricMatrix | Tensor, *, paired: bool = False) -> Estimate:
        """Correlation with another matrix, corrected for sampling noise.

        Parameters
        ----------
        other : SymmetricMatrix or Tensor of shape (d, d)
            A tensor counts as exact.
        paired : bool, default False
            Whether both are made of the same members, part by part.

        Returns
        -------
        Estimate
            tr(AᵀB) / (‖A‖ ‖B‖); see `netgrain.corr`.
        """
        return corr(self, other, paired=paired)

    def plot_matrix(self, ax: Axes | None = None) -> Axes:
        """Draw the matrix as an image, white at zero.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        Axes
            With the image.
        """
        from netgrain.geometry import plots

        return plots.matrix(self, ax=ax)

    def _flat(self, v: Tensor) -> Tensor:
        v = torch.as_tensor(v).cpu()
        if v.shape and v.shape[-1] == self.d:
            return v.reshape(-1, self.d).double()
        if tuple(v.shape[v.dim() - len(self.input_shape) :]) == self.input_shape:
            return v.reshape(-1, self.d).double()
        raise NetgrainError(
            f"expected vectors of shape (…, {self.d}) or (…, {self.input_shape}), found {tuple(v.shape)}."
        )


def corr(A: SymmetricMatrix | Tensor, B: SymmetricMatrix | Tensor, *, paired: bool = False) -> Estimate:
    """Correlation of two matrices, corrected for sampling noise.

    Corr(A, B) = tr(AᵀB) / (‖A‖ ‖B‖). The plug-in value of sampled matrices is too small, because noise inflates the
    norms; `corr` uses only products of different members, and a jackknife removes the bias of the ratio.

    Parameters
    ----------
    A, B : Geometry, Delta or Tensor of shape (d, d)
        Two matrices over the same inputs. Tensors are treated as exact.
    paired : bool, default False
        Whether both are made of the same members, part by part, such as two moments of one training.

    Returns
    -------
    Estimate
        The corrected value with its standard error; ``plug_in`` is the naive value.

    Raises
    ------
    NetgrainError
        If the two have different dimensions, or are not matrices.

    Warns
    -----
    GrainWarning
        If one matrix is zero or there are too few members, so that the value is NaN.

    See Also
    --------
    velocity : How far a geometry turned between two moments.

    Examples
    --------
    ⟨I, E₁₁⟩ = 1, ‖I‖ = 2 and ‖E₁₁‖ = 1:

    >>> import torch
    >>> corr(torch.eye(4), torch.diag(torch.tensor([1.0, 0, 0, 0]))).value
    0.5
    """
    return correlation.correlation(form_of(A), form_of(B), paired=paired)


def form_of(matrix: SymmetricMatrix | Tensor) -> Form:
    """The form of a matrix that may be a plain tensor."""
    if isinstance(matrix, SymmetricMatrix):
        return matrix.form
    if not hasattr(matrix, "shape"):
        raise NetgrainError(f"expected a Geometry or a square matrix, found {found(matrix)}.")
    return dense_form(matrix)


def dense_form(matrix: Tensor, input_shape: Sequence[int] | None = None) -> Dense:
    """A tensor as a form; refused unless it is finite, square, symmetric and fits the inputs."""
    matrix = plain_tensor(matrix, "a finite square matrix").double()
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or not bool(torch.isfinite(matrix).all()):
        raise NetgrainError(f"expected a finite square matrix, found shape {tuple(matrix.shape)}.")
    if not torch.allclose(matrix, matrix.T, rtol=1e-5, atol=1e-8 * float(matrix.abs().max())):
        raise NetgrainError("expected a symmetric matrix; symmetrise it first, for example (M + M.T) / 2.")
    if input_shape is not None and math.prod(input_shape) != matrix.shape[0]:
        raise NetgrainError(
            f"a {matrix.shape[0]}-dimensional matrix does not fit inputs of shape {tuple(input_shape)}."
        )
    return Dense((matrix + matrix.T) / 2)


def plain_tensor(value: Any, wanted: str) -> Tensor:
    """A tensor on the CPU, without a gradient."""
    try:
        tensor: Tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as e:  # torch raises all three
        raise NetgrainError(f"expected {wanted}, found {found(value)}.") from e
    return tensor.detach().cpu()
