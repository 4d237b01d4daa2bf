"""Figures: pyplot's where it is in use, and of nobody else where it is not."""

import sys
import threading
from collections.abc import Iterator
from types import ModuleType

import matplotlib as mpl
import pytest
import torch
from matplotlib.figure import Figure

from netgrain import Geometry
from netgrain.geometry import plots
from netgrain.runtime.figures import axes_or_new, forget, new_figure


@pytest.fixture
def G() -> Geometry:
    return Geometry.from_matrix(torch.diag(torch.tensor([3.0, 1.0, 0.5, 0.25])), (1, 2, 2))


@pytest.fixture
def pyplot() -> Iterator[ModuleType]:
    """Imported by the program, and out of sight again afterwards."""
    before = mpl.get_backend()
    mpl.use("agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")
    mpl.use(before)
    sys.modules.pop("matplotlib.pyplot")


def test_without_pyplot_a_figure_is_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    assert type(new_figure((2, 1))) is Figure
    assert type(axes_or_new(None, (2, 1)).figure) is Figure
    assert "matplotlib.pyplot" not in sys.modules


def test_pyplot_knows_what_is_drawn(pyplot: ModuleType, G: Geometry) -> None:
    ax = G.plot_spectrum()
    assert pyplot.gcf() is ax.figure
    assert pyplot.gca() is ax
    figure = G.plot_directions(2)
    assert pyplot.gcf() is figure
    assert len(pyplot.get_fignums()) == 2


def test_given_axes_are_drawn_on_and_no_figure_is_made(pyplot: ModuleType, G: Geometry) -> None:
    ax = Figure().add_subplot()
    assert G.plot_matrix(ax) is ax
    assert G.plot_spectrum(ax=ax) is ax
    assert ax.has_data()
    assert pyplot.get_fignums() == []


def test_a_picture_that_was_written_is_not_shown_again(pyplot: ModuleType, G: Geometry) -> None:
    other = pyplot.figure()
    assert plots.png(plots.overview({"mine": G})).startswith(b"\x89PNG")
    assert pyplot.get_fignums() == [other.number]
    forget(other)
    assert pyplot.get_fignums() == []


def test_threads_open_no_windows(pyplot: ModuleType) -> None:
    made: list[Figure] = []
    thread = threading.Thread(target=lambda: made.append(new_figure((2, 1))))
    thread.start()
    thread.join()
    assert type(made[0]) is Figure
    assert pyplot.get_fignums() == []
