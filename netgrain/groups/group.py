"""A finite group, its irreps and its Fourier transform.

Elements are numbered 0..n-1 and 0 is the identity; T[a, b] is the index of ab. Functions on the group are tensors
(..., n). Conventions, with ρ unitary and d = dim ρ:

    f̂(ρ) = Σ_g f(g) ρ(g)                          f(g) = (1/n) Σ_ρ d tr(f̂(ρ) ρ(g)⁺)
    (f * h)(u) = Σ_v f(uv⁻¹) h(v)                 (f * h)^ = f̂ ĥ
    (x ⊙ w)(u) = Σ_v x(uv) w(v)                   (x ⊙ w)^ = x̂ ŵ⁺ for real w
    ⟨f, h⟩ = (1/n) Σ_ρ d tr(f̂⁺ ĥ)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from netgrain.groups.axioms import Ints, conjugacy_labels, element_orders
from netgrain.groups.fourier import Fourier, check_blocks
from netgrain.groups.structure import AnyStructure, Table
from netgrain.groups.transform_choice import canonical_order, check_bytes, transform_for
from netgrain.groups.transforms import DenseTransform, Transform, entries_by_size, permuted
from netgrain.runtime.errors import NetgrainError

FAST = 192  # from this order on convolutions of a structured group go through its transform
CHEAP = 256  # irreps of a group without structure are found unasked, for its repr, up to this order


@dataclass(frozen=True, eq=False, repr=False)
class Irrep:
    """An irreducible unitary representation ρ of a group.

    Made by ``group.irreps``.

    Attributes
    ----------
    group : Group
        The group.
    index : int
        Its place in ``group.irreps``.
    dimension : int
        d, the size of the matrices.
    matrices : Tensor of shape (n, d, d)
        ρ(g) at every element, complex128, evaluated on first use.
    character : Tensor of shape (n,)
        χ(g) = tr ρ(g), complex128.

    Examples
    --------
    The character of the two-dimensional irrep of D8 is 2 at e, −2 at the half turn r² (index 4), and 0 elsewhere.

    >>> from netgrain.groups import dihedral
    >>> dihedral(order=8).irreps[4].character.real.round().int().tolist()
    [2, 0, 0, 0, -2, 0, 0, 0]
    """

    group: Group
    index: int
    dimension: int
    _size: int
    _slot: int

    @cached_property
    def matrices(self) -> Tensor:
        check_bytes(self.group.name, f"matrices of irrep {self.index}", 16 * self.group.order * self.dimension**2)
        return self.at(range(self.group.order))

    def at(self, elements: Sequence[int] | Tensor) -> Tensor:
        """Matrices ρ(g) at some elements.

        Parameters
        ----------
        elements : sequence of int or Tensor
            Indices of the elements.

        Returns
        -------
        Tensor of shape (elements, d, d)
            The matrices, complex128.
        """
        chosen = np.asarray(elements, dtype=np.int64)
        return torch.from_numpy(np.ascontiguousarray(self.group._transform.matrices(self._size, self._slot, chosen)))

    @cached_property
    def character(self) -> Tensor:
        """χ(g) at every element, (n,) complex128."""
        first = [int(members[0]) for members in self.group.classes]
        traces = torch.diagonal(self.at(first), dim1=-2, dim2=-1).sum(-1)
        return traces[torch.from_numpy(self.group._labels)]

    @property
    def frobenius_schur(self) -> int:
        """Type of ρ, (1/n) Σ_g χ(g²): 1 real, 0 complex, −1 quaternionic."""
        return int(self.group._indicators[self.index])

    def __repr__(self) -> str:
        kind = {1: "real", 0: "complex", -1: "quaternionic"}[self.frobenius_schur]
        return f"Irrep(ρ{self.index} of {self.group.name}, dimension {self.dimension}, {kind})"


@dataclass(frozen=True, eq=False, repr=False)
class Group:
    """A finite group with its irreps and its Fourier transform.

    Elements are numbered 0, …, n − 1 and 0 is the identity. Functions on the group are tensors (..., n). Build groups
    with `cyclic`, `dihedral`, `symmetric`, `direct`, `semidirect`, `from_cayley` and the other functions of
    `netgrain.groups`, or by name with `parse`. Conventions, with ρ unitary and d = dim ρ::

        f̂(ρ) = Σ_g f(g) ρ(g)                 f(g) = (1/n) Σ_ρ d tr(f̂(ρ) ρ(g)⁺)
        (f * h)(u) = Σ_v f(uv⁻¹) h(v)        (f * h)^ = f̂ ĥ
        (x ⊙ w)(u) = Σ_v x(uv) w(v)          (x ⊙ w)^ = x̂ ŵ⁺ for real w
        ⟨f, h⟩ = (1/n) Σ_ρ d tr(f̂⁺ ĥ)

    Attributes
    ----------
    name : str
        Its name.
    structure : Table, Abelian, Direct or Semidirect
        How elements are multiplied; netgrain chooses the transform by it.
    order : int
        Number of elements n.
    cayley : Tensor of shape (n, n)
        Index of ab, int64; computed on first use.
    inverse : Tensor of shape (n,)
        Index of g⁻¹.
    names : tuple of str
        Names of the elements.
    generators : tuple of int
        A few elements that generate the group.
    classes : tuple of Tensor
        Conjugacy classes, ordered by their first elements; the first is {e}.
    class_orders : tuple of int
        The order of the elements of each class.
    irreps : tuple of Irrep
        Sorted by dimension, then by characters at elements 1, 2, …, descending: the trivial one comes first.
    dimensions : tuple of int
        Dimensions of the irreps, ascending.
    character_table : Tensor of shape (irreps, classes)
        χ_ρ(C), complex128.

    References
    ----------
    .. [1] Lawrence, Georgiev, Dienes, Kiani, "Implicit Bias of Linear Equivariant Networks", ICML 2022,
       arXiv:2110.06084: convolution, Fourier transform and their conventions.
    .. [2] Mackey, "Imprimitivity for representations of locally compact groups I", PNAS 35 (1949): irreps of semidirect
       products.

    Examples
    --------
    >>> from netgrain.groups import dihedral
    >>> G = dihedral(order=8)
    >>> G
    Group(D8, order 8, 5 classes, irreps 4×1 + 1×2)
    >>> G.cayley[2, 1].item(), G.names[3]
    (3, 'rs')
    """

    name: str
    structure: AnyStructure
    _name_all: Callable[[], Sequence[str]] | None = field(default=None)

    @property
    def order(self) -> int:
        """Number of elements."""
        return self.structure.order

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """Index of ab, entrywise and without the table.

        Parameters
        ----------
        a, b : Tensor
            Indices of elements, of shapes that broadcast.

        Returns
        -------
        Tensor
            Indices of the products, int64.

        Examples
        --------
        >>> from netgrain.groups import cyclic
        >>> cyclic(5).multiply(torch.tensor([1, 2, 3]), torch.tensor(4)).tolist()
        [0, 1, 2]
        """
        left, right = torch.broadcast_tensors(torch.as_tensor(a).cpu(), torch.as_tensor(b).cpu())
        return torch.from_numpy(np.asarray(self.structure.multiply(left.numpy(), right.numpy())))

    @cached_property
    def cayley(self) -> Tensor:
        """T[a, b] = index of ab, (n, n) int64; computed on first use."""
        if isinstance(self.structure, Table):
            return torch.from_numpy(self.structure.table)
        check_bytes(self.name, "Cayley table", 8 * self.order**2)
        a = np.arange(self.order)
        return torch.from_numpy(np.ascontiguousarray(self.structure.multiply(a[:, None], a[None, :])))

    @cached_property
    def inverse(self) -> Tensor:
        """Index of g⁻¹, (n,)."""
        return torch.from_numpy(np.ascontiguousarray(self.structure.inverse))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.order))) if self._name_all is None else tuple(self._name_all())

    @cached_property
    def generators(self) -> tuple[int, ...]:
        return tuple(self.structure.generators)

    @property
    def abelian(self) -> bool:
        """Whether gh = hg for all elements."""
        gens = np.array(self.generators, dtype=np.int64)
        multiply = self.structure.multiply
        return not len(gens) or bool((multiply(gens[:, None], gens) == multiply(gens, gens[:, None])).all())

    @cached_property
    def _labels(self) -> Ints:
        s = self.structure
        return conjugacy_labels(self.order, s.generators, s.multiply, s.inverse)

    @cached_property
    def classes(self) -> tuple[Tensor, ...]:
        """Conjugacy classes, ordered by their first elements; the first is {e}."""
        order = np.argsort(self._labels, kind="stable")
        return tuple(torch.from_numpy(c) for c in np.split(order, np.cumsum(np.bincount(self._labels))[:-1]))

    @cached_property
    def class_orders(self) -> tuple[int, ...]:
        """The order of the elements of each class."""
        first = np.array([int(c[0]) for c in self.classes])
        return tuple(element_orders(first, self.structure.multiply).tolist())

    @cached_property
    def _transform(self) -> Transform:
        return transform_for(self.structure, self.name)

    @cached_property
    def _slots(self) -> list[Ints]:
        """For each dimension the irreps of the transform in canonical order."""
        return canonical_order(self._transform)

    @cached_property
    def _layout(self) -> tuple[Tensor, Tensor] | None:
        """Where the entries of the blocks, in canonical order, are in the raw transform, and back; None: in place."""
        parts = zip(entries_by_size(self._transform), self._slots, strict=True)
        layout = np.concatenate([entries[slots].ravel() for entries, slots in parts])
        if np.array_equal(layout, np.arange(self.order)):
            return None
        return torch.from_numpy(layout), torch.from_numpy(np.argsort(layout))

    @cached_property
    def dimensions(self) -> tuple[int, ...]:
        """Dimensions of the irreps, ascending."""
        return tuple(d for d, count in self._transform.sizes for _ in range(count))

    @cached_property
    def irreps(self) -> tuple[Irrep, ...]:
        """Irreps by dimension, then by characters at elements 1, 2, …, descending; trivial first."""
        found: list[Irrep] = []
        for size, ((d, _), slots) in enumerate(zip(self._transform.sizes, self._slots, strict=True)):
            found += [Irrep(self, i, d, size, slot) for i, slot in enumerate(slots.tolist(), len(found))]
        return tuple(found)

    def _characters(self, elements: Ints) -> Tensor:
        """(irreps, elements), in canonical order."""
        parts = zip(self._transform.characters(elements), self._slots, strict=True)
        return torch.from_numpy(np.concatenate([found[slots] for found, slots in parts]))

    @cached_property
    def character_table(self) -> Tensor:
        """χ_ρ(C), (irreps, classes) complex128."""
        check_bytes(self.name, "character table", 16 * len(self.dimensions) ** 2)
        return self._characters(np.array([int(c[0]) for c in self.classes]))

    @cached_property
    def _indicators(self) -> tuple[int, ...]:
        every = np.arange(self.order)
        squares, times = np.unique(self.structure.multiply(every, every), return_counts=True)
        means = self._characters(squares).real @ torch.from_numpy(times).double() / self.order
        return tuple(int(v) for v in means.round().tolist())

    def fourier(self, f: Tensor) -> Fourier:
        """Fourier transform, f̂(ρ) = Σ_g f(g) ρ(g).

        Differentiable and batched over leading axes.

        Parameters
        ----------
        f : Tensor of shape (..., n)
            A function on the group, float32 or float64, real or complex.

        Returns
        -------
        Fourier
            One block (..., d, d) for every irrep.

        See Also
        --------
        inverse_fourier : The inverse transform.

        Examples
        --------
        On a cyclic group these are the absolute values of the discrete Fourier transform: 8, |1 − 3i|, |1 + 3i| and 6.

        >>> from netgrain.groups import cyclic
        >>> f = torch.tensor([1.0, 2.0, 0.0, 5.0])
        >>> [round(abs(block.item()), 3) for block in cyclic(4).fourier(f).blocks]
        [8.0, 3.162, 3.162, 6.0]
        """
        f = self._function(f, "f")
        raw = self._transform.raw(f)
        entries = raw if self._layout is None else permuted(raw, *self._layout)
        parts = entries.split([k * d * d for d, k in self._transform.sizes], dim=-1)
        stacks = tuple(part.unflatten(-1, (k, d, d)) for part, (d, k) in zip(parts, self._transform.sizes, strict=True))
        return Fourier(self, stacks, not f.is_complex())

    def _inverse_stacks(self, stacks: Sequence[Tensor]) -> Tensor:
        entries = torch.cat([stack.flatten(-3) for stack in stacks], dim=-1)
        if self._layout is not None:
            entries = permuted(entries, self._layout[1], self._layout[0])
        return self._transform.back(entries)

    def inverse_fourier(self, blocks: Sequence[Tensor], *, real: bool = False) -> Tensor:
        """Function of given Fourier blocks, f(g) = Σ_ρ (d/n) tr(block ρ(g)⁺).

        Parameters
        ----------
        blocks : sequence of Tensor
            One (..., d, d) for every irrep, in the order of `irreps`.
        real : bool, default False
            Return the real part only.

        Returns
        -------
        Tensor of shape (..., n)
            The function, complex unless `real`.

        Raises
        ------
        NetgrainError
            If the blocks do not have the sizes of the irreps.

        Examples
        --------
        A function whose only block is that of the trivial irrep is constant.

        >>> from netgrain.groups import cyclic
        >>> blocks = [torch.full((1, 1), 6.0 * (i == 0), dtype=torch.complex128) for i in range(3)]
        >>> cyclic(3).inverse_fourier(blocks, real=True).round(decimals=6).tolist()
        [2.0, 2.0, 2.0]
        """
        check_blocks(blocks, self.dimensions)
        stacks, start = [], 0
        for _, count in self._transform.sizes:
            stacks.append(torch.stack(tuple(blocks[start : start + count]), dim=-3))
            start += count
        return Fourier(self, tuple(stacks), real).inverse()

    def convolve(self, f: Tensor, h: Tensor) -> Tensor:
        """Convolution, (f * h)(u) = Σ_v f(uv⁻¹) h(v).

        Batched; computed through the transform where that is faster.

        Parameters
        ----------
        f, h : Tensor of shape (..., n)
            Functions on the group, of batch shapes that broadcast.

        Returns
        -------
        Tensor of shape (..., n)
            The convolution.

        Examples
        --------
        Convolution with the indicator of an element translates.

        >>> from netgrain.groups import cyclic
        >>> cyclic(3).convolve(torch.tensor([0.0, 1.0, 0.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor([3., 1., 2.])
        """
        f, h = self._pair(f, h)
        if self._structured:
            return (self.fourier(f) @ self.fourier(h)).inverse()
        if f.numel() < h.numel():  # f[uv⁻¹] as a matrix, on the left
            return (f[..., self._right_quotient] @ h[..., None])[..., 0]
        return f @ self.regular(h) if h.ndim == 1 else (f[..., None, :] @ self.regular(h))[..., 0, :]

    def correlate(self, x: Tensor, w: Tensor) -> Tensor:
        """Cross-correlation, (x ⊙ w)(u) = Σ_v x(uv) w(v).

        The layer of a group CNN, equivariant under left translation.

        Parameters
        ----------
        x, w : Tensor of shape (..., n)
            Functions on the group, of batch shapes that broadcast.

        Returns
        -------
        Tensor of shape (..., n)
            The correlation.

        Examples
        --------
        A filter that looks at the next element:

        >>> from netgrain.groups import cyclic
        >>> cyclic(3).correlate(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 1.0, 0.0]))
        tensor([2., 3., 1.])
        """
        x, w = self._pair(x, w)
        if self._structured:
            return (self.fourier(x) @ self.fourier(w.conj()).adjoint()).inverse()
        if x.numel() < w.numel():
            return (x[..., self.cayley] @ w[..., None])[..., 0]
        return x @ self.regular(w).mT if w.ndim == 1 else (self.regular(w) @ x[..., None])[..., 0]

    def regular(self, beta: Tensor) -> Tensor:
        """Matrix of right convolution, C(β)[x, y] = β(x⁻¹y).

        f * β = f C(β). Its singular values are those of the blocks β̂(ρ), each d times, so they can be found without
        irreps.

        Parameters
        ----------
        beta : Tensor of shape (..., n)
            A function on the group.

        Returns
        -------
        Tensor of shape (..., n, n)
            The matrix.

        Examples
        --------
        On a cyclic group it is circulant.

        >>> from netgrain.groups import cyclic
        >>> cyclic(3).regular(torch.tensor([1.0, 2.0, 3.0])).tolist()
        [[1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [2.0, 3.0, 1.0]]
        """
        return self._function(beta, "beta")[..., self._left_quotient]

    def translate(self, g: int, f: Tensor) -> Tensor:
        """Left translate of a function, (L_g f)(x) = f(g⁻¹x).

        Parameters
        ----------
        g : int
            Index of the element.
        f : Tensor of shape (..., n)
            A function on the group.

        Returns
        -------
        Tensor of shape (..., n)
            The translate.

        Examples
        --------
        >>> from netgrain.groups import cyclic
        >>> cyclic(3).translate(1, torch.tensor([1.0, 2.0, 3.0]))
        tensor([3., 1., 2.])
        """
        every = np.arange(self.order)
        return f[..., torch.from_numpy(self.structure.multiply(np.full_like(every, int(self.inverse[g])), every))]

    def reorder(self, order: Sequence[int], name: str | None = None) -> Group:
        """The same group with its elements in another order.

        Parameters
        ----------
        order : sequence of int
            Element order[i] becomes the i-th; order[0] must be the identity 0.
        name : str, optional
            Name of the result; by default the same.

        Returns
        -------
        Group
            The group, by its table.

        Examples
        --------
        >>> from netgrain.groups import cyclic
        >>> cyclic(3).reorder([0, 2, 1]).names
        ('e', 'r^2', 'r')
        """
        moved = np.asarray(order, dtype=np.int64)
        if not np.array_equal(np.sort(moved), np.arange(self.order)) or moved[0] != 0:
            raise NetgrainError(
                f"an order of the elements lists each of 0..{self.order - 1} once, the identity 0 first."
            )
        back = np.argsort(moved)
        table = back[self.structure.multiply(moved[:, None], moved[None, :])]
        return Group(name or self.name, Table(table), lambda: [self.names[i] for i in moved])

    @cached_property
    def _left_quotient(self) -> Tensor:
        return self.cayley[self.inverse]

    @cached_property
    def _right_quotient(self) -> Tensor:
        return self.cayley[:, self.inverse]

    @property
    def _structured(self) -> bool:
        return (
            not isinstance(self.structure, Table)
            and self.order >= FAST
            and not isinstance(self._transform, DenseTransform)
        )

    def _function(self, f: Tensor, name: str) -> Tensor:
        if f.ndim < 1 or f.shape[-1] != self.order:
            raise NetgrainError(
                f"{name} is a function on {self.name}: its last axis has one value for each of the {self.order} "
                f"elements; found shape {tuple(f.shape)}."
            )
        return f if f.is_floating_point() or f.is_complex() else f.double()

    def _pair(self, f: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        f, h = self._function(f, "the first argument"), self._function(h, "the second argument")
        dtype = torch.promote_types(f.dtype, h.dtype)
        return f.to(dtype), h.to(dtype)

    def __getstate__(self) -> dict[str, object]:
        """What another process needs; irreps are found there again."""
        return {"name": self.name, "structure": self.structure, "_name_all": None, "names": self.names}

    def __deepcopy__(self, memo: object) -> Group:
        """Itself: nothing in it changes, and transforms over one group must stay over one group."""
        return self

    def __len__(self) -> int:
        return self.order

    def __repr__(self) -> str:
        parts = [self.name, f"order {self.order}"]
        if "_transform" in self.__dict__ or self.order <= CHEAP or not isinstance(self.structure, Table):
            irreps = " + ".join(f"{count}×{d}" for d, count in self._transform.sizes)
            parts += [f"{len(self.dimensions)} classes", f"irreps {irreps}"]
        return f"Group({', '.join(parts)})"
