"""Curvature of the loss in the input space, its Gauss–Newton part, and what the paper leaves out (App. A.3).

With e = ∂ℓ/∂f, H_ℓ = ∂²ℓ/∂f² (k × k) and J = ∇ₓf (k × d), at every sample

    ∇²ₓℓ = Jᵀ H_ℓ J + Σ_o e_o ∇²ₓf_o              (one output: ℓ'' ∇f∇fᵀ + ℓ' ∇²f)

Equation 6 keeps the first term, the Gauss–Newton part: it is right once e ≈ 0. Along gradient flow

    d/dt (Jᵀ H_ℓ J) = J̇ᵀ H_ℓ J + Jᵀ H_ℓ J̇  +  Jᵀ (∂³ℓ[ḟ]) J,      ḟ = ∇_θ f · θ̇,

of which the first two terms are kept (they are Δ, weighted by H_ℓ) and the third-derivative term is left out.
Everything is a product with vectors: no Hessian is formed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial

import torch
import torch.autograd.forward_ad as forward_mode
from torch import Tensor, nn

from netgrain.families.gradients import check_deterministic
from netgrain.families.members import forward, frozen, model_dtype
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.of_models import check_given_model, listed_models
from netgrain.runtime.devices import in_double
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.samples import checked_samples
from netgrain.runtime.threads import one_thread
from netgrain.training.gradient_flow import called_with, prepare_forward_mode, twice_differentiable, weight_velocity
from netgrain.training.losses import Loss, LossLike, check_loss, checked_targets, loss_of

SAMPLES_AT_ONCE = 64  # fixed, so that a result never depends on how work was cut into pieces
EXACT = 128  # norms of matrices up to this size are taken over all coordinates
VECTORS = 32  # random vectors for larger ones
TERMS = ("gauss_newton", "residual")
RATES = ("second", "third", "residual_rate")
VECTORS_AT_ONCE = 64

# per term the mean over samples times each v, (vectors, d), and per two terms Σ over samples ⟨A v, B v⟩, (vectors,)
Table = tuple[dict[str, Tensor], dict[tuple[str, str], Tensor]]


@one_thread()
def loss_curvature(
    models: nn.Module | Sequence[nn.Module],
    X: Tensor,
    y: Tensor,
    *,
    loss: LossLike = "cross-entropy",
    train: tuple[Tensor, Tensor] | None = None,
    vectors: int | None = None,
    seed: int = 0,
) -> LossCurvature:
    """Curvature of the loss in the input, ∇²ₓℓ, and of its parts.

    ∇²ₓℓ = JᵀH_ℓJ + Σ_o e_o ∇²ₓf_o with e = ∂ℓ/∂f, averaged over samples and models, as products with
    vectors.

    Parameters
    ----------
    models : Module or sequence of Module
        Networks in eval mode. They are not changed.
    X : Tensor of shape (samples, *input_shape)
        Where the curvature is taken.
    y : Tensor of shape (samples,) or (samples, outputs)
        Labels of these samples.
    loss : {"cross-entropy", "sse"} or callable, default "cross-entropy"
        With one output ``"cross-entropy"`` is the logistic loss of labels 0 and 1; a callable maps
        ``(outputs, y)`` to a scalar that is a sum over samples.
    train : tuple of Tensor, optional
        The training data (X, y) whose loss moves the weights, needed for rates of change in time; the samples
        themselves by default.
    vectors : int, optional
        Number of random vectors for Frobenius norms; 32 by default. Up to d = 128 all d coordinates are used, which is
        exact.
    seed : int, default 0
        Of the random vectors.

    Returns
    -------
    LossCurvature
        Products with vectors, and the share of each part.

    Raises
    ------
    NetgrainError
        If a callable loss is not a sum over samples, or samples and labels do not match.

    See Also
    --------
    average_evolution : How the geometry moves under a loss.

    References
    ----------
    .. [1] Movahedi, Orvieto, Moosavi-Dezfooli, "Geometric Inductive Biases of Deep Networks: the
       Role of Data and Architecture", equation 6.

    Examples
    --------
    One logit f = wᵀx has no curvature of its own, and ℓ'' = p(1−p), so ∇²ₓℓ = p(1−p) wwᵀ.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[2.0, 0.0]]))
    >>> curvature = loss_curvature(net, torch.zeros(1, 2), torch.tensor([1]))  # p = 1/2
    >>> curvature.matvec(torch.tensor([1.0, 1.0])).tolist(), curvature.gap.value
    ([1.0, 0.0], 0.0)
    """
    listed = listed_models(models)
    if vectors is not None and vectors < 2:
        raise NetgrainError(f"expected at least two random vectors, found vectors={vectors}.")
    kind, X = loss_of(loss), checked_samples(X)
    for i, model in enumerate(listed):
        check_given_model(model, i)
    dtype, place = model_dtype(listed[0]), next(listed[0].parameters()).device
    X = X.to(place, dtype)
    call = frozen(listed[0])
    check_deterministic(call, X[:3])
    with torch.no_grad():
        outputs = forward(call, X[:1]).shape[1]
    targets = checked_targets(y, len(X), outputs, kind, dtype).to(place)
    moved = (X, targets)
    if train is not None:
        samples = checked_samples(train[0])
        moved = samples, checked_targets(train[1], len(samples), outputs, kind, dtype)
    if not kind.additive:
        check_loss(kind, targets, outputs, dtype)
        _check_additive(kind, targets, outputs, dtype)
    return LossCurvature(tuple(listed), X, targets, kind, moved, vectors, seed)


@dataclass(frozen=True, eq=False, repr=False)
class LossCurvature:
    """The mean over models and samples of ∇²ₓℓ, and of its parts; see `loss_curvature`."""

    models: tuple[nn.Module, ...]
    X: Tensor
    y: Tensor
    loss: Loss
    train: tuple[Tensor, Tensor]
    vectors: int | None = None
    seed: int = 0

    @property
    def d(self) -> int:
        return self.X[0].numel()

    # --- products with vectors --------------------------------------------------------------------------------

    def matvec(self, v: Tensor) -> Tensor:
        """∇²ₓℓ v for one vector or a batch, flat (…, d) or shaped (…, *input_shape); float64, same shape back."""
        return self._product(v, *TERMS)

    def gauss_newton(self, v: Tensor) -> Tensor:
        """Jᵀ H_ℓ J v: what equation 6 keeps."""
        return self._product(v, "gauss_newton")

    def residual(self, v: Tensor) -> Tensor:
        """Σ_o e_o ∇²ₓf_o v: what equation 6 leaves out."""
        return self._product(v, "residual")

    def second(self, v: Tensor) -> Tensor:
        """(J̇ᵀ H_ℓ J + Jᵀ H_ℓ J̇) v: what is kept of the time derivative."""
        return self._product(v, "second")

    def third(self, v: Tensor) -> Tensor:
        """Jᵀ (∂³ℓ[ḟ]) J v: what the paper takes to be small (|ℓ'''| ≤ 1/(6√3) for the logistic loss)."""
        return self._product(v, "third")

    def residual_rate(self, v: Tensor) -> Tensor:
        """d/dt (Σ_o e_o ∇²ₓf_o) v: left out with equation 6."""
        return self._product(v, "residual_rate")

    def products(self, v: Tensor, *, rates: bool = False) -> dict[str, Tensor]:
        """Every term of the curvature, or of its rate in time, times v, in one pass.

        Parameters
        ----------
        v : Tensor of shape (..., d) or (..., *input_shape)
            One vector or a batch.
        rates : bool, default False
            The terms of the time derivative instead.

        Returns
        -------
        dict of str to Tensor
            ``"gauss_newton"`` and ``"residual"``, or ``"second"``, ``"third"`` and ``"residual_rate"``: what the
            methods of these names give, float64 in the shape of `v`.
        """
        return self._products(v, RATES if rates else TERMS)

    # --- how much is left out ---------------------------------------------------------------------------------

    @property
    def gap(self) -> Estimate:
        """‖∇²ₓℓ − JᵀH_ℓJ‖ / ‖∇²ₓℓ‖ (Frobenius) of the means over samples and models."""
        return self._ratio(("residual",), TERMS, pointwise=False)

    @property
    def pointwise_gap(self) -> Estimate:
        """The same of single samples: root of Σ‖·‖² over Σ‖·‖²; opposite signs cannot cancel here."""
        return self._ratio(("residual",), TERMS, pointwise=True)

    @property
    def third_share(self) -> Estimate:
        """‖Jᵀ(∂³ℓ[ḟ])J‖ / ‖d/dt(JᵀH_ℓJ)‖ of the means: what is neglected of the time derivative of equation 6."""
        return self._ratio(("third",), ("second", "third"), pointwise=False)

    @property
    def rate_gap(self) -> Estimate:
        """‖d/dt ∇²ₓℓ − (J̇ᵀH_ℓJ + JᵀH_ℓJ̇)‖ / ‖d/dt ∇²ₓℓ‖ of the means: everything that is neglected there."""
        return self._ratio(("third", "residual_rate"), RATES, pointwise=False)

    @cached_property
    def slope(self) -> float:
        """√E‖∂ℓ/∂f‖²: the Gauss–Newton part is all there is once this is zero."""
        total = 0.0
        for model in self.models:
            for x, y in self._slices():
                with torch.no_grad():
                    f = forward(frozen(model), x)
                total += float(in_double(self.loss.derivative(f, y)).square().sum())
        return math.sqrt(total / len(self.models) / len(self.X))

    def _ratio(self, part: tuple[str, ...], whole: tuple[str, ...], *, pointwise: bool) -> Estimate:
        over, under = (self._norms2(names, pointwise=pointwise) for names in (part, whole))
        if float(under.sum()) == 0:
            return Estimate(math.nan, math.nan, 0)
        value = math.sqrt(float(over.sum() / under.sum()))
        if self._exact:
            return Estimate(value)
        n = len(over)
        left = ((over.sum() - over) / (under.sum() - under)).sqrt()
        return Estimate(value, math.sqrt((n - 1) / n * float((left - left.mean()).square().sum())), n)

    def _norms2(self, names: tuple[str, ...], *, pointwise: bool) -> Tensor:
        """‖A v‖² for every random vector v, A a sum of terms: of the mean over samples, or summed over samples."""
        means, grams = self._rate_table if names[-1] in RATES else self._table
        if pointwise:
            return torch.stack([grams[a, b] for a in names for b in names]).sum(0)
        return torch.stack([means[name] for name in names]).sum(0).square().sum(1)

    @property
    def _exact(self) -> bool:
        return self.vectors is None and self.d <= EXACT

    @cached_property
    def _table(self) -> Table:
        return self._measured(rates=False)

    @cached_property
    def _rate_table(self) -> Table:
        return self._measured(rates=True)

    @one_thread()
    def _measured(self, *, rates: bool) -> Table:
        if self._exact:
            V = torch.eye(self.d, dtype=torch.float64)
        else:
            generator = torch.Generator().manual_seed(self.seed)
            V = torch.randint(0, 2, (self.vectors or VECTORS, self.d), generator=generator).double() * 2 - 1
        names = RATES if rates else TERMS
        means = {name: torch.zeros_like(V) for name in names}
        grams = {(a, b): torch.zeros(len(V), dtype=torch.float64) for a in names for b in names}
        for terms in self._terms(V, rates=rates):
            for a in names:
                means[a] += terms[a].sum(1)
                for b in names:
                    grams[a, b] += (terms[a] * terms[b]).sum((1, 2))
        return means, grams

    def _product(self, v: Tensor, *names: str) -> Tensor:
        """The sum of some terms times v."""
        each = list(self._products(v, names).values())
        return sum(each[1:], each[0])

    @one_thread()
    def _products(self, v: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
        v = torch.as_tensor(v)
        if v.shape[-1:] != (self.d,) and v.shape[v.dim() - self.X.dim() + 1 :] != self.X.shape[1:]:
            raise NetgrainError(f"expected vectors of shape (…, {self.d}), found {tuple(v.shape)}.")
        pieces = []
        for V in v.reshape(-1, self.d).split(VECTORS_AT_ONCE):
            total = {name: torch.zeros(len(V), self.d, dtype=torch.float64) for name in names}
            for terms in self._terms(V, rates=names[-1] in RATES):
                for name in names:
                    total[name] += terms[name].sum(1)
            pieces.append(total)
        count = len(self.models) * len(self.X)
        return {name: (torch.cat([piece[name] for piece in pieces]) / count).reshape(v.shape) for name in names}

    # --- the derivatives --------------------------------------------------------------------------------------

    def _slices(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from zip(self.X.split(SAMPLES_AT_ONCE), self.y.split(SAMPLES_AT_ONCE), strict=True)

    def _terms(self, V: Tensor, *, rates: bool) -> Iterator[dict[str, Tensor]]:
        """Per model and slice of the samples, every term times every v: (vectors, samples, d), float64 on the CPU."""
        for i, model in enumerate(self.models):
            parameters = {name: p.detach() for name, p in model.named_parameters()}
            speed: dict[str, Tensor] = {}
            if rates:
                moving = [n for n, p in model.named_parameters() if p.requires_grad] or list(parameters)
                speed = weight_velocity(model, *self.train, self.loss, moving, who=f"model {i}")
                prepare_forward_mode()
            for x, y in self._slices():
                try:
                    with forward_mode.dual_level() if rates else nullcontext():
                        dual = {n: forward_mode.make_dual(parameters[n], t) for n, t in speed.items()}
                        found = self._at(partial(called_with, model, parameters | dual), x, y, V.to(x), rates=rates)
                except NotImplementedError as e:
                    reason = str(e).splitlines()[0]
                    raise NetgrainError(f"rates need forward-mode derivatives of the model: {reason}") from e
                yield found

    def _at(self, call: partial[Tensor], x: Tensor, y: Tensor, V: Tensor, *, rates: bool) -> dict[str, Tensor]:
        rows: dict[str, list[Tensor]] = {name: [] for name in (RATES if rates else TERMS)}
        with torch.enable_grad(), twice_differentiable():
            x = x.detach().requires_grad_(True)
            f = forward(call, x)
            (e,) = torch.autograd.grad(self.loss.value(f, y), f, create_graph=True)
            w = _leaf(e, rates=rates)
            pulled = _pull(f, x, w, create_graph=True)  # Jᵀw, a function of x and w
            for v in V.reshape(-1, *x.shape[1:]):
                v = v.expand_as(x)
                Jv, residual = _pull(pulled, w, v), _pull(pulled, x, v)
                bent = _pull(e, f, Jv, create_graph=rates)  # H_ℓ J v
                kept = _pull(f, x, bent)
                if not rates:
                    found = {"gauss_newton": kept, "residual": residual}
                else:
                    speed = _rate(f)
                    third = _pull(f, x, _pull(bent, f, speed).detach())  # ∂³ℓ is symmetric: a pull is a push
                    third = forward_mode.unpack_dual(third).primal
                    found = {"second": _rate(kept) - third, "third": third, "residual_rate": _rate(residual)}
                for name, value in found.items():
                    rows[name].append(value.detach().flatten(1).cpu().double())
        return {name: torch.stack(values) for name, values in rows.items()}

    def __repr__(self) -> str:
        count = len(self.models)
        facts = [f"d={self.d}", f"{self.loss.name} at {len(self.X)} samples", f"{count} model{'s' * (count != 1)}"]
        facts.append(f"slope {self.slope:.3g}")
        return f"LossCurvature({', '.join(facts)})"


def _leaf(e: Tensor, *, rates: bool) -> Tensor:
    """e as a variable of its own, with its rate of change."""
    if not rates:
        return e.detach().requires_grad_(True)
    primal = forward_mode.unpack_dual(e).primal.detach().requires_grad_(True)
    dual: Tensor = forward_mode.make_dual(primal, _rate(e))
    return dual


def _rate(t: Tensor) -> Tensor:
    value, rate = forward_mode.unpack_dual(t)
    return torch.zeros_like(value) if rate is None else rate.detach()


def _pull(of: Tensor, at: Tensor, along: Tensor, *, create_graph: bool = False) -> Tensor:
    """(∂of/∂at)ᵀ along; zero where they are not connected."""
    if not of.requires_grad:
        return torch.zeros_like(at)
    found = torch.autograd.grad(of, at, along, retain_graph=True, create_graph=create_graph, allow_unused=True)[0]
    return torch.zeros_like(at) if found is None else found


def _check_additive(loss: Loss, y: Tensor, outputs: int, dtype: torch.dtype) -> None:
    """Refuse a user's loss that is not a sum over samples: the curvature at one sample would depend on the others."""
    few = y[:4]
    f = torch.randn(len(few), outputs, generator=torch.Generator().manual_seed(1)).to(y.device, dtype)
    with torch.no_grad():
        whole = float(loss.value(f, few))
        apart = sum(float(loss.value(f[i : i + 1], few[i : i + 1])) for i in range(len(few)))
    if abs(whole - apart) > 1e-4 * (abs(whole) + abs(apart)):
        raise NetgrainError(
            f"expected a loss that is a sum over samples, found {whole:.4g} for four samples and {apart:.4g} for them "
            "one by one; sum instead of taking the mean."
        )
