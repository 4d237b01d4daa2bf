"""Figure 1: the plane that is drawn, pilots apart from verdicts, claims that hold, fail and stay open."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from netgrain.data.synthetic import doughnut
from netgrain.experiments.grain import fig1
from netgrain.experiments.grain.planes import PLANES
from netgrain.experiments.grain.trials import Trials
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

SMOKE = fig1.PRESETS["smoke"]


def test_fig1_draws_the_plane_it_says() -> None:
    u1, u2 = torch.zeros(1, 4, 4), torch.zeros(1, 4, 4)
    u1[0, 0, 0], u2[0, 1, 1] = 1, 1
    points = fig1._grid(u1, u2)
    assert points.shape == (fig1.GRID**2, 1, 4, 4)
    assert points[0, 0, 0, 0] == points[0, 0, 1, 1] == -fig1.REACH
    assert points[fig1.GRID - 1, 0, 0, 0] == fig1.REACH
    assert points[fig1.GRID - 1, 0, 1, 1] == -fig1.REACH
    cloud = fig1._cloud(doughnut(u1, u2, 20, noise=1.0), torch.stack([u1, u2]))
    assert cloud[:, :2].norm(dim=1).tolist() == pytest.approx((cloud[:, 2] + 1).tolist(), rel=1e-5)


def _trials(
    test: Mapping[str, list[float]], *, train: float = 100.0, alone: float = 60.0, bad: int | None = None
) -> dict[str, Trials]:
    """Accuracies in per cent by plane and seed; one seed may diverge on plane B."""
    return {
        plane: Trials(
            [
                [
                    Outcome(
                        {
                            "diverged": plane == "B" and seed == bad,
                            "test": score / 100,
                            "train": train / 100,
                            "noise_alone": (alone + (20 + seed if plane != "A" else 0)) / 100,
                        }
                    )
                ]
                for seed, score in enumerate(scores)
            ]
        )
        for plane, scores in test.items()
    }


def _result(resnet: dict[str, Trials], mlp: dict[str, Trials]) -> fig1.Result:
    found = {(n, p): t[p] for n, t in ((fig1.RESNET, resnet), (fig1.MLP, mlp), (fig1.SHALLOW, mlp)) for p in PLANES}
    return fig1.result_of(SMOKE, 0.3, True, found)


def _verdicts(result: fig1.Result) -> dict[str, str]:
    return {c.name: c.verdict for c in fig1.claims(result)}


def _near(value: float, n: int = 5) -> list[float]:
    return [value + (i % 3 - 1) / 2 for i in range(n)]


def _on(A: float, B: float, C: float, R: float, planes: int = 16) -> dict[str, list[float]]:
    return {"A": _near(A), "B": _near(B), "C": _near(C), "R": _near(R, planes)}


def test_fig1_claims_hold_where_the_paper_is_right() -> None:
    result = _result(_trials(_on(98, 55, 60, 66)), _trials(_on(93, 93, 93, 93)))
    assert result.half_way == pytest.approx(74, abs=0.2)
    assert set(_verdicts(result).values()) == {"holds"}


def test_fig1_claims_fail_where_it_is_not() -> None:
    found = _verdicts(_result(_trials(_on(98, 96, 90, 85)), _trials(_on(93, 60, 60, 60))))
    for kind in ("fails on B", "fails on C", "fails on random planes", "seldom generalises on random planes"):
        assert found[f"ResNet18: {kind}"] == "fails"
    for network in (fig1.MLP, fig1.SHALLOW):
        assert found[f"{network}: generalises on any plane"] == found[f"{network}: does not care"] == "fails"
    unfit = _verdicts(_result(_trials(_on(80, 78, 78, 78), train=82), _trials(_on(93, 93, 93, 93))))
    assert unfit["ResNet18: generalises on A"] == unfit["ResNet18: fails on B"] == "not fitted"
    assert unfit["ResNet18: fits R"] == "fails"


def test_few_planes_decide_nothing_about_how_often() -> None:
    found = _verdicts(_result(_trials(_on(98, 55, 60, 66, planes=5)), _trials(_on(93, 93, 93, 93, planes=5))))
    assert found["ResNet18: seldom generalises on random planes"] == "undecided"
    assert found["MLP: generalises on any plane"] == "undecided"
    assert fig1.share_of([True, False, False, False]).value == pytest.approx(3 / 8)


def test_diverged_seeds_are_left_out() -> None:
    result = _result(_trials(_on(98, 55, 60, 66), bad=1), _trials(_on(93, 93, 93, 93)))
    assert sorted(result.test[fig1.RESNET, "B"]) == [0, 2, 3, 4]
    assert len(result.pictures[fig1.RESNET, "B"]) == 4
    assert len(result.test[fig1.RESNET, "A"]) == 5
    assert result.left_out == {fig1.RESNET: 1, fig1.MLP: 0, fig1.SHALLOW: 0}


def test_the_pilot_has_its_own_seeds_and_looks_at_plane_A_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str, int, float]] = []

    def instead(_grain: object, unit: Mapping[str, object]) -> Outcome:
        seen.append((unit["part"], unit["plane"], unit["seed"], unit["noise"]))
        score = 0.96 if unit["noise"] < 0.25 else 0.94
        return Outcome({"diverged": False, "test": score, "train": 1.0, "noise_alone": 0.5})

    monkeypatch.setattr(fig1, "_one", instead)
    config = replace(SMOKE, noises=(0.1, 0.2, 0.3), pilots=2)
    with RunFolder.create(tmp_path / "run", experiment="fig1", scale="smoke", config={}, resume=False) as folder:
        result = fig1.run(config, Runner(folder))
    pilots = [row for row in seen if row[0] == "pilot"]
    assert result.noise == 0.2
    assert {plane for _, plane, _, _ in pilots} == {"A"}
    assert {seed for _, _, seed, _ in pilots} == {1000, 1001}
    assert max(seed for part, _, seed, _ in seen if part == "training") < 1000
    assert {noise for part, _, _, noise in seen if part == "training"} == {0.2}
