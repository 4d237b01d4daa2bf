"""Mistakes about what goes into a model and what comes out of it; see `mistakes`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import netgrain as ng
from tests.end_to_end.mistakes import Mistake
from tests.end_to_end.mistakes_about_models import CUT, TwoInputs, X
from tests.families.token_networks import Text

VECTOR = (16,)
POINTS = X.flatten(1)


class Net(nn.Module):
    """A linear network whose forward is a function of (model, x)."""

    def __init__(self, forward: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.head, self._forward = nn.Linear(16, 3), forward
        self.norm = nn.BatchNorm1d(3, track_running_stats=False)

    def forward(self, x: Tensor) -> Any:
        return self._forward(self, x)


class AlwaysTraining(nn.Module):
    """Its batch norm never leaves train mode."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.norm = nn.Linear(16, 3), nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm.train()(self.head(x))
        return out


def similarity(model: Any, x: Tensor) -> Tensor:
    z = F.normalize(model.head(x), dim=1)
    return z @ z.T


def contrastive(model: Any, x: Tensor) -> Tensor:
    return F.cross_entropy(similarity(model, x), torch.arange(len(x)), reduction="none")


def meta() -> nn.Module:
    with torch.device("meta"):
        return nn.Sequential(nn.Linear(16, 3), nn.Softplus())


MIXES = "mixes the samples of a batch"
AT_EMBEDDINGS = r"looks up tokens .*at='embeddings' and input_shape=\(tokens, width\)"
# name → (the network, what must be said; None: it is measured)
NETWORKS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "argmax": (partial(Net, lambda m, x: m.head(x).argmax(1)), "returned torch.int64; .*return the logits"),
    "argmax as numbers": (partial(Net, lambda m, x: m.head(x).argmax(1, keepdim=True).float()), CUT),
    "complex outputs": (
        partial(Net, lambda m, x: torch.fft.fft(m.head(x))),
        r"returned torch.complex(64|128); .*real part, size or both",
    ),
    "complex outputs in a dict": (
        partial(Net, lambda m, x: {"logits": torch.fft.fft(m.head(x))}),
        "returned torch.complex(64|128); ",
    ),
    "a loss": (partial(Net, lambda m, x: contrastive(m, x).mean()), r"shape \(\); .*the logits, not a loss"),
    "a contrastive loss": (partial(Net, contrastive), MIXES),
    "similarities": (partial(Net, similarity), MIXES),
    "batch norm without statistics": (partial(Net, lambda m, x: m.norm(m.head(x))), f"{MIXES}, since a batch norm"),
    "batch norm always in train mode": (AlwaysTraining, f"{MIXES}, since a batch norm"),
    "an if on the whole batch": (
        partial(Net, lambda m, x: m.head(x) if x.sum() > 0 else -2 * m.head(x)),
        f"{MIXES}.*torch.where instead of an if",
    ),
    "several inputs": (TwoInputs, r"needs 'mask' too; .*call=lambda model, x: model\(x, mask=\.\.\.\)"),
    "tokens": (Text, AT_EMBEDDINGS),
}
NAMED = {  # doors through which every one of them goes
    "auto": lambda make: ng.average_geometry(make, VECTOR, tolerance=0.3),
    "sampled": lambda make: ng.average_geometry(make, VECTOR, members=2),
    "of one": lambda make: ng.geometry_of(make().eval(), ng.Data(POINTS)),
}


def act(door: str, make: Callable[[], nn.Module]) -> Callable[[], object]:
    return lambda: NAMED[door](make)


def _guarded(model: Any, x: Tensor) -> Tensor:
    if not bool(torch.isfinite(x).all()):
        raise ValueError("not finite")
    out: Tensor = model.head(x).tanh()
    return out


def _constant(model: Any, x: Tensor) -> Tensor:
    return F.linear(model.head(x).tanh(), torch.eye(3, dtype=torch.float32))


def _like(plain: Callable[[Any, Tensor], Any], **options: Any) -> Callable[[object], bool]:
    def right(G: Any) -> bool:
        expected = ng.average_geometry(partial(Net, plain), VECTOR, **options)
        return torch.allclose(G.matrix(), expected.matrix(), rtol=1e-5)

    return right


def tanh(model: Any, x: Tensor) -> Tensor:
    out: Tensor = model.head(x).tanh()
    return out


def _sampled_with_the_reason(G: Any) -> bool:
    return "its forward looks at numbers (bool)" in G.about.notes[-1] and _like(tanh, members=G.members)(G)


ACCEPTED: dict[str, tuple[Callable[[], object], Callable[[object], bool]]] = {
    "a guard that looks at numbers": (
        lambda: ng.average_geometry(partial(Net, _guarded), VECTOR, tolerance=0.3),
        _sampled_with_the_reason,
    ),
    "a constant in single precision": (
        lambda: ng.average_geometry(partial(Net, _constant), VECTOR, members=3),
        _like(tanh, members=3),
    ),
    "a constant in single precision, at a kink": (
        lambda: ng.average_geometry(partial(Net, lambda m, x: _constant(m, x).relu()), VECTOR, members=3),
        _like(lambda m, x: tanh(m, x).relu(), members=3),
    ),
    "several inputs with call=": (
        lambda: ng.average_geometry(TwoInputs, VECTOR, call=lambda model, x: model(x, mask=1.0)),
        _like(lambda m, x: m.head(x)),
    ),
    "tokens with at=": (
        lambda: ng.average_geometry(Text, (5, 8), at="embeddings", members=2),
        lambda G: G.input_shape == (5, 8) and G.trace > 0,  # type: ignore[attr-defined]
    ),
}

# name → (what is done, what must be said)
IN_PYTHON: dict[str, tuple[Callable[[], object], str]] = {
    f"{name}, {door}": (act(door, make), says) for name, (make, says) in NETWORKS.items() for door in NAMED
} | {
    "on meta, sampled": (lambda: ng.average_geometry(meta, VECTOR, members=2), "'0.weight' .*the device 'meta'"),
    "on meta, of one": (
        lambda: ng.geometry_of(meta(), ng.Data(POINTS)),
        "model 0 has no numbers in parameter '0.weight'",
    ),
    "on meta, complexity": (lambda: ng.geometric_complexity(meta(), POINTS), "the device 'meta'"),
    "an if on the whole batch, closed form": (
        lambda: ng.average_geometry(NETWORKS["an if on the whole batch"][0], VECTOR, method="closed-form"),
        r"its forward looks at numbers \(bool\)",
    ),
    "tokens, checked": (lambda: ng.check(Text, VECTOR, members=64), AT_EMBEDDINGS),
    "a call that raises": (
        lambda: ng.average_geometry(TwoInputs, VECTOR, call=lambda model, x: model(x, wrong=1)),
        r"failed on inputs of shape \(16,\) \(.*unexpected keyword argument 'wrong'\)",
    ),
    "a call without a model": (
        lambda: ng.average_geometry(TwoInputs, VECTOR, call=lambda x: x),  # type: ignore[arg-type, misc]
        r"failed on inputs of shape \(16,\) \(.*takes 1 positional argument but 2 were given\)",
    ),
    "a call that returns two": (
        lambda: ng.average_geometry(TwoInputs, VECTOR, call=lambda model, x: [model(x, 1), x * 2]),
        "returned list",
    ),
    "embeddings of images": (
        lambda: ng.average_geometry(meta, (1, 4, 4), at="embeddings"),
        r"\(tokens, width\), found",
    ),
}

FILE = """
    import torch
    from torch import nn

    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 2)

        def forward(self, tokens):
            return self.head(self.embed(tokens).mean(1).tanh())
"""


def prepare(folder: Path) -> None:
    (folder / "text.py").write_text(dedent(FILE), encoding="utf-8")


ON_THE_COMMAND_LINE: dict[str, tuple[tuple[str, ...], str]] = {
    "tokens on the command line": (("geometry", "text.py:Text", "--input", "3"), "looks up tokens"),
    "embeddings of another width": (
        ("geometry", "text.py:Text", "--input", "3x5", "--at", "embeddings"),
        r"has width 4, found \(3, 5\); pass \(3, 4\)",
    ),
    "an unknown place": (("geometry", "text.py:Text", "--input", "3x4", "--at", "words"), "at expects 'embeddings'"),
}

MISTAKES: tuple[Mistake, ...] = (
    *(Mistake(name, act=act, says=says) for name, (act, says) in IN_PYTHON.items()),
    *(Mistake(name, act=act, right=right) for name, (act, right) in ACCEPTED.items()),
    *(Mistake(name, argv=argv, says=says) for name, (argv, says) in ON_THE_COMMAND_LINE.items()),
    Mistake(
        "embeddings on the command line",
        argv=("geometry", "text.py:Text", "--input", "3x4", "--at", "embeddings", "--members", "4"),
        right=lambda printed: "text.py:Text" in str(printed) and "3x4, d = 12" in str(printed),
    ),
)
