"""The local learning coefficient: how fast the loss grows around a minimum, counted in parameters (experimental).

    λ̂ = nβ (E_β[L_n(w)] − L_n(w*)),     β = 1/log n,     p_β(w) ∝ exp(−nβ L_n(w) − γ‖w − w*‖²/2)

A minimum of d well-determined directions has λ = d/2, L = w^{2m} has 1/(2m), flat directions count nothing: half the
number of parameters that matter. The expectation is over stochastic gradient Langevin dynamics from w*
(Lau et al., The local learning coefficient, 2308.12108):

    w ← w − (ε/2)(nβ ∇L_batch(w) + γ(w − w*)) + N(0, ε)
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from netgrain.complexity.checks import check_mode, checked_points
from netgrain.families.members import forward, model_dtype
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.threads import one_thread
from netgrain.training.losses import Loss, LossLike, checked_targets, loss_of

BLOCKS = 10  # a trace is cut into so many means, whose scatter allows for correlated draws
UNSETTLED = 5.0  # standard errors between the halves of a chain that call for a warning


@dataclass(frozen=True, eq=False, repr=False)
class LearningCoefficient:
    """Estimate of the local learning coefficient, with its chains. Experimental.

    Attributes
    ----------
    value : Estimate
        λ̂, the mean over chains that stayed finite.
    chains : Tensor of shape (chains,)
        λ̂ of each chain, NaN where it diverged.
    traces : Tensor of shape (chains, draws)
        L_n along each chain after burn-in; with batches L_batch(w) − L_batch(w*) + L_n(w*).
    loss : float
        L_n(w*).
    drift : Tensor of shape (chains,)
        Second half minus first half of a trace, in standard errors.
    parameters : int
        Number of weights that are sampled.
    n : int
        Number of samples.
    beta : float
        Inverse temperature 1/log n.
    warnings : tuple of str
        Reasons to distrust the result, if any.
    """

    value: Estimate  # mean over chains that stayed finite
    chains: Tensor  # (chains,) λ̂ of each, NaN where it diverged
    traces: (
        Tensor  # (chains, draws) L_n along each chain after burn-in; with batches L_batch(w) − L_batch(w*) + L_n(w*)
    )
    loss: float  # L_n(w*)
    drift: Tensor  # (chains,) second half minus first half of a trace, in standard errors
    parameters: int
    n: int
    beta: float
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        notes = "".join(f"; {text}" for text in self.warnings)
        return (
            f"LearningCoefficient({self.value}, experimental, {len(self.chains)} chains of {self.traces.shape[1]} "
            f"draws, {self.parameters} parameters, n = {self.n}{notes})"
        )


@one_thread()
def local_learning_coefficient(
    model: nn.Module,
    X: Tensor,
    y: Tensor,
    loss: LossLike = "cross-entropy",
    *,
    step: float = 1e-4,
    localisation: float = 100.0,
    chains: int = 4,
    draws: int = 1000,
    burn_in: int = 200,
    batch: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> LearningCoefficient:
    """Local learning coefficient around the weights of a model. Experimental.

    λ̂ = nβ(E_β[L_n] − L_n(w*)), by Langevin sampling around the weights w*; L_n is the mean loss over the n samples, β
    = 1/log n. A minimum of d well-determined directions has λ = d/2; flat directions add nothing.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        The training samples.
    y : Tensor
        Labels or targets, as the loss takes them.
    loss : {"cross-entropy", "sse"} or callable, default "cross-entropy"
        ``"sse"`` is ½‖f − y‖² per sample; your own function (outputs, y) sums over samples.
    step : float, default 1e-4
        Step ε of the dynamics.
    localisation : float, default 100
        Strength γ of the pull back to w*.
    chains : int, default 4
        Number of independent chains; the standard error is over chains.
    draws : int, default 1000
        Number of draws of each chain.
    burn_in : int, default 200
        Steps before the first draw.
    batch : int, optional
        Samples per gradient; by default all. Losses are then taken on the batch, relative to w* on it.
    seed : int, default 0
        Seed of everything random.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    LearningCoefficient
        λ̂ with its standard error, and the traces behind it.

    Raises
    ------
    NetgrainError
        If fewer than two chains stay finite.

    Warns
    -----
    GrainWarning
        If a value is negative, a chain diverges or a trace still drifts; tune `step` until none does.

    Notes
    -----
    In a direction of curvature h the chain finds ½·nβh/(nβh + γ)/(1 − ε(nβh + γ)/4) instead of ½: γ hides flat
    directions, a long step inflates steep ones, and beyond ε(nβh + γ) = 4 it diverges. Weights that are not at a
    minimum give negative values.

    References
    ----------
    .. [1] Lau, Furman, Wang, Murfet, Wei, "The local learning coefficient", arXiv 2308.12108.

    Examples
    --------
    One weight at the minimum of L = w²/2, a regular model of one parameter, λ = 1/2.

    >>> net = nn.Linear(1, 1, bias=False)
    >>> _ = net.weight.data.zero_()
    >>> options = dict(step=5e-3, localisation=0.0, draws=1000)
    >>> found = local_learning_coefficient(net, torch.ones(100, 1), torch.zeros(100, 1), "sse", **options)
    >>> abs(found.value - 0.5) < 4 * found.value.stderr
    True
    """
    if not (step > 0 and math.isfinite(step)) or not (localisation >= 0 and math.isfinite(localisation)):
        raise NetgrainError(f"expected step > 0 and localisation ≥ 0, found {step} and {localisation}.")
    if chains < 2 or draws < 2 * BLOCKS or burn_in < 0:
        raise NetgrainError(
            f"expected at least 2 chains of {2 * BLOCKS} draws and burn_in ≥ 0, "
            f"found chains={chains}, draws={draws}, burn_in={burn_in}."
        )
    check_mode(model)
    if (weight := next(model.parameters(), None)) is None:
        raise NetgrainError(f"{type(model).__name__} has no parameters; expected weights to sample around.")
    X = checked_points(X).to(weight.device, model_dtype(model))
    n = len(X)
    if n < 3:
        raise NetgrainError(f"expected at least three samples (β = 1/log n), found {n}.")
    if batch is not None and not 1 <= batch <= n:
        raise NetgrainError(f"expected a batch of 1 to {n} samples, found {batch}.")
    kind = loss_of(loss)
    sampler = _Sampler(model, X, y, kind, step, localisation, batch)
    with Bar("draws", draws + burn_in, progress) as bar:
        traces = sampler.traces([derived_seed(seed, "chain", c) for c in range(chains)], draws, burn_in, bar)
    return _summary(traces, sampler)


class _Sampler:
    """Langevin dynamics on one flat vector of weights around w*."""

    def __init__(
        self, model: nn.Module, X: Tensor, y: Tensor, loss: Loss, step: float, localisation: float, batch: int | None
    ) -> None:
        self.model, self.X, self.loss = model, X, loss
        self.step, self.localisation, self.batch = step, localisation, batch
        self.n, self.beta = len(X), 1 / math.log(len(X))
        named = dict(model.named_parameters())
        # the weights a user trains; a model frozen as a whole is sampled as a whole
        moving = {k: p for k, p in named.items() if p.requires_grad} or named
        self.shapes = {k: p.shape for k, p in moving.items()}
        self.rest = {k: p.detach() for k, p in named.items() if k not in moving}
        self.rest |= {k: b.detach().clone() for k, b in model.named_buffers()}
        self.centre = torch.cat([p.detach().flatten() for p in moving.values()])
        with torch.no_grad():
            f = self._outputs(self.centre, X)
        self.y = checked_targets(y, self.n, f.shape[1], loss, X.dtype).to(X.device)
        self.at_centre = float(loss.value(f, self.y)) / self.n
        if not math.isfinite(self.at_centre):
            raise NetgrainError(f"the loss of the model itself is {self.at_centre}; expected a finite number.")

    def _outputs(self, w: Tensor, x: Tensor) -> Tensor:
        pieces = w.split([s.numel() for s in self.shapes.values()])
        weights = {k: p.view(s) for (k, s), p in zip(self.shapes.items(), pieces, strict=True)}
        return forward(lambda x: functional_call(self.model, weights | self.rest, (x,)), x)

    def traces(self, seeds: list[int], draws: int, burn_in: int, bar: Bar) -> Tensor:
        """L_n(w) at every draw of every chain, (chains, draws); NaN for a chain that did not stay finite."""
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]  # a chain does not know of the others
        w = self.centre.repeat(len(seeds), 1)
        x, y = self.X.expand(len(seeds), *self.X.shape), self.y.expand(len(seeds), *self.y.shape)
        losses = torch.full((len(seeds), draws), math.nan, dtype=torch.float64)
        for t in range(-burn_in, draws + 1):  # the loss comes with the gradient, so draw t is read one step later
            if self.batch is not None:
                size = (self.batch,)
                chosen = [torch.randint(self.n, size, generator=g).to(self.X.device) for g in generators]
                x, y = (torch.stack([all_of_it[i] for i in chosen]) for all_of_it in (self.X, self.y))
            slope, value = self._slopes(w, x, y)
            if t > 0:
                losses[:, t - 1] = value + (0.0 if self.batch is None else self._correction(x, y))
            noise = torch.stack([torch.randn(w.shape[1], generator=g, dtype=w.dtype) for g in generators]).to(w.device)
            force = self.n * self.beta * slope + self.localisation * (w - self.centre)
            w = w - self.step / 2 * force + math.sqrt(self.step) * noise
            if t < draws:
                bar.advance()
        losses[~torch.isfinite(losses).all(1) | ~torch.isfinite(w).all(1).cpu()] = math.nan
        return losses

    def _slopes(self, w: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """∇L (chains, parameters) and L (chains,) at the weights of every chain, each on samples of its own.

        A loop: torch.func.vmap over chains was no faster for small models, and not every module knows it.
        """
        with torch.enable_grad():
            leaf = w.detach().requires_grad_(True)
            chains = zip(leaf, x, y, strict=True)
            losses = torch.stack([self.loss.value(self._outputs(w, x), y) / len(x) for w, x, y in chains])
            (slope,) = torch.autograd.grad(losses.sum(), leaf)
        return slope, losses.detach().cpu().double()

    @torch.no_grad()
    def _correction(self, x: Tensor, y: Tensor) -> Tensor:
        """L_n(w*) − L_batch(w*): what the choice of a batch adds to a loss, which would drown what w adds."""
        samples = zip(x, y, strict=True)
        chance = torch.stack([self.loss.value(self._outputs(self.centre, x), y) / len(x) for x, y in samples])
        return self.at_centre - chance.cpu().double()


def _summary(traces: Tensor, sampler: _Sampler) -> LearningCoefficient:
    each = sampler.n * sampler.beta * (traces.mean(1) - sampler.at_centre)
    kept = each[torch.isfinite(each)]
    if len(kept) < 2:
        raise NetgrainError(
            f"{len(each) - len(kept)} of {len(each)} chains diverged with step={sampler.step:g}; pass a smaller step."
        )
    drift = _drift(traces)
    notes = []
    if len(kept) < len(each):
        notes.append(f"{len(each) - len(kept)} of {len(each)} chains diverged and were left out: pass a smaller step")
    if bool((kept < 0).any()):
        notes.append(f"{int((kept < 0).sum())} chains are negative: the weights are not at a minimum of the loss")
    if bool((drift.abs() > UNSETTLED).any()):
        worst = float(drift[torch.isfinite(drift)].abs().max())
        notes.append(f"a trace still drifts ({worst:.1f} standard errors between its halves): pass a longer burn_in")
    for text in notes:
        warnings.warn(f"local learning coefficient: {text}.", GrainWarning, stacklevel=4)
    parameters = sampler.centre.numel()
    return LearningCoefficient(
        mean_of(kept), each, traces, sampler.at_centre, drift, parameters, sampler.n, sampler.beta, tuple(notes)
    )


def _drift(traces: Tensor) -> Tensor:
    """Second half minus first half, in standard errors: a crude diagnostic.

    The error is that of two means like the second half's, from the scatter of its block means: draws are correlated,
    and a first half that has not settled would hide its own drift in its own scatter.
    """
    length = traces.shape[1] // (2 * BLOCKS) * 2 * BLOCKS
    blocks = traces[:, :length].reshape(len(traces), 2, BLOCKS, -1).mean(3)
    means, error = blocks.mean(2), (2 * blocks[:, 1].var(1) / BLOCKS).sqrt()
    return (means[:, 1] - means[:, 0]) / error.clamp_min(1e-300)
