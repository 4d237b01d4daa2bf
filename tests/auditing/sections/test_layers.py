"""Layers: a row for each with type, name, shape and gains, fresh and trained; what is said and warned of."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.auditing.audits import Audit, audit
from netgrain.auditing.sections.layers import affordable, alerts, changed_most, sentences

X = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
Y: Tensor = (X[:, 0] > 0).long()


def test_a_row_for_each_layer(audited: Audit) -> None:
    layers = audited.report["layers"]
    rows = layers["rows"]
    assert [r["name"] for r in rows] == ["0", "1", "2", "3", "4"]
    assert [r["type"] for r in rows] == ["Conv2d", "GELU", "AvgPool2d", "Flatten", "Linear"]
    assert [r["shape"] for r in rows] == [[8, 8, 8], [8, 8, 8], [8, 4, 4], [128], [2]]
    for r in rows:
        for part in (r, r["trained"]):
            assert part["gain"]["value"] > 0
            assert part["gain"]["stderr"] > 0
            assert 0 < part["differs"]["value"] < 1
    assert rows[0]["factor"]["value"] == pytest.approx(rows[0]["gain"]["value"], rel=1e-5)
    assert (layers["members"], layers["samples"], rows[0]["gain"]["n"]) == (4, 64, 4)
    html = audited.html()
    assert "AvgPool2d" in html
    assert "Gain, trained" in html


def test_modules_without_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise ng.NetgrainError("no layers")

    monkeypatch.setattr("netgrain.auditing.sections.layers.layer_responses", refuses)
    found = audit(lambda: nn.Linear(3, 2), X, Y, probe="origin", trial=False, progress=False)
    assert found.report["layers"] == {"rows": [], "why": "no layers"}
    assert "Layers: not measured." in found.html()
    assert sentences(found.report) == alerts(found.report) == []


def test_a_module_called_twice_has_a_row_for_each_call() -> None:
    def make() -> nn.Module:
        activation = nn.Tanh()
        return nn.Sequential(nn.Linear(3, 4), activation, nn.Linear(4, 4), activation, nn.Linear(4, 2))

    report = audit(make, X, Y, members=8, trial=False, progress=False).report
    rows = report["layers"]["rows"]
    assert [r["name"] for r in rows] == ["0", "1 (1 of 2)", "2", "1 (2 of 2)", "4"]
    assert rows[1]["gain"] != rows[3]["gain"]
    assert all(r["trained"] is None for r in rows)
    assert report["layers"]["trained_loses"] is None


def test_larger_networks_get_fewer_samples() -> None:
    counts = [affordable(10.0**power, trained=True) for power in range(5, 13)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == (4, 64)
    assert counts[-1] == (2, 8)


def row(name: str, gain: float, trained: float, *, response: float = 1.0, silent: float = 0.0) -> dict[str, Any]:
    def part(value: float) -> dict[str, Any]:
        e = {"value": value, "stderr": 0.01, "n": 4}
        return {"gain": e, "factor": e, "response": {**e, "value": response}, "differs": e, "silent": silent}

    return {"name": name, "type": "ReLU", "shape": [2], **part(gain), "trained": part(trained)}


def test_what_training_changed_is_said_from_a_factor_of_three() -> None:
    assert changed_most([row("a", 1.0, 2.0), row("b", 1.0, 0.4)]) is None
    assert changed_most([row("a", 1.0, 4.0), row("b", 1.0, 0.2)]) == (
        "Training lowered the gain most at 'b' (ReLU), by a factor of 5."
    )


def test_a_dead_network_is_an_error_and_silent_units_are_a_note() -> None:
    dead = {"layers": {"rows": [row("a", 1, 1), row("b", 1, 1, response=0.0), row("c", 1, 1, response=0.0)],
                       "samples": 64}}  # fmt: skip
    (alert,) = alerts(dead)
    assert alert["level"] == "error"
    assert "'b' (ReLU) is the first layer" in alert["evidence"]
    (note,) = alerts({"layers": {"rows": [row("a", 1, 1, silent=0.75), row("b", 1, 1)], "samples": 64}})
    assert note["title"] == "75% of the units of 'a' (ReLU) are silent"
    assert alerts({"layers": {"rows": [row("a", 1, 1, silent=0.25)], "samples": 64}}) == []
