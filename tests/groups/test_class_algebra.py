"""Irreps of large tables through the class algebra."""

import numpy as np
import pytest

from netgrain.groups import class_algebra, from_cayley, irreps, transform_choice
from tests.groups.known_groups import BARE, BUILT, TOLERANCE, check_representation


@pytest.mark.quick
@pytest.mark.parametrize("name", ["D8", "A5", "S5", "D60", "C5xC5:Q8"])
def test_algorithms_a_and_b_agree(name: str) -> None:
    G = BARE[name]
    found = class_algebra.split_isotypic(G.structure, G._labels)
    assert max(irreps.homomorphism_error(G.structure, rho) for rho in found) < TOLERANCE
    characters = np.stack([np.trace(rho, axis1=1, axis2=2) for rho in found])
    mine = np.stack([irrep.character.numpy() for irrep in G.irreps])
    overlap = np.abs(characters.conj() @ mine.T) / G.order
    assert np.allclose(np.sort(overlap, axis=1)[:, -1], 1, atol=TOLERANCE)
    assert np.allclose(overlap.sum(axis=0), 1, atol=1e-8)


def test_algorithm_b_serves_large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transform_choice, "SPLIT_REGULAR", 10)
    check_representation(from_cayley(BUILT["S5"].cayley))
