"""Modules are watched while they run, and left as they were."""

import pytest
import torch
from torch import Tensor, nn

from netgrain.families.calls import input_of, is_leaf, module_calls, watching, with_output


@pytest.mark.quick
def test_every_call_is_seen_and_no_hook_stays() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(act := nn.ReLU(), nn.Linear(2, 2), act))
    seen: list[str] = []

    def enter(name: str, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(f"+{name}")

    def leave(name: str, module: nn.Module, output: Tensor) -> None:
        seen.append(f"-{name}")

    with watching(net, enter, leave):
        net(torch.zeros(1, 2))
    assert seen == ["+", "+0", "-0", "+1", "+1.0", "-1.0", "+1.1", "-1.1", "+1.0", "-1.0", "-1", "-"]
    with pytest.raises(RuntimeError), watching(net, enter, leave):
        net(torch.zeros(1, 3))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    assert [name for name, m in net.named_modules() if is_leaf(m)] == ["0", "1.0", "1.1"]


def test_repetitions_are_counted() -> None:
    calls = module_calls([("a", "Linear"), ("b", "ReLU"), ("a", "Linear")])
    assert [(c.name, c.nth, c.times, c.repeated) for c in calls] == [
        ("a", 0, 2, True),
        ("b", 0, 1, False),
        ("a", 1, 2, True),
    ]


def test_inputs_and_outputs_of_a_layer() -> None:
    net = nn.Sequential(nn.Tanh(), nn.ReLU())
    x = torch.tensor([-1.0, 2.0])
    assert torch.equal(input_of(net[1], lambda: net(x)), x.tanh())
    assert torch.equal(with_output(net[0], lambda: net(x), lambda out: -out), (-x.tanh()).relu())
