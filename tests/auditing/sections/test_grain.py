"""The grain: judged by the spectrum, zeros told from noise, invisible directions counted."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.auditing.audits import Audit, audit
from netgrain.auditing.sections.grain import curve_index, sentences
from tests.auditing.audit_example import example
from tests.auditing.conftest import SHAPE, lenet, small
from tests.families.residual_networks import OFF

Samples = tuple[Tensor, Tensor]


def first_of(report: dict[str, Any]) -> dict[str, Any]:
    """What the report says first about the grain."""
    return sentences(report)[0]


def test_place_and_spectrum(audited: Audit) -> None:
    geometry = audited.report["geometry"]
    assert geometry["where"] == "at the 120 samples"
    assert first_of(audited.report)["text"].endswith("directions carry 90 % of G (G at the 120 samples).")
    assert "G at the 120 samples" in audited.html()
    assert geometry["trace"]["value"] == pytest.approx(audited.G.trace.value)
    assert geometry["directions_90"] == audited.G.directions_for(0.9)
    spectrum = audited.report["spectrum"]
    assert spectrum["index"] == curve_index(64)
    assert spectrum["network"][0] == pytest.approx(geometry["largest"])
    leading = audited.report["leading"]
    assert leading["data_variance"]["value"] + leading["weak_variance"]["value"] == pytest.approx(1)


def test_what_is_off_is_said_first() -> None:
    X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    found = audit(OFF["norm"][0], X, torch.arange(60) % 3, probe="origin", trial=False, progress=False)
    first = first_of(found.report)
    assert "is off at initialisation: all 1 norms start with weight zero" in first["text"]
    assert first["level"] == "warn"


def test_ranks_of_a_curve() -> None:
    assert curve_index(1) == [0]
    index = curve_index(1000)
    assert (index[0], index[-1], len(index)) == (0, 999, len(set(index)))


def test_zeros_at_the_probe_are_not_called_invisible(lenet_G: ng.Geometry) -> None:
    X = torch.randn(64, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    found = audit(lenet, X, (X[:, 0, 0, 0] > 0).long(), G=lenet_G, trial=False, progress=False)
    zeros = found.report["zero"]
    expected = int((lenet_G.eigenvalues <= 1e-10 * lenet_G.eigenvalues[0]).sum())
    assert zeros == {"at_probe": expected, "invisible": 0}
    assert expected > 0
    said = " ".join(s["text"] for s in found.report["sentences"])
    assert f"{expected} of 256 directions have zero gain at the origin x = 0." in said
    assert "invisible" not in said


def test_invisible_directions_of_a_strided_network_are_counted(samples: Samples) -> None:
    def strided() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 4, 1, stride=2), nn.GELU(), nn.Flatten(), nn.Linear(64, 2))

    found = audit(strided, *samples, probe="origin", trial=False, progress=False).report
    word = found["zero"].pop("word")
    assert found["zero"] == {"at_probe": 48, "invisible": 48}
    assert word["may"]
    assert any(s["text"].startswith("48 of 64 directions are invisible") for s in found["sentences"])


def test_no_grain_is_judged_by_the_spectrum(samples: Samples) -> None:
    """One direction 14 times as strong as the average, all others alike: 99 % of G needs nearly all of them."""
    values = torch.ones(64)
    values[0] = 14 * 63 / 50
    grain, none = (ng.Geometry.from_matrix(torch.diag(v), SHAPE) for v in (values, torch.ones(64)))
    texts = [first_of(audit(small, *samples, G=g, trial=False, progress=False).report)["text"] for g in (grain, none)]
    assert "no grain" not in texts[0]
    assert "reacts 14 times as strongly to its strongest direction as to an average one" in texts[0]
    assert texts[1].startswith("Sequential has no grain to speak of: its strongest direction is 1 times an average one")


def test_a_sample_with_fewer_gradients_than_directions_is_not_taken_for_zeros(samples: Samples, audited: Audit) -> None:
    few = ng.average_geometry(small, SHAPE, probe=ng.Data(samples[0]), members=3, probes=4)  # 24 gradients
    found = audit(small, *samples, G=few, trial=False, progress=False)
    known = found.report["geometry"]["known"]
    assert 0 < known < 24 < 64
    assert found.report["zero"] == {"at_probe": None, "invisible": None}
    spectrum = found.report["spectrum"]
    assert all(v is None for i, v in zip(spectrum["index"], spectrum["network"], strict=True) if i >= known)
    assert [d["eigenvalue"] for d in found.report["directions"] if d["group"] == "weakest"] == [None] * 16
    assert any(f"Only the first {known} of 64 eigenvalues are known" in s["text"] for s in found.report["sentences"])
    assert known < audited.report["geometry"]["known"]
    assert "zero gain" not in repr(found)


def test_zeros_that_were_not_looked_into_are_told() -> None:
    report = example() | {"zero": {"at_probe": 2000, "invisible": None}}
    assert "was not looked for" in next(s["more"] for s in sentences(report) if "zero gain" in s["text"])
    report = example() | {"zero": {"at_probe": 5, "invisible": 3}}
    said = next(s["text"] for s in sentences(report) if "lost before the first activation" in s["text"])
    assert "invisible" not in said  # not for a kind of network that was not trained on such directions
    assert said.endswith("2 more have zero gain at the origin x = 0.")
