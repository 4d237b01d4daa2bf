"""Multilinear maps from the weights of a linear network to its predictor, with first and second derivatives.

A linear network of depth L without biases is NN(x) = <x, β(w)>, and β is a product in some algebra: of group functions
under convolution, or of matrices. Both are homogeneous of degree L, and the flow to the limit needs of them only
β, ∇_w <z, β(w)> and ∇²_w <z, β(w)>. Everything here is float64 numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class Parametrisation(Protocol):
    """A map w ↦ β(w), linear in each of the `depth` layers that the flat vector w is made of."""

    @property
    def depth(self) -> int: ...

    @property
    def size(self) -> int: ...  # length of w

    def beta(self, w: Array) -> Array: ...  # (n,)

    def gradients(self, w: Array, Z: Array) -> Array: ...  # Z (points, n) → (points, size): ∇_w <Z_i, β(w)>

    def hessian(self, w: Array, z: Array) -> Array: ...  # z (n,) → (size, size): ∇²_w <z, β(w)>


class Convolutions:
    """β = w_L * … * w_1, convolution of functions on a finite group, summed over the hidden channels.

    Layer l has shape (c_l, c_{l-1}, n) with c_0 = c_L = 1, and (f*h)(u) = Σ_v f(u v⁻¹) h(v). As a linear map of one
    layer, β = P * w_l * S with P = w_L * … * w_{l+1} and S = w_{l-1} * … * w_1, so ∇_{w_l} <z, β> = P~ * z * S~
    where f~(v) = f(v⁻¹).
    """

    def __init__(self, cayley: Indices, inverse: Indices, depth: int, channels: int = 1) -> None:
        self.depth, self.channels, self.n = depth, channels, len(inverse)
        self._cayley = cayley
        self._left = np.ascontiguousarray(cayley[:, inverse])  # f[_left] @ h = f * h
        self._right = np.ascontiguousarray(cayley[inverse].T)  # h[_right] @ f = f * h

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        widths = [1, *[self.channels] * (self.depth - 1), 1]
        return [(widths[l + 1], widths[l], self.n) for l in range(self.depth)]

    @property
    def size(self) -> int:
        return sum(math.prod(s) for s in self.shapes)

    def layers(self, w: Array) -> list[Array]:
        return split(w, self.shapes)

    def beta(self, w: Array) -> Array:
        beta = self._suffixes(self.layers(w))[-1]
        assert beta is not None
        first: Array = beta[0]
        return first

    def gradients(self, w: Array, Z: Array) -> Array:
        layers = self.layers(w)
        before, after = self._suffixes(layers), self._prefixes(layers)
        parts = [self._pull(after[l], Z, before[l]).reshape(len(Z), -1) for l in range(self.depth)]
        return np.concatenate(parts, axis=1)

    def hessian(self, w: Array, z: Array) -> Array:
        layers = self.layers(w)
        before, after = self._suffixes(layers), self._prefixes(layers)
        offsets = np.cumsum([0, *[math.prod(s) for s in self.shapes]])
        H = np.zeros((self.size, self.size))
        for i in range(self.depth - 1):
            between: Array | None = None  # w_{j-1} * … * w_{i+1}, from channel c_i to c_{j-1}
            for j in range(i + 1, self.depth):
                t = self._pull(after[j], z[None], before[i])[0]  # (c_j, c_{i-1}, n)
                tables = t[:, :, self._cayley]  # <t, f * h> = f · t[T] h
                if between is None:
                    equal = np.eye(layers[i].shape[0])
                    block = np.einsum("cdav,ef->ceafdv", tables, equal)
                else:
                    block = np.einsum("cdab,efbv->ceafdv", tables, between[:, :, self._left], optimize=True)
                rows, columns = slice(*offsets[j : j + 2]), slice(*offsets[i : i + 2])
                H[rows, columns] = block.reshape(H[rows, columns].shape)
                H[columns, rows] = H[rows, columns].T
                between = layers[j] if between is None else self._product(layers[j], between)
        return H

    def _product(self, f: Array, h: Array) -> Array:
        """(c, e, n) and (e, d, n) → (c, d, n)."""
        found: Array = np.einsum("ceuv,edv->cdu", f[:, :, self._left], h, optimize=True)
        return found

    def _suffixes(self, layers: list[Array]) -> list[Array | None]:
        """S_1 = δ (None), S_{l+1} = w_l * S_l: (c_{l-1}, n) each; the last is β."""
        found: list[Array | None] = [None]
        for w in layers:
            S = found[-1]
            if S is None:
                found.append(w[:, 0])
            elif self.channels == 1:
                found.append((S[0][self._right] @ w[0, 0])[None])
            else:
                found.append(np.einsum("dua,cda->cu", S[:, self._right], w, optimize=True))
        return found

    def _prefixes(self, layers: list[Array]) -> list[Array | None]:
        """P_l = w_L * … * w_{l+1}: (c_l, n) each, P_L = δ (None)."""
        found: list[Array | None] = [None]
        for w in reversed(layers[1:]):
            P = found[-1]
            if P is None:
                found.append(w[0])
            elif self.channels == 1:
                found.append((P[0][self._left] @ w[0, 0])[None])
            else:
                found.append(np.einsum("cuv,cdv->du", P[:, self._left], w, optimize=True))
        return found[::-1]

    def _pull(self, P: Array | None, Z: Array, S: Array | None) -> Array:
        """P~ * Z_i * S~ for every i: (points, c, d, n)."""
        pulled = Z[:, None] if P is None else np.stack([Z @ f[self._left] for f in P], axis=1)
        return pulled[:, :, None] if S is None else np.stack([pulled @ f[self._right] for f in S], axis=2)


@dataclass(frozen=True)
class EqualChains:
    """Equal chains of matrices: `count` products W_L … W_1 with W_l of shape (sizes[l], sizes[l-1]), times `scale`."""

    count: int
    sizes: tuple[int, ...]  # d_0, …, d_L
    scale: float = 1.0

    @property
    def depth(self) -> int:
        return len(self.sizes) - 1

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        return [(self.count, self.sizes[l + 1], self.sizes[l]) for l in range(self.depth)]

    @property
    def outputs(self) -> int:
        return self.count * self.sizes[-1] * self.sizes[0]


@dataclass(frozen=True, eq=False)
class MatrixChains:
    """β = products of matrices, block by block: β_b = scale_b W_{L,b} … W_{1,b}.

    One chain with sizes (n, m, …, m, 1) is the fully connected network, n chains of 1×1 matrices the diagonal one, and
    chains of square blocks a convolutional network in Fourier space.
    w holds all of layer 1 first (family after family), then all of layer 2.
    """

    families: tuple[EqualChains, ...]

    @property
    def depth(self) -> int:
        return self.families[0].depth

    @property
    def size(self) -> int:
        return sum(math.prod(s) for f in self.families for s in f.shapes)

    def layers(self, w: Array) -> list[list[Array]]:
        """Per family, per layer."""
        shapes = [f.shapes[l] for l in range(self.depth) for f in self.families]
        flat = split(w, shapes)
        k = len(self.families)
        return [[flat[l * k + f] for l in range(self.depth)] for f in range(k)]

    def beta(self, w: Array) -> Array:
        products = [f.scale * _after(Ws)[0] for f, Ws in zip(self.families, self.layers(w), strict=True)]
        return np.concatenate([p.reshape(-1) for p in products])

    def gradients(self, w: Array, Z: Array) -> Array:
        parts: list[list[Array]] = [[] for _ in range(self.depth)]
        at = 0
        for f, Ws in zip(self.families, self.layers(w), strict=True):
            z = f.scale * Z[:, at : at + f.outputs].reshape(len(Z), f.count, f.sizes[-1], f.sizes[0])
            at += f.outputs
            before, after = _before(Ws), _after(Ws)
            for l in range(self.depth):
                grad = after[l + 1].swapaxes(-1, -2) @ z @ before[l].swapaxes(-1, -2)
                parts[l].append(grad.reshape(len(Z), -1))
        return np.concatenate([g for layer in parts for g in layer], axis=1)

    def hessian(self, w: Array, z: Array) -> Array:
        H = np.zeros((self.size, self.size))
        k = len(self.families)
        sizes = [math.prod(f.shapes[l]) for l in range(self.depth) for f in self.families]
        offsets = np.cumsum([0, *sizes])
        at = 0
        for number, (f, Ws) in enumerate(zip(self.families, self.layers(w), strict=True)):
            here = f.scale * z[at : at + f.outputs].reshape(f.count, f.sizes[-1], f.sizes[0])
            at += f.outputs
            before, after = _before(Ws), _after(Ws)
            each = np.arange(f.count)
            for i in range(self.depth - 1):
                between = np.broadcast_to(np.eye(f.sizes[i + 1]), (f.count, f.sizes[i + 1], f.sizes[i + 1]))
                for j in range(i + 1, self.depth):
                    t = after[j + 1].swapaxes(-1, -2) @ here @ before[i].swapaxes(-1, -2)  # (count, d_j, d_{i-1})
                    block = np.einsum("kae,kbc->kabce", t, between)
                    rows = slice(*offsets[j * k + number : j * k + number + 2])
                    columns = slice(*offsets[i * k + number : i * k + number + 2])
                    view = np.zeros((f.count, block[0, :, :, 0, 0].size, f.count, block[0, 0, 0].size))
                    view[each, :, each, :] = block.reshape(f.count, view.shape[1], view.shape[3])
                    H[rows, columns] = view.reshape(H[rows, columns].shape)
                    H[columns, rows] = H[rows, columns].T
                    between = Ws[j] @ between
        return H


def split(w: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """The flat vector cut into arrays of these shapes."""
    ends = np.cumsum([math.prod(s) for s in shapes])
    return [part.reshape(s) for part, s in zip(np.split(w, ends[:-1]), shapes, strict=True)]


def _before(Ws: list[Array]) -> list[Array]:
    """S_1 = I, S_{l+1} = W_l S_l."""
    found = [np.broadcast_to(np.eye(Ws[0].shape[2]), (len(Ws[0]), Ws[0].shape[2], Ws[0].shape[2]))]
    for W in Ws:
        found.append(W @ found[-1])
    return found


def _after(Ws: list[Array]) -> list[Array]:
    """Element l is W_L … W_{l+1} (counted from 0: element 0 is the whole product, the last is I)."""
    found = [np.broadcast_to(np.eye(Ws[-1].shape[1]), (len(Ws[-1]), Ws[-1].shape[1], Ws[-1].shape[1]))]
    for W in reversed(Ws):
        found.append(found[-1] @ W)
    return found[::-1]
