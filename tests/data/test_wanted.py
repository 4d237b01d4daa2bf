"""What is asked of a source."""

import pytest
import torch

from netgrain.data import Dataset
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import NetgrainError

AGES = Dataset(torch.zeros(3, 1, 4, 4), torch.tensor([1, 0, 1]), "faces", ("20", "35.5"))


def test_classes_may_be_left_out_or_be_numbers() -> None:
    assert Wanted().meant(AGES) is AGES
    assert Wanted(target="none").meant(AGES).target == "none"
    assert Wanted(target="numbers").meant(AGES).y.tolist() == [35.5, 20, 35.5]
    words = Dataset(AGES.X, AGES.y, "faces", ("young", "old"))
    with pytest.raises(NetgrainError, match=r"labels of faces are words \('young' is the first\)"):
        Wanted(target="numbers").meant(words)


def test_a_label_column_only_where_there_are_columns() -> None:
    Wanted().refuse_label("there are none")
    with pytest.raises(NetgrainError, match="but there are none; leave it out"):
        Wanted(label="age").refuse_label("there are none")


def test_parts_of_the_size_that_is_asked_for() -> None:
    assert Wanted(size=2).sized([AGES])[0].shape == (1, 2, 2)
    assert Wanted().sized([AGES])[0] is AGES
