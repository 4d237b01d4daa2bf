"""Labels planted along eigenvectors: the grid, the numbers claims are made of, and claims that can fail."""

import math
from dataclasses import replace

import pytest
import torch

from netgrain.experiments.grain import fig4, fig10, fig11, fig14
from netgrain.experiments.grain import grains as _grain
from netgrain.experiments.grain import planted_labels as _planted
from netgrain.experiments.grain.planted_labels import AccuracyCurve, Judged, PlantedCurve
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.units import Outcome


def _curve(
    *rows: list[float], indices: list[int] | None = None, train: float = 100.0, left_out: int = 0
) -> AccuracyCurve:
    indices = indices or list(range(len(rows[0])))
    values = [2.0**-i for i in range(len(indices))]
    every = dict(enumerate(map(list, rows)))
    return AccuracyCurve(
        indices,
        values,
        every,
        {s: [train] * len(r) for s, r in every.items()},
        dict.fromkeys(every, [100.0] * len(rows[0])),
        left_out,
    )


def _verdict(judged: Judged) -> str:
    return judged[0].verdict


STEEP = (
    [98.0, 95.0, 80.0, 60.0, 51.0, 50.0],
    [97.0, 96.0, 82.0, 61.0, 50.0, 51.0],
    [98.0, 95.0, 79.0, 58.0, 50.0, 50.0],
)
FLAT = (
    [80.0, 79.0, 80.0, 80.0, 80.0, 79.0],
    [79.0, 80.0, 80.0, 79.0, 80.0, 80.0],
    [80.0, 80.0, 79.0, 80.0, 79.0, 80.0],
)


def _cell(**changes: object) -> PlantedCurve:
    model = _grain.model("MLP", (1, 4, 4), activation="gelu")
    settings = {"lr": 0.1, "steps": 2, "batch": 8}
    return replace(PlantedCurve("MLP", "linear", model, {"epsilon": 0.9}, (0, 15), settings, 16, 16), **changes)  # type: ignore[arg-type]


def _axes(d: int = 16, values: torch.Tensor | None = None) -> _grain.Grain:
    values = torch.linspace(1, 0.1, d, dtype=torch.float64) if values is None else values
    directions = torch.eye(d, dtype=torch.float64).reshape(d, 1, 4, 4)
    return _grain.Grain(values, directions, [(i, i + 1) for i in range(d)], None, "by hand")


# --- grid and data ----------------------------------------------------------------------------------------------------


def test_grid_ends_with_the_last_index() -> None:
    assert _planted.grid(_planted.GRID, 256) == (0, 10, 20, 40, 60, 80, 120, 240, 255)
    assert _planted.grid(_planted.GRID, 768) == (0, 10, 20, 40, 60, 80, 120, 240, 480, 767)
    assert _planted.grid(_planted.GRID, 256, within=61) == (0, 10, 20, 40, 60, 255)
    assert _planted.grid((0, 15, -1), 16) == (0, 15)  # asked for twice, used once


def test_digits_have_room_up_to_their_rank() -> None:
    values = torch.tensor([1.0, 0.5, 1e-13] + [0.0] * 13, dtype=torch.float64)
    assert _planted.room(_axes(values=values), "digits") == 2
    assert _planted.room(_axes(values=values), "cifar10") == 16


def test_labels_lie_along_the_direction_and_seeds_differ() -> None:
    cells = {"a": _cell()}
    asked = _planted.units(cells, {"a": 2}, "cpu")
    assert [(u["seed"], u["index"]) for u in asked] == [(0, 0), (0, 15), (1, 0), (1, 15)]
    train, test, ceiling = _planted.samples(_axes(), asked[1])
    assert ceiling == 1
    assert ((train.X.flatten(1)[:, 15] > 0).long() == train.y).all()
    assert ((test.X.flatten(1)[:, 15] > 0).long() == test.y).all()
    assert not torch.equal(train.X, test.X)
    assert not torch.equal(train.X, _planted.samples(_axes(), asked[3])[0].X)


def test_images_are_labelled_by_one_rule_and_noise_sets_a_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    from netgrain.data import Dataset, Split

    generator = torch.Generator().manual_seed(0)
    X = torch.randn(400, 1, 4, 4, generator=generator)
    y = torch.arange(400) % 2
    split = Split(Dataset(X[:200], y[:200], "x", ("0", "1")), Dataset(X[200:], y[200:], "x", ("0", "1")))
    monkeypatch.setattr(_grain, "pictures", lambda **_: split)
    unit = _planted.units(
        {"a": _cell(data={"images": {}, "label_noise": 0.0}, samples=100, tests=150)}, {"a": 1}, "cpu"
    )[0]
    train, test, ceiling = _planted.samples(_axes(), unit)
    assert len(train) == 100
    assert len(test) == 150
    assert ceiling == 1
    along = train.X.flatten(1)[:, 0]
    assert float(along[train.y == 1].min()) > float(along[train.y == 0].max())
    threshold = float(along[train.y == 0].max())
    assert ((test.X.flatten(1)[:, 0] > threshold + 1e-6).long() == test.y).double().mean() > 0.97
    _, _, noisy = _planted.samples(_axes(), {**unit, "data": {"images": {}, "label_noise": 1.0}})
    assert 0.6 < noisy < 0.9  # noise as large as the coordinate: three quarters are right


def test_a_training_gives_its_numbers() -> None:
    unit = _planted.units({"a": _cell()}, {"a": 1}, "cpu")[1]
    numbers = _planted.train_one({"MLP": _axes()}, unit).numbers
    assert numbers["eigenvalue"] == pytest.approx(0.1)
    assert not numbers["diverged"]
    assert 0 <= numbers["accuracy"] <= 1
    wild = {**unit, "training": {"lr": 1e30, "steps": 3, "batch": 8}}
    numbers = _planted.train_one({"MLP": _axes()}, wild).numbers
    assert numbers["diverged"]
    assert numbers["accuracy"] is None


def test_diverged_seeds_leave_as_wholes() -> None:
    def numbers(accuracy: float, diverged: bool = False) -> dict[str, object]:
        value = None if diverged else accuracy
        return {"diverged": diverged, "accuracy": value, "train_accuracy": value, "ceiling": value, "eigenvalue": 1.0}

    rows = [[numbers(0.9), numbers(0.5)], [numbers(0.9), numbers(0.5, diverged=True)], [numbers(0.8), numbers(0.6)]]
    found = _planted.curve(_cell(), rows)
    assert found.accuracy == {0: [90.0, 50.0], 2: [80.0, 60.0]}
    assert found.left_out == 1
    assert "1 diverged" in _planted.falls("a", found, "")[0].note


# --- claims -----------------------------------------------------------------------------------------------------------


def test_drop_needs_no_particular_length() -> None:
    assert _planted.drop([90, 80, 60, 50, 40]) == 35
    assert _planted.drop([90, 80, 50, 40]) == 40
    assert _planted.drop([90, 50]) == 20


def test_falls_and_order_come_out_as_the_numbers_say() -> None:
    assert _verdict(_planted.falls("a", _curve(*STEEP), "")) == "holds"
    assert _verdict(_planted.falls("a", _curve(*FLAT), "")) == "fails"
    assert _verdict(_planted.falls("a", _curve(STEEP[0], FLAT[0]), "")) == "undecided"
    # 25 points are above 20, but not 30
    assert _verdict(_planted.falls("a", _curve([85, 85, 60, 60, 60], [85.1, 85, 60, 60, 60]), "")) == "fails"
    assert _verdict(_planted.ordered("a", _curve(*STEEP), low=0.8, matrix="G", paper="")) == "holds"
    backwards = [list(reversed(row)) for row in STEEP]
    assert _verdict(_planted.ordered("a", _curve(*backwards), matrix="G", paper="")) == "fails"
    constant = _planted.ordered("a", _curve([50.0] * 4, [50.0] * 4), matrix="G", paper="")[0]
    assert constant.verdict == "undecided"
    assert constant.n == 0


def test_what_is_not_learnt_is_said() -> None:
    assert _planted.falls("a", _curve([51.0, 50, 50], [52.0, 50, 50]), "")[0].note == (
        "accuracy 51.5 % at the first index: not learnt"
    )
    assert not _planted.falls("a", _curve(*STEEP), "")[0].note


def test_null_directions_are_tied() -> None:
    curve = AccuracyCurve([0, 1, 2], [1.0, 1e-13, 1e-16], {0: [90.0, 50.0, 51.0]}, {}, {}, 0)
    assert _planted.order(curve, [90, 50, 51]) == _planted.order(curve, [90, 51, 50])


def test_fitted() -> None:
    assert _verdict(_planted.fitted("a", _curve(*STEEP))) == "holds"
    assert _verdict(_planted.fitted("a", _curve(*STEEP, train=80.0))) == "fails"


def test_harder_labels_fall_sooner() -> None:
    early = (
        [98.0, 60.0, 51.0, 50.0, 50.0, 50.0],
        [97.0, 61.0, 52.0, 50.0, 51.0, 50.0],
        [98.0, 62.0, 50.0, 50.0, 50.0, 50.0],
    )
    line, hard = ("l", _curve(*STEEP)), ("h", _curve(*early))
    judged = _planted.sooner("N", line, hard, "quadratic")
    assert _verdict(judged) == "holds"
    assert judged[1] == ()  # no seeds are added for it
    assert _verdict(_planted.sooner("N", hard, line, "quadratic")) == "fails"
    assert _verdict(_planted.sooner("N", line, ("h", _curve([50.0] * 6, [50.0] * 6)), "quadratic")) == "undecided"
    # only indices that both have are compared: the thin curve below is the steep one with points left out
    thin = _curve(*[[r[0], r[1], r[5]] for r in STEEP], indices=[0, 1, 5])
    assert abs(_planted.sooner("N", line, ("h", thin), "quadratic")[0].value) < 1e-12
    missing = replace(hard[1], accuracy={2: list(early[2])}, left_out=2)
    claim = _planted.sooner("N", line, ("h", missing), "quadratic")[0]
    assert claim.n == 1
    assert "2 diverged" in claim.note


def test_two_eigenspaces() -> None:
    curve = _curve([90.0, 88.0, 60.0, 50.0], [91.0, 88.0, 60.0, 52.0], [90.0, 89.0, 61.0, 50.0])
    inside = [True, True, False, False]
    claim = _planted.spaces("v", curve, inside, paper="")[0]
    assert claim.verdict == "holds"
    assert claim.value == pytest.approx(((89 - 55) + (89.5 - 56) + (89.5 - 55.5)) / 3)
    assert _verdict(_planted.spaces("v", curve, [not i for i in inside], paper="")) == "fails"
    assert math.isnan(_planted.spaces("v", curve, [True] * 4, paper="")[0].value)


def test_share_of_an_eigenspace() -> None:
    blocks = [(0, 4), (4, 16)]
    G = replace(_axes(), blocks=blocks)
    other = _axes()
    mixed = other.directions.clone()
    mixed[0], mixed[4] = (
        (other.directions[0] + other.directions[4]) / math.sqrt(2),
        (other.directions[0] - other.directions[4]) / math.sqrt(2),
    )
    GSG = replace(other, directions=mixed)
    assert fig4.share(G, GSG, 0) == pytest.approx(0.5)
    assert fig4.share(G, GSG, 1) == 1
    assert fig4.share(G, GSG, 7) == 0
    assert fig4.share(G, replace(GSG, blocks=[(0, 8), (8, 16)]), 5) == pytest.approx(0.5)


def test_no_difference_is_not_positive() -> None:
    same = _curve([50.0] * 4, [50.0] * 4)
    assert _verdict(_planted.spaces("v", same, [True, True, False, False], paper="")) == "fails"
    names = [fig14._name("linear", lr) for lr in fig14.RATES]
    assert fig14._worst("linear", names, dict.fromkeys(names, same))[0].verdict == "fails"


# --- experiments ------------------------------------------------------------------------------------------------------


def _all(steep: AccuracyCurve, flat: AccuracyCurve) -> dict[str, AccuracyCurve]:
    found = {f"{n}, {k}": steep for n in ("LeNet", "ResNet18", "ViT") for k in _planted.LABELS}
    return {**found, **{f"MLP, {k}": flat for k in _planted.LABELS}}


def test_fig10_claims() -> None:
    result = fig10.Result(
        fig10.PRESETS["smoke"], _all(_curve(*STEEP), _curve(*FLAT)), 3, {"ViT": Estimate(0.99, 0.001, 16)}
    )
    found = {c.name: c for c in fig10.claims(result)}
    assert len(found) == len(fig10.claims(result))
    assert found["LeNet, linear: falls"].verdict == "holds"
    assert found["MLP, linear: does not care"].verdict == "holds"
    assert "an identity, no evidence" in found["MLP, linear: does not care"].note
    assert found["ViT, linear: first eigenspace"].verdict == "holds"
    assert found["ViT: narrow as full"].verdict == "holds"
    swapped = fig10.Result(result.config, _all(_curve(*FLAT), _curve(*STEEP)), 3, {"ViT": Estimate(0.9, 0.001, 16)})
    found = {c.name: c.verdict for c in fig10.claims(swapped)}
    for name in ("LeNet, linear: falls", "MLP, linear: does not care", "ViT: narrow as full"):
        assert found[name] == "fails"
    rising = _curve(*[row[::-1] for row in STEEP])
    found = {c.name: c.verdict for c in fig10.claims(replace(result, curves=_all(_curve(*STEEP), rising)))}
    assert found["MLP, linear: does not care"] == "fails"


def test_fig4_asks_for_more_than_label_noise() -> None:
    first = {i: float(i < 3) for i in range(6)}
    curves = _all(_curve(*STEEP), _curve(*FLAT))
    result = fig4.Result(fig4.PRESETS["smoke"], "digits", curves, first, {})
    found = {c.name: c for c in fig4.claims(result)}
    assert len(found) == len(fig4.claims(result))
    assert found["LeNet, linear: more than label noise"].verdict == "holds"
    noisy = replace(_curve(*STEEP), ceiling=dict(enumerate(map(list, STEEP))))
    assert _verdict(_planted.beyond_noise("LeNet, linear", noisy)) == "fails"


def test_fig11_says_how_many_samples_a_parameter_has() -> None:
    curves = {"images, linear": _curve(*STEEP), "isotropic, linear": _curve(*FLAT)}
    config = replace(fig11.PRESETS["smoke"], samples=500)
    found = {
        c.name: c for c in fig11.claims(fig11.Result(config, "digits", curves, {"images": 1000, "isotropic": 250}))
    }
    assert found["images, linear: falls"].verdict == "holds"
    assert "1000 parameters, 0.50 samples" in found["images, linear: falls"].note
    assert found["isotropic, linear: falls"].verdict == "fails"


def test_fig14_compares_with_the_smallest_rate() -> None:
    good, bad = _curve(*STEEP), _curve(*[[x - 10 for x in row] for row in STEEP])
    names = [fig14._name("linear", lr) for lr in fig14.RATES]
    curves = {n: bad if n == names[-1] else good for n in names}
    found = {c.name: c for c in fig14.claims(fig14.Result(fig14.PRESETS["smoke"], curves))}
    assert len(found) == 5
    assert found["linear: the smallest learning rate is worst"].value == pytest.approx(10)
    assert found["linear, lr 0.001: same preference"].verdict == "holds"
    curves = {n: good if n == names[-1] else bad for n in names}
    found = {c.name: c for c in fig14.claims(fig14.Result(fig14.PRESETS["smoke"], curves))}
    assert found["linear: the smallest learning rate is worst"].verdict == "fails"


def test_a_seed_does_not_choose_its_own_best_rate() -> None:
    names = [fig14._name("linear", lr) for lr in fig14.RATES]
    # rate 0 is lucky on seed 0 only, rate 1 on seed 1 only: chosen by the other seed, each luck is lost
    curves = {n: _curve([50.0, 50.0], [50.0, 50.0]) for n in names}
    curves[names[0]] = _curve([60.0, 60.0], [40.0, 40.0])
    curves[names[1]] = _curve([40.0, 40.0], [60.0, 60.0])
    assert fig14._worst("linear", names, curves)[0].value == pytest.approx(-10)


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

    cells = {"a": _cell(), "b": _cell(labels="quadratic")}

    def judge(found: dict[str, AccuracyCurve]) -> list[Judged]:
        return [
            _planted.falls("a", found["a"], ""),
            (replace(_planted.falls("b", found["b"], "")[0], verdict="undecided"), ("b",)),
        ]

    runner = Fake()
    found = _planted.curves(runner, cells, {}, seeds=2, most=4, device="cpu", judge=judge)  # type: ignore[arg-type]
    assert len(found["a"].accuracy) == 2
    assert len(found["b"].accuracy) == 4
    assert runner.asked == [8, 10, 12]


def test_no_seeds_where_nothing_is_learnt() -> None:
    flat = _curve([50.0] * 6, [51.0] * 6)
    assert _planted.unlearnt(flat)
    assert not _planted.unlearnt(_curve(*STEEP))
