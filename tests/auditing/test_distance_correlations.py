"""Dependence on single directions: more than chance gives where labels depend on one, nothing where they are shuffled.

The distance correlation itself is judged in test_label_relevance.py.
"""

import torch

from netgrain.auditing.distance_correlations import Dependence, dependence, directions_to_test
from netgrain.auditing.label_relevance import UNKNOWN


def test_shown_where_there_is_something_only() -> None:
    shown = planted = 0
    for seed in range(30):
        generator = torch.Generator().manual_seed(seed)
        Z = torch.randn(80, (4, 30)[seed % 2], generator=generator, dtype=torch.float64)
        y = torch.randint(0, 3, (80,), generator=generator)
        shown += dependence(Z, y, seed=seed).shown
        Z[:, 0] = Z[:, 0].abs() + 1.5 * (y == 0)
        found = dependence(Z, y, seed=seed)
        planted += found.shown
        share, reaction = found.located(torch.arange(Z.shape[1], 0, -1), 1, 1.0)
        assert share > 0.5
        assert reaction > 0.5 * Z.shape[1]
    assert shown <= 1
    assert planted >= 28


def test_a_choice_of_directions_stands_for_all() -> None:
    tested, weights = directions_to_test(3000, torch.Generator().manual_seed(0))
    assert tested[:512].tolist() == list(range(512))
    assert len(set(tested.tolist())) == 1024
    assert float(weights.sum()) == 3000
    assert directions_to_test(5, torch.Generator())[1].tolist() == [1] * 5
    assert not Dependence.nothing().shown
    assert UNKNOWN != UNKNOWN
