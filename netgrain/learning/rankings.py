"""Several networks on the same samples: a ranking, and which of them cannot be told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from netgrain.geometry.estimate import Estimate
from netgrain.learning.outcome import Learnability
from netgrain.learning.prediction_errors import track_record
from netgrain.learning.trial_gains import BEYOND
from netgrain.runtime.errors import NetgrainError


@dataclass(frozen=True)
class Place:
    """A network in a ranking.

    Attributes
    ----------
    name : str
        The network.
    score : Estimate
        Its expected score: kernel and trial training combined, or the kernel's.
    like_best : bool
        Whether it cannot be told apart from the first.
    warning : str or None
        Why its score should not be trusted.
    """

    name: str
    score: Estimate
    like_best: bool
    warning: str | None


def ranking(found: Sequence[Learnability], names: Sequence[str] | None = None) -> tuple[Place, ...]:
    """Networks by expected score, the best first.

    Two networks cannot be told apart if their difference is within 1.645 times their combined sampling error, or within
    the margin of the track record. Errors that both share, such as those of a task that is harder than kernels show, do
    not count. If every network had a trial training, scores combine it with the kernel, which ranks networks better
    than the kernel alone.

    Parameters
    ----------
    found : sequence of Learnability
        Predictions for the same samples and labels.
    names : sequence of str, optional
        What to call them; by default the names of their families.

    Returns
    -------
    tuple of Place
        One place for each network.

    Raises
    ------
    NetgrainError
        If they have different scores or numbers of samples.
    """
    if len({(f.measure, f.about.given, f.about.samples, f.chance) for f in found}) > 1:
        raise NetgrainError("a ranking expects predictions for the same samples and labels, found different ones.")
    both = [f.combined for f in found]
    scores = [f.score for f in found] if None in both else both
    named = zip(names or [f.about.model for f in found], scores, found, strict=True)
    return ranked([(name, score, f.error.samples, f.warning) for name, score, f in named if score is not None])


def ranked(scores: Sequence[tuple[str, Estimate, float, str | None]]) -> tuple[Place, ...]:
    """The same of names, scores for the same samples and labels with their errors by samples alone, and warnings.

    >>> [p.like_best for p in ranked([("a", Estimate(0.8, 0.05), 0.02, None), ("b", Estimate(0.9, 0.05), 0.02, None)])]
    [True, False]
    """
    ordered = sorted(scores, key=lambda row: -float(row[1]))
    _, best, error, _ = ordered[0]
    return tuple(
        Place(name, score, float(best) - float(score) <= margin(error, own), warning)
        for name, score, own, warning in ordered
    )


def margin(one: float, other: float) -> float:
    """Difference of two scores within which networks cannot be told apart, of their errors by samples alone."""
    return max(track_record().alike, BEYOND * math.hypot(one, other))
