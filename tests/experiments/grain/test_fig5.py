"""Figure 5: axes that stay in their eigenspaces, the cross-over, claims that hold, fail and stay open."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from netgrain.experiments.grain import fig5
from netgrain.experiments.grain.grains import Grain
from netgrain.experiments.grain.trials import Trials, open_subjects
from netgrain.runtime.errors import NetgrainError
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
    with pytest.raises(NetgrainError, match="third direction"):
        fig5.axes(_grain_of(1, 2, 3), 1, (1, 2), seed=0)


def test_crossing_of_lines_known_by_hand() -> None:
    indices = [0, 1, 3, 7, 15]  # log₂(index + 1) = 0, 1, 2, 3, 4
    for place in (0.25, 1.5, 2.75):
        assert fig5.crossing(indices, [place - x for x in range(5)]) == pytest.approx(place)
    assert fig5.crossing(indices, [1, -1, 1, -1, -1]) == pytest.approx(0.5)  # the first of several
    assert fig5.crossing(indices, [1, 1, 1, 1, 0]) == 5
    assert fig5.crossing(indices, [-1, 1, 1, 1, 1]) == -1


def _fig5(gaps: dict[str, list[list[float]]], diverged: int = 0, spaces: tuple[int, ...] = (0, 1, 9)) -> fig5.Result:
    config = replace(
        fig5.PRESETS["smoke"],
        networks={n: {**fig5.PRESETS["laptop"].networks[n], "indices": [0, 3, 15]} for n in gaps},
    )
    scores = {
        n: {
            "linear": [[50 + g for g in row] for row in rows],
            "circle": [[50.0 for _ in row] for row in rows],
            "both": [[90.0 for _ in row] for row in rows],
        }
        for n, rows in gaps.items()
    }
    return fig5.Result(config, scores, {n: list(spaces) for n in gaps}, dict.fromkeys(gaps, diverged))


def _verdicts(result: fig5.Result) -> dict[str, str]:
    return {c.name: c.verdict for c in fig5.claims(result)}


def test_fig5_claims_hold_fail_and_stay_open() -> None:
    crossed = [[40.0, 20.0, -20.0], [42.0, 21.0, -25.0], [41.0, 22.0, -22.0]]
    assert set(
        _verdicts(_fig5({"LeNet": crossed, "MLP": [[40.0, 41.0, 42.0]] * 2 + [[39.0, 45.0, 44.0]]})).values()
    ) == {"holds"}
    never = _fig5({"ResNet18": [[40.0, 41.0, 39.0], [42.0, 41.0, 40.0], [41.0, 39.0, 41.0]]})
    assert _verdicts(never) == {
        "ResNet18: linear part wins at the top": "holds",
        "ResNet18: circle wins at the bottom": "fails",
        "ResNet18: cross-over": "fails",
    }
    assert "3 of 3 seeds do not cross" in fig5.claims(never)[-1].note
    mixed = _fig5(
        {"LeNet": [[40.0, 20.0, -20.0], [40.0, 20.0, 20.0], [40.0, 20.0, 5.0]], "MLP": [[5.0, 1.0], [4.0, -3.0]]}
    )
    assert _verdicts(mixed)["LeNet: cross-over"] == "undecided"
    assert _verdicts(mixed)["MLP: always the linear part"] == "undecided"
    assert open_subjects(fig5.claims(mixed)) == {"LeNet", "MLP"}
    assert fig5.claims(mixed)[0].value == pytest.approx(-1)  # the smallest of each seed


def test_fig5_without_a_spread_of_eigenvalues_has_no_cross_over() -> None:
    vit = _fig5({"ViT": [[50.0, 0.0, -50.0], [49.0, 0.0, -50.0]]}, diverged=2, spaces=(0, 64))
    found = fig5.claims(vit)
    assert [c.name for c in found] == ["ViT: linear part wins at the top", "ViT: circle wins at the bottom"]
    assert all("2 diverged seeds left out" in c.note for c in found)
    stuck = _fig5({"ViT": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]}, spaces=(0, 64))
    assert set(_verdicts(stuck).values()) == {"undecided"}  # chance against chance is not a win
    assert set(_verdicts(_fig5({"LeNet": []})).values()) == {"undecided"}


def test_fig5_seeds_leave_as_wholes() -> None:
    config = fig5.PRESETS["smoke"]

    def trials(network: str) -> Trials:
        rows = [fig5._units(config, network, seed) for seed in range(3)]
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
    result = fig5.result_of(config, grains, {n: trials(n) for n in ("MLP", "LeNet")})
    assert result.accuracy["MLP"]["linear"] == [[0, 100]] * 3
    assert result.accuracy["LeNet"]["circle"] == [[0, 100]] * 2
    assert result.diverged == {"MLP": 0, "LeNet": 1}
