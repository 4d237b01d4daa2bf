"""A statement of the paper as a value: what it says, what is true, what was measured, and two verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from netgrain.experiments.claims import FAILS, HOLDS, UNDECIDED, Basis, finite
from netgrain.experiments.contract import SCALES
from netgrain.geometry.correlation import Deletions, applied, distinct_pairs, jackknife_one
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.randomness import generator_for

T = TypeVar("T")
SIGMAS = 4.0  # standard errors within which a measured number equals a predicted one


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One number of one statement of the paper on geometric inductive biases.

    Attributes
    ----------
    name : str
        The statement, for example ``"theorem-3.1"``; the table in `measuring` fills it in.
    quantity : str
        What was measured.
    claim : str
        What the paper says.
    assumptions : str
        What the statement and the measurement assume.
    measured : Estimate
        The number with its error.
    predicted : float or None
        What is true; None if nothing is predicted.
    printed : str
        What the paper prints for this number.
    paper : str
        Verdict on what is printed; empty if the number could not contradict it.
    corrected : str
        Verdict on what is predicted here.
    rate, claimed_rate : float or None
        Fitted slope in log-log and the slope that the paper claims, where a rate is claimed.
    seconds : float
        Time of the measurement.
    note : str
        What a reader must know beside the number.
    basis : {"paper", "derived", "identity", "counter", "own"}
        What the verdict rests on, as for a claim of an experiment.
    covers : tuple of int
        Numbers of the statements of the sources that it settles, as listed in docs/coverage.md; the table in
        `measuring` fills them in.
    """

    name: str = ""
    quantity: str
    claim: str
    assumptions: str
    measured: Estimate
    predicted: float | None
    printed: str
    paper: str
    corrected: str
    rate: float | None = None
    claimed_rate: float | None = None
    seconds: float = 0.0
    note: str = ""
    basis: Basis = "own"
    covers: tuple[int, ...] = ()

    @property
    def verdict(self) -> str:
        """On the paper's statement; on ours where the paper prints none."""
        return self.paper or self.corrected

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        m = self.measured
        numbers = {"measured": m.value, "stderr": m.stderr, "n": m.n, "plug_in": m.plug_in, "verdict": self.verdict}
        return finite(asdict(self) | numbers)


@dataclass(frozen=True)
class Job:
    """What every check is asked with."""

    scale: str = "smoke"
    seed: int = 0
    data_dir: str | None = None

    @property
    def laptop(self) -> bool:
        """Whether it is more than smoke."""
        return self.scale != "smoke"

    @property
    def paper(self) -> bool:
        return self.scale == "paper"

    def pick(self, smoke: T, laptop: T, paper: T | None = None) -> T:
        """The value of the scale; that of laptop scale where the paper's is not another."""
        return dict(zip(SCALES, (smoke, laptop, laptop if paper is None else paper), strict=True))[self.scale]

    def generator(self, *labels: int | str) -> torch.Generator:
        return generator_for(self.seed, "theory", *labels)

    def normal(self, shape: tuple[int, ...], *labels: int | str) -> Tensor:
        """Independent N(0, 1) numbers in double precision."""
        return torch.randn(shape, generator=self.generator(*labels), dtype=torch.float64)


StatementCheck = Callable[[Job], list[Statement]]


def same(measured: Estimate, value: float, *, tolerance: float = 0.0, sigmas: float = SIGMAS) -> str:
    """Whether a measured number is this value: within `sigmas` standard errors or the tolerance.

    >>> same(Estimate(1.02, 0.01, 100), 1.0), same(Estimate(1.02, 0.01, 100), 2.0)
    ('holds', 'fails')
    >>> same(Estimate(1.02, 0.5, 100), 1.0)  # an error bar of half the value decides nothing
    'undecided'
    """
    gap, reach = abs(measured.value - value), max(sigmas * measured.stderr, tolerance, 1e-12 * abs(value))
    if math.isnan(gap) or math.isnan(measured.stderr):
        return UNDECIDED
    if gap > reach:
        return FAILS
    size = max(abs(value), abs(measured.value))
    return HOLDS if reach <= max(tolerance, 0.5 * size) or size == 0 else UNDECIDED


def holds_if(condition: bool) -> str:
    return HOLDS if condition else FAILS


def compared(
    quantity: str,
    measured: Estimate,
    *,
    claim: str,
    assumptions: str,
    predicted: float | None = None,
    printed: float | str = "",
    paper: str | None = None,
    corrected: str | None = None,
    tolerance: float = 0.0,
    sigmas: float = SIGMAS,
    claimed_rate: float | None = None,
    note: str = "",
    basis: Basis | None = None,
) -> Statement:
    """A row: a number as it was measured against what is predicted, and against what is printed.

    A printed number is judged like the predicted one unless `paper` is its verdict; printed words need one.
    claimed_rate: the printed slope, where the number is a fitted one. basis: by default "paper" where what is printed
    is judged, else "derived" where something is predicted, else "own".
    """
    judged = partial(same, measured, tolerance=tolerance, sigmas=sigmas)
    if paper is None:
        paper = "" if isinstance(printed, str) else judged(printed)
    if corrected is None:
        corrected = "" if predicted is None else judged(predicted)
    return Statement(
        quantity=quantity,
        claim=claim,
        assumptions=assumptions,
        measured=measured,
        predicted=predicted,
        printed=printed if isinstance(printed, str) else f"{printed:.4g}".replace("-", "−"),
        paper=paper,
        corrected=corrected,
        rate=None if claimed_rate is None else measured.value,
        claimed_rate=claimed_rate,
        note=note,
        basis=basis or ("paper" if paper else "derived" if predicted is not None else "own"),
    )


def size(value: Estimate) -> Estimate:
    """The absolute value of a number."""
    return Estimate(abs(value.value), value.stderr, value.n, None if value.plug_in is None else abs(value.plug_in))


def divided(value: Estimate, by: float) -> Estimate:
    return Estimate(value.value / by, value.stderr / by, value.n)


def worst(found: Tensor, expected: Tensor) -> Estimate:
    """Largest deviation in standard errors of the mean over rows of `found` (samples, entries) from `expected`."""
    mean, error = found.mean(0), found.std(0) / math.sqrt(len(found))
    return Estimate(float(((mean - expected) / error).abs().max()), 0.0, len(found))


# --- correlations of sampled matrices from their products -------------------------------------------------------------


def cosine(products: Tensor, along: Tensor, norm2: float) -> Deletions:
    """Corr(A, B) over distinct members, with all deletions: ⟨A_i, A_j⟩ (n, n), ⟨A_i, B⟩ (n,) and ‖B‖² of an exact B."""
    n = torch.ones(len(along), dtype=torch.float64)
    own = distinct_pairs(products, n)
    left = n.sum() - 1, n.sum() - 2
    across = Deletions(along.mean(), (along.sum() - along) / left[0], (along.sum() - along[:, None] - along) / left[1])
    return applied(lambda ab, aa: ab / (aa * norm2).sqrt(), across, own)


def difference(after: Deletions, before: Deletions) -> Estimate:
    """How far a statistic moved between two moments of the same members."""
    return corrected(applied(torch.sub, after, before))


def corrected(statistic: Deletions, plug_in: float | None = None) -> Estimate:
    value, stderr = jackknife_one(statistic)
    return Estimate(value, stderr, len(statistic.one), plug_in)


def ratio(above: Tensor, below: Tensor) -> Estimate:
    """Ratio of two means over pairs of distinct members, from their matrices of products (n, n)."""
    n = torch.ones(len(above), dtype=torch.float64)
    return corrected(applied(torch.divide, distinct_pairs(above, n), distinct_pairs(below, n)))


# --- rates ------------------------------------------------------------------------------------------------------------


def slope(x: Sequence[float], y: Sequence[Estimate]) -> Estimate:
    """Slope of log y against log x by least squares weighted with the errors of y; NaN where a y is not positive.

    >>> round(slope([1, 10, 100], [Estimate(v) for v in (5.0, 0.5, 0.05)]), 6)
    -1.0
    """
    values = torch.tensor([v.value for v in y], dtype=torch.float64)
    errors = torch.tensor([v.stderr for v in y], dtype=torch.float64)
    if not bool((values > 0).all()):
        return Estimate(math.nan, math.nan, len(y))
    at, spread = torch.tensor(x, dtype=torch.float64).log(), errors / values
    weights = torch.ones_like(at) if bool((spread == 0).any()) else spread.pow(-2)
    centred = at - (weights * at).sum() / weights.sum()
    leverage = weights * centred / (weights * centred.square()).sum()
    value = float((leverage * values.log()).sum())
    return Estimate(value, float((leverage * spread).square().sum().sqrt()), len(y))


def slopes(x: Sequence[int], y: Sequence[Estimate], true: Sequence[float]) -> tuple[Estimate, float]:
    """The slope of measured values, and that of the true ones with the same weights, as their curve is not straight."""
    weighed = [Estimate(t, t * m.stderr / m.value) for t, m in zip(true, y, strict=True)]
    return slope(x, y), slope(x, weighed).value


def misfit(corr: Estimate) -> Estimate:
    """tan of the angle between A and B: its part off B over that along it; NaN where noise put |Corr| above 1."""
    size = abs(corr.value)
    if not 0 < size < 1:
        return Estimate(math.nan, math.nan, corr.n)
    across = math.sqrt(1 - size**2)
    return Estimate(across / size, corr.stderr / (size**2 * across), corr.n)
