"""Published scores of networks at initialisation, and simple rules, as predictors of what training reaches.

Each takes a fresh network and a batch, larger is said to be better, and none looks at trained weights. A network for
which a score is not defined gets NaN.

References
----------
.. [1] Mellor, Turner, Storkey, Crowley, "Neural architecture search without training", 2021 (NASWOT; jacob_cov in its
   first version).
.. [2] Tanaka, Kunin, Yamins, Ganguli, "Pruning neural networks without any data by iteratively conserving synaptic
   flow", 2020 (synflow).
.. [3] Abdelfattah, Mehrotra, Dudziak, Lane, "Zero-cost proxies for lightweight NAS", 2021 (how they are used).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from netgrain.learning.decompositions import decomposed, decomposed_features
from netgrain.learning.learning_curves import loo_score
from netgrain.learning.leave_one_out import groups_of
from netgrain.learning.targets import targets_of

ACTIVATIONS = (nn.ReLU, nn.GELU)
JITTER = 1e-5  # of the eigenvalues in jacob_cov
NEIGHBOURS = 5


def naswot(model: nn.Module, X: Tensor) -> float:
    """log |det K|, K_ij the number of units that are on for both samples or off for both."""
    codes: list[Tensor] = []

    def record(_: nn.Module, inputs: tuple[Tensor, ...], __: Tensor) -> None:
        codes.append((inputs[0] > 0).flatten(1).double())

    net = copy.deepcopy(model).train()  # with the batch's own statistics, as its authors do
    hooks = [m.register_forward_hook(record) for m in net.modules() if isinstance(m, ACTIVATIONS)]
    try:
        with torch.no_grad():
            net(X)
    finally:
        for hook in hooks:
            hook.remove()
    if not codes:
        return math.nan
    on = torch.cat(codes, 1)
    sign, size = torch.linalg.slogdet(on @ on.T + (1 - on) @ (1 - on).T)
    return float(size) if float(sign) != 0 else math.nan


def jacob_cov(model: nn.Module, X: Tensor) -> float:
    """−Σ log(λ + k) + 1/(λ + k) over the eigenvalues λ of the correlations of input gradients, k = 10⁻⁵."""
    net, x = copy.deepcopy(model).train(), X.clone().requires_grad_(True)
    (jacobian,) = torch.autograd.grad(net(x).sum(), x)
    rows = jacobian.flatten(1).double()
    rows = rows - rows.mean(1, keepdim=True)
    lengths = rows.norm(dim=1, keepdim=True)
    if not bool((lengths > 0).all()):
        return math.nan
    rows = rows / lengths
    eigenvalues = torch.linalg.eigvalsh(rows @ rows.T).clamp(min=0.0) + JITTER
    return -float((eigenvalues.log() + 1 / eigenvalues).sum())


def synflow(model: nn.Module, shape: Sequence[int]) -> float:
    """log₁₀ Σ |θ ∂R/∂θ| over weights of layers, R the sum of outputs at an input of ones with all weights positive."""
    net = copy.deepcopy(model).double().eval()  # fresh batch norms do nothing
    weights = _positive_weights(net)
    if not weights:
        return math.nan
    total = net(torch.ones(1, *shape, dtype=torch.float64)).sum()
    gradients = torch.autograd.grad(total, weights, allow_unused=True)
    flow = sum(float((w.detach() * g).abs().sum()) for w, g in zip(weights, gradients, strict=True) if g is not None)
    return math.log10(flow) if 0 < flow < math.inf else math.nan


def _positive_weights(net: nn.Module) -> list[Tensor]:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.abs_()
    return [p.requires_grad_(True) for p in net.parameters() if p.dim() > 1]


def gradient_norm(model: nn.Module, X: Tensor, y: Tensor) -> float:
    """Sum over layers of the norm of the gradient of the cross-entropy."""
    net = copy.deepcopy(model).train()
    weights = [p.requires_grad_(True) for p in net.parameters()]
    loss = nn.functional.cross_entropy(net(X), y)
    return math.fsum(float(g.norm()) for g in torch.autograd.grad(loss, weights, allow_unused=True) if g is not None)


def parameters(model: nn.Module) -> float:
    """log₁₀ of the number of parameters."""
    return math.log10(sum(p.numel() for p in model.parameters()))


def linear_rule(X: Tensor, y: Tensor) -> float:
    """Accuracy of a linear ridge rule by leave-one-out."""
    flat = X.flatten(1).double()
    found = decomposed_features(flat) if flat.shape[1] < len(flat) / 2 else decomposed(flat @ flat.T)
    return float(loo_score(found, targets_of(y, target="classes"), groups_of(X)))


def neighbours(X: Tensor, y: Tensor, k: int = NEIGHBOURS) -> float:
    """Accuracy of the majority of the k nearest other samples; of equally many votes the nearer ones count."""
    flat = X.flatten(1).double()
    distances = torch.cdist(flat, flat).fill_diagonal_(math.inf)
    nearest = y[distances.topk(k, largest=False).indices]  # (samples, k)
    weights = 1 + 0.01 * torch.arange(k, 0, -1, dtype=torch.float64) / k
    votes = torch.zeros(len(y), int(y.max()) + 1, dtype=torch.float64)
    votes.scatter_add_(1, nearest, weights.expand(len(y), k))
    return float((votes.argmax(1) == y).double().mean())
