"""Changes: tried alone, where G was taken, and beside what was there before."""

from torch import Tensor, nn

import netgrain as ng
from netgrain.auditing.audits import Audit, audit
from tests.auditing.conftest import small


def test_a_change_is_tried_where_g_was_taken(audited: Audit) -> None:
    (row,) = audited.report["what_if"]
    assert row["change"].startswith("2 → MaxPool2d(kernel_size=2")
    assert row["leading"]["before"] == audited.report["leading"]["count"]
    assert row["labels"]["before"] == audited.report["labels"]["nonlinear"]["value"]
    assert len(row["spectrum"]) == len(audited.report["spectrum"]["index"])
    assert f"leading directions {row['leading']['before']} → {row['leading']['after']} of 64" in row["sentence"]
    assert "MaxPool2d" in audited.html()


def test_nothing_changes_where_nothing_is_changed(samples: tuple[Tensor, Tensor]) -> None:
    found = audit(small, *samples, probe="origin", swaps={"3": nn.Flatten()}, trial=False, progress=False).report
    (row,) = found["what_if"]
    assert row["leading"]["before"] == row["leading"]["after"]
    assert row["labels"]["before"] == row["labels"]["after"]
    assert row["spectrum"] == found["spectrum"]["network"]


def test_none_by_default(G: ng.Geometry, samples: tuple[Tensor, Tensor]) -> None:
    assert audit(small, *samples, G=G, trial=False, progress=False).report["what_if"] == []
