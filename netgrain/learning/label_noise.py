"""An upper bound on label noise: the error rate that leave-one-out of ever more samples would approach.

e(N) = e∞ + c N^−½ with e∞ ≥ 0, fitted to the error rates of subsets. On hard tasks with clean labels e∞ is large, too:
it is a bound, not a measurement of noise.
"""

from __future__ import annotations

from netgrain.geometry.estimate import Estimate
from netgrain.learning.learning_curves import LearningCurve

EXPONENT = 0.5  # chosen on MNIST with 0, 11, 22 and 39% of its labels replaced


def label_noise_bound(curve: LearningCurve) -> Estimate:
    """Largest share of wrong labels (of the variance, for numbers) that is compatible with a learning curve.

    Parameters
    ----------
    curve : LearningCurve
        Scores of subsets.

    Returns
    -------
    Estimate
        e∞ with the error that the curve's points leave. Noise is at most that; it may be far below.

    Examples
    --------
    Error rates on 0.2 + 1/√N:

    >>> sizes = (100, 400, 1600)
    >>> points = tuple(Estimate(0.8 - n**-0.5, 0.001, n) for n in sizes)
    >>> round(float(label_noise_bound(LearningCurve("accuracy", sizes, points, 0))), 6)
    0.2
    """
    floors = curve.laws((EXPONENT,), floor=True).floors
    return Estimate(float(floors[0]), float(floors[1:].std()), len(curve.sizes))
