"""Samples: scored about their mean, counted in bins, the best before the worst, and the kept ones listed."""

import torch
from torch import Tensor

import netgrain as ng
from netgrain.auditing.audits import Audit


def test_samples_are_scored_about_their_mean(samples: tuple[Tensor, Tensor], audited: Audit) -> None:
    X, y = samples
    assert torch.equal(audited.kept, ng.prune(audited.G, X, y, keep=0.7, centre=True))
    assert not torch.equal(audited.kept, ng.prune(audited.G, X, y, keep=0.7))
    assert "minus the mean of all samples" in audited.html()


def test_bins_and_classes(samples: tuple[Tensor, Tensor], audited: Audit) -> None:
    found = audited.report["samples"]
    assert [sum(row) for row in found["counts"]] == torch.bincount(samples[1]).tolist()
    assert len(found["edges"]) == 21
    for c, entry in enumerate(found["classes"]):
        best, worst = ([s["score"] for s in entry[kind]] for kind in ("best", "worst"))
        assert best == sorted(best, reverse=True)
        assert worst == sorted(worst)
        assert best[-1] >= worst[-1]
        assert {int(samples[1][s["index"]]) for s in entry["best"]} == {c}


def test_how_many_stay_is_said(audited: Audit) -> None:
    kept = len(audited.report["samples"]["kept"])
    assert f"{kept} of 120 samples stay when the lowest-scored 30 % of each class are dropped." in " ".join(
        s["text"] for s in audited.report["sentences"]
    )
