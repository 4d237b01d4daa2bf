"""Figure 1: the plane that is drawn, and seeds that leave as wholes."""

import torch

from netgrain.experiments.grain import fig1
from netgrain.experiments.grain.trials import Trials
from netgrain.runtime.units import Outcome


def test_fig1_draws_the_plane_it_says() -> None:
    u1, u2 = torch.zeros(1, 4, 4), torch.zeros(1, 4, 4)
    u1[0, 0, 0], u2[0, 1, 1] = 1, 1
    points = fig1._grid(u1, u2)
    assert points.shape == (fig1.GRID**2, 1, 4, 4)
    assert points[0, 0, 0, 0] == points[0, 0, 1, 1] == -fig1.REACH
    assert points[fig1.GRID - 1, 0, 0, 0] == fig1.REACH
    assert points[fig1.GRID - 1, 0, 1, 1] == -fig1.REACH


def test_diverged_seeds_leave_as_wholes() -> None:
    axes = Outcome({"A": [1.0, 0.9], "B": [1.0, 0.1]}, {})

    def trials(bad: int | None = None) -> Trials:
        """Three seeds on both planes; one may diverge on plane B."""
        decision = {"decision": torch.zeros(2, 2)}
        return Trials(
            [
                [Outcome({"diverged": b and s == bad, "accuracy": 0.9}, decision) for b in (False, True)]
                for s in range(3)
            ]
        )

    result = fig1.result_of(fig1.PRESETS["smoke"], axes, {"ResNet18": trials(bad=1), "MLP": trials()})
    assert len(result.accuracy["ResNet18"]["A"]) == len(result.accuracy["ResNet18"]["B"]) == 2
    assert len(result.decisions["ResNet18"]["B"]) == 2
    assert len(result.accuracy["MLP"]["A"]) == 3
    assert result.left_out == 1
