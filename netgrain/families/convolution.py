"""The index map of a convolution: which input position meets which output position under which kernel entry.

With zero-mean uncorrelated weights of variance v, the gradient at the input has second moment

    E[∇x ∇xᵀ] = v · Σ_Δ S_Δ Q S_Δᵀ,      Q = Σ_o E[g_o g_oᵀ],

where S_Δ puts output position q at input position stride·q + dilation·Δ − padding. `Taps` is that map along one axis;
everything here works in any number of dimensions with its plain slices, and no index table is built.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Taps:
    """One axis of a convolution: output q meets input stride·q + dilation·t − padding through kernel entry t."""

    size: int  # input positions
    out: int  # output positions
    kernel: int
    stride: int = 1
    padding: int = 0  # before the first input
    dilation: int = 1

    @property
    def does_nothing(self) -> bool:
        """Output q meets input q, and no other."""
        return (self.kernel, self.stride, self.padding) == (1, 1, 0) and self.size == self.out

    def windows(self) -> list[tuple[slice, slice]]:
        """For each kernel entry, the outputs that see the image through it, and the inputs they see."""
        found = []
        for t in range(self.kernel):
            offset = self.dilation * t - self.padding
            first = max(0, math.ceil(-offset / self.stride))
            last = min(self.out - 1, (self.size - 1 - offset) // self.stride)
            count = max(0, last + 1 - first)
            start = self.stride * first + offset if count else 0
            stop = start + self.stride * (count - 1) + 1 if count else 0
            found.append((slice(first, first + count), slice(start, stop, self.stride)))
        return found


def gathered(T: Tensor, a: int, b: int, taps: Taps) -> Tensor:
    """Σ_t T[s·q+t, s·q'+t] over two dimensions of a tensor: from inputs to outputs."""
    return _summed(T, a, b, taps.out, taps.windows())


def scattered(T: Tensor, a: int, b: int, taps: Taps) -> Tensor:
    """The adjoint of `gathered`: from outputs to inputs."""
    return _summed(T, a, b, taps.size, [(inputs, outputs) for outputs, inputs in taps.windows()])


def unfolded(T: Tensor, axis: int, taps: Taps) -> Tensor:
    """T[s·q+t] along one dimension that becomes two, (kernel entries, out), with zeros beside the image."""
    out = T.new_zeros(*T.shape[:axis], taps.kernel, taps.out, *T.shape[axis + 1 :])
    before = (slice(None),) * axis
    for entry, (outputs, inputs) in enumerate(taps.windows()):
        out.select(axis, entry)[(*before, outputs)] = T[(*before, inputs)]
    return out


def _summed(T: Tensor, a: int, b: int, size: int, pairs: list[tuple[slice, slice]]) -> Tensor:
    """Slices of two dimensions added up where each belongs."""

    def at(where: slice) -> tuple[slice, ...]:
        return tuple(where if k in (a, b) else slice(None) for k in range(T.dim()))

    out = T.new_zeros([size if k in (a, b) else n for k, n in enumerate(T.shape)])
    for into, of in pairs:
        out[at(into)] += T[at(of)]
    return out


def _moved(T: Tensor, axis: int, size: int, pairs: list[tuple[slice, slice]]) -> Tensor:
    """Slices of one dimension added up where each belongs."""
    out = T.new_zeros([size if k == axis else n for k, n in enumerate(T.shape)])
    before = (slice(None),) * axis
    for into, of in pairs:
        out[(*before, into)] += T[(*before, of)]
    return out


@dataclass(frozen=True)
class ConvStem:
    """Sizes of one convolution, one entry per spatial dimension (padding: before and after)."""

    spatial: tuple[int, ...]  # input positions
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]

    @property
    def out(self) -> tuple[int, ...]:
        """Output positions per dimension."""
        return tuple(
            (n + lo + hi - dil * (k - 1) - 1) // s + 1
            for n, (lo, hi), k, s, dil in zip(
                self.spatial, self.padding, self.kernel, self.stride, self.dilation, strict=True
            )
        )

    @property
    def size(self) -> int:
        return math.prod(self.spatial)

    @property
    def out_size(self) -> int:
        return math.prod(self.out)

    @property
    def is_patching(self) -> bool:
        """Every input position lies under exactly one kernel entry of one window (a patch embedding)."""
        return (
            self.kernel == self.stride
            and all(p == (0, 0) for p in self.padding)
            and all(d == 1 for d in self.dilation)
            and all(n % k == 0 for n, k in zip(self.spatial, self.kernel, strict=True))
        )

    @property
    def is_square(self) -> bool:
        """Two spatial dimensions that are treated alike."""
        sizes = (self.spatial, self.kernel, self.stride, self.padding, self.dilation)
        return len(self.spatial) == 2 and all(a == b for a, b in sizes)

    @property
    def taps(self) -> list[Taps]:
        """The same along each dimension."""
        sizes = zip(self.spatial, self.out, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return [Taps(n, m, k, s, lo, dil) for n, m, k, s, (lo, _), dil in sizes]

    def _windows(self) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """For each kernel entry Δ, the output positions that see the image through it, and the inputs they see."""
        for entry in itertools.product(*(taps.windows() for taps in self.taps)):
            yield tuple(outputs for outputs, _ in entry), tuple(inputs for _, inputs in entry)

    def push(self, Q: Tensor) -> Tensor:
        """Σ_Δ S_Δ Q S_Δᵀ: from (out, out) to (input, input)."""
        H = Q.new_zeros(self.spatial * 2)
        view = Q.reshape(self.out * 2)
        for outputs, inputs in self._windows():
            H[inputs * 2] += view[outputs * 2]
        return H.reshape(self.size, self.size)

    def pull(self, H: Tensor) -> Tensor:
        """The adjoint of `push`: Σ_Δ S_Δᵀ H S_Δ, from (input, input) to (out, out)."""
        Q = H.new_zeros(self.out * 2)
        view = H.reshape(self.spatial * 2)
        for outputs, inputs in self._windows():
            Q[outputs * 2] += view[inputs * 2]
        return Q.reshape(self.out_size, self.out_size)

    def pushed_and_pulled(self, Q: Tensor) -> Tensor:
        """pull(push(Q)), from (out, out) to (out, out), one dimension after the other: no (input, input) in between."""
        view = Q.reshape(self.out * 2)
        for k, taps in enumerate(self.taps):
            pair = k, len(self.out) + k
            view = gathered(scattered(view, *pair, taps), *pair, taps)
        return view.reshape(self.out_size, self.out_size)

    def gather(self, V: Tensor) -> Tensor:
        """S_Δᵀ v for every Δ: from (batch, input) to (batch, kernel entries, out)."""
        view, every = V.reshape(len(V), *self.spatial), slice(None)
        seen = V.new_zeros(len(V), math.prod(self.kernel), *self.out)
        for entry, (outputs, inputs) in enumerate(self._windows()):
            seen[:, entry][(every, *outputs)] = view[(every, *inputs)]
        return seen.flatten(2)

    def scatter(self, U: Tensor) -> Tensor:
        """Σ_Δ S_Δ u_Δ: from (batch, kernel entries, out) to (batch, input)."""
        total, every = U.new_zeros(len(U), *self.spatial), slice(None)
        for entry, (outputs, inputs) in enumerate(self._windows()):
            total[(every, *inputs)] += U[:, entry].reshape(len(U), *self.out)[(every, *outputs)]
        return total.reshape(len(U), self.size)

    def window_sums(self, V: Tensor) -> Tensor:
        """Σ_Δ S_Δᵀ v, the sum of what every output position sees: from (batch, input) to (batch, out)."""
        view = V.reshape(len(V), *self.spatial)
        for axis, taps in enumerate(self.taps, start=1):
            view = _moved(view, axis, taps.out, taps.windows())
        return view.reshape(len(V), self.out_size)

    def overlaps(self) -> tuple[Tensor, Tensor, Tensor]:
        """Pairs of output positions (i, j) whose windows share inputs, and how many: the entries of UᵀU."""
        first = second = torch.zeros(1, dtype=torch.int64)
        shared = torch.ones(1, dtype=torch.float64)
        for taps in self.taps:
            seen = _moved(torch.eye(taps.size, dtype=torch.float64), 1, taps.out, taps.windows())  # (input, out)
            common = seen.T @ seen
            a, b = common.nonzero().T
            first = (first[:, None] * taps.out + a).flatten()
            second = (second[:, None] * taps.out + b).flatten()
            shared = (shared[:, None] * common[a, b]).flatten()
        return first, second, shared

    def scattered_alike(self, U: Tensor) -> Tensor:
        """The adjoint, Σ_Δ S_Δ u with one and the same u: from (batch, out) to (batch, input)."""
        view = U.reshape(len(U), *self.out)
        for axis, taps in enumerate(self.taps, start=1):
            view = _moved(view, axis, taps.size, [(inputs, outputs) for outputs, inputs in taps.windows()])
        return view.reshape(len(U), self.size)
