"""What an audit refuses, in one sentence that names the way out."""

from functools import partial

import pytest
import torch
from torch import Tensor

from netgrain import Geometry, NetgrainError
from netgrain.auditing.checks import check_options, checked_data
from netgrain.models import MLP
from netgrain.runtime.errors import GrainWarning
from tests.auditing.conftest import SHAPE, lenet, small


def test_bad_data(samples: tuple[Tensor, Tensor]) -> None:
    X, y = samples
    for make, X_bad, y_bad, said in (
        (lenet, X, y, r"LeNet cannot take samples of shape \(1, 8, 8\)"),
        (small, X, y * 0, "expected at least two classes"),
        (small, X, y + 2, "labels run from 2 to 3, but the model has 2 outputs; expected labels 0 to 1"),
        (small, X, y[:5], r"y has shape \(5,\), expected \(120,\)"),
        (small, X[:1].expand(120, -1, -1, -1), y, "all 120 samples of X are equal"),
        (partial(small), X[:, 0], y, r"images need a channel axis: pass X.unsqueeze\(1\)"),
        (small, X.repeat(1, 3, 1, 1), y, "it takes 1 channel, the data have 3"),
        (small, X.permute(0, 2, 3, 1), y, r"the channels seem to be last: pass X.permute\(0, 3, 1, 2\)"),
    ):
        with pytest.raises(NetgrainError, match=said):
            checked_data(make, X_bad, y_bad)  # type: ignore[arg-type]


def test_labels_that_leave_classes_out(samples: tuple[Tensor, Tensor]) -> None:
    X, y = samples
    many = partial(MLP, channels=1, image_size=8, outputs=4)
    with pytest.raises(NetgrainError, match=r"labels run from 1 to 2, expected them to start at 0; pass y - 1"):
        checked_data(many, X, y + 1)
    with pytest.warns(GrainWarning, match=r"1 class has no samples \('none'\)"):
        checked_data(many, X, y + 1, ["none", "a", "b"])
    with pytest.raises(NetgrainError, match=r"classes= has 1 name, expected 2: one for each label"):
        checked_data(many, X, y, ["a"])
    with pytest.raises(NetgrainError, match=r"has 5 names, the model has 4 outputs"):
        checked_data(many, X, y, list("abcde"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"features": ["a", "b"]}, "features= has 2 names, expected 64"),
        ({"features": "abc"}, "expected a list of words"),
        ({"G": torch.eye(64)}, "G is Tensor, expected a Geometry"),
        ({"G": Geometry.from_matrix(torch.eye(3))}, "G is 3-dimensional, the samples have 64 entries"),
        ({"weights": "w.pt"}, "weights is str, expected a state dict"),
        ({"keep": 0}, "keep expects a share above 0"),
        ({"members": 0}, "members expects a whole number from 1 upwards, found 0"),
    ],
)
def test_bad_options(options: dict[str, object], said: str) -> None:
    defaults = {"features": None, "G": None, "probe": None, "weights": None, "keep": 0.7, "members": None}
    check_options(SHAPE, **defaults)  # type: ignore[arg-type]
    with pytest.raises(NetgrainError, match=said):
        check_options(SHAPE, **{**defaults, **options})  # type: ignore[arg-type]
