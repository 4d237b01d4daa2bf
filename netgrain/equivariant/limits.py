"""The limit of training a linear network over a group: the front door."""

from __future__ import annotations

from torch import Tensor

from netgrain.equivariant.networks import CircularCNN, Diagonal, FullyConnected, GroupCNN, LinearNetwork
from netgrain.equivariant.penalties import group_transform
from netgrain.equivariant.separable import separated_points
from netgrain.equivariant.solution import Limit, LimitOptions, solve
from netgrain.groups.group import Group
from netgrain.runtime.errors import NetgrainError

NETS = ("group-cnn", "fully-connected", "diagonal", "circular")
NARROW = 512  # inputs times hidden width of a fully connected network, about


def limit(
    group: Group,
    X: Tensor,  # (points, order)
    y: Tensor,  # (points,), -1 or +1
    *,
    depth: int = 2,
    net: str = "group-cnn",
    method: str = "flow",
    channels: int = 1,
    width: int | None = None,  # of the fully connected network; narrow if not given, its limit is the same at any width
    cap: float = 1e5,
    log_norm: float = 1e4,
    epochs: int = 10_000,  # of "ngd" and "sgd"
    lr: float = 0.01,  # of "sgd"
    seed: int = 0,
    record_kkt: bool = False,
) -> Limit:
    """Limit of the predictor of a linear network under training to convergence.

    Training with the exponential loss takes the direction of β to a first-order stationary point of

        min |b̂|_{2/L}  subject to  y_i ⟨x_i, b⟩ ≥ 1

    with the norm of the network: Schatten in Fourier space (group CNN), ℓ_{2/L} of the discrete Fourier transform
    (circular, over the listed order of the elements), ℓ_{2/L} of the entries (diagonal), ℓ₂ (fully connected). Depths 1
    and 2 are convex: the limit is the optimum and `dual_gap` certifies it. From depth 3 on the limit is stationary, but
    not always optimal.

    Parameters
    ----------
    group : Group
        The group on which inputs are functions.
    X : Tensor of shape (points, order)
        Inputs, in the group's order of elements.
    y : Tensor of shape (points,)
        Labels, −1 or +1.
    depth : int, default 2
        Number of layers L.
    net : {"group-cnn", "circular", "diagonal", "fully-connected"}, default "group-cnn"
        The network.
    method : {"flow", "ngd", "sgd"}, default "flow"
        ``"flow"`` follows the gradient flow in log-norm time, ``"ngd"`` is normalised gradient descent and ``"sgd"``
        plain gradient descent with the growing learning rate of the paper's code.
    channels : int, default 1
        Hidden channels of a convolutional network. They do not change the norm that is minimised.
    width : int, optional
        Width of the fully connected network. By default it is narrow, because its limit is the same at any width.
    cap : float, default 1e5
        Largest inverse temperature of the flow relative to the margin. The limit is exact to about 1/`cap`.
    log_norm : float, default 1e4
        Logarithm of the norm of the weights at which the flow ends.
    epochs : int, default 10000
        Steps of ``"ngd"`` and ``"sgd"``.
    lr : float, default 0.01
        Learning rate of ``"sgd"``.
    seed : int, default 0
        The initial weights depend on this seed alone.
    record_kkt : bool, default False
        Record the KKT residual along the way.

    Returns
    -------
    Limit
        The predictor at margin one, the norm that it minimises, and certificates of optimality.

    Raises
    ------
    NetgrainError
        If the data are not separable (the message names the points in conflict), if a descent has not separated them,
        or if the network has too many weights for the flow.

    See Also
    --------
    spherical_limit : The same over the rotations SO(3).
    support_vector : The limit of the fully connected network, without training.

    References
    ----------
    .. [1] Lawrence, Georgiev, Dienes, Kiani, "Implicit Bias of Linear Equivariant Networks", ICML 2022,
       arXiv:2110.06084: the theorem on the limit of linear group CNNs.
    .. [2] Gunasekar, Lee, Soudry, Srebro, "Implicit Bias of Gradient Descent on Linear Convolutional Networks",
       NeurIPS 2018: fully connected, diagonal and circular networks.

    Examples
    --------
    One point: β is a multiple of it with ⟨x, β⟩ = 1. At depth 1 the objective is √n |β|₂ = √2 / 2.

    >>> import torch
    >>> from netgrain.groups import cyclic
    >>> found = limit(cyclic(2), torch.tensor([[2.0, 0.0]]), torch.tensor([1.0]), depth=1)
    >>> round(found.beta[0].item(), 4), round(found.objective**2, 4)
    (0.5, 0.5)
    """
    if width is None and group.order**2 > NARROW:
        width = max(2, NARROW // group.order)
    network = make_network(group, net, depth, channels=channels, width=width, seed=seed)
    convex = depth <= 2 or net == "fully-connected"
    relaxed = None
    if not convex and method == "flow":
        shallow = make_network(group, net, 2, seed=seed)
        relaxed = (shallow.parametrisation(), shallow.flat_weights())
    return solve(
        network.parametrisation(),
        network.flat_weights(),
        separated_points(X, y, group.order, group.name),
        LimitOptions(method, cap, log_norm, epochs, lr),
        transform=network.transform(),
        fourier=group_transform(group),
        names=(net, group.name),
        seed=seed,
        convex=convex,
        record_kkt=record_kkt,
        relaxed=relaxed,
    )


def make_network(
    group: Group,
    net: str,
    depth: int,
    *,
    channels: int = 1,
    width: int | None = None,  # of the fully connected network; the order if not given
    relu: bool = False,
    seed: int = 0,
) -> LinearNetwork:
    """One of the four networks by name, on functions of a group.

    Parameters
    ----------
    group : Group
        The group on which inputs are functions.
    net : {"group-cnn", "circular", "diagonal", "fully-connected"}
        The network.
    depth : int
        Number of layers.
    channels : int, default 1
        Hidden channels of a convolutional network.
    width : int, optional
        Width of the fully connected network; by default the order of the group.
    relu : bool, default False
        Put a ReLU after every hidden layer.
    seed : int, default 0
        The initial weights depend on this seed alone.

    Returns
    -------
    LinearNetwork
        A module that maps (batch, order) to (batch,).

    Examples
    --------
    >>> from netgrain.groups import dihedral
    >>> make_network(dihedral(order=8), "circular", 3).group.name
    'C8'
    """
    if channels != 1 and net not in ("group-cnn", "circular"):
        raise NetgrainError(f"channels expects a convolutional network, '{net}' has none; leave channels=1.")
    if net == "group-cnn":
        return GroupCNN(group, depth, channels=channels, relu=relu, seed=seed)
    if net == "circular":
        return CircularCNN(group.order, depth, channels=channels, relu=relu, seed=seed)
    if net == "diagonal":
        return Diagonal(group.order, depth, relu=relu, seed=seed)
    if net == "fully-connected":
        return FullyConnected(group.order, depth, width=width, relu=relu, seed=seed)
    raise NetgrainError(f"net expects one of {', '.join(NETS)}; found '{net}'.")
