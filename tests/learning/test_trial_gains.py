"""Gains of trials over kernels, and the number that combines them."""

import pytest
import torch

from netgrain.geometry.estimate import Estimate
from netgrain.learning.targets import targets_of
from netgrain.learning.trial_gains import combined, gain_of, learnt_features


def test_the_combined_number_is_the_trial_and_half_of_what_the_other_samples_teach_the_kernel() -> None:
    assert combined(0.5, 0.6, 0.2) == pytest.approx(0.6 + 0.5 * (0.5 - 0.4))
    assert combined(0.9, 0.5, -0.3) == pytest.approx(0.5 + 0.5 * (0.9 - 0.8))
    assert combined(0.9, 1.0, 0.2) == 1.0


@pytest.mark.parametrize(("gain", "stderr", "learnt"), [(0.04, 0.0, False), (0.06, 0.0, True), (0.06, 0.04, False)])
def test_features_are_learnt_where_a_trial_gains_five_points_beyond_its_error(
    gain: float, stderr: float, learnt: bool
) -> None:
    assert learnt_features(Estimate(gain, stderr, 50)) is learnt


def test_the_gain_of_numbers_is_a_difference_of_shares_explained() -> None:
    g = torch.Generator().manual_seed(0)
    y = torch.randn(400, generator=g, dtype=torch.float64)
    after, before = y[:, None] + 0.1 * torch.randn(400, 1, generator=g), 0 * y[:, None]
    found = gain_of(targets_of(y), after, before)
    assert float(found) == pytest.approx(0.99, abs=0.01)
    draws = []
    for _ in range(300):
        rows = torch.randint(400, (400,), generator=g)
        draws.append(float(gain_of(targets_of(y[rows]), after[rows], before[rows])))
    assert found.stderr < 0.1
    assert float(torch.tensor(draws).std()) < 3 * found.stderr
