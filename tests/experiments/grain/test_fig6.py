"""Figure 6: directions taken out of images, paired by seed."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from netgrain.experiments.grain import fig6, trials
from netgrain.experiments.grain.trials import Trials
from netgrain.runtime.units import Outcome

POOL = {"name": "digits", "size": 16, "samples": 40, "tests": 20, "two": True}


def test_overlap_is_a_property_of_spaces() -> None:
    Q, _ = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0)))
    turn, _ = torch.linalg.qr(torch.randn(2, 2, generator=torch.Generator().manual_seed(1)))
    assert fig6.overlap(Q[:2], turn @ Q[:2]) == pytest.approx(1)
    assert fig6.overlap(Q[:2], Q[2:]) == pytest.approx(0, abs=1e-12)
    assert fig6.overlap(Q[:2], Q[:4]) == pytest.approx(0.5)


def _fig6(gains: list[list[float]], diverged: int = 0) -> fig6.Result:
    config = fig6.PRESETS["smoke"]
    scores = {"geometry": [[70 + g for g in row] for row in gains], "random": [[70.0 for _ in row] for row in gains]}
    counts = {m: [[5, 9] for _ in gains] for m in fig6.METHODS}
    return fig6.Result(
        config, "digits", {"LeNet": scores}, {"LeNet": []}, {"LeNet": counts}, {"LeNet": [[50.0, 90.0] for _ in gains]},
        {"LeNet": [0.9, 1.0]}, 60.0, {"LeNet": diverged},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("gains", "verdicts"),
    [
        ([[5.0, 3.0], [5.2, 3.1], [5.1, 2.9]], ["holds", "holds", "holds"]),
        ([[-5.0, -3.0], [-5.2, -3.1], [-5.1, -2.9]], ["fails", "fails", "fails"]),
        ([[5.0, -5.0], [5.2, -5.6], [5.1, -4.4]], ["undecided", "holds", "fails"]),
        ([[0.0, 0.0], [0.0, 0.0]], ["undecided"] * 3),
        ([], ["undecided"] * 3),
    ],
)
def test_fig6_claims(gains: list[list[float]], verdicts: list[str]) -> None:
    found = fig6.claims(_fig6(gains, diverged=1))
    assert [c.verdict for c in found] == verdicts
    assert [c.name for c in found] == [
        "LeNet: geometry loses less", "LeNet: geometry loses less at k = 64", "LeNet: geometry loses less at k = 192",
    ]  # fmt: skip
    assert all("1 diverged seeds left out" in c.note for c in found)
    assert "overlap by 0.90, 1.00" in found[0].note
    assert "overlap by 1.00" in found[2].note
    assert not gains or ("50.0, 90.0 % of the variance" in found[0].note and "s, 50.0 % of" in found[1].note)


def test_fig6_pairs_by_seed_and_keeps_the_order_of_indices() -> None:
    config = replace(fig6.PRESETS["smoke"], whole_seeds=2)
    worth = {"geometry": 0.8, "random": 0.6, "whole": 0.9}

    def outcome(u: dict) -> Outcome:
        return Outcome(
            {
                "diverged": u["seed"] == 0 and u["method"] == "random" and u["index"] == 192,
                "test": worth[u["method"]] - u["index"] / 1280,
                "directions": u["index"] // 32,
                "share": u["index"] / 256,
                "majority": 0.6,
            }
        )

    found = Trials([[outcome(u) for u in fig6._units(config, POOL, "LeNet", seed)] for seed in range(3)])
    result = fig6.result_of(config, "digits", {"LeNet": [1.0, 1.0]}, {"LeNet": found})
    assert result.majority == 60
    assert result.diverged == {"LeNet": 1}
    assert result.whole["LeNet"] == [pytest.approx(90)]  # two were trained, the first seed left
    assert result.accuracy["LeNet"]["geometry"] == [pytest.approx([75, 65])] * 2
    assert result.gains("LeNet") == [pytest.approx([20, 20])] * 2
    assert result.directions["LeNet"]["random"] == [[2, 6]] * 2
    assert result.shares["LeNet"] == [[25, 75]] * 2


def test_fig6_takes_the_first_k_directions_out_and_as_much_variance_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def instead(_make: object, X: torch.Tensor, y: torch.Tensor, _settings: object, **_: object) -> object:
        seen["X"], seen["y"] = X, y
        return type("Stopped", (), {"diverged": True})()

    monkeypatch.setattr(trials, "train_member", instead)
    config = fig6.PRESETS["smoke"]
    d = 256
    work = partial(fig6._one, {"LeNet": torch.eye(d).double().reshape(d, 1, 16, 16)})
    units = [u for u in fig6._units(replace(config, samples=30), POOL, "LeNet", 0) if u["index"] in (0, 192)]
    rest, shares = {}, {}
    for unit in units:
        found = work(unit).numbers
        assert found["diverged"]
        assert len(seen["y"]) == 30
        rest[unit["method"]], shares[unit["method"]] = seen["X"].double().flatten(1), found["share"]
    whole = rest["whole"].square().sum()
    assert torch.equal(rest["geometry"][:, :192], torch.zeros(30, 192).double())  # coordinates are the directions here
    assert torch.allclose(rest["geometry"][:, 192:], rest["whole"][:, 192:])
    share = float(rest["whole"][:, :192].square().sum() / whole)
    assert shares == pytest.approx({"whole": 0, "geometry": share, "random": share}, rel=1e-5)
    assert float(rest["random"].square().sum() / whole) == pytest.approx(1 - share, rel=1e-4)
