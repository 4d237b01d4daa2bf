"""Networks on the sphere: a convolution from S² to SO(3), then convolutions over SO(3).

An input is a function with l < B on the sphere, coefficients x_l in R^{2l+1} (`netgrain.groups.sphere`). The first
layer correlates it with a filter on the sphere and gives a function on SO(3) with blocks x_l w_lᵀ/(2l+1); further
layers correlate over SO(3). A linear network is ⟨x, β⟩ with β_l = ŵ_L(l) … ŵ_2(l) w_1(l): one chain of
matrices per degree that ends in a vector, whose only singular value is its length. So training minimises

    Σ_l (2l+1) (‖b_l‖/√(2l+1))^{2/L},

which for L = 2 is a group lasso over degrees: entire degrees are removed, but nothing is sparse inside a degree.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from netgrain.equivariant.networks import LinearNetwork
from netgrain.equivariant.parametrisation import EqualChains, MatrixChains
from netgrain.equivariant.penalties import BlockTransform, column_transform
from netgrain.equivariant.solution import Limit, LimitOptions
from netgrain.equivariant.spherical import SphericalNetwork, limit_of
from netgrain.groups.so3 import SO3
from netgrain.groups.sphere import Sphere
from netgrain.runtime.errors import NetgrainError


def sphere_transform(bandwidth: int) -> BlockTransform:
    """Transform of band-limited functions on the sphere.

    One column x_l/√(2l+1) per degree, with weight 2l+1.

    Parameters
    ----------
    bandwidth : int
        B.

    Returns
    -------
    BlockTransform
        On vectors of B² coefficients.

    See Also
    --------
    spherical_transform : The transform of functions on SO(3).

    Examples
    --------
    A function of one degree l has the norm √(2l+1) ‖x‖ for p = 1; here l = 1.

    >>> round(sphere_transform(2).norm(torch.tensor([0.0, 3.0, 0.0, 4.0]), 1.0).item() ** 2, 6)
    75.0
    """
    sizes = Sphere(bandwidth).dimensions
    return column_transform(sizes, sizes, f"the sphere with l < {bandwidth}")


class SphereNetwork(SphericalNetwork):
    """Convolution from the sphere to SO(3), then convolutions over SO(3).

    All layers have l < B.

    Inputs are B² coefficients of functions on the sphere. The read-out is an inner product over SO(3). With `relu`
    hidden states are cut at zero on the grid of rotations.

    Parameters
    ----------
    bandwidth : int
        B.
    depth : int, default 2
        Number of layers. Depth 1 is the inner product on the sphere.
    relu : bool, default False
        Put a ReLU after every hidden layer.
    seed : int, default 0
        The initial weights depend on this seed alone.
    dtype : torch.dtype, default torch.float64
        Type of the weights.

    See Also
    --------
    SphericalNetwork : The same on functions of rotations.

    References
    ----------
    .. [1] Cohen, Geiger, Köhler, Welling, "Spherical CNNs", ICLR 2018, arXiv:1801.10130: the layers.

    Examples
    --------
    The outputs at the unit vectors are the predictor.

    >>> net = SphereNetwork(3, depth=3, seed=0)
    >>> x = torch.eye(9, dtype=torch.float64)
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
        LinearNetwork.__init__(self, Sphere(bandwidth).coefficients, depth, relu)
        self.sphere, self.grid = Sphere(bandwidth), SO3(bandwidth)
        sizes = [self.n] + [self.grid.coefficients] * (depth - 1)
        self._draw([(size,) for size in sizes], [math.sqrt(3 / size) for size in sizes], seed, dtype)

    def layer(self, h: Tensor, l: int) -> Tensor:
        """Correlation with the filter of a layer.

        On the sphere for the first layer, over SO(3) for the others.

        Parameters
        ----------
        h : Tensor of shape (batch, n)
            The hidden state, or the inputs.
        l : int
            Index of the layer, from 0.

        Returns
        -------
        Tensor
            The next hidden state, or the outputs (batch,).
        """
        if l > 0 or self.depth == 1:
            return super().layer(h, l)
        return self.flat(self.sphere.correlate(h, self.weights[0]))

    def beta(self) -> Tensor:
        """Product of all layers, degree by degree, (B²,)."""
        first: Tensor = self.weights[0]
        product = list(self.sphere.degrees(first))
        for w in list(self.weights)[1:]:
            product = [v @ b for v, b in zip(self.blocks(w), product, strict=True)]
        return torch.cat(product)

    def parametrisation(self) -> MatrixChains:
        """A chain for every degree: a vector, then square matrices."""
        return MatrixChains(
            tuple(
                EqualChains(1, (1, *[d] * self.depth), float(d) ** ((1 - self.depth) / 2)) for d in self.grid.dimensions
            )
        )

    def transform(self) -> BlockTransform:
        """One column per degree."""
        return sphere_transform(self.grid.bandwidth)


def sphere_limit(
    bandwidth: int,
    X: Tensor,  # (points, B²)
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
    """Limit of a linear network on the sphere under training to convergence.

    The first layer goes from the sphere to SO(3), the others stay there. The limit minimises
    Σ_l (2l+1) (‖b_l‖/√(2l+1))^{2/L} at margin one: at depth 2 a group lasso over degrees, certified by `dual_gap`.

    Parameters
    ----------
    bandwidth : int
        Bandwidth B: degrees l = 0, …, B − 1.
    X : Tensor of shape (points, B²)
        Coefficients of the inputs, as `netgrain.groups.sphere.Sphere` gives them.
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
        The predictor at margin one, what it minimises, and certificates. `ranks` has a 1 for each degree in use.

    Raises
    ------
    NetgrainError
        If the data are not linearly separable or training has not separated them.

    See Also
    --------
    spherical_limit : The same for functions on SO(3).

    Examples
    --------
    Two points with one coefficient each, in degrees 0 and 1: b_0 = 1/2 and b_1 = 1/4.

    >>> X = torch.tensor([[2.0, 0, 0, 0], [0, 0, 4, 0]])
    >>> found = sphere_limit(2, X, torch.tensor([1.0, 1.0]), depth=2)
    >>> [round(v, 3) + 0.0 for v in found.beta.tolist()], found.ranks
    ([0.5, 0.0, 0.25, 0.0], (1, 1))
    """
    options = LimitOptions(method, cap, log_norm, epochs, lr)
    return limit_of(lambda L: SphereNetwork(bandwidth, L, seed=seed), X, y, depth, options, "sphere", seed)


class RotationTransform(nn.Module):
    """Coordinates √(2l+1) f̂(l), l < B, to values on a grid of rotations and back, as two matrices.

    `finer` takes the grid of a larger bandwidth, on which the ReLU of a function is less aliased.
    """

    values: Tensor
    weights: Tensor

    def __init__(self, bandwidth: int, finer: int | None = None) -> None:
        super().__init__()
        known, grid = SO3(bandwidth), SO3(finer or bandwidth)
        if grid.bandwidth < bandwidth:
            raise NetgrainError(f"finer expects a bandwidth of at least {bandwidth}, found {finer}.")
        unit = torch.eye(known.coefficients, dtype=torch.float64)
        cut = zip(unit.split([d * d for d in known.dimensions], -1), known.dimensions, strict=True)
        parts = [v.unflatten(-1, (d, d)) / math.sqrt(d) for v, d in cut]
        parts += [torch.zeros(len(unit), d, d, dtype=torch.float64) for d in grid.dimensions[bandwidth:]]
        self.bandwidth, self.n, self.grid = bandwidth, known.coefficients, grid.grid
        self.register_buffer("values", grid.inverse_fourier(parts, real=True).flatten(1))  # (n, points)
        self.register_buffer("weights", grid.weights.flatten())  # (points,)

    def forward(self, f: Tensor) -> Tensor:
        """Values on the grid, (..., points)."""
        return f @ self.values

    def back(self, values: Tensor) -> Tensor:
        """Coordinates of values on the grid, projected to l < B, (..., n)."""
        return (values * self.weights) @ self.values.T


def rotation_features(x: Tensor, filters: Tensor, *, finer: int | None = None) -> Tensor:
    """Feature maps over SO(3) of functions on the sphere.

    A correlation with fixed filters, a ReLU on a grid of rotations, and the projection back to l < B. If x is rotated
    by Q, every map is moved by Q from the left, up to aliasing.

    Parameters
    ----------
    x : Tensor of shape (count, B²)
        Coefficients of functions on the sphere.
    filters : Tensor of shape (features, B²)
        Coefficients of the filters.
    finer : int, optional
        Bandwidth of the grid on which the ReLU acts; by default B.

    Returns
    -------
    Tensor of shape (count, features, B(2B−1)(2B+1)/3)
        Isometric coordinates √(2l+1) f̂(l).

    Examples
    --------
    >>> rotation_features(torch.ones(5, 9).double(), torch.ones(2, 9).double()).shape
    torch.Size([5, 2, 35])
    """
    B = math.isqrt(x.shape[-1])
    blocks = Sphere(B).correlate(x[:, None], filters[None])
    flat = torch.cat([math.sqrt(b.shape[-1]) * b.flatten(-2) for b in blocks], -1)
    turn = RotationTransform(B, finer)
    return turn.back(torch.relu(turn(flat)))


class InvariantRotationCNN(nn.Module):
    """Rotation-invariant network on feature maps over SO(3).

    A correlation over SO(3), a ReLU, the mean over all rotations, linear layers.

    As in spherical CNNs: layers over SO(3) followed by an integral over all rotations. A linear layer over SO(3) in
    front of the integral acts through its degree 0 alone and is one matrix here.

    Parameters
    ----------
    bandwidth : int
        B of the feature maps.
    features : int
        Number of feature maps.
    channels : int
        Hidden channels.
    inner : int, optional
        Bandwidth after the first layer; by default B. Degrees from this one on do not affect the output.
    finer : int, optional
        Bandwidth of the grid on which the ReLU acts; by default `inner`.
    seed : int, default 0
        The initial weights depend on this seed alone.

    References
    ----------
    .. [1] Cohen, Geiger, Köhler, Welling, "Spherical CNNs", ICLR 2018, arXiv:1801.10130.

    Examples
    --------
    >>> net = InvariantRotationCNN(3, features=2, channels=4)
    >>> net(torch.ones(5, 70, dtype=torch.float64)).shape
    torch.Size([5])
    """

    def __init__(
        self,
        bandwidth: int,
        features: int,
        channels: int,
        *,
        inner: int | None = None,
        finer: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        inner = bandwidth if inner is None else inner
        if not 1 <= inner <= bandwidth:
            raise NetgrainError(f"inner expects a bandwidth of 1 to {bandwidth}, found {inner}.")
        self.features, self.n = features, SO3(bandwidth).coefficients
        self.turn = RotationTransform(inner, finer)
        self.dimensions = SO3(inner).dimensions
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape: int, fan: int) -> nn.Parameter:
            uniform = 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1
            return nn.Parameter(uniform * math.sqrt(3 / fan))

        self.filters = nn.ParameterList([drawn(channels, features, d, d, fan=features * d) for d in self.dimensions])
        self.mixing = drawn(channels, channels, fan=channels)
        self.readout = drawn(channels, fan=channels)

    def forward(self, f: Tensor) -> Tensor:
        if f.ndim != 2 or f.shape[1] != self.features * self.n:
            raise NetgrainError(
                f"the network expects inputs of shape (batch, {self.features * self.n}), found {tuple(f.shape)}."
            )
        values = torch.relu(self.turn(self.correlated(f)))
        means = (values * self.turn.weights).sum(-1)
        return means @ self.mixing.T @ self.readout

    def correlated(self, f: Tensor) -> Tensor:
        """Correlation with the filters, degree by degree.

        Parameters
        ----------
        f : Tensor of shape (batch, features · n)
            The feature maps.

        Returns
        -------
        Tensor of shape (batch, channels, n of the inner bandwidth)
            Isometric coordinates.
        """
        maps = f.unflatten(1, (self.features, self.n))
        parts, at = [], 0
        for d, w in zip(self.dimensions, self.filters, strict=True):
            block = maps[..., at : at + d * d].unflatten(-1, (d, d))
            parts.append(torch.einsum("bimk,oink->bomn", block, w).flatten(-2))
            at += d * d
        return torch.cat(parts, -1)
