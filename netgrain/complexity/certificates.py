"""A bound on the error of a classifier from how steep it is and how far its margins are from zero.

With the margin m = f_y − max_{j≠y} f_j of class c, ‖∇m‖² ≤ 2‖J‖_F². A Poincaré inequality with constant c_P of the law
of the class turns steepness into spread, Var m ≤ c_P E‖∇m‖² ≤ 2 c_P GC_c, and Cantelli's inequality spread into error:

    P(m ≤ 0) ≤ g / (1 + g),     g = 2 c_P GC_c / (E m)²,     if E m > 0

The population version of the bounds of 2405.18590. What it stands on is c_P, which no sample can certify.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.complexity.checks import check_finite, checked_labels
from netgrain.complexity.estimators import BATCH, Effort, squared_norms
from netgrain.complexity.functions import MeasuredFunction, map_of
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.runtime.devices import in_double
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.threads import one_thread

Poincare = float | Mapping[int, float] | str
LEVEL = 0.975  # of each of two one-sided limits, so that both hold with 95 %


@dataclass(frozen=True)
class ClassBound:
    """Error bound of one class, from the estimates and from pessimistic limits.

    Attributes
    ----------
    label : int
        The class.
    margin : Estimate
        Mean margin E m over the samples of the class, m = f_y − max_{j≠y} f_j.
    gc : Estimate
        Geometric complexity GC_c, with its standard error over the samples of the class.
    slope : Estimate
        E‖∇m‖² ≤ 2 GC_c.
    poincare : float
        The constant c_P of the class.
    bound : float
        g/(1 + g) with g = 2 c_P GC_c/(E m)², 1 where E m ≤ 0.
    sharp : float
        The same with E‖∇m‖² instead of 2 GC_c.
    pessimistic : float
        `bound` with the lower limit of E m and the upper limit of GC_c.
    error : float
        Share of the given samples with m ≤ 0.
    """

    label: int
    margin: Estimate  # E m
    gc: Estimate  # GC_c; the standard error is that over the samples of the class
    slope: Estimate  # E‖∇m‖² ≤ 2 GC_c
    poincare: float
    bound: float  # g/(1 + g) with g = 2 c_P GC_c/(E m)², 1 where E m ≤ 0
    sharp: float  # the same with E‖∇m‖² in the place of 2 GC_c
    pessimistic: float  # the first with the lower limit of E m and the upper limit of GC_c
    error: float  # share of the samples at hand with m ≤ 0

    @property
    def vacuous(self) -> bool:
        """Whether the bound is 1 and so carries no information."""
        return self.bound >= 1


@dataclass(frozen=True, repr=False)
class ErrorBound:
    """Upper bounds on a classifier's error, class by class; see `gc_error_bound`.

    Attributes
    ----------
    classes : tuple of ClassBound
        One bound for each class with samples.
    shares : tuple of float
        Share of each class among the samples.
    assumption : str
        The assumption about the Poincaré constants, in words.
    """

    classes: tuple[ClassBound, ...]
    shares: tuple[float, ...]  # of the classes among the samples
    assumption: str

    def _mean(self, name: str) -> float:
        return sum(share * float(getattr(c, name)) for share, c in zip(self.shares, self.classes, strict=True))

    @property
    def bound(self) -> float:
        """Error over all classes, in the proportions of the sample, at the estimates."""
        return self._mean("bound")

    @property
    def sharp(self) -> float:
        """Error over all classes, from the slopes of the margins themselves."""
        return self._mean("sharp")

    @property
    def pessimistic(self) -> float:
        """Error over all classes, at pessimistic 95% limits."""
        return self._mean("pessimistic")

    @property
    def error(self) -> float:
        """Share of the given samples that are misclassified."""
        return self._mean("error")

    @property
    def vacuous(self) -> tuple[int, ...]:
        """Classes without a useful bound, because their mean margin is not above zero."""
        return tuple(c.label for c in self.classes if c.vacuous)

    def __repr__(self) -> str:
        empty = f"; vacuous for {len(self.vacuous)} of {len(self.classes)} classes" if self.vacuous else ""
        return (
            f"ErrorBound(error ≤ {self.bound:.3g}, ≤ {self.pessimistic:.3g} at pessimistic 95 % limits, "
            f"{self.error:.3g} on the sample{empty}; assuming {self.assumption})"
        )


@one_thread()
def gc_error_bound(
    model: nn.Module,
    X: Tensor,
    y: Tensor,
    *,
    poincare: Poincare = "gaussian",
    batch: int = BATCH,
    seed: int = 0,
) -> ErrorBound:
    """Upper bound on a classifier's error from its slopes and margins.

    For every class c with samples in X, err_c ≤ g/(1 + g) with g = 2 c_P GC_c/(E m)², m = f_y − max_{j≠y} f_j, if E m >
    0. E m and GC_c are means over samples: `bound` uses the means themselves, `pessimistic` their one-sided limits at a
    joint level of 95% (Student's t, so valid for many samples). Neither accounts for an error in c_P.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        Samples the model was not trained on; on training samples the margins only measure memorisation.
    y : Tensor of shape (samples,)
        Labels, whole numbers from 0.
    poincare : "gaussian", float or dict of int to float, default "gaussian"
        The Poincaré constant c_P of the distribution of a class. A float is used for all classes, a dict gives one for
        each, and ``"gaussian"`` takes the largest eigenvalue of the class's covariance, which is right for Gaussian
        data. That is an assumption about the data; the result records it.
    batch : int, default 256
        Number of points to differentiate together; it changes the result only by rounding.
    seed : int, default 0
        Seed of everything random.

    Returns
    -------
    ErrorBound
        Bounds class by class and over all classes.

    References
    ----------
    .. [1] Munn, Dherin, Gonzalvo, "A margin-based multiclass generalization bound via geometric
       complexity", arXiv 2405.18590.

    Examples
    --------
    Two classes around x = ±2 with f = (x, −x): m = ±2x, so E m = 4, GC = 2, and with c_P = 1 g = 4/16, g/(1 + g) = 1/5.

    >>> net = nn.Linear(1, 2, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
    >>> X = torch.tensor([[1.0], [3.0], [-1.0], [-3.0]])
    >>> found = gc_error_bound(net, X, torch.tensor([0, 0, 1, 1]), poincare=1.0)
    >>> [(c.label, c.gc.value, c.margin.value, c.bound) for c in found.classes]
    [(0, 2.0, 4.0, 0.2), (1, 2.0, 4.0, 0.2)]
    """
    with map_of(model, X) as f:
        if f.k < 2:
            raise NetgrainError("expected a classifier with at least two outputs, found one: margins need a rival.")
        labels = checked_labels(y, f.n, f.k)
        norms = squared_norms(f, Effort(batch=batch, seed=seed)).values
        margins, slopes = _margins(f, labels, batch)
        constants, assumption = poincare_constants(f.X, labels, poincare)
    classes, shares = [], []
    for c, constant in constants.items():
        own = labels == c
        m, gc, slope = (mean_of(t[own], alone=math.inf) for t in (margins, norms, slopes))
        low, high = m.value - _reach(m), gc.value + _reach(gc)
        classes.append(
            ClassBound(
                c,
                m,
                gc,
                slope,
                constant,
                _cantelli(2 * constant * gc.value, m.value),
                _cantelli(constant * slope.value, m.value),
                _cantelli(2 * constant * high, low),
                float((margins[own] <= 0).double().mean()),
            )
        )
        shares.append(int(own.sum()) / len(labels))
    return ErrorBound(tuple(classes), tuple(shares), assumption)


def _cantelli(variance: float, mean: float) -> float:
    """P(m ≤ 0) ≤ variance / (variance + mean²) for mean > 0."""
    if not mean > 0 or not math.isfinite(variance):
        return 1.0
    return variance / (variance + mean**2)


def _reach(estimate: Estimate) -> float:
    from scipy.special import stdtrit  # here, so that importing netgrain stays light

    return float(stdtrit(max(estimate.n - 1, 1), LEVEL)) * estimate.stderr if estimate.stderr else 0.0


def _margins(f: MeasuredFunction, labels: Tensor, batch: int) -> tuple[Tensor, Tensor]:
    """f_y − max_{j≠y} f_j and its squared gradient, at every point."""
    margins, slopes = [], []
    for part in torch.arange(f.n).split(batch):
        with torch.enable_grad():
            x = f.points(part).requires_grad_(True)
            z = f.call(x)
            own = torch.nn.functional.one_hot(labels[part], f.k).bool().to(z.device)
            m = z[own] - z.masked_fill(own, -math.inf).amax(1)
            g = torch.autograd.grad(m.sum(), x, allow_unused=True)[0] if m.requires_grad else None
        margins.append(m.detach().cpu().double())
        slopes.append(torch.zeros(len(part)).double() if g is None else in_double(g).flatten(1).square().sum(1).cpu())
    found = torch.cat(margins), torch.cat(slopes)
    check_finite(found[1])
    return found


def poincare_constants(X: Tensor, labels: Tensor, poincare: Poincare) -> tuple[dict[int, float], str]:
    """c_P of every class that has samples, and in words what was assumed.

    "gaussian" is the largest eigenvalue of the covariance (divided by n − 1):

    >>> constants, _ = poincare_constants(torch.tensor([[0.0, 1.0], [2.0, 1.0]]), torch.tensor([3, 3]), "gaussian")
    >>> round(constants[3], 9)
    2.0
    """
    present = labels.unique().tolist()
    if isinstance(poincare, str):
        if poincare != "gaussian":
            raise NetgrainError(f"poincare expects a number, a dictionary by class or 'gaussian', found {poincare!r}.")
        found = {}
        for c in present:
            own = X[(labels == c).to(X.device)].flatten(1).cpu().double()
            if len(own) < 2:
                raise NetgrainError(f"class {c} has one sample, and so no covariance; pass poincare as a number.")
            top = torch.linalg.matrix_norm(own - own.mean(0), ord=2)
            found[c] = float(top) ** 2 / (len(own) - 1)
        return found, "Gaussian classes, c_P the largest eigenvalue of each sample covariance"
    if isinstance(poincare, Mapping):
        missing = [c for c in present if c not in poincare]
        if missing:
            raise NetgrainError(f"poincare has no constant for class {missing[0]}; expected one for every class of y.")
        found = {c: float(poincare[c]) for c in present}
    else:
        found = dict.fromkeys(present, float(poincare))
    if not all(c > 0 and math.isfinite(c) for c in found.values()):
        raise NetgrainError(f"expected Poincaré constants above zero, found {sorted(found.values())[0]:g}.")
    return found, "Poincaré constants as given"
