"""The value that `learnability` returns: when it warns, what it combines, how it reads."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from netgrain.geometry.estimate import Estimate
from netgrain.learning.outcome import Learnability
from netgrain.learning.prediction_errors import track_record
from netgrain.learning.predictions import learnability
from netgrain.learning.trials import Trial


@pytest.fixture(scope="module")
def found() -> Learnability:
    X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    return learnability(
        lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)),
        X,
        (X[:, 0] > 0).long(),
        kinds=("last",),
        members=2,
        trial=False,
        grain=False,
    )


def trial(score: float, gain: float) -> Trial:
    return Trial(
        Estimate(score, 0.02, 200),
        "accuracy",
        "halves",
        1e-3,
        {1e-4: 0.1, 1e-3: score, 1e-2: 0.1},
        100,
        30,
        1.0,
        Estimate(gain, 0.04, 200),
    )


def test_it_warns_where_the_trial_gains_five_points_and_more_than_its_error(found: Learnability) -> None:
    at = replace(found, score=Estimate(0.6, 0.04, 60), error=replace(found.error, samples=0.03))
    most = 1.645 * 0.04
    assert most > 0.05
    quiet, loud = replace(at, trial=trial(0.66, most - 0.005)), replace(at, trial=trial(0.66, most + 0.005))
    assert quiet.warning is None
    assert loud.warning is not None
    assert "features must be learnt here" in loud.warning
    assert "between 0.60 and" in loud.warning
    assert loud.rows()[0][0] == "warning"
    assert loud.as_dict()["warning"] == loud.warning
    below = replace(at, trial=trial(0.2, -0.3))
    assert below.warning is None


def test_the_combined_number_counts_the_track_record(found: Learnability) -> None:
    assert found.combined is None
    at = replace(found, score=Estimate(0.6, 0.04, 60), trial=trial(0.64, 0.04))
    assert at.combined is not None
    assert 0.62 < at.combined < 0.7
    assert at.combined.stderr > track_record().combined.standard


def test_few_samples_in_a_class_and_chance_are_said(found: Learnability) -> None:
    assert 0.5 <= found.chance < 0.7
    assert "always the largest class" in dict(found.rows())["compared"]
    assert found.about.versions["netgrain"]


def test_settings_beyond_the_record_are_said(found: Learnability) -> None:
    kernel, record = found.kernel, track_record()
    usual, size = record.members[kernel], record.image_size
    alike = replace(found, about=replace(found.about, members={kernel: usual}, input_shape=(3, size, size)))
    assert "the model error was measured" not in " ".join(alike.remarks)
    beyond = replace(found, about=replace(found.about, members={kernel: 2}, input_shape=(3, 224, 224)))
    said = " ".join(beyond.remarks)
    assert f"2 random networks were used for their cost, and the model error was measured with {usual}" in said
    assert f"images are 224 × 224, and the model error was measured at {size} × {size}" in said
    assert not any(
        "random networks" in r for r in replace(beyond, about=replace(beyond.about, members={kernel: 1})).remarks
    )
