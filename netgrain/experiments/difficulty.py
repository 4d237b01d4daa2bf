"""The difficulty of labels: how weakly fresh networks react to the directions that carry them.

Audits reported it once. It orders labels that are planted along single directions (fig10), and does not predict
accuracy on natural tasks (`validity`), so that only experiments know it.
"""

from __future__ import annotations

import math

from torch import Tensor

from netgrain.auditing.axes import Axes
from netgrain.auditing.label_relevance import relevance

LEAST = 1e-12  # reaction that counts as none
SAMPLES = 4000  # behind a distance correlation


def difficulty(axes: Axes, X: Tensor, y: Tensor, *, seed: int = 0) -> float:
    """−log₁₀ Σ p_i λ_i / (tr G / d), p_i the share of the label's dependence on direction i.

    0 for a label that lies anywhere, 2 for one along directions a hundred times weaker than average; NaN where no
    single direction carries it.
    """
    found = relevance(axes, X, y, seed=seed, samples=SAMPLES).reaction.value
    return math.nan if math.isnan(found) else -math.log10(max(found, LEAST))
