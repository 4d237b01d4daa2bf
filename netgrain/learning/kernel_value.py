"""A kernel over samples as a value: the mean over members, the members apart, and how it was obtained."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.snippets import snippet
from netgrain.runtime.versions import versions

KernelKind = Literal["layers", "last", "tangent"]
KernelMethod = Literal["closed-form", "sampled", "given"]
SAYS: dict[str, str] = {"layers": "all layers", "last": "last layer", "tangent": "tangent kernel"}


@dataclass(frozen=True)
class KernelAbout:
    """How a kernel was obtained.

    Parameters
    ----------
    method : {"closed-form", "sampled", "given"}
        By a formula, from random members, or from one given model.
    model : str, default ""
        The family, or the class of the given model.
    members : int, default 0
        Number of networks behind it; 0 for a closed form.
    seed : int, optional
        Member i depends on ``(seed, i)`` alone.
    normalise : bool, default True
        Whether the kernel of each member was divided by its mean diagonal.
    exact : bool, default False
        Whether it has no member error and holds at any width.
    features : tuple of str, default ()
        Places whose features were added up, or parameters whose gradients were.
    binned : tuple of str, default ()
        Parameters whose gradients were summed in bins with random signs.
    calibrated : int, default 0
        Samples on which batch norms were calibrated first.
    remarks : tuple of str, default ()
        Further remarks for the reader.
    versions : dict, optional
        Versions of netgrain, Python and PyTorch.

    Examples
    --------
    >>> KernelAbout("sampled", model="MLP", members=8, seed=0).members
    8
    """

    method: KernelMethod
    model: str = ""
    members: int = 0
    seed: int | None = None
    normalise: bool = True
    exact: bool = False
    features: tuple[str, ...] = ()
    binned: tuple[str, ...] = ()
    calibrated: int = 0
    remarks: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=versions)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel over samples, averaged over the members of a family.

    Parameters
    ----------
    kind : {"layers", "last", "tangent"}
        The features of every layer, those of the last one, or gradients by the weights.
    matrix : Tensor of shape (n, m)
        The mean over members, float64.
    parts : Tensor of shape (members, n, m), optional
        The kernel of each member; None for a closed form.
    about : KernelAbout
        How it was obtained.

    See Also
    --------
    kernel : Makes one.

    Examples
    --------
    >>> parts = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.5], [0.5, 1.0]]])
    >>> K = Kernel("last", parts.mean(0), parts, KernelAbout("sampled", model="MLP", members=2))
    >>> K
    Kernel(last layer of MLP, 2 × 2, 2 members, relative error 0.24)
    >>> K.stderr.tolist()
    [[0.0, 0.25], [0.25, 0.0]]
    """

    kind: KernelKind
    matrix: Tensor
    parts: Tensor | None
    about: KernelAbout

    def __post_init__(self) -> None:
        if self.matrix.dim() != 2:
            raise NetgrainError(f"matrix expects shape (n, m), found {tuple(self.matrix.shape)}.")
        if self.parts is not None and self.parts.shape[1:] != self.matrix.shape:
            raise NetgrainError(
                f"parts expects shape (members, n, m) with (n, m) = {tuple(self.matrix.shape)}, found "
                f"{tuple(self.parts.shape)}."
            )
        object.__setattr__(self, "matrix", self.matrix.double())
        object.__setattr__(self, "parts", None if self.parts is None else self.parts.double())

    @property
    def members(self) -> int:
        """Number of networks behind it; 0 for a closed form."""
        return self.about.members

    @property
    def method(self) -> KernelMethod:
        """How it was obtained: "closed-form", "sampled" or "given"."""
        return self.about.method

    @property
    def stderr(self) -> Tensor:
        """Standard error of every entry over members, (n, m).

        Zero for a closed form and for one given model, which have no member error; NaN for one
        sampled member, whose error cannot be known.
        """
        if self.about.method != "sampled":
            return torch.zeros_like(self.matrix)
        if self.parts is None or len(self.parts) < 2:
            return torch.full_like(self.matrix, math.nan)
        return self.parts.std(0) / math.sqrt(len(self.parts))

    @property
    def relative_error(self) -> float:
        """Norm of the standard errors divided by the norm of the matrix."""
        size = float(self.matrix.norm())
        return float(self.stderr.norm()) / size if size else 0.0

    def __repr__(self) -> str:
        n, m = self.matrix.shape
        of = f"{SAYS[self.kind]} of {self.about.model}" if self.about.model else SAYS[self.kind]
        return f"Kernel({of}, {n} × {m}, {self._how()})"

    def _repr_html_(self) -> str:
        n, m = self.matrix.shape
        rows = [("network", self.about.model), ("features", SAYS[self.kind]), ("samples", f"{n} × {m}")]
        rows += [("obtained", self._how()), *(("", remark) for remark in self.about.remarks)]
        return snippet("Kernel", [row for row in rows if row[1]])

    def _how(self) -> str:
        if self.about.method == "closed-form":
            return "closed form" + (", exact at any width" if self.about.exact else ", the limit of wide layers")
        if self.about.method == "given":
            return "one given model"
        error = "unknown" if math.isnan(self.relative_error) else f"{self.relative_error:.2g}"
        return f"{self.members} member{'s' * (self.members != 1)}, relative error {error}"
