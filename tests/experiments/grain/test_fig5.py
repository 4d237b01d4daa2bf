"""Figure 5: axes that stay in their eigenspaces, the cross-over, claims that hold, fail and stay open."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from netgrain.experiments.grain import fig5
from netgrain.experiments.grain.grains import Grain
from netgrain.experiments.grain.trials import Trials, open_subjects
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome


def _grain_of(*sizes: int) -> Grain:
    """Coordinate directions in eigenspaces of these sizes."""
    starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    blocks = list(itertools.pairwise(starts))
    d = starts[-1]
    return Grain(torch.arange(d, 0, -1).double(), torch.eye(d).double().reshape(d, 1, 1, d), blocks, None, "made up")


def test_axes_are_orthonormal_and_stay_in_their_eigenspaces() -> None:
    grain = _grain_of(6, 1, 3)
    for index, (start, stop) in {0: (0, 6), 6: (6, 7), 9: (7, 10), -1: (7, 10)}.items():
        u1, u2, u3 = (u.flatten() for u in fig5.axes(grain, index, (2, 3), seed=4))
        U = torch.stack([u1, u2, u3])
        assert torch.allclose(U @ U.T, torch.eye(3).double(), atol=1e-12)
        assert float(u1[start:stop].norm()) == pytest.approx(1)
        assert float(U[1:, :6].norm()) == pytest.approx(math.sqrt(2))
    again, other = (fig5.axes(grain, 0, (2, 3), seed=s)[0] for s in (4, 5))
    assert torch.equal(again, fig5.axes(grain, 0, (2, 3), seed=4)[0])
    assert not torch.allclose(again, other)


def test_a_step_in_the_plane_of_the_circle_is_refused() -> None:
    with pytest.raises(NetgrainError, match="span of the others"):
        fig5.axes(_grain_of(1, 2, 3), 1, (1, 2), seed=0)


def test_crossing_of_lines_known_by_hand() -> None:
    indices = [0, 1, 3, 7, 15]  # log₂(index + 1) = 0, 1, 2, 3, 4
    for place in (0.25, 1.5, 2.75):
        assert fig5.crossing(indices, [place - x for x in range(5)]) == pytest.approx(place)
    assert fig5.crossing(indices, [1, -1, 1, -1, -1]) == pytest.approx(0.5)  # the first of several
    assert fig5.crossing(indices, [1, 1, 1, 1, 0]) == 5
    assert fig5.crossing(indices, [-1, 1, 1, 1, 1]) == -1


def _fig5(gaps: dict[str, list[list[float]]], diverged: int = 0, spaces: tuple[int, ...] = (0, 1, 9)) -> fig5.Result:
    """A gap is the accuracy on the step less that on the circle, one of which is at chance."""
    config = replace(
        fig5.PRESETS["smoke"],
        networks={n: {**fig5.PRESETS["laptop"].networks[n], "indices": [0, 3, 15, 63]} for n in gaps},
    )
    scores = {
        n: {
            "linear": [[50 + max(g, 0) for g in row] for row in rows],
            "circle": [[50 + max(-g, 0) for g in row] for row in rows],
            "both": [[90.0 for _ in row] for row in rows],
        }
        for n, rows in gaps.items()
    }
    starts, alone = {n: list(spaces) for n in gaps}, dict.fromkeys(gaps, 93.0)
    return fig5.Result(config, scores, starts, dict.fromkeys(gaps, diverged), dict.fromkeys(gaps, 0.5), alone)


def _verdicts(result: fig5.Result) -> dict[str, str]:
    return {c.name: c.verdict for c in fig5.claims(result)}


def test_fig5_claims_hold_fail_and_stay_open() -> None:
    crossed = [[50.0, 20.0, -20.0, -49.0], [49.0, 21.0, -25.0, -50.0], [50.0, 22.0, -22.0, -50.0]]
    right = _fig5({"LeNet": crossed, "MLP": [[50.0, 49.0, 48.0, 50.0]] * 2 + [[50.0, 50.0, 49.0, 50.0]]})
    assert set(_verdicts(right).values()) == {"holds"}
    assert all("noise 0.5, chosen by a pilot" in c.note for c in fig5.claims(right))
    never = _fig5({"ResNet18": [[38.0, 39.0, 40.0, 41.0], [39.0, 40.0, 41.0, 42.0], [40.0, 39.5, 41.0, 42.0]]})
    assert _verdicts(never) == {
        "ResNet18: linear part perfect at the top": "fails",
        "ResNet18: circle at chance at the top": "holds",
        "ResNet18: circle wins at the bottom": "fails",
        "ResNet18: circle learnt at the bottom": "fails",
        "ResNet18: gradually": "fails",
        "ResNet18: cross-over": "fails",
    }
    assert "3 of 3 seeds do not cross" in fig5.claims(never)[-1].note
    mixed = _fig5(
        {
            "LeNet": [[50.0, 20.0, -20.0, -20.0], [50.0, 20.0, 20.0, 20.0], [50.0, 20.0, 9.0, 5.0]],
            "MLP": [[50.0, 41.0], [48.0, -13.0]],
        }
    )
    assert _verdicts(mixed)["LeNet: cross-over"] == "undecided"
    assert _verdicts(mixed)["MLP: never the circle"] == "undecided"
    assert open_subjects(fig5.claims(mixed)) == {"LeNet", "MLP"}
    assert fig5.claims(mixed)[1].value == pytest.approx((50 + 63) / 2)  # the worst index of each seed


def test_fig5_judges_nothing_gradual_in_two_eigenspaces_or_at_three_indices() -> None:
    ends = ["linear part perfect at the top", "circle at chance at the top", "circle wins at the bottom"]
    ends = [f"ViT: {kind}" for kind in (*ends, "circle learnt at the bottom")]
    vit = _fig5({"ViT": [[50.0, 0.0, 0.0, -50.0], [49.0, 0.0, 0.0, -50.0]]}, diverged=2, spaces=(0, 64))
    assert list(_verdicts(vit)) == ends
    assert all("2 diverged seeds left out" in c.note for c in fig5.claims(vit))
    stuck = _fig5({"ViT": [[0.0] * 4, [0.0] * 4]}, spaces=(0, 64))
    assert _verdicts(stuck)["ViT: circle wins at the bottom"] == "undecided"  # chance against chance is not a win
    assert set(_verdicts(_fig5({"LeNet": []})).values()) == {"undecided"}
    few = _fig5({"LeNet": [[50.0, 0.0, -50.0]] * 3})
    few.config.networks["LeNet"]["indices"] = [0, 3, 15]
    assert len(fig5.claims(few)) == 4


def test_variants_train_as_text_and_code_say() -> None:
    paper = fig5.PRESETS["paper"]
    assert paper.variant == "text"
    for network in paper.networks:
        assert fig5.training(paper, network) == {"lr": 0.5, "momentum": 0.0, "clip": None, "steps": 1560}
    code = replace(paper, variant="code")
    assert fig5.training(code, "ViT") == {"lr": 0.1, "momentum": 0.9, "clip": 0.5, "steps": 1560}
    assert fig5.training(code, "LeNet")["steps"] == 3900
    assert fig5._whose(code, "LeNet") == "optimiser of the code"
    laptop = fig5.PRESETS["laptop"]
    assert fig5.training(laptop, "LeNet") == {"lr": 0.15, "momentum": 0.9, "clip": 1.0, "steps": 1000}
    assert fig5._whose(laptop, "LeNet") == ""


def test_the_pilot_sees_the_circle_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def instead(unit: dict, X: torch.Tensor, *_: object) -> dict[str, object]:
        grain = _grain_of(*[1] * 256)
        u1, u2, _ = fig5.axes(grain, unit["index"], unit["plane"], unit["seed"])
        along = [float((X.flatten(1).double() @ u.flatten()).abs().max()) for u in (u1, u2)]
        seen.append((unit["part"], unit["seed"], unit["noise"], *along))
        right = 0.95 if unit["noise"] <= 0.65 else 0.85
        return {"diverged": False, "train": 1.0, **dict.fromkeys(fig5.PARTS, right)}

    grain = replace(_grain_of(*[1] * 256), directions=torch.eye(256).double().reshape(256, 1, 16, 16))
    monkeypatch.setattr(fig5, "trained_accuracy", instead)
    monkeypatch.setattr(fig5, "grains_of", lambda *_: {"MLP": grain})
    own = {**fig5.PRESETS["smoke"].networks["MLP"], "noises": [0.5, 0.65, 0.8, 1.0]}
    config = replace(fig5.PRESETS["smoke"], networks={"MLP": own})
    with RunFolder.create(tmp_path / "run", experiment="fig5", scale="smoke", config={}, resume=False) as folder:
        result = fig5.run(config, Runner(folder))
    assert result.noise == {"MLP": 0.65}
    assert result.alone == {"MLP": pytest.approx(95)}
    pilots, trained = ([row for row in seen if (row[1] == 1000) == pilot] for pilot in (True, False))
    assert {row[0] for row in pilots} == {"circle alone"}
    assert max(row[3] for row in pilots) < 1e-5 < 0.2 < min(row[4] for row in pilots)  # no step, but a circle
    assert {row[2] for row in trained} == {0.65}
    assert min(row[3] for row in trained) == pytest.approx(1, abs=1e-5)


def test_fig5_seeds_leave_as_wholes() -> None:
    config = fig5.PRESETS["smoke"]
    noise = dict.fromkeys(config.networks, 0.5)

    def trials(network: str) -> Trials:
        rows = [fig5._units(config, noise, network, seed) for seed in range(3)]
        return Trials(
            [
                [
                    Outcome(
                        {
                            "diverged": u["seed"] == 1 and u["index"] == 255 and network == "LeNet",
                            **dict.fromkeys(fig5.PARTS, u["index"] / 255),
                        }
                    )
                    for u in row
                ]
                for row in rows
            ]
        )

    grains = {n: _grain_of(1, 2) for n in config.networks}
    pilots = dict.fromkeys(config.networks, (0.5, None))
    result = fig5.result_of(config, grains, pilots, {n: trials(n) for n in ("MLP", "LeNet")})
    assert result.accuracy["MLP"]["linear"] == [[0, 100]] * 3
    assert result.accuracy["LeNet"]["circle"] == [[0, 100]] * 2
    assert result.diverged == {"MLP": 0, "LeNet": 1}
