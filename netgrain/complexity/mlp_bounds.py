"""What the weights of a multilayer perceptron say about its geometric complexity (arXiv 2209.13083).

f = W_L a(W_{L−1} … a(W₁x + b₁) …) + b_L with |a'| ≤ c_l after layer l (1 for ReLU and tanh), widths n₀ = d, …, n_L = k:

    GC ≤ C Π‖W_l‖_F² ≤ C ((1/L) Σ‖W_l‖_F²)^L,        GC ≤ C min_l n_l · Π σ_max(W_l)²,        C = Π c_l²

and, for every x, small parameter gradients force small input gradients:

    ‖J(x)‖_F² Σ_l (1 + ‖h_{l−1}‖²) / (‖W_l‖² ‖∂h_{l−1}/∂x‖²) ≤ ‖∂f/∂θ‖_F²,        h_l the input of layer l + 1, h₀ = x
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.complexity.estimators import geometric_complexity
from netgrain.complexity.functions import map_of
from netgrain.complexity.product_bound import MOVES, SLOPES, BoundRule, largest_singular_value
from netgrain.families.trace import Ref, Step, Weight, record, refs_in
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.threads import one_thread

POINTS_AT_ONCE = 256
ACTIVATIONS = {*SLOPES, "leaky_relu", "elu"}


@dataclass(frozen=True)
class NormBounds:
    """GC of a multilayer perceptron and upper bounds by the norms of its weights.

    Attributes
    ----------
    gc : float
        The geometric complexity itself.
    frobenius : float
        C Π‖W_l‖_F².
    mean_power : float
        C ((1/L) Σ‖W_l‖_F²)^L, what weight decay makes small.
    spectral : float
        C min n_l Π σ_max(W_l)².
    layers : int
        Number L of linear layers.
    """

    gc: float
    frobenius: float  # C Π‖W_l‖_F²
    mean_power: float  # C ((1/L) Σ‖W_l‖_F²)^L, what weight decay makes small
    spectral: float  # C min n_l Π σ_max(W_l)²
    layers: int

    def __repr__(self) -> str:
        return (
            f"NormBounds(GC {self.gc:.4g} ≤ Π‖W‖_F² {self.frobenius:.4g} ≤ (Σ‖W‖_F²/L)^L {self.mean_power:.4g}; "
            f"GC ≤ min n Πσ² {self.spectral:.4g}; {self.layers} layers)"
        )


@dataclass(frozen=True, eq=False, repr=False)
class TransferInequality:
    """Both sides of the transfer inequality at every point.

    ‖J‖² Σ_l (1 + ‖h‖²)/(‖W‖²‖∂h/∂x‖²) ≤ ‖∂f/∂θ‖²; see `transfer_inequality`.

    Attributes
    ----------
    left, right : Tensor of shape (samples,)
        The two sides, in float64.
    jacobian : Tensor of shape (samples,)
        ‖J(xᵢ)‖_F².
    """

    left: Tensor  # (n,) float64
    right: Tensor  # (n,) float64, ‖∂f/∂θ‖_F²
    jacobian: Tensor  # (n,) float64, ‖J(xᵢ)‖_F²

    @property
    def slack(self) -> Tensor:
        """Quotient right / left of each point, at least 1."""
        return self.right / self.left

    @property
    def holds(self) -> bool:
        """Whether the inequality holds at every point, up to rounding."""
        return bool((self.left <= self.right * (1 + 1e-9)).all())

    def __repr__(self) -> str:
        verdict = "holds" if self.holds else "FAILS"
        low, middle = float(self.slack.min()), float(self.slack.median())
        return (
            f"TransferInequality({verdict} at {len(self.left)} points; right / left ≥ {low:.3g}, median {middle:.3g})"
        )


@one_thread()
def norm_bounds(model: nn.Module, X: Tensor) -> NormBounds:
    """Geometric complexity of an MLP, and its bounds by the norms of the weights.

    GC ≤ C Π‖W_l‖_F² ≤ C ((1/L) Σ‖W_l‖_F²)^L and GC ≤ C min n_l Π σ_max(W_l)², where C is 1 for ReLU and tanh.

    Parameters
    ----------
    model : torch.nn.Module
        A chain of linear layers and elementwise activations, biases allowed; flattening and dropout in eval
        mode may stand between them.
    X : Tensor of shape (samples, *input_shape)
        Points at which slopes are measured, as the network takes them; complexity is per unit of this input.

    Returns
    -------
    NormBounds
        GC and the three bounds.

    Raises
    ------
    NetgrainError
        If the model is not such a chain.

    References
    ----------
    .. [1] Dherin, Munn, Rosca, Barrett, "Why neural networks find simple solutions: the many
       regularizers of geometric complexity", arXiv 2209.13083.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    >>> for p, W in zip(net.parameters(), ([[3.0, 0.0], [0.0, 4.0]], [[1.0, 1.0]])):
    ...     _ = p.data.copy_(torch.tensor(W))
    >>> norm_bounds(net, torch.ones(1, 2))
    NormBounds(GC 25 ≤ Π‖W‖_F² 50 ≤ (Σ‖W‖_F²/L)^L 182.2; GC ≤ min n Πσ² 32; 2 layers)
    """
    gc = geometric_complexity(model, X, estimator="exact").value
    chain = _chain(model, X)
    squares = [float(layer.W.square().sum()) for layer in chain]
    widths = [chain[0].W.shape[1], *(layer.W.shape[0] for layer in chain)]
    C = math.prod(layer.slope**2 for layer in chain)
    spectral = min(widths) * math.prod(largest_singular_value(layer.W) ** 2 for layer in chain)
    mean_power = (sum(squares) / len(squares)) ** len(squares)
    return NormBounds(gc, C * math.prod(squares), C * mean_power, C * spectral, len(chain))


@one_thread()
def transfer_inequality(model: nn.Module, X: Tensor) -> TransferInequality:
    """Both sides of the transfer inequality: flat in the weights, flat in the input.

    From J = (∂f/∂z_l) W_l (∂h_{l−1}/∂x) for every layer l and ‖∂f/∂W_l‖² + ‖∂f/∂b_l‖² = ‖∂f/∂z_l‖²(1 + ‖h_{l−1}‖²);
    without a bias the 1 is missing on both sides. In float64, with full Jacobians of all layers: for multilayer
    perceptrons of moderate width.

    Parameters
    ----------
    model : torch.nn.Module
        A chain of linear layers and elementwise activations.
    X : Tensor of shape (samples, *input_shape)
        Points at which slopes are measured, as the network takes them; complexity is per unit of this input.

    Returns
    -------
    TransferInequality
        Left and right side at every point.

    References
    ----------
    .. [1] Ma, Ying, "On linear stability of SGD and input-smoothness of neural networks",
       arXiv 2105.13462: the first layer alone.

    Examples
    --------
    One linear layer with one output is an equality.

    >>> net = nn.Linear(2, 1)
    >>> found = transfer_inequality(net, torch.tensor([[3.0, 4.0]]))
    >>> round(float(found.left), 4), round(float(found.right), 4)
    (26.0, 26.0)
    """
    with map_of(model, X) as f:  # checks
        points = f.X.detach().cpu().double().flatten(1)
    chain = _chain(model, X)
    pieces = [_sides(chain, x) for x in points.split(POINTS_AT_ONCE)]
    left, right, jacobian = (torch.cat(side) for side in zip(*pieces, strict=True))
    return TransferInequality(left, right, jacobian)


def _sides(chain: list[_Layer], h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    n, d = h.shape
    J = torch.eye(d, dtype=torch.float64).expand(n, d, d)  # ∂h/∂x
    weights, gates = [], []
    sizes = torch.ones(n, dtype=torch.float64)  # ‖∂h/∂x‖²
    for layer in chain:
        reach = h.square().sum(1) + (layer.b is not None)
        weights.append((reach, reach / (largest_singular_value(layer.W) ** 2 * sizes).clamp_min(1e-300)))
        z = h @ layer.W.T + (0.0 if layer.b is None else layer.b)
        with torch.enable_grad():
            leaf = z.requires_grad_(True)
            h = layer.activation(leaf)
            # an identity passes z itself on, and has no graph of its own
            gate = torch.ones_like(z) if h is leaf else torch.autograd.grad(h.sum(), leaf)[0]
        h = h.detach()
        gates.append(gate)
        J = gate[:, :, None] * (layer.W @ J)
        sizes = torch.linalg.matrix_norm(J, ord=2).square()
    jacobian = J.square().sum((1, 2))
    back = torch.diag_embed(gates[-1])  # ∂f/∂z, (n, k, n_l)
    right = torch.zeros(n, dtype=torch.float64)
    for l in reversed(range(len(chain))):
        right += back.square().sum((1, 2)) * weights[l][0]
        if l:
            back = (back @ chain[l].W) * gates[l - 1][:, None]
    # where an earlier layer passes nothing on (dead units) J is zero, and so is the term
    terms = torch.stack([term for _, term in weights]).sum(0)
    return torch.where(jacobian > 0, jacobian * terms, jacobian), right, jacobian


# --- the chain of a module ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Layer:
    W: Tensor  # (n_l, n_{l−1}) float64
    b: Tensor | None
    activation: Callable[[Tensor], Tensor]
    slope: float  # sup |a'|


def _chain(model: nn.Module, X: Tensor) -> list[_Layer]:
    """Linear layers of a module, each with the activations that follow it; refuses everything else."""
    with map_of(model, X) as f:
        trace = record(model, f.points(torch.zeros(1, dtype=torch.long)))
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    layers: list[_Layer] = []
    used: set[str] = set()
    previous = Ref(-1)
    for step in trace.steps:
        refs = list(refs_in((step.args, step.kwargs)))
        if refs != [previous] or len(step.shapes) != 1:
            raise _refused(step, "its forward branches")
        previous = Ref(step.index)
        if step.name in MOVES or step.name == "dropout":
            continue
        if step.name == "linear":
            weight, bias = step.args[1], step.args[2] if len(step.args) > 2 else step.kwargs.get("bias")
            names = {w.name for w in (weight, bias) if isinstance(w, Weight)}
            if not isinstance(weight, Weight) or names & used or len(step.shapes[0]) != 2:
                raise _refused(step, "its weights are shared, computed, or applied at several places")
            used |= names
            b = tensors[bias.name].detach().cpu().double() if isinstance(bias, Weight) else None
            layers.append(_Layer(tensors[weight.name].detach().cpu().double(), b, _identity, 1.0))
        elif not layers or step.name not in ACTIVATIONS:
            raise _refused(step, "it is no activation after a linear layer")
        else:
            last = layers[-1]
            slope = BoundRule(step, trace, tensors, {refs[0]: 1.0}).bound
            layers[-1] = _Layer(last.W, last.b, _after(last.activation, step), last.slope * slope)
    if not layers or previous != trace.output:
        raise NetgrainError(f"{type(model).__name__} is no chain of linear layers; expected a multilayer perceptron.")
    return layers


def _identity(z: Tensor) -> Tensor:
    return z


def _after(first: Callable[[Tensor], Tensor], step: Step) -> Callable[[Tensor], Tensor]:
    def both(z: Tensor) -> Tensor:
        value = first(z)
        # a layer that works in place must not overwrite what its derivative is taken at
        value = value.clone()
        args = tuple(value if isinstance(a, Ref) else a for a in step.args)
        kwargs = {k: value if isinstance(v, Ref) else v for k, v in step.kwargs.items()}
        out: Tensor = step.function(*args, **kwargs)
        return out

    return both


def _refused(step: Step, why: str) -> NetgrainError:
    return NetgrainError(f"expected a multilayer perceptron, found {step.where}: {why}; pass a chain of linear layers.")
