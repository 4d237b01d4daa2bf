"""Figure 1: the plane that is drawn, and seeds that leave as wholes."""

import torch

from netgrain.experiments.grain import fig1


def test_fig1_draws_the_plane_it_says() -> None:
    u1, u2 = torch.zeros(1, 4, 4), torch.zeros(1, 4, 4)
    u1[0, 0, 0], u2[0, 1, 1] = 1, 1
    points = fig1._grid(u1, u2)
    assert points.shape == (fig1.GRID**2, 1, 4, 4)
    assert points[0, 0, 0, 0] == points[0, 0, 1, 1] == -fig1.REACH
    assert points[fig1.GRID - 1, 0, 0, 0] == fig1.REACH
    assert points[fig1.GRID - 1, 0, 1, 1] == -fig1.REACH


def test_diverged_seeds_leave_as_wholes() -> None:
    from netgrain.runtime.units import Outcome

    config = fig1.PRESETS["smoke"]
    axes = Outcome({"A": [1.0, 0.9], "B": [1.0, 0.1]}, {})

    class Fake:
        def map(self, _work: object, units: list[dict], _label: str) -> list[Outcome]:
            return [
                Outcome(
                    {"diverged": u["seed"] == 1 and u["plane"] == "B" and u["network"] == "ResNet18", "accuracy": 0.9},
                    {"decision": torch.zeros(2, 2)},
                )
                for u in units
            ]

    result = fig1._collect(config, Fake(), None, {"size": 8, "width": 1.0}, axes, 3)
    assert len(result.accuracy["ResNet18"]["A"]) == len(result.accuracy["ResNet18"]["B"]) == 2
    assert len(result.accuracy["MLP"]["A"]) == 3
    assert result.left_out == 1
