"""Mistakes about models and arguments: what a user passes for a family, a model, a shape, a probe, a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.auditing.audits import audit
from netgrain.models import MLP, ResNet18
from netgrain.training import Settings, train
from tests.end_to_end.mistakes import Mistake

SHAPE = (1, 4, 4)
tiny = partial(MLP, channels=1, image_size=4, outputs=3)
X16 = torch.randn(12, 16, generator=torch.Generator().manual_seed(0))
X = X16.reshape(12, *SHAPE)
Y = torch.arange(12) % 3
MANY = X.repeat(4, 1, 1, 1) + torch.arange(48).reshape(-1, 1, 1, 1) / 100, Y.repeat(4)  # for an audit
DATA = ng.Data(X)
FOUR = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    """A linear network whose forward is a function of (layer, x), by default layer(x)."""

    def __init__(self, forward: Callable[[nn.Module, Tensor], Any] = lambda f, x: f(x), outputs: int = 3) -> None:
        super().__init__()
        self.head, self._forward = nn.Linear(16, outputs), forward

    def forward(self, x: Tensor) -> Any:
        return self._forward(self.head, x.flatten(1))


def net(forward: Callable[[nn.Module, Tensor], Any]) -> Callable[[], nn.Module]:
    """A family of Nets."""
    return partial(Net, forward)


class NeedsWidth(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(16, width)


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.layer(x.flatten(1) * mask)


class Heads(dict):
    """What a Hugging Face model returns: a mapping with an attribute logits."""

    @property
    def logits(self) -> Tensor:
        return self["logits"]


class Silent(nn.Module):
    """Its forward runs under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 3)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.flatten(1))


class Broken(nn.Module):
    """NaN comes out of its second layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(16, 8), nn.Softplus(), nn.Linear(8, 3)
        self.second.register_forward_hook(lambda m, i, y: (-y).log())

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x.flatten(1))))


class PlusNaN(nn.Module):
    """Linear, and NaN is added at the end: a closed form of the gradient would not notice."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.flatten(1)) + float("nan")


class Own:
    """A probe of one's own that gives points of the wrong shape."""

    def describe(self) -> str:
        return "own"

    def points(self, input_shape: tuple[int, ...], count: int, seed: int) -> Tensor:
        return torch.zeros(count, 3)


def conv(channels: int = 3) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, 8, 3), nn.Flatten(), nn.LazyLinear(3) if channels == 0 else nn.Flatten())


def tokens() -> nn.Module:
    return nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(64, 3))


def lazy() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(3))


def raises() -> nn.Module:
    raise KeyError("setting")


def needs(width: int) -> nn.Module:
    return nn.Linear(16, width)


def scripted() -> nn.Module:
    return torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)))


def compiled() -> nn.Module:
    return torch.compile(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)))  # type: ignore[return-value]


def parallel() -> nn.Module:
    return nn.DataParallel(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)))


def wide() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


_one = tiny()


def given(forward: Callable[[nn.Module, Tensor], Any] = lambda f, x: f(x)) -> nn.Module:
    return Net(forward).eval()


average = ng.average_geometry


def sampled(make: Any = tiny, shape: Any = SHAPE, **options: Any) -> object:
    return average(make, shape, **({"members": 2} | options))


def same_as(make: Callable[[], nn.Module], **options: Any) -> Callable[[object], bool]:
    """Whether a geometry is that of another family, exactly."""
    return lambda G: torch.allclose(G.matrix(), average(make, SHAPE, **options).matrix(), rtol=1e-5)  # type: ignore[attr-defined]


FAMILY = "make expects a class or function that returns a fresh torch.nn.Module"
OUTPUT = "output expects 'all', 'mean', an index, \\('diff', i, j\\) or a function, found"
CUT = "the outputs are cut off from the inputs"
PROBE = "probe expects Origin\\(\\), Gaussian\\(σ\\) or Data\\(X\\)"
SIZES = "input_shape expects positive sizes without the batch"

# name → (what is done, what must be said)
IN_PYTHON: dict[str, tuple[Callable[[], object], str]] = {
    # --- the family
    "an instance": (
        lambda: average(_one, SHAPE),
        f"{FAMILY}, found one finished module \\(MLP\\).*lambda: MLP\\(.*ng.fresh\\(model\\).*geometry_of",
    ),
    "an instance, sampled": (lambda: sampled(_one), f"{FAMILY}, found one finished module"),
    "an instance, checked": (lambda: ng.check(_one, SHAPE, members=64), f"{FAMILY}, found one finished module"),
    "an instance, evolved": (lambda: ng.average_evolution(_one, X, members=2), f"{FAMILY}, found one finished"),
    "a name": (lambda: average("resnet18", (3, 32, 32)), f"{FAMILY}, found the text 'resnet18'.*load_model"),
    "a name, evolved": (lambda: ng.average_evolution("mlp", X, members=2), f"{FAMILY}, found the text 'mlp'"),
    "nothing": (lambda: average(None, SHAPE), f"{FAMILY}, found None"),
    "a number": (lambda: sampled(3), f"{FAMILY}, found 3"),
    "a list of models": (lambda: average([_one], SHAPE), f"{FAMILY}, found list"),
    "a class with required arguments": (
        lambda: average(NeedsWidth, SHAPE),
        "NeedsWidth needs a value for 'width'.*partial",
    ),
    "a function with required arguments": (lambda: sampled(needs), "needs needs a value for 'width'.*partial"),
    "a class that is no module": (lambda: average(dict, SHAPE), "returns dict"),
    "a function that returns nothing": (lambda: average(lambda: None, SHAPE), "returns None"),
    "a function that returns a class": (lambda: average(lambda: MLP, SHAPE), "returns the class MLP"),
    "a function that raises": (lambda: average(raises, SHAPE), "could not be built \\(KeyError: 'setting'\\)"),
    "a function that raises, evolved": (lambda: ng.average_evolution(raises, X), "could not be built \\(KeyError"),
    "one instance again and again": (lambda: average(lambda: _one, SHAPE), "the same module twice.*geometry_of"),
    "a compiled instance": (lambda: average(compiled(), SHAPE), f"{FAMILY}, found one finished module"),
    "a scripted instance": (lambda: average(scripted(), SHAPE), f"{FAMILY}, found one finished module"),
    "two inputs": (lambda: sampled(TwoInputs), "needs 'mask' too.*call=lambda model, x: model\\(x, mask=...\\)"),
    "two inputs, auto": (lambda: average(TwoInputs, SHAPE), "needs 'mask' too"),
    "two inputs, closed form": (lambda: average(TwoInputs, SHAPE, method="closed-form"), "needs 'mask' too"),
    "tokens": (lambda: average(tokens, (16,)), "looks up tokens.*at='embeddings'"),
    "tokens, closed form": (lambda: average(tokens, (16,), method="closed-form"), "looks up tokens"),
    "channels last": (lambda: average(conv, (8, 8, 3)), "channels first, as in \\(3, 8, 8\\)"),
    "channels last, sampled": (lambda: sampled(conv, (8, 8, 3)), "channels first, as in \\(3, 8, 8\\)"),
    "a batch in the shape": (lambda: average(conv, (5, 3, 8, 8)), "without the batch, as in \\(3, 8, 8\\)"),
    "another size": (
        lambda: average(tiny, (1, 8, 8)),
        "failed on inputs of shape \\(1, 8, 8\\).*input shape it expects",
    ),
    "another size, closed form": (
        lambda: average(tiny, (1, 8, 8), method="closed-form"),
        "failed on inputs of shape \\(1, 8, 8\\)",
    ),
    "a list comes out": (lambda: average(net(lambda f, x: [f(x), 2 * f(x)]), SHAPE), "returned list"),
    "a dictionary comes out": (
        lambda: average(net(lambda f, x: {"a": f(x), "b": 2 * f(x)}), SHAPE),
        "returned dict \\(a: tensor \\(3, 3\\), b: tensor \\(3, 3\\)\\).*call=lambda model, x: model\\(x\\)\\['b'\\]",
    ),
    "nothing comes out": (lambda: average(net(lambda f, x: None), SHAPE), "returned None"),
    "a number comes out": (lambda: average(net(lambda f, x: f(x).sum()), SHAPE), "one row of outputs per input"),
    "complex numbers come out": (lambda: average(net(lambda f, x: f(x) * 1j), SHAPE), "returned torch.complex64"),
    "whole numbers come out": (lambda: average(net(lambda f, x: f(x).argmax(1)), SHAPE), "returned torch.int64"),
    "no outputs": (lambda: average(net(lambda f, x: f(x)[:, :0]), SHAPE), "no outputs"),
    "NaN everywhere": (lambda: average(Broken, SHAPE), "NaN or Inf.*first in 'second' \\(Softplus\\)"),
    "NaN everywhere, sampled": (lambda: sampled(Broken), "NaN or Inf.*first in 'second' \\(Softplus\\)"),
    "NaN everywhere, of one": (lambda: ng.geometry_of(Broken(), DATA), "NaN or Inf.*first in 'second'"),
    "NaN everywhere, complexity": (lambda: ng.geometric_complexity(Broken(), X), "NaN or Inf.*first in 'second'"),
    "NaN everywhere, evolved": (lambda: ng.average_evolution(Broken, X), "NaN or Inf.*first in 'second'"),
    "NaN everywhere, tracked": (lambda: ng.GeometryTracker(Broken(), DATA)(0), "NaN or Inf.*first in 'second'"),
    "NaN added": (lambda: average(PlusNaN, SHAPE), "NaN or Inf.*first in the model's own forward"),
    "NaN added, closed form": (lambda: average(PlusNaN, SHAPE, method="closed-form"), "NaN or Inf"),
    "NaN added, complexity": (lambda: ng.geometric_complexity(PlusNaN(), X), "NaN or Inf"),
    "NaN added, of one": (lambda: ng.geometry_of(PlusNaN(), DATA), "NaN or Inf"),
    "NaN in the gradient": (
        lambda: ng.geometry_of(given(lambda f, x: f(x * 0).sub(f.bias).abs().sqrt()), DATA),
        "input gradient has NaN or Inf, first behind 'head' \\(Linear\\)",
    ),
    "no_grad": (lambda: average(Silent, SHAPE), CUT),
    "no_grad, closed form": (lambda: average(Silent, SHAPE, method="closed-form"), CUT),
    "no_grad, sampled": (lambda: sampled(Silent), CUT),
    "no_grad, of one": (lambda: ng.geometry_of(Silent(), DATA), CUT),
    "no_grad, complexity": (lambda: ng.geometric_complexity(Silent(), X), CUT),
    "no_grad, evolved": (lambda: ng.average_evolution(Silent, X, torch.zeros(12, 3), members=2), CUT),
    "no_grad, tracked": (lambda: ng.GeometryTracker(Silent(), DATA)(0), CUT),
    "detach": (lambda: average(net(lambda f, x: f(x).detach()), SHAPE), CUT),
    "detach, closed form": (lambda: average(net(lambda f, x: f(x).detach()), SHAPE, method="closed-form"), CUT),
    "detach, sampled": (lambda: sampled(net(lambda f, x: f(x).detach())), CUT),
    "detach, of one": (lambda: ng.geometry_of(given(lambda f, x: f(x).detach()), DATA), CUT),
    "detach, complexity": (lambda: ng.geometric_complexity(given(lambda f, x: f(x).detach()), X), CUT),
    "detach, evolved": (lambda: ng.average_evolution(net(lambda f, x: f(x.detach())), X, torch.zeros(12, 3)), CUT),
    "in inference mode": (torch.inference_mode()(lambda: sampled()), "call netgrain outside of it"),
    # --- the output
    "an unknown output": (lambda: average(tiny, SHAPE, output="avg"), f"{OUTPUT} 'avg'"),
    "an unknown output, sampled": (lambda: sampled(output="avg"), f"{OUTPUT} 'avg'"),
    "an unknown output, checked": (lambda: ng.check(tiny, SHAPE, members=64, output="avg"), f"{OUTPUT} 'avg'"),
    "an unknown output, of one": (lambda: ng.geometry_of(_one, DATA, output="avg"), f"{OUTPUT} 'avg'"),
    "an unknown output, evolved": (lambda: ng.average_evolution(tiny, X, output="avg"), f"{OUTPUT} 'avg'"),
    "an unknown output, tracked": (lambda: ng.GeometryTracker(_one, DATA, output="avg"), f"{OUTPUT} 'avg'"),
    "output 10 of 3": (lambda: average(tiny, SHAPE, output=10), "output 10 was asked for, the model has 3 outputs"),
    "output 10 of 3, sampled": (lambda: sampled(output=10), "output 10 was asked for, the model has 3 outputs"),
    "output -1": (lambda: average(tiny, SHAPE, output=-1), "output -1 was asked for.*count from 0"),
    "output -1, sampled": (lambda: sampled(output=-1), "output -1 was asked for.*count from 0"),
    "output -1, of one": (lambda: ng.geometry_of(_one, DATA, output=-1), "count from 0"),
    "a difference beyond": (
        lambda: average(tiny, SHAPE, output=("diff", 0, 9)),
        "\\('diff', 0, 9\\) was asked for, the",
    ),
    "a difference with itself": (lambda: average(tiny, SHAPE, output=("diff", 1, 1)), "two different outputs"),
    "a difference of words": (
        lambda: average(tiny, SHAPE, output=("diff", "a", "b")),
        f"{OUTPUT} \\('diff', 'a', 'b'\\)",
    ),
    "a list for an output": (lambda: average(tiny, SHAPE, output=["diff", 0, 1]), f"{OUTPUT} \\['diff', 0, 1\\]"),
    "True for an output": (lambda: average(tiny, SHAPE, output=True), f"{OUTPUT} True"),
    "None for an output": (lambda: average(tiny, SHAPE, output=None), f"{OUTPUT} None"),
    "an output function that raises": (
        lambda: average(tiny, SHAPE, output=lambda y: y[:, 7]),
        "output=: the function failed",
    ),
    "an output function that sums": (lambda: sampled(output=torch.sum), "output=: the function turned a batch"),
    # --- the shape
    "a tensor for a shape": (
        lambda: average(tiny, X),
        f"{SIZES}, as in \\(1, 32, 32\\); found a tensor of shape \\(12, 1",
    ),
    "an array for a shape": (lambda: average(tiny, X.numpy()), f"{SIZES}.*found an array of shape"),
    "numbers for a shape": (lambda: average(tiny, torch.ones(3)), f"{SIZES}.*found a tensor of shape \\(3,\\)"),
    "text for a shape": (lambda: average(tiny, "144"), f"{SIZES}.*found '144'"),
    "1x4x4 for a shape": (lambda: average(tiny, "1x4x4"), f"{SIZES}.*found '1x4x4'"),
    "a zero in the shape": (lambda: average(tiny, (1, 0, 4)), f"{SIZES}.*found \\(1, 0, 4\\)"),
    "halves in the shape": (lambda: average(tiny, (1, 4.5, 4)), f"{SIZES}.*found \\(1, 4.5, 4\\)"),
    "no shape": (lambda: average(tiny, None), f"{SIZES}.*found None"),
    "a huge shape": (lambda: average(tiny, (3, 10**6, 10**6)), "3e\\+12 values; expected at most"),
    # --- the probe
    "a tensor for a probe": (lambda: average(tiny, SHAPE, probe=X), f"{PROBE}, found a tensor of shape.*Data\\("),
    "a tensor for a probe, sampled": (lambda: sampled(probe=X), f"{PROBE}, found a tensor"),
    "a tensor for a probe, of one": (lambda: ng.geometry_of(_one, X), f"{PROBE}, found a tensor of shape.*Data\\("),
    "a tensor for a probe, tracked": (lambda: ng.GeometryTracker(_one, X), f"{PROBE}, found a tensor"),
    "a tensor for a probe, checked": (lambda: ng.check(tiny, SHAPE, members=64, probe=X), f"{PROBE}, found a tensor"),
    "a tensor for a probe, evolved": (lambda: ng.average_evolution(tiny, X, probe=X), f"{PROBE}, found a tensor"),
    "a word for a probe": (lambda: average(tiny, SHAPE, probe="gaussian"), f"{PROBE}, found 'gaussian'"),
    "a class for a probe": (lambda: average(tiny, SHAPE, probe=ng.Gaussian), f"{PROBE}, found the class Gaussian"),
    "a number for a probe": (lambda: sampled(probe=0.1), f"{PROBE}, found 0.1"),
    "a probe of other data": (lambda: average(tiny, SHAPE, probe=ng.Data(X16)), "samples of shape \\(16,\\)"),
    "a probe that gives other shapes": (lambda: average(tiny, SHAPE, probe=Own()), "gives points of shape \\(3,\\)"),
    "sigma as text": (lambda: ng.Gaussian("wide"), "positive sigma, found 'wide'"),
    "sigma zero": (lambda: ng.Gaussian(0), "positive sigma, found 0; for sigma = 0 use Origin"),
    "sigma true": (lambda: ng.Gaussian(True), "positive sigma, found True"),
    "a data probe of words": (lambda: ng.Data("digits"), "Data expects samples.*found 'digits'"),
    "a data probe of nothing": (lambda: ng.Data(None), "Data expects samples.*found None"),
    # --- numbers
    "members as text": (
        lambda: average(tiny, SHAPE, members="100"),
        "members expects a whole number, found '100'",
    ),
    "half a member": (lambda: average(tiny, SHAPE, members=2.5), "members expects a whole number, found 2.5"),
    "members below zero": (lambda: average(tiny, SHAPE, members=-3), "at least one member, found -3"),
    "members true": (lambda: average(tiny, SHAPE, members=True), "members expects a whole number.*found True"),
    "members as text, checked": (
        lambda: ng.check(tiny, SHAPE, members="9"),
        "members expects a whole number.*found '9'",
    ),
    "members as text, evolved": (lambda: ng.average_evolution(tiny, X, members="9"), "members expects a whole number"),
    "tolerance as text": (lambda: average(tiny, SHAPE, tolerance="low"), "tolerance expects a number.*found 'low'"),
    "tolerance NaN": (lambda: average(tiny, SHAPE, tolerance=float("nan")), "tolerance expects a number.*found nan"),
    "probes as text": (lambda: average(tiny, SHAPE, probes="8"), "probes expects a whole number, found '8'"),
    "seed as text": (lambda: average(tiny, SHAPE, seed="zero"), "seed expects a whole number.*found 'zero'"),
    "half a seed": (lambda: sampled(seed=0.5), "seed expects a whole number.*found 0.5"),
    "no seed": (lambda: average(tiny, SHAPE, seed=None), "seed expects a whole number.*found None"),
    "seed as text, of one": (lambda: ng.geometry_of(_one, DATA, seed="a"), "seed expects a whole number"),
    "seed as text, evolved": (lambda: ng.average_evolution(tiny, X, seed="a"), "seed expects a whole number"),
    "keep as text": (lambda: sampled(keep="all"), "keep expects a whole number from 1.*found 'all'"),
    "chunk zero": (lambda: sampled(chunk=0), "chunk expects a whole number from 1.*found 0"),
    "no workers": (lambda: sampled(workers=0), "at least one worker, found 0|workers expects"),
    "workers as text": (lambda: sampled(workers="two"), "workers expects a whole number, found 'two'"),
    "an unknown engine": (lambda: sampled(engine="raye"), "engine 'raye' is not known; did you mean 'ray'"),
    "a number for an engine": (lambda: sampled(engine=4), "engine expects.*found 4"),
    "an unknown method": (lambda: average(tiny, SHAPE, method="exact"), "method expects.*found 'exact'"),
    "an unknown method for the first layer": (lambda: sampled(first_layer=1), "first_layer expects.*found 1"),
    "cuda where there is none": (lambda: sampled(device="cuda"), "device 'cuda' is not available"),
    "cuda where there is none, auto": (lambda: average(tiny, SHAPE, device="cuda"), "device 'cuda' is not available"),
    "cuda where there is none, checked": (
        lambda: ng.check(tiny, SHAPE, members=64, device="cuda"),
        "device 'cuda' is not available",
    ),
    "cuda where there is none, evolved": (
        lambda: ng.average_evolution(tiny, X, device="cuda"),
        "device 'cuda' is not available",
    ),
    "a device that does not exist": (lambda: sampled(device="gpu"), "'gpu' is not a device"),
    "a number for a device": (lambda: sampled(device=2.5), "2.5.* is not a device"),
    "vmapped as text": (lambda: sampled(vmapped="yes"), "vmapped expects True or False, found 'yes'"),
    "progress as text": (lambda: sampled(progress="yes"), "progress expects True or False, found 'yes'"),
    "too few members for a check": (lambda: ng.check(tiny, SHAPE, members=10), "at least 64 members"),
    "a check too large for error bars": (
        lambda: ng.check(partial(ResNet18, width=1 / 32, outputs=3), (3, 64, 64), members=2000),
        "members=2000 .*at most",
    ),
    # --- given models
    "a class for a given model": (
        lambda: ng.geometry_of(MLP, DATA),
        "models expects.*found the class MLP.*average_geometry",
    ),
    "a function for a given model": (
        lambda: ng.geometry_of(tiny, DATA),
        "models expects.*found partial.*average_geometry",
    ),
    "a name for a given model": (lambda: ng.geometry_of("mlp", DATA), "models expects.*found 'mlp'"),
    "nothing for a given model": (lambda: ng.geometry_of(None, DATA), "models expects.*found None"),
    "words among given models": (lambda: ng.geometry_of([_one, "mlp"], DATA), "found str at index 1"),
    "no given models": (lambda: ng.geometry_of([], DATA), "at least one model, found none"),
    "a lazy given model": (lambda: ng.geometry_of(lazy(), DATA), "'1' \\(LazyLinear\\) has no weights"),
    "a given model of another size": (lambda: ng.geometry_of(nn.Linear(9, 2), ng.Data(X16)), "of the shape it expects"),
    "a given model in train mode": (
        lambda: ng.geometry_of(nn.Sequential(nn.Linear(16, 4), nn.BatchNorm1d(4)), ng.Data(X16)),
        "batch norm '1' of model 0 is in train mode.*eval\\(\\)",
    ),
    "a given model without an input shape": (lambda: ng.geometry_of(_one, ng.Gaussian()), "input_shape="),
    "keep as text, of one": (lambda: ng.geometry_of(_one, DATA, keep="all"), "keep expects a whole number"),
    "a class to track": (lambda: ng.GeometryTracker(MLP, DATA), "models expects.*found the class MLP"),
    "a name to track": (lambda: ng.GeometryTracker("mlp", DATA), "models expects.*found 'mlp'"),
    "a lazy model to track": (lambda: ng.GeometryTracker(lazy(), DATA), "'1' \\(LazyLinear\\) has no weights"),
    "track every half step": (lambda: ng.GeometryTracker(_one, DATA, every=0.5), "every expects a whole number"),
    "track with a shape of text": (
        lambda: ng.GeometryTracker(_one, ng.Gaussian(), input_shape="144"),
        f"{SIZES}.*found '144'",
    ),
    "a step of text": (lambda: ng.GeometryTracker(_one, DATA)("first"), "step expects a whole number"),
    "a class for complexity": (lambda: ng.geometric_complexity(MLP, X), "found the class MLP"),
    "a name for complexity": (lambda: ng.geometric_complexity("mlp", X), "found 'mlp'"),
    "a lazy model for complexity": (
        lambda: ng.geometric_complexity(lazy().eval(), X),
        "'1' \\(LazyLinear\\) has no weights",
    ),
    "complexity of another size": (
        lambda: ng.geometric_complexity(nn.Linear(9, 2), X16),
        "failed on inputs of shape \\(16,\\).*of the shape it expects",
    ),
    "complexity of words": (
        lambda: ng.geometric_complexity(given(), ["a", "b"]),
        "X holds words \\('a' is the first\\)",
    ),
    "complexity of nothing": (lambda: ng.geometric_complexity(given(), None), "X is missing \\(None was given\\)"),
    "complexity of a data set": (
        lambda: ng.geometric_complexity(given(), torch.utils.data.TensorDataset(X)),
        "X is a data set \\(TensorDataset\\), expected a tensor",
    ),
    "complexity of two inputs": (lambda: ng.geometric_complexity(TwoInputs(), X), "needs 'mask' too"),
    "complexity of tokens": (lambda: ng.geometric_complexity(tokens(), X16), "looks up tokens"),
    "complexity by an unknown estimator": (
        lambda: ng.geometric_complexity(given(), X, estimator="exakt"),
        "estimator 'exakt' is not known; did you mean 'exact'",
    ),
    "complexity of an unknown part": (lambda: ng.geometric_complexity(given(), X, of="logit"), "did you mean 'logits'"),
    "complexity with an error of text": (
        lambda: ng.geometric_complexity(given(), X, rel_error="small"),
        "relative error, found rel_error='small'",
    ),
    "complexity with a seed of text": (
        lambda: ng.geometric_complexity(given(), X, seed="a", estimator="vjp"),
        "seed expects a whole number",
    ),
    "complexity in train mode": (
        lambda: ng.geometric_complexity(nn.Sequential(nn.Linear(16, 4), nn.Dropout()), X16),
        "'1' \\(Dropout\\) is in train mode",
    ),
    "a class for a complexity tracker": (lambda: ng.ComplexityTracker(MLP, X), "found the class MLP"),
    "a lazy model for a complexity tracker": (
        lambda: ng.ComplexityTracker(lazy(), X),
        "'1' \\(LazyLinear\\) has no weights",
    ),
    "words for a complexity tracker": (
        lambda: ng.ComplexityTracker(given(), "digits"),
        "X is 'digits', a name; expected numbers",
    ),
    # --- other doors
    "a name, audited": (lambda: audit("mlp", X, Y), f"{FAMILY}, found the text 'mlp'"),
    "NaN everywhere, audited": (lambda: audit(Broken, *MANY), "NaN or Inf"),
    "no_grad, audited": (lambda: audit(Silent, *MANY), CUT),
    "another size, audited": (
        lambda: audit(lambda: nn.Sequential(nn.Flatten(), nn.Linear(9, 3)), X, Y),
        "cannot take samples of shape \\(1, 4, 4\\) .*or bring X into the shape it takes",
    ),
    "cuda where there is none, audited": (lambda: audit(tiny, X, Y, device="cuda"), "device 'cuda' is not available"),
    "an instance, trained": (lambda: train(_one, X, Y, Settings(steps=1), members=1), f"{FAMILY}, found one finished"),
    "a function that raises, trained": (
        lambda: train(raises, X, Y, Settings(steps=1), members=1),
        "could not be built",
    ),
    "cuda where there is none, trained": (
        lambda: train(tiny, X, Y, Settings(steps=1), members=1, device="cuda"),
        "device 'cuda' is not available",
    ),
    "a class for curvature": (lambda: ng.loss_curvature(MLP, X, Y), "models expects.*found the class MLP"),
    "a lazy model for curvature": (lambda: ng.loss_curvature(lazy(), X, Y), "'1' \\(LazyLinear\\) has no weights"),
    "a class for an evolution": (lambda: ng.evolution_of(MLP, X, Y), "models expects.*found the class MLP"),
    "no_grad, evolution of one": (lambda: ng.evolution_of(Silent().eval(), X, Y), CUT),
    # --- geometries
    "a score of other shapes": (lambda: G().score(torch.zeros(3, 5)), "expected samples of shape.*found \\(3, 5\\)"),
    "a score of one image": (lambda: colour().score(torch.zeros(3, 2, 2)), "one sample alone is X\\[None\\]"),
    "a score of words": (lambda: G().score(["a"]), "expected samples.*found \\['a'\\]"),
    "a score of nothing": (lambda: G().score(None), "expected samples.*found None"),
    "no directions": (lambda: G().directions(0), "between 1 and 16 directions, found 0"),
    "directions as text": (lambda: G().directions("3"), "between 1 and 16 directions, found '3'"),
    "half a direction": (lambda: G().directions(1.5), "between 1 and 16 directions, found 1.5"),
    "a projection of another size": (lambda: G().project(torch.eye(5)), "G is 16-dimensional, S is 5-dimensional"),
    "a projection of samples": (lambda: G().project(X16), "square|data_covariance"),
    "a projection of words": (lambda: G().project("S"), "square matrix, found 'S'"),
    "a product with another size": (lambda: G().matvec(torch.zeros(5)), "expected vectors of shape.*found \\(5,\\)"),
    "a correlation with words": (lambda: ng.corr(G(), "G"), "expected a Geometry or a square matrix, found 'G'"),
    "a correlation of other sizes": (lambda: ng.corr(G(), torch.eye(5)), "16.*5|same"),
    "a file that is missing": (lambda: ng.Geometry.load("nowhere.safetensors"), "nowhere.safetensors is not a file"),
    "a file of somebody else": (lambda: ng.Geometry.load("models.py"), "models.py is not a geometry"),
    "a number for a file": (lambda: ng.Geometry.load(3), "expected the path of a file, found 3"),
    "a matrix that is not square": (lambda: ng.Geometry.from_matrix(torch.ones(3, 4)), "finite square matrix"),
    "a matrix of words": (lambda: ng.Geometry.from_matrix("abc"), "finite square matrix, found 'abc'"),
}


def G() -> ng.Geometry:
    return ng.Geometry.from_matrix(torch.diag(torch.arange(16.0)), SHAPE)


def colour() -> ng.Geometry:
    return ng.Geometry.from_matrix(torch.eye(12), (3, 2, 2))


def _trace_of_index(answer: object) -> bool:
    """One of three exchangeable outputs has a third of the trace of all."""
    return abs(3 * answer.trace / average(tiny, SHAPE).trace - 1) < 1e-9  # type: ignore[attr-defined]


def _linear(answer: object) -> bool:
    """JᵀJ of a linear map is WᵀW."""
    model, found = answer  # type: ignore[misc]
    W = next(model.parameters()).detach().double()
    return torch.allclose(found.matrix(), W.T @ W, rtol=1e-4, atol=1e-6)


def _with(model: nn.Module) -> tuple[nn.Module, ng.Geometry]:
    return model, ng.geometry_of(model, DATA)


ACCEPTED: dict[str, tuple[Callable[[], object], Callable[[object], bool]]] = {
    "a shape of one number": (lambda: average(lambda: nn.Linear(16, 3), 16), lambda G: G.input_shape == (16,)),
    "a shape that torch gives": (lambda: average(tiny, X[0].shape), lambda G: G.input_shape == SHAPE),
    "a shape of NumPy numbers": (lambda: average(tiny, np.array(SHAPE)), lambda G: G.input_shape == SHAPE),
    "a shape as a tensor of sizes": (lambda: average(tiny, torch.tensor(SHAPE)), lambda G: G.input_shape == SHAPE),
    "a NumPy number of members": (
        lambda: sampled(members=np.int64(3)),
        lambda G: type(G.members) is int and G.members == 3,
    ),
    "a NumPy number for an output": (lambda: average(tiny, SHAPE, output=np.int64(1)), _trace_of_index),
    "the first of three outputs": (lambda: average(tiny, SHAPE, output=0), _trace_of_index),
    "the last of three outputs": (lambda: average(tiny, SHAPE, output=2), _trace_of_index),
    "a family of compiled modules": (lambda: average(compiled, SHAPE), same_as(wide)),
    "a family of compiled modules, sampled": (lambda: sampled(compiled), same_as(wide, members=2)),
    "a family of parallel modules": (lambda: average(parallel, SHAPE), same_as(wide)),
    "a family of parallel modules, sampled": (lambda: sampled(parallel), same_as(wide, members=2)),
    "lazy modules": (lambda: average(lazy, SHAPE), same_as(wide)),
    "lazy modules, sampled": (lambda: sampled(lazy), same_as(wide, members=2)),
    "a lazy family, audited": (
        lambda: audit(lazy, FOUR, torch.arange(60) % 3).G.trace.value,
        lambda trace: abs(trace - 1) < 1e-9,  # type: ignore[operator]  # 3 outputs · 4 inputs · Var 1/12
    ),
    "a tuple comes out": (
        lambda: average(net(lambda f, x: (f(x), x)), SHAPE),
        same_as(wide),
    ),
    "a dictionary of one": (lambda: average(net(lambda f, x: {"y": f(x)}), SHAPE), same_as(wide)),
    "a family of scripted modules": (
        lambda: average(scripted, SHAPE, members=3),
        same_as(wide, members=3, first_layer="never"),
    ),
    "a compiled model": (lambda: _with(torch.compile(given())), _linear),  # type: ignore[arg-type]
    "a parallel model": (lambda: _with(nn.DataParallel(given())), _linear),
    "a scripted model": (lambda: _with(scripted().eval()), _linear),
    "the complexity of a scripted model": (
        lambda: (m := scripted().eval(), ng.geometric_complexity(m, X)),
        lambda a: abs(a[1] / float(next(a[0].parameters()).detach().square().sum()) - 1) < 1e-5,
    ),
    "the complexity of a compiled model": (
        lambda: (m := given(), ng.geometric_complexity(torch.compile(m), X)),  # type: ignore[arg-type]
        lambda a: abs(a[1] / float(a[0].head.weight.detach().square().sum()) - 1) < 1e-5,
    ),
    "the complexity of what returns logits": (
        lambda: (m := given(lambda f, x: Heads(logits=f(x))), ng.geometric_complexity(m, X)),
        lambda a: abs(a[1] / float(a[0].head.weight.detach().square().sum()) - 1) < 1e-5,
    ),
    "outputs that ignore the input": (
        lambda: ng.geometry_of(given(lambda f, x: f.bias.expand(len(x), -1)), DATA),
        lambda G: G.trace.value == 0 and G.about.zero_share == 1,
    ),
    "the complexity of what ignores the input": (
        lambda: ng.geometric_complexity(given(lambda f, x: f.bias.expand(len(x), -1)), X),
        lambda gc: gc.value == 0 and gc.stderr == 0,
    ),
    "one output of two that ignores the input": (
        lambda: ng.geometry_of(given(lambda f, x: torch.cat([f(x)[:, :1], f.bias[:1].expand(len(x), 1)], 1)), DATA),
        lambda G: abs(G.trace.value - ng.geometry_of(given(), DATA).trace.value) >= 0 and G.trace.value > 0,
    ),
    "half precision": (
        lambda: (m := given().bfloat16(), ng.geometry_of(m, DATA)),
        lambda a: torch.allclose(
            a[1].matrix(),
            a[0].head.weight.detach().double().T @ a[0].head.weight.detach().double(),
            rtol=0.02,
            atol=1e-3,
        ),
    ),
    "double precision": (lambda: _with(given().double()), _linear),
    "members made with no_grad around": (torch.no_grad()(lambda: sampled()), same_as(tiny, members=2)),
}

FILE = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            return torch.tanh(self.layer(x.flatten(1)))

    class Wide(Net):
        def __init__(self, width):
            super().__init__()

    class Lazy(Net):
        def __init__(self):
            super().__init__()
            self.layer = nn.LazyLinear(2)

    class Silent(Net):
        @torch.no_grad()
        def forward(self, x):
            return super().forward(x)

    class Broken(Net):
        def forward(self, x):
            return self.layer(x) / 0 - self.layer(x) / 0

    class Pair(Net):
        def forward(self, x):
            return [self.layer(x), 2 * self.layer(x)]

    class Fails(Net):
        def __init__(self):
            raise RuntimeError("no such thing")

    def nothing():
        pass

    net = Net()
    number = 3
"""


def prepare(folder: Path) -> None:
    (folder / "models.py").write_text(dedent(FILE), encoding="utf-8")
    (folder / "bad.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    (folder / "wrong.py").write_text("def f(:\n", encoding="utf-8")
    (folder / "leaves.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    (folder / "notes.txt").write_text("nothing\n", encoding="utf-8")
    np.save(folder / "three.npy", np.zeros((5, 3), dtype=np.float32))
    np.savez(folder / "my.npz", X=X.numpy(), y=np.arange(12) % 3)
    np.savez(folder / "four.npz", X=FOUR.numpy(), y=np.arange(60) % 2)
    np.save(folder / "pattern.npy", FOUR[0].numpy())


WHAT_IS_WRONG = {
    "Silent": CUT,
    "Broken": r"(returns|gradients that are) NaN or Inf",
    "Pair": "returned list",
}
WITH_FOUR = {
    "complexity": ("--data", "four.npz"),
    "audit": ("--data", "four.npz"),
    "score": ("--data", "four.npz"),
    "visible": ("--signal", "pattern.npy"),
    "card": ("--input", "4"),
}
NET = ("geometry", "models.py:Net", "--input", "4")
NO_MODEL = r"no built-in model called"

# name → (command line, what must be said)
ON_THE_COMMAND_LINE: dict[str, tuple[tuple[str, ...], str]] = (
    {
        f"{command}: an unknown model": (
            (command, "resnet81", *rest),
            f"{NO_MODEL} 'resnet81'. Did you mean 'resnet18'",
        )
        for command, rest in {
            "geometry": ("--input", "1x32x32"),
            "complexity": ("--data", "my.npz"),
            "visible": ("--signal", "three.npy"),
            "audit": ("--data", "my.npz"),
            "card": ("--input", "1x8x8"),
            "score": ("--data", "my.npz"),
            "prune": ("--data", "my.npz", "--out", "kept.csv"),
            "compare": ("mlp", "--data", "my.npz"),
        }.items()
    }
    | {
        f"{command}: {name}": ((command, f"models.py:{name}", *rest), says)
        for command, rest in WITH_FOUR.items()
        for name, says in WHAT_IS_WRONG.items()
    }
    | {
        "plan: an unknown model": (("plan", "geometry", "resnet81", "--input", "1x8x8"), f"{NO_MODEL} 'resnet81'"),
        "a file without a name": (("geometry", "models.py", "--input", "4"), r"names 'models.py' but no model in it"),
        "a file that is not there": (
            ("geometry", "modles.py:Net", "--input", "4"),
            r"no file 'modles.py'.*Did you mean",
        ),
        "a file with another name": (
            ("geometry", "models.py:Nett", "--input", "4"),
            r"nothing called 'Nett'. Did you mean",
        ),
        "a file that cannot be imported": (
            ("geometry", "bad.py:Net", "--input", "4"),
            r"'bad.py' could not be imported",
        ),
        "a file that is no Python": (("geometry", "wrong.py:f", "--input", "4"), r"'wrong.py' could not be imported"),
        "a file that leaves": (("geometry", "leaves.py:f", "--input", "4"), r"'leaves.py' could not be imported"),
        "a file of text": (("geometry", "notes.txt:Net", "--input", "4"), r"no module 'notes.txt'.*path/file.py:name"),
        "a module that is not there": (("geometry", "nothing.here:Net", "--input", "4"), r"no module 'nothing.here'"),
        "a finished module": (("geometry", "models.py:net", "--input", "4"), r"is one finished module"),
        "a number for a model": (("geometry", "models.py:number", "--input", "4"), r"found int"),
        "a command-line class with required arguments": (
            ("geometry", "models.py:Wide", "--input", "4"),
            r"needs a value for 'width': add the option width=VALUE",
        ),
        "a class that fails": (("geometry", "models.py:Fails", "--input", "4"), r"could not be built \(RuntimeError"),
        "a function that makes nothing": (("geometry", "models.py:nothing", "--input", "4"), r"found NoneType"),
        "an option without a value": (("geometry", "mlp:width", "--input", "1x4x4"), r"expected key=value"),
        "an option that is not there": (("geometry", "mlp:widht=2", "--input", "1x4x4"), r"Did you mean 'width'"),
        "complexity: Lazy": (
            ("complexity", "models.py:Lazy", *WITH_FOUR["complexity"]),
            r"\(LazyLinear\) has no weights",
        ),
        "a silent class": (("geometry", "models.py:Silent", "--input", "4"), CUT),
        "a class of NaN": (("geometry", "models.py:Broken", "--input", "4"), r"NaN or Inf"),
        "a class that returns a pair": (("geometry", "models.py:Pair", "--input", "4"), r"returned list"),
        "an input of words": (("geometry", "models.py:Net", "--input", "four"), r"--input expects positive sizes"),
        "an input with a batch": (
            ("geometry", "mlp", "--input", "8x1x4x4"),
            r"expects square images, as in --input 1x32x32",
        ),
        "an input of another size": (
            ("geometry", "models.py:Net", "--input", "5"),
            r"failed on inputs of shape \(5,\)",
        ),
        "no input": (("geometry", "models.py:Net"), r"Missing option '--input'"),
        "an unknown output on the command line": ((*NET, "--output", "avg"), r"--output expects all, mean"),
        "output 7 of 2": ((*NET, "--output", "7"), r"output 7 was asked for, the model has 2 outputs"),
        "output -1 on the command line": ((*NET, "--output", "-1"), r"--output expects all, mean.*found '-1'"),
        "a difference beyond on the command line": ((*NET, "--output", "diff:0,9"), r"the model has 2 outputs"),
        "a difference with itself on the command line": ((*NET, "--output", "diff:1,1"), r"two different outputs"),
        "a probe of words on the command line": ((*NET, "--probe", "nowhere"), r"probe 'nowhere' is not known"),
        "a probe of another shape": ((*NET, "--probe", "data:three.npy"), r"samples of shape \(3,\)"),
        "members of words": ((*NET, "--members", "many"), r"Invalid value for '--members'"),
        "members below zero on the command line": (
            (*NET, "--members", "-3"),
            r"expected at least one member, found -3",
        ),
        "cuda on the command line": ((*NET, "--device", "cuda"), r"device 'cuda' is not available"),
        "an unknown engine on the command line": ((*NET, "--engine", "raye"), r"engine 'raye' is not known"),
        "an unknown method on the command line": ((*NET, "--method", "guess"), r"method expects"),
        "a check that has no error bars": (
            ("geometry", "lenet", "--input", "3x64x64", "--check", "2000"),
            r"members=2000 .*at most 1092",
        ),
        "an unknown command": (("geometri", "lenet"), r"No such command 'geometri'"),
    }
)

MISTAKES: tuple[Mistake, ...] = (
    *(Mistake(name, act=act, says=says) for name, (act, says) in IN_PYTHON.items()),
    *(Mistake(name, act=act, right=right) for name, (act, right) in ACCEPTED.items()),
    *(Mistake(name, argv=argv, says=says) for name, (argv, says) in ON_THE_COMMAND_LINE.items()),
)
