"""The Cayley table as a picture."""

import numpy as np
import pytest

from netgrain.groups import cyclic, dihedral, direct, planes_by_quaternions
from netgrain.groups.quilt import coset_order, quilt


@pytest.mark.quick
def test_the_quilt_shows_products_coset_by_coset() -> None:
    G = planes_by_quaternions(3)
    order, tile = coset_order(G)
    assert tile == 9
    image = quilt(G).images[0].get_array()
    assert image is not None
    for a, b in ((0, 0), (5, 40), (70, 13)):
        assert order[int(image[a, b])] == G.cayley[order[a], order[b]]
    tiles = np.asarray(image).reshape(8, 9, 8, 9) // 9  # the quotient: one coset in every tile
    assert (tiles == tiles[:, :1, :, :1]).all()
    large = quilt(direct(cyclic(40), dihedral(order=60)))
    assert large.images[0].get_array().shape[0] <= 1024  # type: ignore[union-attr]
    assert "one element in 3 drawn" in large.get_title()
