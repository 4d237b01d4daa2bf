"""Networks without biases on functions of a group: fully connected, diagonal, circular and group convolution.

A layer of the group CNN is the cross-correlation (x ⊙ w)(u) = Σ_v x(uv) w(v), the read-out is linear, and so

    NN(x) = <x ⊙ w_1 ⊙ … ⊙ w_{L-1}, w_L> = <x, β>,    β = w_L * … * w_1,    (f*h)(u) = Σ_v f(uv⁻¹) h(v).

With `relu=True` a ReLU follows every hidden layer. Inputs are (batch, n), outputs (batch,). Initial weights are those
of the authors: filters uniform in ±√(3/fan-in), read-out and matrices uniform in ±1/√fan-in, from `seed` alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from netgrain.equivariant.parametrisation import Array, Convolutions, EqualChains, MatrixChains, Parametrisation
from netgrain.equivariant.penalties import BlockTransform, diagonal_transform, euclidean_transform, group_transform
from netgrain.groups.constructors import cyclic
from netgrain.groups.group import Group
from netgrain.runtime.errors import NetgrainError

UNFOLDED = 1024  # up to this order a filter is unfolded to an n×n matrix, above it the group's own transform is used


class LinearNetwork(nn.Module):
    """Base class of networks without biases: layers w_1, …, w_L, one output.

    The function is NN(x) = ⟨x, β⟩ unless a ReLU follows every hidden layer. Inputs are (batch, n), outputs (batch,).

    Parameters
    ----------
    n : int
        Number of inputs.
    depth : int
        Number of layers L.
    relu : bool
        Put a ReLU after every hidden layer.

    Attributes
    ----------
    weights : nn.ParameterList
        w_1, …, w_L.

    See Also
    --------
    GroupCNN, CircularCNN, Diagonal, FullyConnected, SphericalNetwork : The networks.
    """

    n: int
    depth: int
    relu: bool

    def __init__(self, n: int, depth: int, relu: bool) -> None:
        super().__init__()
        if not isinstance(depth, int) or depth < 1:
            raise NetgrainError(f"depth expects a whole number of layers, at least 1; found {depth}.")
        if n < 1:
            raise NetgrainError(f"a network expects at least one input, found {n}.")
        self.n, self.depth, self.relu = n, depth, relu
        self.weights = nn.ParameterList()

    def extra_repr(self) -> str:
        return f"{self.n} inputs, depth {self.depth}{', ReLU' if self.relu else ''}"

    def layer(self, h: Tensor, l: int) -> Tensor:
        """Layer of a hidden state.

        Parameters
        ----------
        h : Tensor of shape (batch, ...)
            The hidden state.
        l : int
            Index of the layer, from 0.

        Returns
        -------
        Tensor
            The next hidden state, or the outputs after the last layer.
        """
        raise NotImplementedError

    def beta(self) -> Tensor:
        """Predictor without the ReLUs, (n,), differentiable in the weights."""
        raise NotImplementedError

    def parametrisation(self) -> Parametrisation:
        """Map from weights to predictor, with its derivatives, for the flow."""
        raise NotImplementedError

    def transform(self) -> BlockTransform:
        """Blocks whose singular values training keeps small."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.n:
            raise NetgrainError(f"the network expects inputs of shape (batch, {self.n}), found {tuple(x.shape)}.")
        h = self.enter(x)
        for l in range(self.depth):
            h = self.layer(h, l)
            if self.relu and l < self.depth - 1:
                h = self.activate(h)
        return h.reshape(len(x))

    def enter(self, x: Tensor) -> Tensor:
        """First hidden state from the inputs.

        Parameters
        ----------
        x : Tensor of shape (batch, n)
            The inputs.

        Returns
        -------
        Tensor
            The hidden state.
        """
        return x

    def activate(self, h: Tensor) -> Tensor:
        """ReLU of a hidden state.

        Parameters
        ----------
        h : Tensor
            The hidden state.

        Returns
        -------
        Tensor
            The activated state, of the same shape.
        """
        return torch.relu(h)

    def flat_weights(self) -> Array:
        """All weights as one float64 vector, in the order of the parametrisation."""
        return np.concatenate([w.detach().cpu().double().numpy().reshape(-1) for w in self.weights])

    def _draw(self, shapes: list[tuple[int, ...]], bounds: list[float], seed: int, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(seed)
        for shape, bound in zip(shapes, bounds, strict=True):
            draw = torch.rand(shape, generator=generator, dtype=torch.float64)
            self.weights.append(nn.Parameter(((2 * draw - 1) * bound).to(dtype)))


class FullyConnected(LinearNetwork):
    """Fully connected network w_L W_{L−1} … W_1 x.

    Training minimises |β|₂ at any depth.

    Parameters
    ----------
    n : int
        Number of inputs.
    depth : int, default 2
        Number of layers.
    width : int, optional
        Hidden width; by default n.
    relu : bool, default False
        Put a ReLU after every hidden layer.
    seed : int, default 0
        The initial weights depend on it alone: uniform in ±1/√fan-in.
    dtype : torch.dtype, default torch.float64
        Type of the weights.

    Examples
    --------
    >>> predictor(FullyConnected(3, depth=1, seed=0)).shape
    torch.Size([3])
    """

    def __init__(
        self,
        n: int,
        depth: int = 2,
        *,
        width: int | None = None,  # n if not given
        relu: bool = False,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(n, depth, relu)
        self.width = n if width is None else width
        if self.width < 1:
            raise NetgrainError(f"width expects at least 1, found {width}.")
        self.sizes = (n, *[self.width] * (depth - 1), 1)
        shapes: list[tuple[int, ...]] = [(self.sizes[l + 1], self.sizes[l]) for l in range(depth)]
        self._draw(shapes, [1 / math.sqrt(s[1]) for s in shapes], seed, dtype)

    def layer(self, h: Tensor, l: int) -> Tensor:
        """Matrix product with the weights of a layer.

        Parameters
        ----------
        h : Tensor of shape (batch, width)
            The hidden state.
        l : int
            Index of the layer, from 0.

        Returns
        -------
        Tensor
            The next hidden state.
        """
        found: Tensor = h @ self.weights[l].T
        return found

    def beta(self) -> Tensor:
        """Product of all matrices, (n,)."""
        product: Tensor = self.weights[0]
        for W in list(self.weights)[1:]:
            product = W @ product
        return product[0]

    def parametrisation(self) -> MatrixChains:
        """One chain of matrices."""
        return MatrixChains((EqualChains(1, self.sizes),))

    def transform(self) -> BlockTransform:
        """The vector as one block."""
        return euclidean_transform(self.n)


class Diagonal(LinearNetwork):
    """Diagonal network ⟨x, w_1 ∘ … ∘ w_L⟩, entry by entry.

    Training minimises |β|_{2/L}.

    Parameters
    ----------
    n : int
        Number of inputs.
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
    >>> net = Diagonal(3, depth=2)
    >>> bool(torch.allclose(predictor(net), net.weights[0] * net.weights[1]))
    True
    """

    def __init__(
        self, n: int, depth: int = 2, *, relu: bool = False, seed: int = 0, dtype: torch.dtype = torch.float64
    ) -> None:
        super().__init__(n, depth, relu)
        self._draw([(n,)] * depth, [math.sqrt(3)] * (depth - 1) + [1 / math.sqrt(n)], seed, dtype)

    def layer(self, h: Tensor, l: int) -> Tensor:
        """Product with the weights of a layer, entry by entry.

        Parameters
        ----------
        h : Tensor of shape (batch, n)
            The hidden state.
        l : int
            Index of the layer, from 0.

        Returns
        -------
        Tensor
            The next hidden state; after the last layer, its sum.
        """
        found: Tensor = h * self.weights[l]
        return found.sum(-1) if l == self.depth - 1 else found

    def beta(self) -> Tensor:
        """Product of all layers, (n,)."""
        return torch.stack(list(self.weights)).prod(0)

    def parametrisation(self) -> MatrixChains:
        """A chain of 1 × 1 matrices for every entry."""
        return MatrixChains((EqualChains(self.n, (1,) * (self.depth + 1)),))

    def transform(self) -> BlockTransform:
        """Every entry as a block of its own."""
        return diagonal_transform(self.n)


class GroupCNN(LinearNetwork):
    """Full-width convolutions over a finite group.

    A layer is the cross-correlation (x ⊙ w)(u) = Σ_v x(uv) w(v), the read-out is linear, and so β = w_L * … * w_1.
    Training minimises the Schatten norm |β̂|_{2/L}. Hidden channels do not change that.

    Parameters
    ----------
    group : Group
        The group.
    depth : int, default 2
        Number of layers.
    channels : int, default 1
        Hidden channels. Layer l has filters of shape (channels out, channels in, order).
    relu : bool, default False
        Put a ReLU after every hidden layer.
    seed : int, default 0
        The initial weights depend on it alone: filters uniform in ±√(3/fan-in), the read-out in ±1/√fan-in.
    dtype : torch.dtype, default torch.float64
        Type of the weights.

    References
    ----------
    .. [1] Lawrence, Georgiev, Dienes, Kiani, "Implicit Bias of Linear Equivariant Networks", ICML 2022,
       arXiv:2110.06084.
    .. [2] Cohen, Welling, "Group Equivariant Convolutional Networks", ICML 2016: the layer.

    Examples
    --------
    The outputs at the unit vectors are the predictor.

    >>> from netgrain.groups import dihedral
    >>> net = GroupCNN(dihedral(order=8), depth=3, channels=2, seed=0)
    >>> bool(torch.allclose(net(torch.eye(8, dtype=torch.float64)), predictor(net)))
    True
    """

    def __init__(
        self,
        group: Group,
        depth: int = 2,
        *,
        channels: int = 1,
        relu: bool = False,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(group.order, depth, relu)
        if channels < 1:
            raise NetgrainError(f"channels expects at least 1, found {channels}.")
        self.group, self.channels = group, channels
        widths = (1, *[channels] * (depth - 1), 1)
        shapes: list[tuple[int, ...]] = [(widths[l + 1], widths[l], self.n) for l in range(depth)]
        bounds = [math.sqrt(3 / (s[1] * self.n)) for s in shapes[:-1]] + [1 / math.sqrt(shapes[-1][1] * self.n)]
        self._draw(shapes, bounds, seed, dtype)
        self._unfold: Tensor | None = None
        if self.n <= UNFOLDED:
            cayley, inverse = torch.as_tensor(group.cayley), torch.as_tensor(group.inverse)
            self._unfold = cayley[inverse].T.contiguous()  # w[_unfold][t, u] = w(u⁻¹ t): (x ⊙ w) = x @ w[_unfold]

    def extra_repr(self) -> str:
        return f"{self.group.name}, {super().extra_repr()}, {self.channels} channels"

    def enter(self, x: Tensor) -> Tensor:
        """Inputs with an axis of one channel.

        Parameters
        ----------
        x : Tensor of shape (batch, n)
            The inputs.

        Returns
        -------
        Tensor of shape (batch, 1, n)
            The hidden state.
        """
        return x[:, None]  # (batch, channels, n)

    def layer(self, h: Tensor, l: int) -> Tensor:
        """Correlation with the filters of a layer, summed over channels.

        Parameters
        ----------
        h : Tensor of shape (batch, channels, n)
            The hidden state.
        l : int
            Index of the layer, from 0.

        Returns
        -------
        Tensor
            The next hidden state, (batch, channels, n), or the outputs (batch,).
        """
        w: Tensor = self.weights[l]
        if l == self.depth - 1:
            return (h * w[0]).sum((-1, -2))
        if self._unfold is not None:
            unfolded = w[:, :, self._unfold.to(w.device)]  # (out, in, t, u)
            return torch.einsum("bit,oitu->bou", h, unfolded)
        return torch.stack([self.group.correlate(h, w[o]).sum(1) for o in range(len(w))], 1)

    def beta(self) -> Tensor:
        """Convolution of all layers, w_L * … * w_1, (n,)."""
        product: Tensor = self.weights[0][:, 0]  # (channels, n)
        for w in list(self.weights)[1:]:
            product = torch.stack([self.group.convolve(w[o], product).sum(0) for o in range(len(w))])
        return product[0]

    def parametrisation(self) -> Convolutions:
        """Convolutions of functions on the group."""
        cayley, inverse = np.asarray(self.group.cayley), np.asarray(self.group.inverse)
        return Convolutions(cayley, inverse, self.depth, self.channels)

    def transform(self) -> BlockTransform:
        """Fourier transform of the group."""
        return group_transform(self.group)


class CircularCNN(GroupCNN):
    """Full-width circular convolution: the group CNN of the cyclic group.

    Training minimises |DFT β|_{2/L}. On data over another group it depends on the order in which the elements are
    listed.

    Parameters
    ----------
    n : int
        Number of inputs.
    depth : int, default 2
        Number of layers.
    channels : int, default 1
        Hidden channels.
    relu : bool, default False
        Put a ReLU after every hidden layer.
    seed : int, default 0
        The initial weights depend on this seed alone.
    dtype : torch.dtype, default torch.float64
        Type of the weights.

    Examples
    --------
    >>> CircularCNN(4).group
    Group(C4, order 4, 4 classes, irreps 4×1)
    """

    def __init__(
        self,
        n: int,
        depth: int = 2,
        *,
        channels: int = 1,
        relu: bool = False,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(cyclic(n), depth, channels=channels, relu=relu, seed=seed, dtype=dtype)


@dataclass(frozen=True, eq=False)
class Linearisation:
    """Gradients ∇ₓNN at data.

    Attributes
    ----------
    gradients : Tensor of shape (alive, n)
        Gradients of the samples where it is not zero.
    kept : Tensor of shape (alive,)
        Indices of these samples.
    dead : int
        Number of samples whose gradient is exactly zero.

    See Also
    --------
    linearisation : Makes one.
    """

    gradients: Tensor  # (alive, n)
    kept: Tensor  # (alive,) indices of the samples
    dead: int

    def __repr__(self) -> str:
        return f"Linearisation({len(self.gradients)} gradients of length {self.gradients.shape[1]}, {self.dead} dead)"


def predictor(net: LinearNetwork) -> Tensor:
    """Predictor β of a linear network, NN(x) = ⟨x, β⟩.

    Parameters
    ----------
    net : LinearNetwork
        A network without ReLU.

    Returns
    -------
    Tensor of shape (n,)
        β, through the algebra of the layers; differentiable in the weights.

    Raises
    ------
    NetgrainError
        If the network has ReLUs, so that it has no single predictor.

    See Also
    --------
    linearisation : The local linear maps of any network.

    Examples
    --------
    >>> net = FullyConnected(3, depth=2)
    >>> bool(torch.allclose(predictor(net), net.weights[1][0] @ net.weights[0]))
    True
    """
    if net.relu and net.depth > 1:
        raise NetgrainError("a network with ReLU has no single predictor; use linearisation(net, X).")
    return net.beta()


def linearisation(net: nn.Module, X: Tensor) -> Linearisation:
    """Local linear maps J(x) = ∇ₓNN(x) of a network at data.

    For a network without biases NN(x) = ⟨J(x), x⟩. Samples whose gradient is exactly zero (dead samples) are dropped
    and counted.

    Parameters
    ----------
    net : nn.Module
        Maps (batch, n) to (batch,).
    X : Tensor of shape (samples, n)
        The data.

    Returns
    -------
    Linearisation
        The gradients, which samples they belong to, and the number of dead ones.

    References
    ----------
    .. [1] Lawrence, Georgiev, Dienes, Kiani, "Implicit Bias of Linear Equivariant Networks", arXiv:2110.06084: local
       linearisations of ReLU networks.

    Examples
    --------
    ReLU(2x) has gradient 2 where x > 0 and is dead elsewhere.

    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.ReLU(), torch.nn.Flatten(0))
    >>> _ = torch.nn.init.constant_(net[0].weight, 2.0)
    >>> found = linearisation(net, torch.tensor([[1.0], [-1.0], [3.0]]))
    >>> found.gradients.tolist(), found.dead
    ([[2.0], [2.0]], 1)
    """
    x = X.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        (found,) = torch.autograd.grad(net(x).sum(), x)
    alive = found.abs().amax(1) > 0
    return Linearisation(found[alive], alive.nonzero()[:, 0], int((~alive).sum()))
