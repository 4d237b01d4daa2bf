"""Every statement of the table: what is predicted holds, what is printed wrong is rejected."""

import json

import pytest

from netgrain.experiments.claims import BASES
from netgrain.experiments.theory.measuring import COVERS, STATEMENTS, measure_statements
from tests.experiments.theory.measured_rows import rows

pytestmark = pytest.mark.xdist_group("statements")  # one process measures each of them once

CHEAP = [
    n for n in STATEMENTS if not n.startswith(("conjecture", "theorem-3", "theorem-a2", "proposition", "curvature"))
]


@pytest.mark.parametrize("name", [*CHEAP, "theorem-3.1"])
def test_what_is_predicted_holds(name: str) -> None:
    for s in rows(name):
        assert s.corrected in ("holds", ""), s


def test_every_statement_knows_what_it_covers_and_rests_on() -> None:
    assert set(COVERS) == set(STATEMENTS)
    found = [s for name in ("lemma-a5", "corollary-a4", "curvature", "mean-gradient") for s in rows(name)]
    assert all(s.covers == COVERS[s.name] for s in found)
    assert all(s.as_dict()["basis"] in BASES for s in found)
    assert all(s.basis == "paper" for s in found if s.paper)
    assert {s.basis for s in rows("mean-gradient")} == {"paper", "own"}


PRINTED_WRONG = {
    "linear-regression": "⟨Δ, S⟩",
    "theorem-a2": "corner over middle",
    "theorem-a3": "off the diagonal",
    "corollary-a4": "least eigenvalue",
    "example-a10": "G₁₁",
    "lemma-a5": "aᵀ",
    "lemma-a6": "mean of q",
    "moments": "E ω⁴",
}


@pytest.mark.parametrize("name", PRINTED_WRONG)
def test_what_is_printed_wrong_is_rejected(name: str) -> None:
    chosen = [s for s in rows(name) if PRINTED_WRONG[name] in s.quantity]
    assert chosen
    assert all(s.paper == "fails" and s.corrected == "holds" for s in chosen)


def test_what_is_printed_right_is_not_rejected() -> None:
    for name in ("lemma-a7", "linear-regression", "theorem-a2", "example-a10"):
        assert any(s.paper == "holds" for s in rows(name))


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, again, other = (
        rows("lemma-a5"),
        measure_statements("lemma-a5", progress=False),
        measure_statements("lemma-a5", seed=1, progress=False),
    )
    assert [s.measured.value for s in first] == [s.measured.value for s in again]
    assert first[0].measured.value != other[0].measured.value


def test_every_statement_runs_and_says_what_it_assumes() -> None:
    found = [s for name in ("conjecture-1", "conjecture-1-sign", "conjecture-2", "proposition-a1") for s in rows(name)]
    assert {s.name for s in found} == {"conjecture-1", "conjecture-1-sign", "conjecture-2", "proposition-a1"}
    for s in found:
        assert s.assumptions
        assert s.claim
        assert s.seconds > 0
        assert s.paper in ("holds", "fails", "undecided", "")
        json.dumps(s.as_dict(), allow_nan=False)
