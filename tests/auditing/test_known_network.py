"""What is known about a network, and candidates that are refused."""

from functools import partial

import torch
from torch import nn

from netgrain.auditing.known_network import Known, layer_change, option_change
from netgrain.models import MLP

X = torch.zeros(4, 1, 4, 4)
known = Known(partial(MLP, channels=1, image_size=4, outputs=3, depth=1), X)


def test_layers_in_order_and_options_with_defaults() -> None:
    assert [type(p.module).__name__ for p in known.places] == ["Flatten", "Linear", "ReLU", "Linear"]
    assert known.outputs == 3
    assert known.builtin is MLP
    assert (known.options["depth"], known.options["width"], known.options["norm"]) == (1, 1.0, None)
    assert Known(lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), X).options == {}


def test_a_change_says_what_to_edit_and_one_that_does_not_fit_is_none() -> None:
    found = option_change(known, "depth", "deeper", depth=2)
    assert found is not None
    assert found.action == "set depth=2 in MLP"
    assert option_change(known, "norm", "a norm that there is not", norm="group") is None
    assert option_change(known, "size", "other outputs", outputs=5) is None

    def broken(_: nn.Module) -> nn.Module:
        raise ValueError("not here")

    assert layer_change(known, "pool", "broken", "", {"layers.2": broken}) is None
