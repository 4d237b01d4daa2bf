"""A number that knows how uncertain it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class Estimate(float):
    """A number with a standard error, usable wherever a float is.

    Parameters
    ----------
    value : float
        The number.
    stderr : float, default 0.0
        Its standard error.
    n : int, default 0
        Number of independent samples behind it; 0 if nothing was sampled.
    plug_in : float, optional
        The naive value, where the number itself is bias-corrected.

    Examples
    --------
    >>> trace = Estimate(3.0, stderr=0.5, n=25)
    >>> trace
    3.0 ± 0.5 (n = 25)
    >>> trace + 1
    4.0
    >>> [round(end, 3) for end in trace.interval(0.95)]
    [1.968, 4.032]
    """

    stderr: float
    n: int
    plug_in: float | None

    def __new__(cls, value: float, stderr: float = 0.0, n: int = 0, plug_in: float | None = None) -> Estimate:
        self = super().__new__(cls, value)
        self.stderr = float(stderr)
        self.n = int(n)
        self.plug_in = None if plug_in is None else float(plug_in)
        return self

    def __reduce__(self) -> tuple[Any, ...]:  # copies and worker processes keep every field
        return Estimate, (self.value, self.stderr, self.n, self.plug_in)

    @property
    def value(self) -> float:
        """The number itself, as a plain float."""
        return float(self)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Two-sided confidence interval, from Student's t with n − 1 degrees of freedom.

        Parameters
        ----------
        level : float, default 0.95
            Probability that the interval covers the true value.

        Returns
        -------
        tuple of float
            Its ends.
        """
        if self.stderr == 0 or math.isnan(self.stderr):
            return self.value, self.value
        from scipy.special import stdtrit

        half = float(stdtrit(max(self.n - 1, 1), 0.5 + level / 2)) * self.stderr
        return self.value - half, self.value + half

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        Returns
        -------
        dict
            ``value``, ``stderr``, ``n`` and ``plug_in``; what is not finite becomes None.
        """
        numbers = {"value": self.value, "stderr": self.stderr, "n": self.n, "plug_in": self.plug_in}
        return {k: None if v is None or not math.isfinite(v) else v for k, v in numbers.items()}

    @property
    def with_error(self) -> str:
        """The number with its error, each rounded to its significant digits.

        >>> Estimate(3.0, stderr=0.5, n=25).with_error
        '3.0 ± 0.5'
        >>> Estimate(3.0).with_error
        '3 (exact)'
        """
        if self.stderr == 0:
            return f"{self.value:.6g} (exact)"
        return f"{_rounded(self.value, self.stderr)} ± {self.stderr:.2g}"

    def __repr__(self) -> str:
        return self.with_error if self.stderr == 0 else f"{self.with_error} (n = {self.n})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        number, _, error = self.with_error.partition(" ")
        n = f"&emsp;n = {self.n}" if self.stderr else ""
        return f"<b>{number}</b> {error}<span style='opacity:0.6'>{n}</span>"


def _rounded(value: float, stderr: float) -> str:
    """The value with as many digits as its standard error makes meaningful."""
    if not (math.isfinite(value) and math.isfinite(stderr)) or value == 0:
        return f"{value:.4g}"
    digits = max(1, 2 + math.floor(math.log10(abs(value))) - math.floor(math.log10(stderr)))
    text = f"{value:.{min(digits, 12)}g}"
    return text if "." in text or "e" in text else f"{float(text):.1f}" if abs(value) < 10 else text


def mean(values: Sequence[float]) -> Estimate:
    """The mean over seeds with its standard error."""
    n = len(values)
    if n == 0:
        return Estimate(math.nan, math.nan, 0)
    centre = sum(values) / n
    if n == 1:
        return Estimate(centre, math.nan, 1)
    variance = sum((v - centre) ** 2 for v in values) / (n - 1)
    # equal values have no spread, but they are still a sample: exactly zero would claim too much only for n = 1
    return Estimate(centre, math.sqrt(variance / n), n)


def mean_of(values: Tensor, *, alone: float = math.nan) -> Estimate:
    """The mean of independent numbers (n,) with its standard error; alone: the error of a single one."""
    n = len(values)
    return Estimate(float(values.mean()), float(values.std()) / math.sqrt(n) if n > 1 else alone, n)
