"""When an audit may say "invisible": thresholds of made-up cells, kinds of network, and the stored cells."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from netgrain.auditing import words
from netgrain.auditing.words import (
    STORED,
    Cell,
    Kind,
    as_stored,
    kind_of,
    may_say_invisible,
    threshold,
    trained_cells,
)
from netgrain.models import MLP, LeNet, ResNet18, ViT

BASE = Cell("task 0", "net", "convolutional", "none", "SGD", True, False, 1.0, 1.0, 30.0, 0.0, 0.1)


def made_up(pairs: int, learnt_from: float, gains: tuple[float, ...] = (1e-1, 1e-3, 1e-5)) -> list[Cell]:
    """So many pairs: all learn from this gain upwards, and lost directions are never learnt."""
    out = []
    for i in range(pairs):
        out.append(replace(BASE, task=f"task {i}", lost=True, gain=0.0))
        out += [
            replace(BASE, task=f"task {i}", gain=g, gain_at_origin=2 * g, reached=20.0 if g >= learnt_from else 0.0)
            for g in gains
        ]
    return out


def test_threshold_of_a_planted_one() -> None:
    found = threshold(made_up(10, 1e-3))
    assert (found.gain, found.pairs, found.cells) == (1e-5, 10, 10)
    assert (found.learnt, found.counted) == (20, 20)
    assert found.low == pytest.approx(1e-5)
    assert found.high == pytest.approx(2e-5)  # where G is taken at the origin
    assert found.share == pytest.approx(1 - 0.05**0.1)


def test_nothing_but_what_is_lost() -> None:
    found = threshold(made_up(9, 0.0))
    assert (found.gain, found.low, found.high) == (0.0, 0.0, 0.0)
    assert (found.cells, found.learnt, found.counted) == (9, 27, 27)


def test_one_cell_that_learns_lowers_the_threshold_and_widens_its_interval() -> None:
    cells = made_up(10, 1e-1)
    assert threshold(cells).gain == 1e-3
    odd = [replace(c, reached=12.0) if c.pair == cells[0].pair and c.gain == 1e-5 else c for c in cells]
    found = threshold(odd)
    assert found.gain == 0.0
    assert found.high >= 1e-3  # samples of pairs without that one
    assert (found.learnt, found.counted) == (11, 30)


def test_cells_without_anything_to_learn_do_not_count() -> None:
    cells = [replace(c, linear=3.0) if c.gain < 1e-2 else c for c in made_up(10, 1e-1)]
    found = threshold(cells)
    assert (found.gain, found.cells, found.counted) == (0.0, 0, 10)


def test_noise_of_the_accuracies_counts() -> None:
    """A cell 4 ± 5 points above chance may have learnt."""
    cells = [replace(c, reached=4.0, stderr=5.0) if c.gain == 1e-5 else c for c in made_up(10, 1e-3)]
    found = threshold(cells)
    assert (found.gain, found.low) == (1e-5, 0.0)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (LeNet(channels=1), Kind("convolutional", "none")),
        (ResNet18(width=1 / 16, norm="batch"), Kind("convolutional", "batch")),
        (ResNet18(width=1 / 16, norm="layer"), Kind("convolutional", "layer")),
        (ViT(width=1 / 12, depth=1, norm="layer"), Kind("attention", "layer")),
        (MLP(channels=1, image_size=4), Kind("dense", "none")),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4), nn.Flatten(), nn.Linear(4, 2)), None),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GroupNorm(1, 4)), None),
        (nn.GRU(2, 2), None),
        (nn.ReLU(), None),
    ],
)
def test_kinds(model: nn.Module, kind: Kind | None) -> None:
    assert kind_of(model) == kind


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """Made-up cells in the place of the stored ones."""
    cells = made_up(9, 1e-3)
    monkeypatch.setattr(words, "trained_cells", lambda: tuple(cells))
    return cells


def test_the_word_and_its_evidence(stored: list[Cell]) -> None:
    kind = Kind("convolutional", "none")
    lost = may_say_invisible(kind, lost=True)
    assert (lost.may, lost.level) == (True, "lost")
    assert "Of 9 trainings of convolutional networks without normalisation on such directions alone" in lost.sentence
    assert "none ended more than 5 points above chance" in lost.sentence
    weak = may_say_invisible(kind, 1e-5)
    assert (weak.may, weak.level) == (True, "not learnt")
    strong = may_say_invisible(kind, 1e-2, optimiser="SGD")
    assert (strong.may, strong.level) == (False, "learnt")
    assert "Of 18 trainings" in strong.sentence
    assert "at most 0.001 of an average gain" in strong.sentence
    assert ", 9 ended more than" in strong.sentence
    assert may_say_invisible(kind, 1e-7).may  # weaker than all that were tried, of which none learnt
    assert may_say_invisible(kind, 1e-5, optimiser="AdamW").level == "not tried"
    for other in (None, Kind("attention", "batch")):
        found = may_say_invisible(other, lost=True)
        assert (found.may, found.level) == (False, "not tried")


def test_too_few_pairs_are_not_enough(stored: list[Cell]) -> None:
    del stored[4 * 7 :]
    kind = Kind("convolutional", "none")
    weak = may_say_invisible(kind, 1e-5)
    assert (weak.may, weak.level) == (False, "not learnt")
    assert may_say_invisible(kind, lost=True).may  # a theorem, confirmed


def test_lost_directions_that_were_learnt_take_the_word_away(stored: list[Cell]) -> None:
    stored[0] = replace(stored[0], reached=15.0)
    assert may_say_invisible(Kind("convolutional", "none"), lost=True).level == "learnt"


def test_storing_and_reading_gives_the_same_cells() -> None:
    cells = made_up(2, 1e-3)
    text = json.loads(as_stored(cells, {"seeds": 3}))
    assert text["settings"] == {"seeds": 3}
    assert [Cell(**dict(zip(text["columns"], row, strict=True))) for row in text["cells"]] == cells


def test_the_stored_cells_are_those_of_the_issue() -> None:
    """At least eight pairs, two optimisers, with and without normalisation, and what nobody learns."""
    cells = trained_cells()
    assert len({c.pair for c in cells if c.counts}) >= 8
    assert {c.optimiser for c in cells} == {"SGD", "AdamW"}
    assert {c.norm for c in cells} == {"none", "batch", "layer"}
    assert all(math.isfinite(c.reached) and c.stderr >= 0 for c in cells)
    assert all(c.gain == 0 for c in cells if c.lost)
    settings = json.loads(STORED.read_text())["settings"]
    assert (settings["first_seed"], settings["seeds"]) == (0, 3)
    assert as_stored(cells, settings) == STORED.read_text()


def test_what_may_be_said_today() -> None:
    torch.manual_seed(0)
    covered = {(c.kind, c.norm) for c in trained_cells() if c.counts and c.lost}
    for body, norm in covered:
        found = may_say_invisible(Kind(body, norm), lost=True)
        assert found.may == (found.level == "lost")
        assert "Lost before the first activation" in found.sentence
