"""The standard error of a predicted score, in three parts: samples, members, and the model of what training does.

The first two are measured on the spot. The third is how far predictions were from what trained networks reached, and is
read from a stored track record; without it an interval would be several times too narrow.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from netgrain.learning.learning_curves import scored_predictions
from netgrain.learning.leave_one_out import predictions_at
from netgrain.learning.targets import Targets, score_of

BLOCKS = 4  # of members that are left out together
MOST_SAMPLES = 500  # of the jackknife; with more the score varies less over members, so that this errs upwards
NORMAL_90 = 1.645  # 90% of |N(0, 1)| lie below


@dataclass(frozen=True)
class PredictionError:
    """Standard error of a predicted score.

    Attributes
    ----------
    samples : float
        From the number of samples.
    members : float or None
        From the number of random networks; None for a given network.
    model : float
        From what training does beyond the kernel, by the track record.

    Examples
    --------
    >>> PredictionError(0.03, 0.0, 0.04).total
    0.05
    """

    samples: float
    members: float | None
    model: float

    @property
    def total(self) -> float:
        """Root of the sum of squares, for networks trained with the recipe of the track record."""
        return math.sqrt(self.samples**2 + (self.members or 0.0) ** 2 + self.model**2)

    @property
    def any_recipe(self) -> float:
        """The total with one more part: how far other recipes moved what was reached."""
        return math.hypot(self.total, track_record().recipes.spread)


@dataclass(frozen=True)
class RecordedErrors:
    """How far one kind of prediction was from what trained networks reached.

    Attributes
    ----------
    source : str
        Tasks and networks behind it.
    standard : float
        Standard error that makes a 90% interval as wide as 90% of the recorded errors.
    median, worst : float
        Of the recorded errors.
    """

    source: str
    standard: float
    median: float
    worst: float


@dataclass(frozen=True)
class RecordedRecipes:
    """How far other recipes of training moved what networks reached.

    Attributes
    ----------
    source : str
        Tasks and networks behind it.
    spread : float
        Root mean square of the differences from the recipe of the record, without what their own errors add.
    means : dict of str to float
        Mean difference by recipe; positive where that recipe reached more.
    """

    source: str
    spread: float
    means: dict[str, float]


@dataclass(frozen=True)
class TrackRecord:
    """How far predictions were from what trained networks reached.

    Attributes
    ----------
    recipe : str
        How those networks were trained, and how far other recipes moved what they reached.
    kernel, trial, combined : RecordedErrors
        Of the kernel's number, of a trial training's, and of both in one.
    recipes : RecordedRecipes
        Of other recipes, which these errors do not count.
    alike : float
        Two networks on the same samples whose scores differ by less cannot be told apart.
    members : dict of str to int
        Random networks behind each kind of kernel.
    image_size : int
        Pixels of a side of the largest images.
    """

    recipe: str
    kernel: RecordedErrors
    trial: RecordedErrors
    combined: RecordedErrors
    recipes: RecordedRecipes
    alike: float
    members: dict[str, int]
    image_size: int


@cache
def track_record() -> TrackRecord:
    """The stored record.

    Returns
    -------
    TrackRecord
        As it was measured, with its sources.
    """
    stored = json.loads(Path(__file__).with_name("track_record.json").read_text(encoding="utf-8"))
    kinds = {name: _recorded(stored[name]) for name in ("kernel", "trial", "combined")}
    others = RecordedRecipes(**stored["recipes"])
    recipe = (
        f"{stored['recipe']}; {' or '.join(others.means)} moved what was reached by {100 * others.spread:.1f} points "
        f"(root mean square, {others.source}), which the error does not count"
    )
    return TrackRecord(
        recipe,
        **kinds,
        recipes=others,
        alike=stored["alike"]["points"],
        members=stored["members"],
        image_size=stored["image size"],
    )


def _recorded(stored: dict[str, Any]) -> RecordedErrors:
    return RecordedErrors(stored["source"], stored["quantile90"] / NORMAL_90, stored["median"], stored["worst"])


def member_error(parts: Tensor | None, targets: Targets, ridge: float, groups: Tensor | None = None) -> float | None:
    """Standard error of a score from the number of members, by a jackknife over blocks of them.

    Parameters
    ----------
    parts : Tensor of shape (members, samples, samples) or None
        Kernels of single members, over samples in random order or the first of them, of which 500 are used; None where
        there is one given network.
    targets : Targets
        The labels.
    ridge : float
        Kept, as chosen with all members.
    groups : Tensor of shape (samples,), optional
        Samples that are left out together.

    Returns
    -------
    float or None
        None without at least two members.
    """
    if parts is None or len(parts) < 2:
        return None
    most = min(MOST_SAMPLES, parts.shape[1])
    parts, targets = parts[:, :most, :most], targets.of(torch.arange(most))
    groups = None if groups is None else groups[:most]
    whole = parts.sum(0, dtype=torch.float64)
    blocks = torch.arange(len(parts)).tensor_split(min(BLOCKS, len(parts)))
    found = []
    for block in blocks:
        K = (whole - parts[block].sum(0, dtype=torch.float64)) / (len(parts) - len(block))
        predictions = predictions_at(K, targets.columns, ridge, groups)
        found.append(float(score_of(targets, scored_predictions(predictions, targets, groups)).value))
    mean = math.fsum(found) / len(found)
    return math.sqrt((len(found) - 1) / len(found) * math.fsum((f - mean) ** 2 for f in found))
