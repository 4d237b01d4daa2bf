"""Pictures of a limit."""

from netgrain.equivariant import limit
from netgrain.equivariant.penalties import group_transform
from netgrain.equivariant.pictures import STRIPS, decay, limit_figure
from tests.equivariant.known_limits import D8, teacher


def test_a_limit_is_drawn() -> None:
    found = limit(D8, *teacher(8, 4, 0), depth=3, cap=1e3, log_norm=20.0)
    figure = limit_figure(found, group_transform(D8))
    assert len(figure.axes) == 1 + len(STRIPS) + 1  # decay, strips and their scale
    strips = [ax.images[0].get_array() for ax in figure.axes[1 : 1 + len(STRIPS)]]
    assert all(strip is not None and strip.shape[-1] == 8 for strip in strips)
    # a line for every singular value: four irreps of dimension one, two of the other
    assert len(decay(found, group_transform(D8)).lines) == 6
