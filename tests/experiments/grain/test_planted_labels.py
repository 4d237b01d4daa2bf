"""Labels planted along eigenvectors: the grid, the data, the trainings, and seeds that are added."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from netgrain.experiments.grain import fig10, planted_claims, planted_labels
from netgrain.experiments.grain.grains import Grain, model_config
from netgrain.experiments.grain.planted_labels import AccuracyCurve, CurveName, Judged, PlantedCurve
from netgrain.experiments.grain.trials import Trials
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.units import Outcome
from tests.experiments.grain.planted_curves import NAME, STEEP, curve


def _cell(**changes: object) -> PlantedCurve:
    model = model_config("MLP", (1, 4, 4), activation="gelu")
    shared = {
        "planted": "linear", "model": model, "data": {"epsilon": 0.9, "frequency": None}, "samples": 16, "tests": 16,
        "training": {"lr": 0.1, "steps": 2, "batch": 8}, "grain": {"name": "MLP"}, "device": "cpu", "audited": False,
    }  # fmt: skip
    return PlantedCurve({**shared, **changes}, (0, 15))


def _axes(d: int = 16, values: torch.Tensor | None = None) -> Grain:
    values = torch.linspace(1, 0.1, d, dtype=torch.float64) if values is None else values
    directions = torch.eye(d, dtype=torch.float64).reshape(d, 1, 4, 4)
    return Grain(values, directions, [(i, i + 1) for i in range(d)], None, "by hand")


def test_grid_ends_with_the_last_index() -> None:
    assert planted_labels.grid(planted_labels.GRID, 256) == (0, 10, 20, 40, 60, 80, 120, 240, 255)
    assert planted_labels.grid(planted_labels.GRID, 768) == (0, 10, 20, 40, 60, 80, 120, 240, 480, 767)
    assert planted_labels.grid(planted_labels.GRID, 256, within=61) == (0, 10, 20, 40, 60, 255)
    assert planted_labels.grid((0, 15, -1), 16) == (0, 15)  # asked for twice, used once


def test_digits_have_room_up_to_their_rank() -> None:
    values = torch.tensor([1.0, 0.5, 1e-13] + [0.0] * 13, dtype=torch.float64)
    assert planted_labels.room(_axes(values=values), "digits") == 2
    assert planted_labels.room(_axes(values=values), "cifar10") == 16


def test_labels_lie_along_the_direction_and_seeds_differ() -> None:
    asked = [*_cell().units(seed=0), *_cell().units(seed=1)]
    assert [(u["seed"], u["index"]) for u in asked] == [(0, 0), (0, 15), (1, 0), (1, 15)]
    train, test, ceiling = planted_labels.samples(_axes(), asked[1])
    assert ceiling == 1
    assert ((train.X.flatten(1)[:, 15] > 0).long() == train.y).all()
    assert ((test.X.flatten(1)[:, 15] > 0).long() == test.y).all()
    assert not torch.equal(train.X, test.X)
    assert not torch.equal(train.X, planted_labels.samples(_axes(), asked[3])[0].X)


def test_images_are_labelled_by_one_rule_and_noise_sets_a_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    from netgrain.data import Dataset, Split

    generator = torch.Generator().manual_seed(0)
    X = torch.randn(400, 1, 4, 4, generator=generator)
    y = torch.arange(400) % 2
    split = Split(Dataset(X[:200], y[:200], "x", ("0", "1")), Dataset(X[200:], y[200:], "x", ("0", "1")))
    monkeypatch.setattr(planted_labels, "pictures", lambda **_: split)
    unit = _cell(data={"images": {}, "label_noise": 0.0, "scale": None}, samples=100, tests=150).units(seed=0)[0]
    train, test, ceiling = planted_labels.samples(_axes(), unit)
    assert len(train) == 100
    assert len(test) == 150
    assert ceiling == 1
    along = train.X.flatten(1)[:, 0]
    assert float(along[train.y == 1].min()) > float(along[train.y == 0].max())
    threshold = float(along[train.y == 0].max())
    assert ((test.X.flatten(1)[:, 0] > threshold + 1e-6).long() == test.y).double().mean() > 0.97
    _, _, noisy = planted_labels.samples(_axes(), {**unit, "data": {"images": {}, "label_noise": 1.0, "scale": None}})
    assert 0.6 < noisy < 0.9  # noise as large as the coordinate: three quarters are right


def test_variants_of_sinusoidal_labels_are_lines_with_a_rule_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    config = fig10.PRESETS["smoke"]
    lines = {v: replace(config, variant=v).isotropic_lines for v in ("text", "code", "both")}
    assert lines["text"] == planted_labels.LABELS
    assert lines["code"] == ("linear", "quadratic", "sinusoidal, code")
    assert lines["both"] == (*planted_labels.LABELS, "sinusoidal, code")
    with pytest.raises(NetgrainError, match="variant expects one of text, code, both, got 'paper'"):
        replace(config, variant="paper")

    model = model_config("MLP", (1, 4, 4), activation="gelu")

    def shared(line: str, **options: Any) -> dict[str, Any]:
        known = {"about": {"name": "MLP"}, "indices": (0, -1), "samples": 300, "settings": {"steps": 1}}
        return dict(planted_labels.planted_curve(config, line, model, _axes(), **known, **options).shared)

    text, code = shared("sinusoidal"), shared("sinusoidal, code")
    assert text["planted"] == code["planted"] == "sinusoidal"
    for unit, frequency in ((text, 2.1), (code, math.pi)):
        train, _, _ = planted_labels.samples(_axes(), {**unit, "index": 3, "seed": 0})
        alpha = train.X.flatten(1)[:, 3].double() / 2.1
        assert ((frequency * alpha).sin().gt(0).long() != train.y).sum() <= 1
        assert planted_labels.spread(unit, train, _axes().directions[3]) == frequency
    assert planted_labels.spread(shared("linear"), train, _axes().directions[3]) is None

    from netgrain.data import Dataset, Split

    X = 4 * torch.randn(400, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    split = Split(Dataset(X, torch.zeros(400).long()), Dataset(X, torch.zeros(400).long()))
    monkeypatch.setattr(planted_labels, "pictures", lambda **_: split)
    plain, scaled = (shared(line, images={"name": "x"}, scale=5.0) for line in ("sinusoidal", "sinusoidal, scaled"))
    u = _axes().directions[0]
    found = {}
    for name, unit in (("plain", plain), ("scaled", scaled)):
        train, _, _ = planted_labels.samples(_axes(), {**unit, "index": 0, "seed": 0})
        found[name] = train.y, planted_labels.spread(unit, train, u)
    assert found["plain"][1] == pytest.approx(1, abs=0.1)  # one entry of variance 1
    assert found["scaled"][1] == 5
    assert 0.3 < float((found["plain"][0] != found["scaled"][0]).double().mean()) < 0.7


def test_a_training_gives_its_numbers() -> None:
    unit = _cell().units(seed=0)[1]
    numbers = planted_labels.train_one({"MLP": _axes()}, unit).numbers
    assert numbers["distance"] > 0
    assert numbers["spread"] is None
    assert numbers["eigenvalue"] == pytest.approx(0.1)
    assert not numbers["diverged"]
    assert 0 <= numbers["accuracy"] <= 1
    wild = {**unit, "training": {"lr": 1e30, "steps": 3, "batch": 8}}
    numbers = planted_labels.train_one({"MLP": _axes()}, wild).numbers
    assert numbers["diverged"]
    assert numbers["accuracy"] is None


def test_diverged_seeds_leave_as_wholes() -> None:
    def numbers(accuracy: float, diverged: bool = False) -> Outcome:
        value = None if diverged else accuracy
        same = dict.fromkeys(("accuracy", "train_accuracy", "ceiling"), value)
        return Outcome({"diverged": diverged, "eigenvalue": 1.0, **same})

    rows = [[numbers(0.9), numbers(0.5)], [numbers(0.9), numbers(0.5, diverged=True)], [numbers(0.8), numbers(0.6)]]
    found = planted_labels.curve((0, 15), Trials(rows))
    assert found.accuracy == {0: [90.0, 50.0], 2: [80.0, 60.0]}
    assert found.left_out == 1
    assert "1 diverged" in planted_claims.falls(NAME, found, "")[0].note


def test_seeds_are_added_where_a_claim_is_undecided() -> None:
    class Folder:
        writable = True

    class Fake:
        folder = Folder()
        asked: list[int]

        def __init__(self) -> None:
            self.asked = []

        def has(self, _units: object) -> bool:
            return True

        def map(self, _work: object, units: list[dict], _label: str) -> list[Outcome]:
            self.asked.append(len(units))
            return [
                Outcome(
                    {
                        "diverged": False,
                        # cell "b" is noisy and stays undecided, cell "a" is clear
                        "accuracy": (0.9 - 0.4 * (u["index"] > 0))
                        if u["planted"] == "linear"
                        else 0.5 + 0.3 * (u["seed"] % 2),
                        "train_accuracy": 1.0,
                        "ceiling": 1.0,
                        "eigenvalue": 1.0 / (1 + u["index"]),
                    }
                )
                for u in units
            ]

    a, b = CurveName("N", "a"), CurveName("N", "b")
    cells = {a: _cell(), b: _cell(planted="quadratic")}

    def judge(found: dict[CurveName, AccuracyCurve]) -> list[Judged]:
        return [
            planted_claims.falls(a, found[a], ""),
            (replace(planted_claims.falls(b, found[b], "")[0], verdict="undecided"), (b,)),
        ]

    runner = Fake()
    config = replace(fig10.PRESETS["smoke"], seeds=2, most_seeds=4)
    found = planted_labels.train_curves(runner, config, cells, {}, dict, judge)  # type: ignore[arg-type]
    assert len(found[a].accuracy) == 2
    assert len(found[b].accuracy) == 4
    assert runner.asked == [8, 10, 12]


def test_no_seeds_where_nothing_is_learnt() -> None:
    flat = curve([50.0] * 6, [51.0] * 6)
    assert planted_labels.unlearnt(flat)
    assert not planted_labels.unlearnt(curve(*STEEP))
