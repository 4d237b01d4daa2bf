"""The index map of a convolution: which input position meets which output position under which kernel entry.

With zero-mean uncorrelated weights of variance v, the gradient at the input has second moment

    E[∇x ∇xᵀ] = v · Σ_Δ S_Δ Q S_Δᵀ,      Q = Σ_o E[g_o g_oᵀ],

where S_Δ puts output position q at input position stride·q + dilation·Δ − padding. Everything here works in any number
of spatial dimensions with plain slices of a padded canvas; no index table is built.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


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
    def _canvas(self) -> tuple[int, ...]:
        return tuple(n + lo + hi for n, (lo, hi) in zip(self.spatial, self.padding, strict=True))

    @property
    def _inside(self) -> tuple[slice, ...]:
        return tuple(slice(lo, lo + n) for n, (lo, _) in zip(self.spatial, self.padding, strict=True))

    def _windows(self) -> Iterator[tuple[slice, ...]]:
        """For each kernel entry Δ, the slice of the padded canvas that all output positions see through it."""
        for delta in itertools.product(*(range(k) for k in self.kernel)):
            yield tuple(
                slice(dil * t, dil * t + s * (m - 1) + 1, s)
                for t, dil, s, m in zip(delta, self.dilation, self.stride, self.out, strict=True)
            )

    def push(self, Q: Tensor) -> Tensor:
        """Σ_Δ S_Δ Q S_Δᵀ: from (out, out) to (input, input)."""
        canvas = Q.new_zeros(self._canvas * 2)
        view = Q.reshape(self.out * 2)
        for window in self._windows():
            canvas[window * 2] += view
        return canvas[self._inside * 2].reshape(self.size, self.size)

    def pull(self, H: Tensor) -> Tensor:
        """The adjoint of `push`: Σ_Δ S_Δᵀ H S_Δ, from (input, input) to (out, out)."""
        canvas = H.new_zeros(self._canvas * 2)
        canvas[self._inside * 2] = H.reshape(self.spatial * 2)
        total = H.new_zeros(self.out * 2)
        for window in self._windows():
            total += canvas[window * 2]
        return total.reshape(self.out_size, self.out_size)

    def gather(self, V: Tensor) -> Tensor:
        """S_Δᵀ v for every Δ: from (batch, input) to (batch, kernel entries, out)."""
        batch = V.shape[0]
        canvas = V.new_zeros((batch, *self._canvas))
        canvas[(slice(None), *self._inside)] = V.reshape(batch, *self.spatial)
        seen = [canvas[(slice(None), *window)].reshape(batch, -1) for window in self._windows()]
        return torch.stack(seen, dim=1)

    def scatter(self, U: Tensor) -> Tensor:
        """Σ_Δ S_Δ u_Δ: from (batch, kernel entries, out) to (batch, input)."""
        batch = U.shape[0]
        canvas = U.new_zeros((batch, *self._canvas))
        for entry, window in enumerate(self._windows()):
            canvas[(slice(None), *window)] += U[:, entry].reshape(batch, *self.out)
        return canvas[(slice(None), *self._inside)].reshape(batch, self.size)
