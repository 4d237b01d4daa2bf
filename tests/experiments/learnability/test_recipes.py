"""Recipes: augmentation by hand, differences with their errors, and the units of a run."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from netgrain.experiments.learnability import recipes
from netgrain.experiments.learnability.recipes import PRESETS, RECIPES, REFERENCE, Config, Result, augmented, claims
from netgrain.experiments.learnability.tasks import named, task_data
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from tests.experiments.conftest import SmokeRun

TESTS = 400


def test_tuning_tasks_only() -> None:
    assert {named(task).part for config in PRESETS.values() for task in config.tasks} == {"tuning"}
    assert PRESETS["laptop"].seeds == 2
    assert set(PRESETS["laptop"].tasks) == {"MNIST", "CIFAR animal/vehicle", "textures"}


def test_shifts_are_of_up_to_two_pixels_and_zeros_come_in() -> None:
    """One bright pixel in the middle of black images: it moves by up to two pixels, and the rest stays black."""
    X = torch.full((300, 2, 8, 8), -0.5)
    X[:, :, 4, 3] = 1.0
    black = torch.full((2, 8, 8), -0.5)
    moved = augmented(X, (0, 1, 2), zero=black, mirrored=False)
    where = (moved[:, 0] == 1.0).nonzero()
    assert len(where) == 300
    assert torch.equal(moved[:, 0], moved[:, 1])
    assert (moved.min(), moved.max()) == (-0.5, 1.0)
    assert set(map(tuple, (where[:, 1:] - torch.tensor([4, 3])).tolist())) == {
        (a, b) for a in range(-2, 3) for b in range(-2, 3)
    }
    assert torch.equal(augmented(X, (0, 1, 2), zero=black, mirrored=False), moved)
    assert not torch.equal(augmented(X, (0, 1, 3), zero=black, mirrored=False), moved)
    assert not torch.equal(augmented(X, (1, 1, 2), zero=black, mirrored=False), moved)


def test_half_of_the_images_are_mirrored() -> None:
    X = torch.zeros(400, 1, 8, 8)
    X[:, :, :, :4] = 1.0
    moved = augmented(X, (0, 1, 1), zero=torch.zeros(1, 8, 8), mirrored=True)
    right = float((moved[:, 0, :, 4:].sum((1, 2)) > moved[:, 0, :, :4].sum((1, 2))).double().mean())
    assert 0.4 < right < 0.6
    plain = augmented(X, (0, 1, 1), zero=torch.zeros(1, 8, 8), mirrored=False)
    assert float((plain[:, 0, :, 4:].sum((1, 2)) > plain[:, 0, :, :4].sum((1, 2))).double().mean()) == 0


def test_what_comes_in_is_a_black_pixel() -> None:
    """The zero of a task is what its black images became."""
    data = task_data(named("digits").smaller(100, 40))
    assert data.zero.shape == data.shape
    assert float(data.zero.max()) == pytest.approx(float(data.train[0].min()), abs=1e-6)
    assert recipes.augmentation(named("digits"), data).keywords["mirrored"] is False
    assert recipes.augmentation(named("CIFAR cat/dog"), data).keywords["mirrored"] is True


def made_up(gain: int, seeds: int = 2) -> Result:
    """Two tasks, one network: every seed gets 200 tests right, with augmentation `gain` more of the same tests."""
    config = Config(("digits", "textures"), ("LeNet",), seeds=seeds, epochs=1)
    right = {}
    for task in config.tasks:
        for recipe in RECIPES:
            hits = np.zeros((seeds, TESTS), dtype=bool)
            hits[:, : 200 + (gain if recipe == "augmentation" else 0)] = True
            right[task, "LeNet", recipe] = hits
    numbers = {"train": 1.0, "rate": 0.01, "edge": False}
    return Result(config, right, {cell: [numbers] * seeds for cell in right})


def test_differences_are_paired_and_count_the_seeds() -> None:
    result = made_up(20)
    found = result.difference(("digits", "LeNet"), "augmentation")
    assert float(found) == pytest.approx(5.0)  # 20 of 400
    assert found.stderr == pytest.approx(100 * math.sqrt(0.05 * 0.95 / (TESTS - 1)))
    same = result.difference(("digits", "LeNet"), "SGD")
    assert (float(same), same.stderr) == (0.0, 0.0)
    uneven = result.right["digits", "LeNet", "SGD"].copy()
    uneven[0, :40] = False
    varied = replace(result, right={**result.right, ("digits", "LeNet", "SGD"): uneven})
    # seeds 40 and 50 %: a variance of 0.005 / 2, pooled over three recipes, of two means; tests: 40 of −1/2
    expected = 0.25 * 0.1 * 0.9 * TESTS / (TESTS - 1) / TESTS + 2 * 0.0025 / 3
    assert varied.difference(("digits", "LeNet"), "SGD").stderr == pytest.approx(100 * math.sqrt(expected))


def test_the_spread_is_without_the_errors_of_the_differences() -> None:
    """Differences that are noise alone have a spread near 0; those of ± 5 points have 5."""
    g = np.random.default_rng(0)
    config = Config(tuple(f"task {i}" for i in range(40)), ("LeNet",), seeds=2, epochs=1)

    def drawn(off: float) -> Result:
        right = {}
        for i, task in enumerate(config.tasks):
            for recipe in RECIPES:
                p = 0.7 if recipe == REFERENCE else 0.7 + off * (-1) ** i
                right[task, "LeNet", recipe] = g.random((2, TESTS)) < p
        return Result(config, right, {})

    assert float(drawn(0.05).spread(["SGD"])) == pytest.approx(5, abs=1.0)
    none = drawn(0.0).spread(["SGD", "augmentation"])
    assert float(none) < 1.6
    assert none.stderr > 0


def test_claims_judge_the_differences() -> None:
    found = {c.name: c for c in claims(made_up(0))}
    same = "digits, LeNet: SGD minus AdamW, in points of accuracy"
    assert found[same].verdict == "holds"
    assert "fixed before the run" in found[same].note
    more = {c.name: c for c in claims(made_up(80))}
    assert more["digits, LeNet: augmentation minus AdamW, in points of accuracy"].verdict == "fails"
    assert more[same].verdict == "holds"
    assert more["augmentation: spread over tasks and networks, in points"].value == pytest.approx(20, abs=0.5)


def test_units_of_a_run(smoke_run: SmokeRun) -> None:
    """Two tasks, one network, three recipes, two seeds."""
    folder = RunFolder.open(smoke_run("recipes"))
    assert len(list((folder.path / "units").iterdir())) == 2 * 3 * 2
    result = recipes.run(PRESETS["smoke"], Runner(folder))
    assert all(right.shape == (2, 60) for right in result.right.values())
    (pair, *_) = result.pairs
    assert result.reached(pair, "SGD") == pytest.approx(100 * result.right[*pair, "SGD"].mean())
    rates = [result.trained[*pair, recipe][1]["rates"] for recipe in RECIPES]
    assert all(len(found) == 1 for found in rates)  # the second seed takes the first one's
