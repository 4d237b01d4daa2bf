"""Audits side by side: who has the label in its grain, who cannot be told apart, and what cannot be compared."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.audits import Audit, audit
from netgrain.auditing.comparisons import Comparison, compare, verdict
from netgrain.data import isotropic
from netgrain.models import MLP
from tests.auditing.conftest import SHAPE, small

mlp = partial(MLP, channels=1, image_size=8, outputs=2)


@pytest.fixture(scope="module")
def two(G: ng.Geometry) -> Comparison:
    data = isotropic(G.directions()[0], 400, epsilon=1.0)
    flat = ng.average_geometry(mlp, SHAPE)
    audits = [(small, "small", G), (mlp, "mlp", flat), (mlp, "again", flat)]
    return compare([audit(make, data.X, data.y, G=g, name=name, progress=False) for make, name, g in audits])


def test_a_planted_label_lies_in_the_grain_of_the_one_it_was_planted_for(two: Comparison) -> None:
    first, _, same = two.verdicts
    assert first["text"].startswith("small reacts more strongly to the directions of these labels than mlp")
    assert first["between"] == ["small", "mlp"]
    assert "cannot be told apart" in same["text"]
    assert repr(two).splitlines()[0] == f"- {first['text']}"


def test_the_page_and_the_numbers_are_saved(two: Comparison, tmp_path: Path) -> None:
    assert json.loads(two.save(tmp_path / "c.json").read_text()) == two.as_dict()
    assert two.save(tmp_path / "c.html").read_text() == two.html()
    assert len(two.report["audits"]) == 3


def _labels(value: float | None, stderr: float = 0.1, name: str = "a") -> dict[str, Any]:
    share = {"value": None if value is None else 0.5}
    reaction = {"value": value, "stderr": stderr}
    return {"model": name, "labels": {"reaction": reaction, "nonlinear": share}, "geometry": {"where": "here"}}


def test_verdicts_by_hand() -> None:
    clear = verdict(_labels(10.0), _labels(1.0, name="b"))
    assert clear["text"] == (
        "a reacts more strongly to the directions of these labels than b: they react 10.00 ± 0.10 and 1.00 ± 0.10 "
        "times as strongly to the directions that carry the label as to an average one (G here); their leading "
        "directions hold 50% and 50% of the label signal. That does not tell which of them will be more accurate."
    )
    assert clear["level"] == "note"  # nothing was trained, so neither is better
    assert verdict(_labels(1.0), _labels(10.0, name="b"))["text"].startswith("b reacts more strongly")
    assert "cannot be told apart" in verdict(_labels(1.2), _labels(1.0, name="b"))["text"]
    assert "cannot be told apart" in verdict(_labels(0.0), _labels(0.05, name="b"))["text"]
    assert "cannot be compared" in verdict(_labels(None), _labels(1.0))["text"]


def test_what_cannot_be_compared_is_told(audited: Audit, G: ng.Geometry, samples: tuple[Tensor, Tensor]) -> None:
    other = audit(small, samples[0][:64], samples[1][:64], G=G, progress=False)
    for audits, said in (
        ([], "two or more audits, found 0"),
        ([audited], "two or more audits, found 1"),
        ([audited, small], "expects audits, found function at index 1"),
        ([audited, other], "samples is 120 in audit 0 and 64 in audit 1"),
    ):
        with pytest.raises(NetgrainError, match=said):
            compare(audits)  # type: ignore[arg-type]
    assert torch.is_tensor(other.kept)
