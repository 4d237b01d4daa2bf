"""Directions along which probes are judged."""

import torch

from netgrain.experiments.grain import probes


def test_cosines_are_orthonormal() -> None:
    U = probes.cosines((0, 1, 5, 9), 16).flatten(1)
    torch.testing.assert_close(U @ U.T, torch.eye(4, dtype=torch.float64))
