"""Curves of accuracy: a panel for each network, a line for each kind of labels, means over seeds."""

import pytest

from netgrain.experiments.grain.planted_drawing import LINES, Panel, draw_panels
from netgrain.experiments.grain.planted_labels import LABELS, CurveName
from tests.experiments.grain.planted_curves import FLAT, STEEP, all_curves, curve

PANELS = {name: Panel(f"the {name}", "G") for name in ("MLP", "LeNet", "ResNet18", "ViT")}


@pytest.mark.quick
def test_the_figure_has_the_panels_and_lines_of_its_curves() -> None:
    curves = all_curves(curve(*STEEP), curve(*FLAT))
    axes = draw_panels(curves, PANELS, "title", size=(8, 6), rows=2).axes
    assert [ax.get_title() for ax in axes] == [p.title for p in PANELS.values()]
    assert {ax.get_xlabel() for ax in axes} == {"index of the eigenvector of G"}
    for ax in axes:
        assert ax.get_legend_handles_labels()[1] == [LINES[labels].label for labels in LABELS]
    means = axes[1].containers[0].lines[0]
    assert list(means.get_xdata()) == [1, 2, 3, 4, 5, 6]  # counted from one on a logarithmic axis
    assert list(means.get_ydata()) == pytest.approx([sum(column) / 3 for column in zip(*STEEP, strict=True)])
    assert [t.get_text() for t in axes[1].get_xticklabels()][:3] == ["0", "1", "2"]


def test_the_ceiling_is_drawn_where_it_is_asked_for() -> None:
    curves = all_curves(curve(*STEEP), curve(*FLAT))
    axes = draw_panels(curves, PANELS, "title", size=(8, 6), ceilings=[CurveName("ViT", "linear")]).axes
    with_it = ["the rule itself, under label noise" in ax.get_legend_handles_labels()[1] for ax in axes]
    assert with_it == [False, False, False, True]
