"""Figure 7: what is stored comes back, and verdicts are those of the statements."""

import json

import pytest

from netgrain.experiments.grain import fig7
from netgrain.experiments.theory.figures import WidthCurve
from netgrain.experiments.theory.statements import Statement
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.units import Outcome

CURVES = [WidthCurve(p, "made up", [1, 2], [Estimate(0.5, 0.1, 4, 0.6)] * 2, [0.5, 0.7]) for p in "ab"]


def _statement(quantity: str, paper: str, corrected: str) -> Statement:
    return Statement(
        name="theorem", quantity=quantity, claim="it rises", assumptions="", measured=Estimate(0.5, float("nan"), 4),
        predicted=0.25, printed="about 1", paper=paper, corrected=corrected,
    )  # fmt: skip


class Made:
    """A runner whose outcomes went through JSON, as those of a run folder do."""

    def map(self, _work: object, units: list[dict], _label: str) -> list[Outcome]:
        assert [u["part"] for u in units] == ["curves", "theorem-3.1", "theorem-3.2"]
        curves = {"curves": [{**vars(c), "measured": [m.as_dict() for m in c.measured]} for c in CURVES]}
        first = [_statement("printed", "fails", "holds"), _statement("not printed", "", "holds")]
        both = [{"statements": [s.as_dict() for s in part]} for part in (first, [_statement("open", "", "")])]
        return [Outcome(json.loads(json.dumps(numbers))) for numbers in (curves, *both)]


@pytest.mark.quick
def test_stored_curves_and_statements_come_back() -> None:
    result = fig7.run(fig7.PRESETS["smoke"], Made())
    assert [vars(c) for c in result.curves] == [vars(c) for c in CURVES]
    found = fig7.claims(result)
    assert [(c.kind, c.verdict, c.statement) for c in found] == [
        ("printed", "fails", "it rises"),
        ("not printed", "holds", "0.25 as predicted"),
    ]
    assert [c.basis for c in found] == ["own", "own"]
    assert found[0].stderr != found[0].stderr  # NaN, which JSON does not have
    assert [ax.get_title()[:3] for ax in fig7.figure(result).axes] == ["(a)", "(b)"]
