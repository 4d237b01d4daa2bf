"""Arguments: what each check takes, and how it calls what it refuses."""

import numpy as np
import pytest
import torch

from netgrain import NetgrainError
from netgrain.runtime.arguments import checked_shape, found, number, switch, whole


@pytest.mark.quick
def test_numbers_of_numpy_and_torch_count_and_true_does_not() -> None:
    assert [whole("n", v) for v in (3, np.int32(3), torch.tensor(3))] == [3, 3, 3]
    assert number("x", np.float32(0.5)) == 0.5
    for value in (True, 3.0, "3", None, torch.tensor([1, 2]), torch.tensor(3.5)):
        with pytest.raises(NetgrainError, match="n expects a whole number, found"):
            whole("n", value)
    with pytest.raises(NetgrainError, match="n expects a whole number from 1 upwards, found 0"):
        whole("n", 0, 1)
    for value in (True, float("nan"), "1", None):
        with pytest.raises(NetgrainError, match="x expects a number, found"):
            number("x", value)
    switch("s", None)
    with pytest.raises(NetgrainError, match="s expects True or False, found 'no'"):
        switch("s", "no")


def test_shapes() -> None:
    for shape in ((2, 3), [2, 3], torch.Size([2, 3]), np.array([2, 3])):
        assert checked_shape(shape) == (2, 3)
    assert checked_shape(np.int64(5)) == (5,)
    for shape in ((), (0, 3), (2, -1), (2.5,), "12", None, True):
        with pytest.raises(NetgrainError, match="input_shape expects positive sizes without the batch"):
            checked_shape(shape)
    with pytest.raises(NetgrainError, match=r"found an array of shape \(4, 3\); pass X.shape\[1:\]"):
        checked_shape(np.zeros((4, 3)))
    with pytest.raises(NetgrainError, match=r"has 1e\+09 values; expected at most 1e\+08"):
        checked_shape((1000, 1000, 1000))


def test_what_was_found_is_told_on_one_short_line() -> None:
    assert found(torch.zeros(2, 3)) == "a tensor of shape (2, 3)"
    assert found(np.zeros(2)) == "an array of shape (2,)"
    assert found(list(range(1000))) == "list"
    assert found("a" * 1000) == "'" + "a" * 59 + "…"
    assert "\n" not in found({"a": "x\ny"})
