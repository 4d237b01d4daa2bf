"""Why something is not done, and what is never a reason."""

import pytest
from torch import Tensor, nn

from netgrain.families.reading import read
from netgrain.families.reasons import Reason
from netgrain.runtime.errors import NetgrainError
from tests.families.networks import two


def test_running_out_of_memory_is_no_reason() -> None:
    def greedy(net: nn.Module, x: Tensor) -> Tensor:
        return net.b(net.a(x)) + x.new_zeros(2**55).sum()

    with pytest.raises(NetgrainError, match="memory"):
        _ = read(two(greedy), (6,)).trace


@pytest.mark.quick
def test_a_reason_is_a_value_that_says_its_text_or_else_its_kind() -> None:
    assert str(Reason("law", "fc", "its weights are not independent")) == "its weights are not independent"
    assert str(Reason("law", "fc")) == "law"
    assert Reason("law", "fc") == Reason("law", "fc")
    assert Reason("law", "fc") != Reason("law")
