"""Pictures show the numbers they claim to show."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netgrain import Estimate, Geometry, average_geometry, data_covariance
from netgrain.geometry import plots
from netgrain.geometry.forms import Factored
from netgrain.geometry.provenance import Provenance


def random_geometry(*shape: int, rank: int | None = None, seed: int = 0) -> Geometry:
    d = math.prod(shape)
    rows = torch.randn(rank or 2 * d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = rows / torch.arange(1, d + 1)  # so that some directions lead
    return Geometry.from_matrix(rows.T @ rows, shape)


def truncated(kept: int = 3, d: int = 16) -> Geometry:
    """A geometry of which only some leading directions were kept."""
    rows = torch.eye(d, dtype=torch.float64)[:kept] * torch.arange(kept, 0, -1, dtype=torch.float64)[:, None]
    form = Factored(rows, 1.0)
    return Geometry(form, (1, 4, 4), Provenance("sampled", members=5), full_trace=Estimate(20.0, 1.0, 5))


def drawn(axes: Axes, style: str = "-") -> tuple[np.ndarray, np.ndarray]:
    (line,) = [line for line in axes.lines if line.get_linestyle() == style and len(line.get_xdata())]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def legend(axes: Axes) -> list[str]:
    box = axes.get_legend()
    return [] if box is None else [text.get_text() for text in box.get_texts()]


def images(figure: Figure) -> list[np.ndarray]:
    return [np.asarray(image.get_array()) for axes in figure.axes for image in axes.get_images()]


def titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


# The matrix


@pytest.mark.quick
def test_matrix_shows_every_entry_with_zero_in_the_middle() -> None:
    G = random_geometry(1, 4, 4)
    axes = plots.matrix(G)
    (image,) = axes.get_images()
    assert np.array_equal(np.asarray(image.get_array()), G.matrix().numpy())
    low, high = image.get_clim()
    assert low == -high < 0
    assert axes.get_xlabel() == axes.get_ylabel() == "input coordinate"
    assert axes.get_title() == "Average geometry G"


def test_matrix_colours_are_not_bleached_by_one_entry() -> None:
    values = torch.ones(512)
    values[0] = 1000
    (image,) = plots.matrix(Geometry.from_matrix(torch.diag(values))).get_images()
    assert image.get_clim()[1] < 10


def test_matrix_draws_on_the_axes_it_is_given() -> None:
    axes = Figure().add_subplot()
    assert plots.matrix(random_geometry(3), axes) is axes
    assert plots.spectrum(random_geometry(3), axes) is axes


def test_large_matrix_is_cropped_and_says_so() -> None:
    X = torch.randn(5, 3, 20, 20, generator=torch.Generator().manual_seed(0))
    G = data_covariance(X)
    axes = plots.matrix(G)
    assert axes.get_title() == "Average geometry G\nfirst 1024 of 1200 coordinates"
    (image,) = axes.get_images()
    assert np.allclose(np.asarray(image.get_array()), G.matrix().numpy()[:1024, :1024])


def test_small_entries_have_a_readable_scale() -> None:
    axes = plots.matrix(Geometry.from_matrix(3e-11 * torch.eye(4, dtype=torch.float64)))
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    bar = axes.child_axes[0]
    assert bar.get_ylabel() == "entry of G  (×10⁻¹¹)"
    assert "3" in [label.get_text() for label in bar.get_yticklabels()]


# The spectrum


@pytest.mark.parametrize("log_x", [False, True])
def test_spectrum_is_relative_to_the_largest_and_counts_from_one(log_x: bool) -> None:
    G = random_geometry(12)
    axes = plots.spectrum(G, log_x=log_x)
    x, y = drawn(axes)
    assert x.tolist() == list(range(1, 13))
    assert np.allclose(y, G.eigenvalues.numpy() / float(G.eigenvalues[0]))
    assert axes.get_yscale() == "log"
    assert axes.get_xscale() == ("log" if log_x else "linear")


def test_spectrum_marks_nine_tenths_of_the_trace() -> None:
    G = Geometry.from_matrix(torch.diag(torch.tensor([60.0, 31.0, 5.0, 4.0])))
    axes = plots.spectrum(G)
    x, y = drawn(axes, "None")
    assert (x.tolist(), y.tolist()) == ([2], [pytest.approx(31 / 60)])
    assert legend(axes) == ["90 % of the trace: 2 of 4"]


def test_null_space_is_counted_and_not_drawn() -> None:
    G = random_geometry(20, rank=7)
    axes = plots.spectrum(G, label="seven")
    assert len(drawn(axes)[0]) == 7
    assert drawn(axes)[1].min() > 1e-10
    assert "13 at zero (null space)" in legend(axes)
    assert "seven" in legend(axes)


def test_zeros_of_a_short_sample_are_not_called_a_null_space() -> None:
    def make() -> torch.nn.Module:
        return torch.nn.Linear(10, 1)

    G = average_geometry(make, (10,), members=4, first_layer="never")
    assert "6 at zero: only 4 gradients sampled" in legend(plots.spectrum(G))


def test_unknown_eigenvalues_are_not_called_zero() -> None:
    axes = plots.spectrum(truncated(kept=3, d=16))
    assert len(drawn(axes)[0]) == 3
    assert "13 more are not known" in legend(axes)


def test_several_spectra_on_one_picture() -> None:
    axes = plots.spectrum(random_geometry(12), label="a")
    plots.spectrum(random_geometry(30), axes, label="b")
    curves = [line for line in axes.lines if line.get_linestyle() == "-"]
    assert [line.get_label() for line in curves] == ["a", "b"]
    assert len({line.get_color() for line in curves}) == 2
    assert axes.get_xlim()[1] >= 30
    assert axes.get_ylim()[0] <= min(float(np.min(line.get_ydata())) for line in curves)


def test_zero_matrix_has_no_spectrum_but_a_picture() -> None:
    G = Geometry.from_matrix(torch.zeros(4, 4))
    axes = plots.spectrum(G)
    assert not axes.lines
    assert [text.get_text() for text in axes.texts] == ["G = 0: there is no spectrum"]
    assert plots.png(plots.overview({"zero": G}))
    assert plots.png(plots.directions(G, 2))
    assert not any(ax.get_images() for ax in (*plots.overview({"zero": G}).axes, *plots.directions(G, 2).axes))


def test_where_no_direction_leads_a_sentence_says_so() -> None:
    figure = plots.directions(Geometry.from_matrix(torch.eye(16), (1, 4, 4)), 2)
    (axes,) = figure.axes
    assert not axes.get_images()
    assert " ".join(axes.texts[0].get_text().split()).startswith("no direction leads: a block of about 16 of 16")


# Directions


def test_directions_of_grey_images() -> None:
    G = random_geometry(1, 4, 4)
    figure = plots.directions(G, 3)
    shown = images(figure)
    expected = torch.cat([G.directions(3), G.directions(3, bottom=True)])[:, 0].numpy()
    assert np.allclose(np.stack(shown), expected)
    for axes in figure.axes:
        low, high = axes.get_images()[0].get_clim()
        assert low == -high
    shares = G.eigenvalues / G.trace.value
    assert titles(figure)[0] == f"1\n{100 * float(shares[0]):.0f} %"
    assert [title.split("\n")[0] for title in titles(figure)] == ["1", "2", "3", "14", "15", "16"]


def test_directions_of_colour_images_have_grey_at_zero() -> None:
    G = random_geometry(3, 2, 2)
    first = images(plots.directions(G, 1))[0]
    v = G.directions(1)[0].numpy()
    assert first.shape == (2, 2, 3)
    assert 0 <= first.min() <= first.max() <= 1
    assert np.allclose(first, 0.5 + v.transpose(1, 2, 0) / (2 * np.abs(v).max()))


def test_directions_inside_a_block_name_the_block() -> None:
    G = Geometry.from_matrix(torch.diag(torch.tensor([4.0, 4.0, 1.0, 0.0, 0.0])))
    assert titles(plots.directions(G, 2)) == [
        "1–2, one block\n44 % each",
        "1–2, one block\n44 % each",
        "4–5, one block\nat zero",
        "4–5, one block\nat zero",
    ]


@pytest.mark.parametrize(
    ("shape", "check"),
    [
        ((6,), lambda axes: [bar.get_height() for bar in axes.patches]),
        ((100,), lambda axes: axes.lines[0].get_ydata()),
        ((2, 5), lambda axes: np.concatenate([line.get_ydata() for line in axes.lines[:2]])),
    ],
)
def test_directions_of_other_inputs_are_bars_and_lines(shape: tuple[int, ...], check: Callable[[Axes], object]) -> None:
    G = random_geometry(*shape)
    figure = plots.directions(G, 2)
    assert images(figure) == []
    assert np.allclose(np.asarray(check(figure.axes[0])), G.directions(1).numpy().ravel())


def test_two_channels_stand_side_by_side() -> None:
    G = random_geometry(2, 3, 4)
    v = G.directions(1)[0].numpy()
    assert np.allclose(images(plots.directions(G, 1))[0], np.concatenate([v[0], v[1]], axis=1))


def test_only_leading_directions_where_the_others_are_not_known() -> None:
    figure = plots.directions(truncated(kept=3), 8)
    assert [title.split("\n")[0] for title in titles(figure)] == ["1", "2", "3"]
    overview = plots.overview({"truncated": truncated()})
    assert titles(overview) == ["truncated\nfrom 3 leading directions"]
    assert np.allclose(images(overview)[0].diagonal()[:4], [9, 4, 1, 0])


def test_no_direction_is_shown_twice() -> None:
    assert len(titles(plots.directions(random_geometry(5), 8))) == 5
    assert len(titles(plots.directions(random_geometry(5), 3))) == 5


# The overview, and files


def test_overview_has_a_column_for_each_network() -> None:
    geometries = {"one": random_geometry(1, 3, 3), "two": random_geometry(1, 4, 4, rank=3)}
    figure = plots.overview(geometries)
    assert titles(figure) == ["one", "two"]
    for shown, G in zip(images(figure), geometries.values(), strict=False):
        assert np.array_equal(shown, G.matrix().numpy())
    spectra = [axes for axes in figure.axes if axes.get_xlabel() == "index of the direction"]
    assert [len(drawn(axes)[0]) for axes in spectra] == [9, 3]
    assert len({axes.get_ylim() for axes in spectra}) == 1


def test_png_is_the_same_every_time_and_carries_no_date() -> None:
    first, second = (plots.png(plots.overview({"a": random_geometry(5)})) for _ in range(2))
    assert first == second != plots.png(plots.overview({"a": random_geometry(5, seed=1)}))
    assert first.startswith(b"\x89PNG")
    assert b"Software" not in first
    assert b"Date" not in first


def test_methods_of_a_geometry_draw_the_same() -> None:
    G = random_geometry(1, 3, 3)
    assert np.array_equal(np.asarray(G.plot_matrix().get_images()[0].get_array()), G.matrix().numpy())
    assert np.array_equal(drawn(G.plot_spectrum())[1], drawn(plots.spectrum(G))[1])
    assert titles(G.plot_directions(2)) == titles(plots.directions(G, 2))
