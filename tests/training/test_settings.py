"""Settings are checked when made and go through JSON; the order of samples."""

import json
from typing import Any

import pytest

from netgrain.runtime.errors import NetgrainError
from netgrain.training import Settings, minibatch_order


@pytest.mark.quick
def test_order_is_a_permutation_of_its_own() -> None:
    orders = [
        minibatch_order(20, seed=s, i=i, epoch=e).tolist() for s, i, e in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    ]
    assert all(sorted(o) == list(range(20)) for o in orders)
    assert len({tuple(o) for o in orders}) == 4


def test_settings_go_through_json() -> None:
    settings = Settings(snapshots=(5, 0, 5), batch=None, decay="linear", clip=0.5)
    assert settings.snapshots == (0, 5)
    assert Settings(**json.loads(json.dumps(settings.as_dict()))) == settings
    assert "microbatch" not in settings.as_dict()  # units and checkpoints without it stay the same
    small = Settings(microbatch=10)
    assert Settings(**json.loads(json.dumps(small.as_dict()))) == small


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "huber"}, "loss as one of 'sse', 'cross-entropy', 'mse', found 'huber'"),
        ({"label_smoothing": 1.0}, r"label_smoothing as a number in \[0, 1\), found 1.0"),
        ({"label_smoothing": 0.1, "loss": "mse"}, "label_smoothing as 0, found 0.1"),
        ({"replacement": 1}, "replacement as True or False, found 1"),
        ({"microbatch": 0}, "microbatch as a whole number ≥ 1, or None for the whole batch at once, found 0"),
        ({"stop_every": 0}, "stop_every as a whole number ≥ 1 or None, found 0"),
    ],
)
def test_new_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(NetgrainError, match=message):
        Settings(**changes)
