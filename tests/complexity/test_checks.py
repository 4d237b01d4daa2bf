"""What may be measured: fixed functions of one input; and inputs in words."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from netgrain import NetgrainError
from netgrain.complexity.checks import check_effort, check_finite, check_mode, described, unwrapped


@pytest.mark.quick
@pytest.mark.parametrize(
    "part", [nn.BatchNorm1d(3), nn.Dropout(0.5), nn.RReLU(), nn.MultiheadAttention(4, 2, dropout=0.1)]
)
def test_what_is_no_function_of_one_input_is_refused_in_train_mode_only(part: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(3, 3), part)
    with pytest.raises(NetgrainError, match=rf"'1' \({type(part).__name__}\) is in train mode"):
        check_mode(model.train())
    check_mode(model.eval())
    check_mode(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.0)).train())


def test_classes_and_functions_are_no_modules() -> None:
    with pytest.raises(NetgrainError, match="found the class Linear; call it to get a model"):
        check_mode(nn.Linear)
    with pytest.raises(NetgrainError, match="wrap it in a module"):
        check_mode(torch.tanh)


def test_logits_are_found_where_libraries_put_them() -> None:
    y = torch.ones(2)
    for given in (y, SimpleNamespace(logits=y), {"logits": y}):
        assert unwrapped(given) is y
    assert unwrapped((y, y)) == (y, y)


def test_gradients_and_efforts_that_are_refused() -> None:
    with pytest.raises(NetgrainError, match="at 1 of 3 points, first at index 2"):
        check_finite(torch.tensor([0.0, 1.0, float("nan")]))
    check_effort(0.02, None, 1)
    for effort in ((0, None, 1), (float("nan"), None, 1), ("x", None, 1), (0.1, 0, 1), (0.1, None, 0), (0.1, True, 1)):
        with pytest.raises(NetgrainError, match="expected"):
            check_effort(*effort)


def test_inputs_in_words() -> None:
    X = torch.tensor([-1.0, 1.0]).repeat(3, 4, 2).reshape(3, 1, 4, 4)
    assert described(X) == "3 points 1×4×4 as given, mean 0.00, sd 1.00"
    assert described(2 * X[:1] + 3) == "1 point 1×4×4 as given, mean 3.00, sd 2.00"
