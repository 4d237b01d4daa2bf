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


def trial(score: float) -> Trial:
    return Trial(
        Estimate(score, 0.02, 200), "accuracy", "halves", 1e-3, {1e-4: 0.1, 1e-3: score, 1e-2: 0.1}, 100, 30, 1.0
    )


def test_it_warns_where_the_trial_is_beyond_both_errors(found: Learnability) -> None:
    at = replace(found, score=Estimate(0.6, 0.04, 60))
    spread = 1.645 * (0.04**2 + 0.02**2 + track_record().trial.standard ** 2) ** 0.5
    quiet, loud = replace(at, trial=trial(0.6 + spread - 0.01)), replace(at, trial=trial(0.6 + spread + 0.01))
    assert quiet.warning is None
    assert loud.warning is not None
    assert "features must be learnt here" in loud.warning
    assert "between 0.60 and" in loud.warning
    assert loud.rows()[0][0] == "warning"
    assert loud.as_dict()["warning"] == loud.warning
    below = replace(at, trial=trial(0.2))
    assert below.warning is None


def test_the_combined_number_lies_between(found: Learnability) -> None:
    assert found.combined is None
    at = replace(found, score=Estimate(0.6, 0.04, 60), trial=trial(0.65))
    assert at.combined is not None
    assert 0.6 < at.combined < 0.65
    learnt = replace(at, trial=trial(0.9))
    assert learnt.combined is not None
    assert float(learnt.combined) == 0.9


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
