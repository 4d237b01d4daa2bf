"""The linear convolutional network over the rotations SO(3), band-limited, in isometric coordinates.

A function with bandwidth B on SO(3) has Fourier blocks f̂(l) of size (2l+1) × (2l+1), l < B, real for real signals in
the real basis of the spherical harmonics, and <f, h> = Σ_l (2l+1) tr(f̂(l)ᵀ ĥ(l)) (Haar mass one). A layer multiplies
blocks, so β̂(l) = ŵ_L(l) … ŵ_1(l), with the same bandwidth in every layer: nothing but training can remove a frequency.

Descent depends on the metric. In the isometric coordinates v(l) = √(2l+1) ŵ(l) it is descent on functions, and the
limit minimises Σ_l (2l+1) |b̂(l)|_{S_p}^p; descent on the raw coefficients ŵ would drop the weights 2l+1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from netgrain.equivariant.networks import LinearNetwork
from netgrain.equivariant.parametrisation import Array, EqualChains, MatrixChains
from netgrain.equivariant.penalties import BlockTransform, matrix_transform
from netgrain.equivariant.separable import separated_points
from netgrain.equivariant.solution import Limit, LimitOptions, solve
from netgrain.groups.so3 import SO3
from netgrain.runtime.errors import NetgrainError


def spherical_transform(bandwidth: int) -> BlockTransform:
    """Transform of band-limited functions on SO(3) in isometric coordinates.

    Blocks of size (2l+1) × (2l+1) with weights 2l+1, l < B.

    Parameters
    ----------
    bandwidth : int
        B.

    Returns
    -------
    BlockTransform
        On vectors of B(2B−1)(2B+1)/3 coordinates √(2l+1) f̂(l).

    Examples
    --------
    1 + 9 + 25 + 49 + 81 = 165.

    >>> spherical_transform(5).n
    165
    """
    if bandwidth < 1:
        raise NetgrainError(f"bandwidth expects at least 1, found {bandwidth}.")
    sizes = [2 * l + 1 for l in range(bandwidth)]
    return matrix_transform(sizes, sizes, f"SO(3) with l < {bandwidth}")


class SphericalNetwork(LinearNetwork):
    """Convolutions over SO(3) with l < B in every layer.

    Weights and inputs are isometric coordinates √(2l+1) f̂(l). A hidden layer is the correlation x̂(l) ŵ(l)ᵀ, the
    read-out an inner product. With `relu` hidden states are taken to the grid of 2B × B × 2B rotations, cut at zero
    there and projected back to l < B, so that the network is equivariant up to aliasing.

    Parameters
    ----------
    bandwidth : int
        B.
    depth : int, default 2
        Number of layers.
    relu : bool, default False
        Put a ReLU after every hidden layer.
    seed : int, default 0
        The initial weights depend on this seed alone.
    dtype : torch.dtype, default torch.float64
        Type of the weights.

    Examples
    --------
    The outputs at the unit vectors are the predictor.

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
        """Correlation with the filter of a layer, degree by degree.

        Parameters
        ----------
        h : Tensor of shape (batch, n)
            The hidden state.
        l : int
            Index of the layer, from 0.

        Returns
        -------
        Tensor
            The next hidden state, (batch, n), or the outputs (batch,).
        """
        w: Tensor = self.weights[l]
        if l == self.depth - 1:
            return (h * w).sum(-1)
        pairs = zip(self.blocks(h), self.blocks(w), strict=True)
        return self.flat([x @ v.mT for x, v in pairs])

    def activate(self, h: Tensor) -> Tensor:
        """ReLU on the grid of rotations, projected back to l < B.

        Parameters
        ----------
        h : Tensor of shape (batch, n)
            The hidden state.

        Returns
        -------
        Tensor of shape (batch, n)
            The next hidden state.
        """
        values = torch.relu(self.grid.inverse_fourier(self.blocks(h), real=True))
        return self.flat(list(self.grid.fourier(values, real=True))).to(h)

    def blocks(self, f: Tensor) -> list[Tensor]:
        """Fourier blocks f̂(l) of isometric coordinates.

        Parameters
        ----------
        f : Tensor of shape (..., n)
            The coordinates √(2l+1) f̂(l).

        Returns
        -------
        list of Tensor of shape (..., 2l+1, 2l+1)
            One per degree.
        """
        parts = f.split([d * d for d in self.grid.dimensions], -1)
        return [v.unflatten(-1, (d, d)) / math.sqrt(d) for v, d in zip(parts, self.grid.dimensions, strict=True)]

    def flat(self, blocks: Sequence[Tensor]) -> Tensor:
        """Isometric coordinates √(2l+1) f̂(l) of blocks.

        Parameters
        ----------
        blocks : sequence of Tensor of shape (..., 2l+1, 2l+1)
            One per degree.

        Returns
        -------
        Tensor of shape (..., n)
            The coordinates.
        """
        return torch.cat([math.sqrt(b.shape[-1]) * b.flatten(-2) for b in blocks], -1)

    def beta(self) -> Tensor:
        """Product of all layers, degree by degree, (n,)."""
        product = self.blocks(self.weights[0])
        for w in list(self.weights)[1:]:
            product = [v @ b for v, b in zip(self.blocks(w), product, strict=True)]
        return self.flat(product)

    def parametrisation(self) -> MatrixChains:
        """A chain of square matrices for every degree."""
        return MatrixChains(_families(self.grid.dimensions, self.grid.dimensions, self.depth, True))

    def transform(self) -> BlockTransform:
        """Blocks of all degrees with weights 2l + 1."""
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
    """Limit of a linear network over SO(3) under training to convergence.

    Every layer has the same bandwidth, so only training can remove a frequency.

    Parameters
    ----------
    bandwidth : int
        Bandwidth B: degrees l = 0, …, B − 1.
    X : Tensor of shape (points, B(2B−1)(2B+1)/3)
        Inputs in isometric coordinates √(2l+1) x̂(l), l after l, row by row.
    y : Tensor of shape (points,)
        Labels, −1 or +1.
    depth : int, default 2
        Number of layers L.
    method : {"flow", "ngd", "sgd"}, default "flow"
        As in `limit`.
    cap : float, default 1e5
        Largest inverse temperature of the flow relative to the margin.
    log_norm : float, default 1e4
        Logarithm of the norm of the weights at which the flow ends.
    epochs : int, default 10000
        Steps of ``"ngd"`` and ``"sgd"``.
    lr : float, default 0.01
        Learning rate of ``"sgd"``.
    seed : int, default 0
        The initial weights depend on this seed alone.

    Returns
    -------
    Limit
        The predictor at margin one, what it minimises, and certificates.

    Raises
    ------
    NetgrainError
        If the data are not linearly separable or training has not separated them.

    See Also
    --------
    limit : The same over a finite group.

    Examples
    --------
    With bandwidth 1 there is one coefficient, and margin one at x = 2 means β = 1/2.

    >>> round(spherical_limit(1, torch.tensor([[2.0]]), torch.tensor([1.0]), depth=2).beta.item(), 4)
    0.5
    """
    options = LimitOptions(method, cap, log_norm, epochs, lr)
    return limit_of(lambda L: SphericalNetwork(bandwidth, L, seed=seed), X, y, depth, options, "spherical", seed)


def limit_of(
    make: Callable[[int], LinearNetwork],  # by depth
    X: Tensor,
    y: Tensor,
    depth: int,
    options: LimitOptions,
    name: str,
    seed: int,
) -> Limit:
    """The limit of a network whose own transform is that in which it is measured."""
    network = make(depth)
    transform = network.transform()
    relaxed = None
    if depth > 2 and options.method == "flow":
        shallow = make(2)
        relaxed = (shallow.parametrisation(), shallow.flat_weights())
    return solve(
        network.parametrisation(),
        network.flat_weights(),
        separated_points(X, y, network.n, transform.name),
        options,
        transform=transform,
        fourier=transform,
        names=(name, transform.name),
        seed=seed,
        convex=depth <= 2,
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
    families = _families(sizes, weights, depth, isometric)
    return solve(
        MatrixChains(families),
        initial_blocks(families, seed),
        separated_points(X, y, fourier.n, fourier.name),
        LimitOptions(method, cap, log_norm, epochs, lr),
        transform=fourier,
        fourier=fourier,
        names=("block network", f"blocks of sizes {', '.join(map(str, sizes))}"),
        seed=seed,
        convex=depth <= 2,
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
