"""A watched forward pass: every call and what it came from, tensors that were changed in place, answers in a dict."""

import torch
from torch import Tensor, nn

from netgrain.auditing.layer_watching import INPUT, labels_of, watched
from netgrain.families.calls import ModuleCall


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.act, self.side, self.head = nn.Linear(2, 2), nn.ReLU(inplace=True), nn.Linear(2, 2), nn.ReLU()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = self.stem(x)
        left = self.side(h)
        return {"logits": self.head(self.act(h) + left)}


def test_steps_know_what_they_came_from_and_see_outputs_before_they_change() -> None:
    net = Branches()
    x = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    calls = [ModuleCall(n, type(getattr(net, n)).__name__, 0, 1) for n in ("stem", "side", "act", "head")]
    steps = watched(net, labels_of(calls), x, lambda name, t: (name, t.clone()))
    assert [(s.name, s.source) for s in steps] == [
        *(("stem", INPUT), ("side", 0), ("act", 0)),
        *(("before head", 2), ("head", 3)),
    ]
    assert torch.equal(steps[0].found[1], net.stem(x).detach())  # not what the activation made of it
    assert steps[-1].shape == (2, 2)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_work_behind_the_last_layer_is_a_step() -> None:
    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)

    net = nn.Sequential(Doubled(2, 3))
    names = [s.name for s in watched(net, {}, torch.ones(2, 2), lambda *_: None)]
    assert names == ["output"]
