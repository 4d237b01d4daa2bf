"""Gradient descent on the exponential loss: plain as the authors', and normalised.

The loss is mean_i exp(−y_i NN(x_i)). Its logarithm has the gradient −Σ_i q_i ∇m_i with q = softmax(−m), which neither
underflows nor overflows, and the plain step is the loss times it.

- "sgd": full batch, no momentum, w ← w − lr ∇loss, and the learning rate grows by 10 % every 100 epochs as in the
  authors' code (×1.9e8 over 20,000 epochs; without it the margins would hardly move after the first hundred).
- "ngd": w ← w + η g with g the gradient of the soft margin and η = min(1/|g|², 0.02 |w|/|g|): the same path as the flow
  in steps that grow with the norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import logsumexp, softmax
from torch import Tensor, nn

from netgrain.equivariant.networks import linearisation
from netgrain.equivariant.parametrisation import Array, Parametrisation
from netgrain.equivariant.path_to_limit import WeightPath, step
from netgrain.equivariant.penalties import BlockTransform
from netgrain.equivariant.schatten_norms import real_ratio, schatten_ratio
from netgrain.groups.group import Group
from netgrain.runtime.errors import NetgrainError

GROWTH, TURN = 1.0, 0.02
RECORDS = 200


def descend(
    network: Parametrisation,
    w: Array,
    Z: Array,
    *,
    method: str,
    epochs: int,
    lr: float = 0.01,
    lr_growth: float = 1.1,  # every 100 epochs
    margin: float = math.inf,  # stop when every margin is this large
) -> WeightPath:
    """The path of a linear network under plain ("sgd") or normalised ("ngd") gradient descent."""

    def margins_and_gradient(w: Array) -> tuple[Array, Array]:
        A = network.gradients(w, Z)
        margins = A @ w / network.depth
        return margins, softmax(-margins) @ A

    norms, directions = [], []

    def record(w: Array) -> None:
        norm = float(np.linalg.norm(w))
        norms.append(math.log(norm))
        directions.append(w / norm)

    _, margins = _descend(margins_and_gradient, w, record, method, epochs, lr, lr_growth, margin)
    return WeightPath(np.array(norms), np.array(directions), softmax(-margins), w)


def _descend(
    margins_and_gradient: Callable[[Array], tuple[Array, Array]],
    w: Array,
    record: Callable[[Array], None],
    method: str,
    epochs: int,
    lr: float,
    lr_growth: float,
    margin: float,
) -> tuple[Array, Array]:
    if method not in ("sgd", "ngd"):
        raise NetgrainError(f"method expects 'sgd' or 'ngd', found '{method}'.")
    w = w.copy()
    noted = set(np.unique(np.geomspace(1, epochs + 1, RECORDS).astype(int) - 1).tolist())
    for epoch in range(epochs + 1):
        margins, g = margins_and_gradient(w)
        last = epoch == epochs or margins.min() >= margin
        if epoch in noted or last:
            record(w)
        if last:
            break
        if method == "ngd":
            w += step(w, g, GROWTH, TURN)
            continue
        loss = math.exp(min(float(logsumexp(-margins)) - math.log(len(margins)), 700.0))
        w += lr * lr_growth ** (epoch // 100) * loss * g
        if not np.isfinite(w).all() or np.abs(w).max() > 1e100:
            raise NetgrainError(f"plain gradient descent diverged at epoch {epoch}; lower lr, now {lr:g}.")
    return w, margins


@dataclass(frozen=True, eq=False)
class Descent:
    """Record of a network's training; entry 0 is the initialisation.

    Attributes
    ----------
    losses : Tensor of shape (records,)
        Mean exponential loss.
    margins : Tensor of shape (records,)
        Smallest y_i NN(x_i).
    fourier_ratios : Tensor of shape (records,)
        Mean of |Ĵ|_{2/L}/|J|₂ over the samples whose gradient J is not zero.
    real_ratios : Tensor of shape (records,)
        Mean of |J|_{2/L}/|J|₂ over the same samples.
    dead : Tensor of shape (records,)
        Number of samples with a gradient of zero.
    outputs : Tensor of shape (points,)
        Outputs at the end.

    See Also
    --------
    exponential_descent : Makes one.
    """

    losses: Tensor  # (records,)
    margins: Tensor  # smallest y_i NN(x_i)
    fourier_ratios: Tensor  # mean over living samples of |Ĵ|_{2/L}/|J|₂
    real_ratios: Tensor
    dead: Tensor  # samples whose gradient is zero
    outputs: Tensor  # (points,), at the end

    def __repr__(self) -> str:
        first, last = float(self.fourier_ratios[0]), float(self.fourier_ratios[-1])
        return (
            f"Descent(loss {self.losses[0]:.3g} → {self.losses[-1]:.3g}, Fourier ratio {first:.4g} → {last:.4g}, "
            f"{int(self.dead[-1])} of {len(self.outputs)} samples dead)"
        )


def exponential_descent(
    net: nn.Module,
    X: Tensor,
    y: Tensor,
    *,
    group: Group | BlockTransform,  # of the ratios
    method: str = "sgd",
    epochs: int = 1000,
    lr: float = 0.01,
    lr_growth: float = 1.1,
    margin: float = math.inf,
    depth: int = 3,  # of the ratios: p = 2/depth
) -> Descent:
    """Train any network in place on the exponential loss and record its gradients.

    The loss is mean_i exp(−y_i NN(x_i)). The ratios are measured on the gradients J(x) = ∇ₓNN(x) at the data; for a
    linear network J is its predictor.

    Parameters
    ----------
    net : nn.Module
        Maps (batch, n) to (batch,). It is trained in place.
    X : Tensor of shape (points, n)
        Inputs.
    y : Tensor of shape (points,)
        Labels, −1 or +1.
    group : Group or BlockTransform
        The group (or transform) whose Fourier space the ratios are measured in.
    method : {"sgd", "ngd"}, default "sgd"
        Plain full-batch gradient descent, or normalised gradient descent.
    epochs : int, default 1000
        Number of steps.
    lr : float, default 0.01
        Learning rate of ``"sgd"``.
    lr_growth : float, default 1.1
        Factor by which the learning rate grows every 100 epochs.
    margin : float, default inf
        Stop when every margin is this large.
    depth : int, default 3
        Depth L in the ratios, where p = 2/L.

    Returns
    -------
    Descent
        Losses, margins and ratios at up to 200 steps.

    Raises
    ------
    NetgrainError
        If `method` is not known or plain gradient descent diverges.

    See Also
    --------
    limit : The result of training a linear network to the end.

    References
    ----------
    .. [1] Lawrence, Georgiev, Dienes, Kiani, "Implicit Bias of Linear Equivariant Networks", arXiv:2110.06084: the loss
       and the ratio, also for ReLU networks.

    Examples
    --------
    With one weight and y x = 1 a step of plain descent is w ← w + lr e^{−w}.

    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Flatten(0)).double()
    >>> _ = torch.nn.init.zeros_(net[0].weight)
    >>> from netgrain.groups import cyclic
    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> found = exponential_descent(net, one, one[0], group=cyclic(1), epochs=1, lr=0.25)
    >>> found.losses[0].item(), net[0].weight.item()
    (1.0, 0.25)
    """
    parameters = [p for p in net.parameters() if p.requires_grad]
    y = torch.as_tensor(y).to(X)
    rows: list[tuple[float, float, float, float, float]] = []
    outputs = torch.empty(0)

    def put(w: Array) -> None:
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(torch.from_numpy(w).to(parameters[0]), parameters)

    def margins_and_gradient(w: Array) -> tuple[Array, Array]:
        put(w)
        margins = y * net(X)
        soft = -torch.logsumexp(-margins, 0)
        grads = torch.autograd.grad(soft, parameters)
        flat = torch.cat([g.reshape(-1) for g in grads]).cpu().double().numpy()
        return margins.detach().cpu().double().numpy(), flat

    def record(w: Array) -> None:
        nonlocal outputs
        put(w)
        with torch.no_grad():
            outputs = net(X).cpu().double()
        margins = y.cpu().double() * outputs
        local = linearisation(net, X)
        J = local.gradients.cpu().double()
        alive = len(J) > 0
        fourier = float(schatten_ratio(group, J, depth).mean()) if alive else math.nan
        real = float(real_ratio(J, depth).mean()) if alive else math.nan
        rows.append((float((-margins).exp().mean()), float(margins.min()), fourier, real, local.dead))

    start = torch.cat([p.detach().reshape(-1) for p in parameters]).cpu().double().numpy()
    end, _ = _descend(margins_and_gradient, start, record, method, epochs, lr, lr_growth, margin)
    put(end)
    losses, margins, fourier, real, dead = torch.tensor(rows, dtype=torch.float64).unbind(1)
    return Descent(losses, margins, fourier, real, dead.long(), outputs)
