"""Networks behind stems: what a blur leaves of a pattern, and what the other stems lose."""

import math

import pytest
import torch

from netgrain.auditing.invisible import invisible_within
from netgrain.auditing.words import Kind, kind_of
from netgrain.experiments.learnability.tasks import named
from netgrain.experiments.learnability.weak_networks import BODIES, DAMPING, PAIRS, Blur, built, family, pair_data


def test_tuning_tasks_of_three_sources_and_every_kind() -> None:
    """At least eight pairs, none on a verdict task of `validity`."""
    assert {named(pair.task).part for pair in PAIRS.values()} == {"tuning"}
    assert len(PAIRS) >= 8
    assert {named(pair.task).source for pair in PAIRS.values()} == {"digits", "mnist", "cifar10"}
    assert {BODIES[pair.body].kind for pair in PAIRS.values()} == {"convolutional", "attention", "dense"}


def test_blur_keeps_of_a_cosine_what_its_frequency_says() -> None:
    places = torch.arange(8) + 0.5
    wave = torch.cos(math.pi / 8 * 3 * places)[:, None] * torch.cos(math.pi / 8 * 2 * places)[None]
    kept = math.exp(-DAMPING * (9 + 4) / 64)
    assert torch.allclose(Blur(8)(wave[None, None])[0, 0], kept * wave, atol=1e-5)


@pytest.mark.parametrize("stem", ["every other pixel", "means of 2 x 2"])
def test_stems_lose_three_quarters_of_the_directions(stem: str) -> None:
    pair = next(pair for pair in PAIRS.values() if pair.stem == stem)
    make = family(pair, (1, 8, 8), 2, normed=True)
    lost = invisible_within(make, torch.eye(64).reshape(64, 1, 8, 8))
    assert len(lost) == 48


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("normed", [False, True])
def test_the_table_and_the_audit_agree_on_kinds(name: str, normed: bool) -> None:
    pair = PAIRS[name]
    body = BODIES[pair.body]
    model = built(pair, (3, pair.size, pair.size), 5, normed)
    assert model(torch.zeros(2, 3, pair.size, pair.size)).shape == (2, 5)
    assert kind_of(model) == Kind(body.kind, body.norm if normed else "none")


def test_data_have_the_size_of_the_pair() -> None:
    pair = next(pair for pair in PAIRS.values() if pair.task == "digits")
    data = pair_data(pair, 50, 20)
    assert [len(X) for X, _ in (data.train, data.test)] == [50, 20]
    assert data.shape == (1, 8, 8)
