"""What an experiment says: a statement with what it rests on, a number with its error, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from netgrain.geometry.estimate import Estimate

HOLDS, FAILS, UNDECIDED, NOT_FITTED = "holds", "fails", "undecided", "not fitted"
VERDICTS = (HOLDS, UNDECIDED, FAILS, NOT_FITTED)
Basis = Literal["paper", "derived", "identity", "counter", "own"]
BASES: dict[str, str] = {
    "paper": "statements of the sources",
    "derived": "consequences of them",
    "identity": "identities, true by construction",
    "counter": "counter-claims, which hold where a source is contradicted",
    "own": "our own observations",
}  # what a claim rests on → in words, for the scorecard
NORMAL_95 = 1.96  # standard errors of a 95 % interval, for many seeds
ROUNDING = 1e-9  # bounds that a value may lie on, as "in every seed", are set lower by this


@dataclass(frozen=True)
class Claim:
    """A statement of an experiment with its number, its error and its verdict.

    A claim holds if the 95 % interval of the value lies inside the bounds of the statement, fails if it lies outside,
    and is undecided otherwise. A value without a spread that lies on a bound is undecided as well: no difference at all
    is neither a positive one nor a negative one. Only an equality, low = high, is met on its bound. A claim that would
    fail for networks that have not fitted their training data as the paper's have is not fitted instead.

    Attributes
    ----------
    kind : str
        What is claimed, for example ``"predicted order"``.
    statement : str
        The claim as a sentence.
    paper : str
        What the paper says or shows, in words or numbers.
    value : float
        The measured number.
    stderr : float
        Its standard error.
    n : int
        Number of independent results behind it.
    low, high : float or None
        Bounds of the statement; None means unbounded.
    verdict : {"holds", "fails", "undecided", "not fitted"}
        The result.
    note : str
        What a reader must know beside the number.
    subject : str
        What it is claimed of, for example ``"LeNet, linear"``; empty if the kind says it all.
    basis : {"paper", "derived", "identity", "counter", "own"}
        What it rests on: a statement of a source, a consequence of one, an identity that holds by construction, the
        contrary of what a source says, or an observation of our own.
    """

    kind: str
    statement: str
    paper: str
    value: float
    stderr: float
    n: int
    low: float | None
    high: float | None
    verdict: str
    note: str = ""
    subject: str = ""
    basis: Basis = "own"

    @property
    def name(self) -> str:
        """Subject and kind, for example "LeNet, linear: predicted order"."""
        return f"{self.subject}: {self.kind}" if self.subject else self.kind

    @property
    def needs(self) -> str:
        """What would decide an open claim if value and spread stay; else empty."""
        if self.verdict == NOT_FITTED:
            return "training until the training data are fitted"
        if self.verdict != UNDECIDED:
            return ""
        if not math.isfinite(self.value) or not math.isfinite(self.stderr) or self.n < 2:
            return "at least two independent results"
        bounds = [bound for bound in (self.low, self.high) if bound is not None]
        if not bounds:
            return f"more than {self.n}"
        if self.stderr == 0:
            return f"a value off its bound, on which all {self.n} results lie"
        gap = min(abs(self.value - bound) for bound in bounds)
        if gap <= self.stderr * 0.1:
            return "a value further from its bound: more seeds would hardly decide"
        many = math.ceil(self.n * (NORMAL_95 * self.stderr / gap) ** 2)
        return f"about {max(many, self.n + 1)} instead of {self.n}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; numbers that are not finite become None."""
        found = {"name": self.name, **asdict(self), "needs": self.needs}
        del found["kind"], found["subject"]  # the name says both
        return finite(found)


def claim(
    kind: str,
    statement: str,
    value: Estimate,
    *,
    low: float | None = None,
    high: float | None = None,
    paper: str = "",
    note: str = "",
    subject: str = "",
    basis: Basis | None = None,
    fitted: bool = True,
) -> Claim:
    """Judge a statement low ≤ value ≤ high by the 95 % interval of the value.

    Parameters
    ----------
    kind : str
        What is claimed, for example ``"predicted order"``.
    statement : str
        The claim as a sentence.
    value : Estimate
        The measured number with its error.
    low, high : float, optional
        Bounds of the statement; unbounded if not given.
    paper : str, default ""
        What the paper says or shows.
    note : str, default ""
        What a reader must know beside the number.
    subject : str, default ""
        What it is claimed of, for example ``"LeNet, linear"``.
    basis : {"paper", "derived", "identity", "counter", "own"}, optional
        What the claim rests on; by default ``"paper"`` if `paper` is given, else ``"own"``.
    fitted : bool, default True
        Whether the networks fit their training data as well as the paper's. If not, a claim cannot fail.

    Returns
    -------
    Claim
        The statement with its verdict.

    Examples
    --------
    Two standard errors to either side reach from 1.8 to 2.2, or from 0.9 to 1.3. A difference that is always exactly
    zero is no evidence for a positive one.

    >>> claim("x", "x is at least 1", Estimate(2.0, 0.1, 10), low=1).verdict
    'holds'
    >>> claim("x", "x is at least 1", Estimate(1.1, 0.1, 10), low=1).verdict
    'undecided'
    >>> claim("x", "x is positive", Estimate(0.0, 0.0, 10), low=0).verdict
    'undecided'
    >>> claim("x", "x is at least 3", Estimate(2.0, 0.1, 10), low=3, fitted=False).verdict
    'not fitted'
    """
    judged = verdict(value, low, high)
    if judged == FAILS and not fitted:
        judged = NOT_FITTED
    basis = basis or ("paper" if paper else "own")
    return Claim(kind, statement, paper, value.value, value.stderr, value.n, low, high, judged, note, subject, basis)


def verdict(value: Estimate, low: float | None, high: float | None) -> str:
    if not math.isfinite(value.value) or math.isnan(value.stderr) or value.n == 1:  # one result has no error
        return UNDECIDED
    if value.stderr == 0 and low != high and value.value in (low, high):
        return UNDECIDED
    a, b = value.interval(0.95)
    at_least, at_most = -math.inf if low is None else low, math.inf if high is None else high
    if at_least <= a and b <= at_most:
        return HOLDS
    return FAILS if b < at_least or a > at_most else UNDECIDED


def counted(claims: Sequence[Claim]) -> dict[str, int]:
    """The number of claims with each verdict."""
    return {verdict: sum(c.verdict == verdict for c in claims) for verdict in VERDICTS}


def decided(claims: Sequence[Claim]) -> bool:
    return not counted(claims)[UNDECIDED]


def finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values for JSON: numbers that are not finite become None."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
