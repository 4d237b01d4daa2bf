"""Tables 1 and 2: the choices they compare drop what they should, and their claims say what the numbers say."""

import itertools

import pytest
import torch

from netgrain import Geometry
from netgrain.experiments.grain import pruning, tab1, trials
from netgrain.experiments.grain.grains import Grain, pictures
from netgrain.experiments.grain.trials import Trials
from netgrain.geometry.scores import prune
from netgrain.runtime.units import Outcome


def test_the_random_choice_keeps_as_many_of_each_class_as_the_scores_do() -> None:
    y = torch.tensor([0] * 10 + [1] * 7 + [2] * 3)[torch.randperm(20, generator=torch.Generator().manual_seed(0))]
    X = torch.randn(20, 4, generator=torch.Generator().manual_seed(1))
    for keep, per_class in itertools.product((0.1, 0.5, 0.9, 1.0), (True, False)):
        chosen = pruning.at_random(y, keep=keep, per_class=per_class, seed=3)
        scored = prune(Geometry.from_matrix(torch.eye(4)), X, y, keep=keep, per_class=per_class)
        assert len(chosen) == len(scored)
        if per_class:
            assert y[chosen].bincount(minlength=3).tolist() == y[scored].bincount(minlength=3).tolist()
        assert chosen.tolist() == sorted(set(chosen.tolist()))
        assert torch.equal(chosen, pruning.at_random(y, keep=keep, per_class=per_class, seed=3))
    one, other = (pruning.at_random(y, keep=0.5, per_class=True, seed=s) for s in (3, 4))
    assert not torch.equal(one, other)


def test_every_sample_is_as_likely_to_stay() -> None:
    y = torch.arange(40) % 2
    times = sum(
        torch.zeros(40).index_fill_(0, pruning.at_random(y, keep=0.5, per_class=bool(s % 2), seed=s), 1)
        for s in range(400)
    )
    assert float((times - 200).abs().max()) < 5 * 10  # five standard deviations


def test_steps_are_those_of_all_samples_or_of_the_kept_ones() -> None:
    assert pruning.steps(5000, 500, epochs=20, batch=128, fixed="iterations") == 20 * 39
    assert pruning.steps(5000, 500, epochs=20, batch=128, fixed="epochs") == 20 * 3
    assert pruning.steps(5000, 100, epochs=20, batch=128, fixed="epochs") == 20


@pytest.mark.parametrize("variant", ["text", "code"])
def test_scores_belong_to_their_samples(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The images that a unit trains on are, class by class or in all, the best-scored of those its seed has drawn."""
    seen = {}

    def instead(_make: object, X: torch.Tensor, y: torch.Tensor, settings: object, **_: object) -> object:
        seen.update(X=X, y=y, steps=settings.steps)
        return type("Stopped", (), {"diverged": True})()

    monkeypatch.setattr(trials, "train_member", instead)
    d = 256
    grain = Grain(torch.arange(d, 0, -1).double(), torch.eye(d).double().reshape(d, 1, 16, 16), [], None, "made up")
    pool = {"name": "digits", "size": 16, "samples": 200, "tests": 20}
    config = pruning.Config(**{**vars(tab1.PRESETS["smoke"]), "samples": 120, "epochs": 3, "batch": 20})
    units = pruning._units(config, pool, pruning.Cell("LeNet", 50, variant), 0)
    everything = pictures(**pool).train
    weights = torch.arange(d, 0, -1).double()

    def score(X: torch.Tensor) -> torch.Tensor:
        flat = X.flatten(1).double()
        return (flat.square() @ weights) / flat.square().sum(1)

    kept = {}
    for unit in units:
        assert pruning._one({"LeNet": grain}, unit).numbers["diverged"]
        kept[unit["method"]] = (seen["X"], seen["y"])
        assert seen["steps"] == 3 * (6 if variant == "code" else 3)
    assert len(kept["score"][1]) == len(kept["random"][1])
    rows = {tuple(x.flatten().tolist()): int(label) for x, label in zip(everything.X, everything.y, strict=True)}
    for X, y in kept.values():  # images and labels still belong together
        assert all(rows[tuple(x.flatten().tolist())] == int(label) for x, label in zip(X, y, strict=True))
    if variant == "text":
        drawn = trials.drawn(everything.y, 120, 0, "training images")
        best = score(everything.X[drawn]).sort(descending=True).values[:60]
        assert score(kept["score"][0]).sort(descending=True).values.tolist() == pytest.approx(best.tolist())
        return
    for label in range(10):
        mine = [float(score(X[y == label]).mean()) for X, y in (kept["score"], kept["random"])]
        assert mine[0] > mine[1]


def test_pairs_leave_together() -> None:
    config = tab1.PRESETS["smoke"]

    def outcome(u: dict) -> Outcome:
        return Outcome(
            {
                "diverged": u["seed"] == 1 and u["method"] == "score" and u["dropped"] == 90,
                "test": (u["seed"] + (u["method"] == "score") / 2) / 10,
                "train": 1.0,
            }
        )

    pool = {"name": "digits", "size": 16, "samples": 600, "tests": 100}
    found = {
        cell: Trials([[outcome(u) for u in pruning._units(config, pool, cell, seed)] for seed in range(3)])
        for cell in pruning.cells(config)
    }
    result = pruning.result_of(config, "digits", found)
    half, most = (pruning.Cell("LeNet", level, "text") for level in (50, 90))
    assert result.accuracy[half]["random"] == pytest.approx([0, 10, 20])
    assert result.accuracy[most]["random"] == pytest.approx([0, 20])
    assert pruning.gains(result, most) == pytest.approx([5, 5])
    assert result.diverged == {c: int(c.level == 90) for c in pruning.cells(config)}


def test_networks_may_have_settings_and_seeds_of_their_own() -> None:
    config = tab1.PRESETS["laptop"]
    pool = {"name": "cifar10", "size": 16, "samples": 40_000, "tests": 5000}
    unit = pruning._units(config, pool, pruning.Cell("ViT", 50, "code"), 0)[0]
    assert (unit["samples"], unit["batch"], unit["epochs"], unit["lr"]) == (2000, 32, 3, 0.2)
    assert (unit["per_class"], unit["fixed"]) == (True, "iterations")
    assert not {"seeds", "levels"} & set(unit)
    unit = pruning._units(config, pool, pruning.Cell("LeNet", 50, "text"), 0)[0]
    assert (unit["samples"], unit["batch"], unit["epochs"]) == (5000, 128, 20)
    assert (unit["per_class"], unit["fixed"]) == (False, "epochs")
