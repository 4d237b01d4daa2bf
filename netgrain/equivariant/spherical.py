"""The linear convolutional network over the rotations SO(3), band-limited, in isometric coordinates.

A function with bandwidth B on SO(3) has Fourier blocks f̂(l) of size (2l+1) × (2l+1), l < B, real for real signals in
the real basis of the spherical harmonics, and <f, h> = Σ_l (2l+1) tr(f̂(l)ᵀ ĥ(l)) (Haar mass one). A layer multiplies
blocks, so β̂(l) = ŵ_L(l) … ŵ_1(l), with the same bandwidth in every layer: nothing but training can remove a frequency.

Descent depends on the metric. In the isometric coordinates v(l) = √(2l+1) ŵ(l) it is descent on functions, and the
limit minimises Σ_l (2l+1) |b̂(l)|_{S_p}^p; descent on the raw coefficients ŵ would drop the weights 2l+1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from netgrain.equivariant.limits import signed_points
from netgrain.equivariant.networks import LinearNetwork
from netgrain.equivariant.parametrisation import Array, EqualChains, MatrixChains
from netgrain.equivariant.penalties import BlockTransform, matrix_transform
from netgrain.equivariant.separable import check_separable
from netgrain.equivariant.solution import Limit, solve
from netgrain.groups.so3 import SO3
from netgrain.runtime.errors import NetgrainError


def spherical_transform(bandwidth: int) -> BlockTransform:
    """Blocks (2l+1) × (2l+1) with weights 2l+1, l < B: B(2B−1)(2B+1)/3 coefficients.

    >>> spherical_transform(5).n
    165
    """
    if bandwidth < 1:
        raise NetgrainError(f"bandwidth expects at least 1, found {bandwidth}.")
    sizes = [2 * l + 1 for l in range(bandwidth)]
    return matrix_transform(sizes, sizes, f"SO(3) with l < {bandwidth}")


class SphericalNetwork(LinearNetwork):
    """Convolutions over SO(3) with l < B in every layer; weights and inputs are isometric coordinates √(2l+1) f̂(l).

    A hidden layer is the correlation x̂(l) ŵ(l)ᵀ, the read-out an inner product. With `relu=True` hidden states are
    taken to the grid of 2B × B × 2B rotations, cut at zero there and projected back to l < B (so equivariant up to
    aliasing). Inputs are (batch, B(2B−1)(2B+1)/3).

    >>> net = SphericalNetwork(3, depth=2, seed=0)
    >>> x = torch.eye(35, dtype=torch.float64)
    >>> bool(torch.allclose(net(x), net.beta()))
    True
    """

    def __init__(
        self,
        bandwidth: int,
        depth: int = 2,
        *,
        relu: bool = False,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(spherical_transform(bandwidth).n, depth, relu)
        self.grid = SO3(bandwidth)
        self._draw([(self.n,)] * depth, [math.sqrt(3 / self.n)] * depth, seed, dtype)

    def layer(self, h: Tensor, l: int) -> Tensor:
        w: Tensor = self.weights[l]
        if l == self.depth - 1:
            return (h * w).sum(-1)
        pairs = zip(self.blocks(h), self.blocks(w), strict=True)
        return self.flat([x @ v.mT for x, v in pairs])

    def activate(self, h: Tensor) -> Tensor:
        values = torch.relu(self.grid.inverse_fourier(self.blocks(h), real=True))
        return self.flat(list(self.grid.fourier(values, real=True))).to(h)

    def blocks(self, f: Tensor) -> list[Tensor]:
        """f̂(l), (..., 2l+1, 2l+1), of isometric coordinates (..., n)."""
        parts = f.split([d * d for d in self.grid.dimensions], -1)
        return [v.unflatten(-1, (d, d)) / math.sqrt(d) for v, d in zip(parts, self.grid.dimensions, strict=True)]

    def flat(self, blocks: Sequence[Tensor]) -> Tensor:
        """Isometric coordinates √(2l+1) f̂(l) of blocks."""
        return torch.cat([math.sqrt(b.shape[-1]) * b.flatten(-2) for b in blocks], -1)

    def beta(self) -> Tensor:
        product = self.blocks(self.weights[0])
        for w in list(self.weights)[1:]:
            product = [v @ b for v, b in zip(self.blocks(w), product, strict=True)]
        return self.flat(product)

    def parametrisation(self) -> MatrixChains:
        return MatrixChains(_families(self.grid.dimensions, self.grid.dimensions, self.depth, True))

    def transform(self) -> BlockTransform:
        return spherical_transform(self.grid.bandwidth)


def spherical_limit(
    bandwidth: int,
    X: Tensor,  # (points, B(2B-1)(2B+1)/3), isometric coordinates
    y: Tensor,
    *,
    depth: int = 2,
    method: str = "flow",
    cap: float = 1e5,
    log_norm: float = 1e4,
    epochs: int = 10_000,
    lr: float = 0.01,
    seed: int = 0,
) -> Limit:
    """Where the linear SO(3) network of equal bandwidth goes; X holds √(2l+1) x̂(l), l after l, row by row."""
    network = SphericalNetwork(bandwidth, depth, seed=seed)
    transform = network.transform()
    Z = signed_points(X, y, network.n, transform.name)
    check_separable(Z)
    relaxed = None
    if depth > 2 and method == "flow":
        shallow = SphericalNetwork(bandwidth, 2, seed=seed)
        relaxed = (shallow.parametrisation(), shallow.flat_weights())
    return solve(
        network.parametrisation(),
        network.flat_weights(),
        Z,
        transform=transform,
        fourier=transform,
        names=("spherical", transform.name),
        seed=seed,
        convex=depth <= 2,
        method=method,
        cap=cap,
        log_norm=log_norm,
        epochs=epochs,
        lr=lr,
        relaxed=relaxed,
    )


def block_limit(
    sizes: Sequence[int],
    weights: Sequence[float],
    X: Tensor,  # (points, Σ size²), isometric coordinates
    y: Tensor,
    *,
    depth: int = 2,
    isometric: bool = True,
    method: str = "flow",
    cap: float = 1e5,
    log_norm: float = 1e4,
    epochs: int = 10_000,
    lr: float = 0.01,
    seed: int = 0,
) -> Limit:
    """The limit of β̂_b = ŵ_{L,b} … ŵ_{1,b} for real square blocks with weights c_b.

    `isometric=True` trains v_b = √c_b ŵ_b, whose length is that of the function, and minimises Σ c_b |b̂_b|^p. With
    `isometric=False` the raw ŵ_b are trained, and what is minimised is Σ |b̂_b|^p without weights: the certificates,
    which are those of the weighted problem, then rightly fail.
    """
    if len(sizes) != len(weights) or not sizes:
        raise NetgrainError(f"blocks expect one weight each, found {len(sizes)} sizes and {len(weights)} weights.")
    if depth < 1:
        raise NetgrainError(f"depth expects a whole number of layers, at least 1; found {depth}.")
    fourier = matrix_transform(sizes, weights)
    Z = signed_points(X, y, fourier.n, fourier.name)
    check_separable(Z)
    families = _families(sizes, weights, depth, isometric)
    network = MatrixChains(families)
    return solve(
        network,
        initial_blocks(families, seed),
        Z,
        transform=fourier,
        fourier=fourier,
        names=("block network", f"blocks of sizes {', '.join(map(str, sizes))}"),
        seed=seed,
        convex=depth <= 2,
        method=method,
        cap=cap,
        log_norm=log_norm,
        epochs=epochs,
        lr=lr,
    )


def _families(sizes: Sequence[int], weights: Sequence[float], depth: int, isometric: bool) -> tuple[EqualChains, ...]:
    """Chains whose product is √c_b b̂_b, in terms of √c_b ŵ_b or of ŵ_b."""
    return tuple(
        EqualChains(1, (d,) * (depth + 1), float(c) ** ((1 - depth) / 2) if isometric else math.sqrt(c))
        for d, c in zip(sizes, weights, strict=True)
    )


def initial_blocks(families: Sequence[EqualChains], seed: int) -> Array:
    """Gaussian weights, all coordinates alike, so that a layer has length one on average."""
    rng = np.random.default_rng(seed)
    size = sum(math.prod(s) for f in families for s in f.shapes)
    draw: Array = rng.standard_normal(size) / math.sqrt(size / families[0].depth)
    return draw
