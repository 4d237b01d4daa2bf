"""Claims that a measure follows a setting, in order."""

from __future__ import annotations

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.heuristics.panels import MEASURES


def monotone(
    curve: SweepCurve, name: str, sign: int, *, measure: str = "complexity", all_runs: bool = False, paper: str = ""
) -> Claim:
    """The claim that a measure rises (sign 1) or falls (sign −1) along the sweep, seed by seed.

    all_runs: that all runs together, seeds mixed, are in order; more is asked of these.
    """
    least = 0.95 if all_runs else 0.8
    side = f"at least {least}" if sign > 0 else f"at most −{least}"
    where = f"over all runs is {side}" if all_runs else f"within each seed is {side} on average"
    runs = curve.seeds * len(curve.values)
    return claim(
        name,
        f"Spearman's rho of setting and {MEASURES[measure].words} {where}",
        curve.pooled(measure) if all_runs else curve.rho(measure),
        low=least if sign > 0 else None,
        high=None if sign > 0 else -least,
        paper=paper,
        note=f"{curve.missed} of {runs} runs missed the target loss and are left out" if curve.missed else "",
    )
