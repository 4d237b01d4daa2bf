"""The base of trackers, with a tracker that counts."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from netgrain.geometry.estimate import Estimate
from netgrain.runtime.errors import NetgrainError
from netgrain.training.tracking import Line, Panel, Row, Tracker, steady


class Counter(Tracker):
    """Measures how often it was asked."""

    labels: ClassVar[dict[str, str]] = {"count": "number of measurements", "square": "its square", "loss": "loss"}

    made_of = "options"

    def __init__(self, every: int = 10) -> None:
        super().__init__(every)
        self.asked = 0
        self._values = {"count": [], "square": []}

    def __call__(self, step: int, *, force: bool = False, loss: torch.Tensor | float | None = None) -> Row | None:
        return self._step(step, force, {"loss": loss})[0]

    def _measured(self) -> Row:
        self.asked += 1
        return {"count": Estimate(self.asked, 0.5, 4), "square": Estimate(self.asked**2)}

    def panels(self) -> list[Panel]:
        return [
            Panel("Count", [Line("count", "counted", 0)]),
            Panel("Both", [Line("count", "counted", 0), Line("square", "squared", 1, dashed=True)], relative=True),
        ]

    def _identity(self) -> dict[str, Any]:
        return {"kind": "counter", "every": self.every}


@pytest.mark.quick
def test_measured_at_the_first_call_and_whenever_a_multiple_is_reached() -> None:
    tracker = Counter(every=10)
    measured = [step for step in (3, 9, 10, 11, 25, 29, 30) if tracker(step) is not None]
    assert measured == tracker.steps == [3, 10, 25, 30]
    assert tracker(25) == {"count": Estimate(3), "square": Estimate(9)}
    assert tracker.asked == 4  # a step is not measured twice
    assert tracker(31, force=True) is not None
    with pytest.raises(NetgrainError, match="step 7 comes after step 31 was measured; expected steps in order"):
        tracker(7)
    for bad in (0, 1.5):
        with pytest.raises(NetgrainError, match="every"):
            Counter(every=bad)  # type: ignore[arg-type]


def test_a_number_beside_is_nan_where_it_was_not_given() -> None:
    tracker = Counter(every=1)
    tracker(0)
    tracker(1, loss=torch.tensor(2.0, requires_grad=True))
    tracker(2)
    assert [v.value for v in tracker.history["loss"]][1] == 2.0
    assert [math.isnan(v) for v in tracker.history["loss"]] == [True, False, True]
    assert tracker.as_dict()["loss"][0]["value"] is None
    assert tracker.as_dict()["step"] == [0, 1, 2]


def test_a_history_is_taken_over_in_the_order_of_the_labels() -> None:
    tracker = Counter()
    values = {"square": [[1, 0, 0], [4, 0, 0]], "count": [[1, 0.5, 4], [2, 0.5, 4]]}
    state = {"identity": {"kind": "counter", "every": 10}, "steps": [0, 10], "values": values}
    tracker._resume(state, "the file")
    assert list(tracker.history) == ["count", "square"]
    assert tracker.steps == [0, 10]
    assert tracker._facts(["count"]) == [
        "every 10 steps",
        "2 measured up to step 10",
        "number of measurements 2.0 ± 0.5 (n = 4)",
    ]
    Counter()._resume(tracker._state(), "itself")
    with pytest.raises(
        NetgrainError, match="the file belongs to another tracker: expected every 10, found 5; pass the"
    ):
        tracker._resume({**state, "identity": {"kind": "counter", "every": 5}}, "the file")


def test_models_are_measured_in_a_steady_state_and_left_as_found() -> None:
    net = nn.Sequential(nn.Linear(1, 1), nn.Dropout())
    net[1].eval()
    before = torch.get_rng_state()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), steady([net], 3):
        drawn = torch.rand(1)
        assert not net.training
        assert net[0](torch.ones(1, 1)).dtype == torch.float32
        assert torch.is_grad_enabled()
    assert [m.training for m in net.modules()] == [True, True, False]
    assert torch.equal(torch.get_rng_state(), before)
    with steady([net], 3):
        assert torch.equal(torch.rand(1), drawn)
    with torch.inference_mode(), pytest.raises(NetgrainError, match="outside of it"), steady([net], 0):
        pass
