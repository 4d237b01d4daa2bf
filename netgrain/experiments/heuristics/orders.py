"""Claims that a measure follows a setting, in order."""

from __future__ import annotations

from typing import Any

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.claims import Claim, claim


def monotone(
    curve: SweepCurve,
    name: str,
    sign: int,
    *,
    measure: str = "complexity",
    what: str = "geometric complexity",
    least: float = 0.8,
    paper: str = "",
) -> Claim:
    """The claim that a measure rises (sign 1) or falls (sign −1) along the sweep, seed by seed."""
    bounds: dict[str, Any] = {"low": least} if sign > 0 else {"high": -least}
    side = f"at least {least}" if sign > 0 else f"at most −{least}"
    return claim(
        name,
        f"Spearman's rho of setting and {what} within each seed is {side} on average",
        curve.rho(measure),
        paper=paper,
        note=_flag(curve),
        **bounds,
    )


def pooled(curve: SweepCurve, name: str, sign: int, *, least: float = 0.95, paper: str = "") -> Claim:
    """The claim that all runs together, seeds mixed, are in order."""
    bounds: dict[str, Any] = {"low": least} if sign > 0 else {"high": -least}
    side = f"at least {least}" if sign > 0 else f"at most −{least}"
    return claim(
        name,
        f"Spearman's rho of setting and geometric complexity over all runs is {side}",
        curve.pooled(),
        paper=paper,
        note=_flag(curve),
        **bounds,
    )


def _flag(curve: SweepCurve) -> str:
    total = curve.seeds * len(curve.values)
    return f"{curve.missed} of {total} runs missed the target loss and are left out" if curve.missed else ""
