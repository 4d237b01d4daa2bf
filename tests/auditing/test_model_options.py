"""Options of a family, whatever form it has, and the same family with others."""

from functools import partial

import pytest
from torch import nn

from netgrain.auditing.model_options import options_of, with_options
from netgrain.families.prepared import prepared
from netgrain.models import MLP
from netgrain.models.specs import load_model
from netgrain.runtime.errors import NetgrainError


def hidden(make: object) -> int:
    layer = make().layers[1]  # type: ignore[operator]
    assert isinstance(layer, nn.Linear)
    return layer.out_features


def test_options_are_found_and_changed_in_every_form() -> None:
    text = load_model("mlp:depth=1", channels=1, image_size=4, outputs=2)
    for make in (text, partial(MLP, channels=1, image_size=4, depth=1), prepared(text, (1, 4, 4))):
        assert options_of(make)["depth"] == 1
        changed = with_options(make, width=0.5)
        assert options_of(changed)["width"] == 0.5
        assert options_of(changed)["depth"] == 1
    assert hidden(with_options(text, width=0.5)) == 50
    assert with_options(text, width=0.5, norm=None).name == "mlp:depth=1,width=0.5,norm=none"
    assert hidden(with_options(MLP, width=0.5)) == 50
    assert options_of(MLP) == {}


def test_an_option_that_is_not_there_is_said() -> None:
    with pytest.raises(NetgrainError, match="MLP takes no option 'patch'; expected one of channels"):
        with_options(MLP, patch=2)
    with pytest.raises(NetgrainError, match="has no option 'patch'"):
        with_options(load_model("mlp"), patch=2)
