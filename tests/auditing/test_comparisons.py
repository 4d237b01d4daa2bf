"""Audits side by side: one ranking with ties, what each network costs, and what cannot be compared."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from netgrain import NetgrainError
from netgrain.auditing.audits import Audit, audit
from netgrain.auditing.comparisons import Comparison, compare, verdict
from netgrain.models import MLP
from tests.auditing.audit_example import est
from tests.auditing.conftest import SHAPE, small

mlp = partial(MLP, channels=1, image_size=8, outputs=2)


@pytest.fixture(scope="module")
def two() -> Comparison:
    X = torch.randn(80, *SHAPE, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0].mean((1, 2)) > 0).long()
    makes = [(small, "<b>"), (mlp, "again"), (mlp, "again")]
    return compare([audit(m, X, y, name=n, quick=True, probe="origin", progress=False) for m, n in makes])


def test_one_ranking_with_costs(two: Comparison) -> None:
    assert {row["model"] for row in two.ranking} == {"<b>", "again (2)", "again (3)"}
    scores = [row["score"]["value"] for row in two.ranking]
    assert scores == sorted(scores, reverse=True)
    same = [row for row in two.ranking if row["model"] != "<b>"]
    assert same[0]["score"] == same[1]["score"]
    assert same[0]["step_operations"] == 150 * same[0]["operations"]
    conv = next(row for row in two.ranking if row["model"] == "<b>")
    assert conv["operations"] == 2 * (9 * 8 * 64 + 128 * 2)
    assert conv["parameters"] == 9 * 8 + 8 + 128 * 2 + 2


def test_lines_page_and_numbers(two: Comparison, tmp_path: Path) -> None:
    assert repr(two).splitlines()[0] == f"verdict: {two.report['verdict']['sentence']}"
    assert "<b>" not in two._repr_html_()
    assert "<b>" not in two.html().partition("<script")[0]
    assert json.loads(two.save(tmp_path / "c.json").read_text()) == two.as_dict()
    assert two.save(tmp_path / "c.html").read_text() == two.html()


def _row(model: str, score: float | None, operations: float | None, like_best: bool | None = True) -> dict[str, Any]:
    found = None if score is None else est(score, 0.03)
    return {"model": model, "score": found, "operations": operations, "like_best": like_best}


REPORTS = [{"expected": {"at_chance": False, "measure": "accuracy", "chance": 0.5}}]


def test_verdicts_by_hand() -> None:
    clear = verdict(REPORTS, [_row("a", 0.9, 2e6), _row("b", 0.7, 1e6, False)])
    assert clear["sentence"] == "a is expected to do best: a (90 ± 3 %) and b (70 ± 3 %)."
    assert (clear["level"], clear["action"]) == ("good", "Take a.")
    tie = verdict(REPORTS, [_row("a", 0.9, 2e6), _row("b", 0.88, 1e6), _row("c", 0.5, 1.0, False)])
    assert tie["sentence"] == "Cannot tell a (90 ± 3 %) and b (88 ± 3 %) apart. c (50 ± 3 %) is expected to do worse."
    assert tie["action"].startswith("Take b, the cheapest")
    assert tie["level"] == "note"
    none = verdict(REPORTS, [_row("a", None, 1.0, None), _row("b", None, 1.0, None)])
    assert none["sentence"] == "Without labels a and b cannot be ranked."
    nothing = verdict([{"expected": REPORTS[0]["expected"] | {"at_chance": True}}], [_row("a", 0.5, 1.0)])
    assert nothing["sentence"].startswith("None of these networks finds anything to learn")
    assert nothing["level"] == "error"


def test_what_cannot_be_compared_is_told(audited: Audit, samples: tuple[Tensor, Tensor]) -> None:
    other = audit(small, samples[0][:64], samples[1][:64], quick=True, probe="origin", progress=False)
    for audits, said in (
        ([], "two or more audits, found 0"),
        ([audited], "two or more audits, found 1"),
        ([audited, small], "expects audits, found function at index 1"),
        ([audited, other], "samples is 120 in audit 0 and 64 in audit 1"),
    ):
        with pytest.raises(NetgrainError, match=said):
            compare(audits)  # type: ignore[arg-type]
