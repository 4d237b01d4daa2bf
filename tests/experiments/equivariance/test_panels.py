"""Panels: means and bands by hand, ticks inside the axis, and a row for each measure."""

import pytest
import torch
from matplotlib.figure import Figure

from netgrain import Estimate
from netgrain.experiments.equivariance.panels import band, levels_and_changes, mean_mark, step_axis
from tests.experiments.equivariance.made_up_curves import curves_that_fall


@pytest.mark.quick
def test_a_band_is_one_standard_error_around_the_mean_of_what_is_there() -> None:
    ax = Figure().subplots()
    curves = torch.tensor([[1.0, 2.0], [3.0, 2.0], [5.0, torch.nan]])
    band(ax, torch.tensor([0.0, 1.0]), curves, "CNN")
    (line,) = ax.lines
    assert list(line.get_ydata()) == pytest.approx([3, 2])
    heights = ax.collections[0].get_paths()[0].vertices
    error = (4 / 3) ** 0.5  # variance 4 over three seeds
    at_zero = [y for x, y in heights.tolist() if x == 0]
    assert (min(at_zero), max(at_zero)) == pytest.approx((3 - error, 3 + error))


def test_a_row_for_each_measure_with_its_level_and_its_change() -> None:
    rows = curves_that_fall(0.5).measures()
    known = {next(iter(rows)): {"white noise": 40.0}}
    axes = levels_and_changes(rows, torch.tensor([0, 100]), "title", lines=known).axes
    assert len(axes) == 2 * len(rows) == 6
    assert [ax.get_title() for ax in axes[::2]] == list(rows)
    for level, change in zip(axes[::2], axes[1::2], strict=True):
        assert all(line.get_ydata()[0] == 0 for line in change.lines)  # also the line at zero
        assert level.get_xlim() == (0, 100)
    assert [t.get_text() for ax in axes for t in ax.texts] == ["white noise"]


@pytest.mark.quick
def test_steps_are_written_out_up_to_the_last() -> None:
    ax = Figure().subplots()
    step_axis(ax, 1500)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "10", "100", "1500"]
    assert ax.get_xlim() == (0, 1500)


@pytest.mark.quick
def test_a_mean_has_its_error_along_its_own_axis() -> None:
    ax = Figure().subplots()
    mean_mark(ax, Estimate(3.0, 0.5, 4), 1, colour="black")
    (errors,) = ax.collections
    assert errors.get_segments()[0].tolist() == [[2.5, 1], [3.5, 1]]
