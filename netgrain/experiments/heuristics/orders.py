"""Claims that a measure follows a setting, in order."""

from __future__ import annotations

import math

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.claims import Basis, Claim, claim
from netgrain.experiments.heuristics.panels import MEASURES
from netgrain.geometry.estimate import Estimate, mean

FEWEST = 4  # settings with a rank correlation worth judging
ORDERED, ORDERED_TOGETHER = 0.8, 0.95  # rank correlations that count as an order, within seeds and over all runs


def monotone(
    curve: SweepCurve,
    name: str,
    sign: int,
    *,
    measure: str = "complexity",
    all_runs: bool = False,
    paper: str = "",
    basis: Basis | None = None,
    subject: str = "",
) -> Claim:
    """The claim that a measure rises (sign 1), falls (sign −1) or has no order (0) along the sweep, seed by seed.

    all_runs: that all runs together, seeds mixed, are in order; more is asked of these.
    """
    least = ORDERED_TOGETHER if all_runs else ORDERED
    side = {1: f"at least {least}", -1: f"at most −{least}", 0: f"between −{least} and {least}"}[sign]
    where = f"over all runs is {side}" if all_runs else f"within each seed is {side} on average"
    runs = curve.seeds * len(curve.values)
    return claim(
        name,
        f"Spearman's rho of setting and {MEASURES[measure].words} {where}",
        rank_correlation(curve, measure, all_runs=all_runs),
        low={1: least, -1: None, 0: -least}[sign],
        high={1: None, -1: -least, 0: least}[sign],
        paper=paper,
        note=f"{curve.missed} of {runs} runs missed the target loss and are left out" if curve.missed else "",
        basis=basis,
        subject=subject,
    )


def rank_correlation(curve: SweepCurve, measure: str, *, all_runs: bool = False) -> Estimate:
    """Spearman's rho of setting and measure, within seeds or over all runs; NaN where too few settings are left."""
    if len(curve.values) < FEWEST:
        return Estimate(math.nan, math.nan, curve.seeds)
    if all_runs:
        return curve.pooled(measure)
    each = zip(curve.per_seed(measure), curve.good, strict=True)
    return mean([rho for rho, good in each if sum(good) >= FEWEST and not math.isnan(rho)])
