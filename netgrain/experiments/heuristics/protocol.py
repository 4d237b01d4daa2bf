"""How one network of a sweep is made, trained and measured: plain values, so that a run folder can keep them.

A scale says how large a sweep is, a protocol all about one of its networks.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.complexity.sweeps import SweepCurve, curve_of, measured
from netgrain.data.images import load_split
from netgrain.families.members import Family
from netgrain.models.specs import load_model
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome
from netgrain.training import regularizers
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

GAINS = {"he": 2.0, "lecun": 1.0, "torch": 1 / 3}  # variance of a weight times its fan-in


class Perceptron(nn.Sequential):
    """A ReLU network d → h → … → k with normal weights of a named variance times scale², and zero biases.

    scheme: "he" 2/fan_in, "lecun" 1/fan_in, "glorot" 2/(fan_in + fan_out), "torch" 1/(3 fan_in), PyTorch's own.
    """

    def __init__(self, sizes: tuple[int, ...], scale: float = 1.0, scheme: str = "he") -> None:
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            layer = nn.Linear(inputs, outputs)
            nn.init.normal_(layer.weight, std=scale * math.sqrt(weight_variance(scheme, inputs, outputs)))
            nn.init.zeros_(layer.bias)
            layers += [layer, nn.ReLU()]
        super().__init__(*layers[:-1])


def weight_variance(scheme: str, inputs: int, outputs: int) -> float:
    return 2 / (inputs + outputs) if scheme == "glorot" else GAINS[scheme] / inputs


@dataclass(frozen=True)
class Protocol:
    """One network of a sweep: data, architecture, initialisation, training. Digits and a perceptron by default."""

    settings: dict[str, Any] = field(default_factory=dict)  # of netgrain.training.Settings
    data: str = "digits"  # or a name that netgrain.data.load knows
    samples: int = 1000
    network: str = "perceptron"  # or a MODEL as on the command line
    hidden: tuple[int, ...] = (64, 64)
    scale: float = 1.0
    scheme: str = "he"
    corrupted: float = 0.0  # share of training labels replaced by random ones, once and for all
    regularizer: str | None = None  # a class of netgrain.training.regularizers
    strength: float = 0.0
    points: int | None = None  # training inputs at which complexity is measured; None: all

    def make(self, X: Tensor, classes: int) -> Family:
        if self.network == "perceptron":
            return partial(Perceptron, (X[0].numel(), *self.hidden, classes), self.scale, self.scheme)
        make = load_model(self.network, channels=X.shape[1], image_size=X.shape[2], outputs=classes)
        return make if self.scale == 1.0 else partial(_scaled, make, self.scale)


def _scaled(make: Family, scale: float) -> nn.Module:
    """A network whose initial weights, but not its biases and norms, are multiplied."""
    model = make()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.mul_(scale)
    return model


@dataclass(frozen=True)
class Scale:
    """The size of a sweep. The paper trains ResNet18 on CIFAR-10 with plain SGD; a laptop a perceptron on digits."""

    seeds: int
    steps: int  # of each training; a ceiling where training stops at a loss
    every: int = 1  # settings are thinned out by this factor
    data: str = "digits"
    network: str = "perceptron"
    samples: int = 1000
    batch: int = 64
    points: int | None = None

    @property
    def small(self) -> bool:
        """Whether perceptrons stand in for the paper's network."""
        return self.network == "perceptron"

    def protocol(self, settings: Mapping[str, Any], **changes: Any) -> Protocol:
        """A training at this scale: the batch of the scale, unless the settings say otherwise; plain SGD."""
        plain = {"momentum": 0.0, "batch": self.batch, "replacement": self.data == "digits", "steps": self.steps}
        base = Protocol({**plain, **settings}, self.data, self.samples, self.network, points=self.points)
        if not self.small:  # its own initialisation, and all of the data
            changes = {k: v for k, v in changes.items() if k not in ("hidden", "samples")}
        return replace(base, **changes)

    def thinned(self, values: Sequence[float]) -> tuple[float, ...]:
        return tuple(values)[:: self.every]


def presets(steps: int) -> dict[str, Scale]:
    """The three scales of a sweep whose trainings take at most this many steps on a laptop."""
    return {
        "smoke": Scale(seeds=2, steps=40, every=2, samples=200, points=100),
        "laptop": Scale(seeds=5, steps=steps),
        "paper": Scale(
            seeds=5,
            steps=10_000,
            data="cifar10",
            network="resnet18:norm=batch",
            samples=50_000,
            batch=512,
            points=1000,
        ),
    }


def along(
    runner: Runner, experiment: str, protocols: Mapping[float, Protocol], seeds: int, label: str = ""
) -> SweepCurve:
    """Train every protocol with every seed through the run folder; the curve of all measures."""
    values = tuple(protocols)
    units = [
        {"experiment": experiment, "value": v, "seed": seed, "protocol": asdict(protocols[v])}
        for seed in range(seeds)
        for v in values
    ]
    if not runner.has(units):  # read once, here, and shared with the processes that train
        for p in protocols.values():
            material(p.data, p.samples, p.network == "perceptron")
    outcomes = runner.map(one, units, label or experiment)
    return curve_of(values, [o.numbers for o in outcomes], seeds)


def one(unit: Mapping[str, Any]) -> Outcome:
    """Train and measure one network."""
    protocol = Protocol(**{**unit["protocol"], "hidden": tuple(unit["protocol"]["hidden"])})
    seed = unit["seed"]
    X, y, X_test, y_test = material(protocol.data, protocol.samples, protocol.network == "perceptron")
    classes = int(y.max()) + 1
    make = protocol.make(X, classes)
    labels = corrupted(y, protocol.corrupted, classes, seed)
    regularizer = None
    if protocol.regularizer is not None:
        kind = getattr(regularizers, protocol.regularizer)
        regularizer = kind(protocol.strength, seed=derived_seed(seed, "regularizer"))
    settings = Settings(**protocol.settings)
    trained = train_member(make, X, labels, settings, seed=seed, i=0, regularizer=regularizer)
    return Outcome(measured(trained, make, (X, labels), (X_test, y_test), settings, protocol.points))


def corrupted(y: Tensor, share: float, classes: int, seed: int) -> Tensor:
    """Labels of which a share is replaced by random classes, the same whenever they are asked for."""
    if not share:
        return y
    generator = torch.Generator().manual_seed(derived_seed(seed, "corruption"))
    hit = torch.randperm(len(y), generator=generator)[: round(share * len(y))]
    wrong = y.clone()
    wrong[hit] = torch.randint(0, classes, (len(hit),), generator=generator)
    return wrong


@functools.lru_cache(maxsize=2)
def material(data: str, samples: int, flat: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(X, y, X_test, y_test), less the training mean; digits are split anew into 1,000 and 797.

    Pixels stay between 0 and 1 before the mean is taken off: complexity depends on the units of the inputs.
    """
    split = load_split(data, standardise=False)
    X, y, X_test, y_test = split.train.X, split.train.y, split.test.X, split.test.y
    if data == "digits":
        X, y = torch.cat([X, X_test]), torch.cat([y, y_test])
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
        X_test, y_test, X, y = X[order[1000:]], y[order[1000:]], X[order[:1000]], y[order[:1000]]
    if samples > len(X):
        raise NetgrainError(f"{data} has {len(X)} training samples, {samples} were asked for.")
    X, y = X[:samples], y[:samples]
    mean = X.mean(0)
    X, X_test = X - mean, X_test - mean
    return (X.flatten(1), y, X_test.flatten(1), y_test) if flat else (X, y, X_test, y_test)
