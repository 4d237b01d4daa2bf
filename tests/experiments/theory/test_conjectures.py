"""Conjectures at smoke scale: every network is asked, and controls stand beside the numbers."""

import pytest

from tests.experiments.theory.measured_rows import rows

pytestmark = pytest.mark.xdist_group("statements")  # one process measures each of them once


def test_conjecture_2_is_asked_as_inclusion_beside_random_subspaces() -> None:
    found = rows("conjecture-2")
    assert {s.quantity.rpartition(", ")[2] for s in found} == {"MLP", "LeNet"}
    assert all("a random subspace of as many dimensions" in s.note for s in found)
    assert not any("the trace of G, MLP" in s.quantity for s in found)  # a multiple of I has no leading eigenspace
    for share in ("50%", "90%", "99%"):
        assert any(f"inside {share} of the trace of GSG" in s.quantity for s in found)
    more = [s.measured.value for s in found if "changes" in s.quantity and "GSG, MLP" in s.quantity]
    assert more == sorted(more)  # a larger space holds more
    assert all(s.measured.n == 2 for s in found)  # training sets


def test_conjecture_1_has_widths_and_other_pixels() -> None:
    found = [s.quantity for s in rows("conjecture-1")]
    assert sum("pixels of S in another order" in q for q in found) == 2
    assert any("MLP with 25 units" in q for q in found)
    assert any(q.startswith("rise of |Corr(Δ, GSG)| of the MLP from 25") for q in found)
