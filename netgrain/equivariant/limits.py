"""The limit of training a linear network over a group: the front door."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from netgrain.equivariant.networks import CircularCNN, Diagonal, FullyConnected, GroupCNN, LinearNetwork
from netgrain.equivariant.parametrisation import Array
from netgrain.equivariant.penalties import group_transform
from netgrain.equivariant.separable import check_separable
from netgrain.equivariant.solution import Limit, solve
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
    """Where the direction of the predictor β goes when a linear network is trained to the end.

    Training with the exponential loss takes β/|β| to a first-order stationary point of

        min |b̂|_{2/L}  subject to  y_i <x_i, b> ≥ 1

    with the norm of the network: Schatten in Fourier space (group CNN), ℓ_{2/L} of the DFT (circular, on the listed
    order of the elements), ℓ_{2/L} of the entries (diagonal), ℓ₂ (fully connected). Depth 1 and 2 are convex: the limit
    is the optimum and `dual_gap` certifies it. From depth 3 on it is stationary, not always optimal.

    `method="flow"` follows the flow in log-norm time (exact to about 1/cap), "ngd" normalised gradient descent, "sgd"
    plain gradient descent with the authors' growing learning rate. Columns of X are in the group's order of elements.

    >>> from netgrain.groups import cyclic
    >>> found = limit(cyclic(2), torch.tensor([[2.0, 0.0]]), torch.tensor([1.0]), depth=1)  # |b| = 1/2, √n times
    >>> round(found.beta[0].item(), 4), round(found.objective**2, 4)
    (0.5, 0.5)
    """
    Z = signed_points(X, y, group.order, group.name)
    if width is None and group.order**2 > NARROW:
        width = max(2, NARROW // group.order)
    network = make_network(group, net, depth, channels=channels, width=width, seed=seed)
    check_separable(Z)
    convex = depth <= 2 or net == "fully-connected"
    relaxed = None
    if not convex and method == "flow":
        shallow = make_network(group, net, 2, seed=seed)
        relaxed = (shallow.parametrisation(), shallow.flat_weights())
    return solve(
        network.parametrisation(),
        network.flat_weights(),
        Z,
        transform=network.transform(),
        fourier=group_transform(group),
        names=(net, group.name),
        seed=seed,
        convex=convex,
        method=method,
        cap=cap,
        log_norm=log_norm,
        epochs=epochs,
        lr=lr,
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
    """One of the four networks by name, on functions of the group."""
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


def signed_points(X: Tensor, y: Tensor, n: int, where: str) -> Array:
    """Z_i = y_i x_i as float64 (points, n), after the data have been checked."""
    points, labels = torch.as_tensor(X).cpu(), torch.as_tensor(y).cpu()
    if points.ndim != 2 or points.shape[1] != n:
        raise NetgrainError(f"X expects shape (points, {n}) for {where}, found {tuple(points.shape)}.")
    if labels.shape != points.shape[:1]:
        raise NetgrainError(
            f"y expects one label for each of the {len(points)} points, found shape {tuple(labels.shape)}."
        )
    if len(points) == 0:
        raise NetgrainError("X has no points; at least one is needed.")
    if points.is_complex() or labels.is_complex():
        raise NetgrainError("X and y expect real numbers, found complex ones.")
    points, labels = points.detach().double(), labels.detach().double()
    if not bool(torch.isfinite(points).all()):
        bad = int((~torch.isfinite(points)).any(1).nonzero()[0])
        raise NetgrainError(f"X expects finite numbers, point {bad} has a NaN or an infinity.")
    if not bool((labels.abs() == 1).all()):
        found = ", ".join(f"{v:g}" for v in labels.unique().tolist()[:5])
        raise NetgrainError(f"labels are expected to be -1 or +1, found {found}; map the two classes to -1 and +1.")
    Z: Array = np.ascontiguousarray((labels[:, None] * points).numpy())
    return Z
