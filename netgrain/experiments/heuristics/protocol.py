"""How one network of a sweep is made, trained and measured: plain values, so that a run folder can keep them.

A scale says how large a sweep is, a protocol all about one of its networks.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.complexity.sweeps import SweepCurve, curve_of, measured
from netgrain.data.images import load_split
from netgrain.experiments.heuristics.networks import ConvNet, Perceptron
from netgrain.families.members import Family
from netgrain.models.specs import load_model
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome
from netgrain.training import regularizers
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

CONV_BATCH, CONV_SIZE = 32, 16  # of convolutional networks: samples per step, side of the images
TESTS = 1000  # images for the accuracy where a set is cut down


@dataclass(frozen=True)
class Protocol:
    """One network of a sweep: data, architecture, initialisation, training. Digits and a perceptron by default."""

    settings: dict[str, Any] = field(default_factory=dict)  # of netgrain.training.Settings
    data: str = "digits"  # or a name that netgrain.data.load knows
    samples: int = 1000
    size: int | None = None  # of the images, averaged over areas; None, and for digits: as they are
    network: str = "perceptron"  # or "convnet", or a MODEL as on the command line
    hidden: tuple[int, ...] = (64, 64)  # of the perceptron
    parts: dict[str, Any] = field(default_factory=dict)  # width, depth, skip, norm and pool of the ConvNet
    scale: float = 1.0
    scheme: str = "he"
    corrupted: float = 0.0  # share of training labels replaced by random ones, once and for all
    regularizer: str | None = None  # a class of netgrain.training.regularizers
    strength: float = 0.0
    points: int | None = None  # training inputs at which complexity is measured; None: all
    repeat: float = 0  # number of a network with the same seed, for sweeps that vary nothing

    def make(self, X: Tensor, classes: int) -> Family:
        if self.network == "perceptron":
            return partial(Perceptron, (X[0].numel(), *self.hidden, classes), self.scale, self.scheme)
        if self.network == "convnet":
            drawn: dict[str, Any] = {"scale": self.scale, "scheme": self.scheme}
            return partial(ConvNet, tuple(X.shape[1:]), classes, **self.parts, **drawn)
        make = load_model(self.network, channels=X.shape[1], image_size=X.shape[2], outputs=classes)
        return make if self.scale == 1.0 else partial(_scaled, make, self.scale)

    def material(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(X, y, X_test, y_test), flat for perceptrons."""
        return material(self.data, self.samples, self.network == "perceptron", self.size)


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
    """The size of a sweep. The paper trains ResNet18 on CIFAR-10 with plain SGD; a laptop two small networks.

    These are a perceptron on digits and a convolutional network on a few images of CIFAR-10, or on digits where
    `images` says so or CIFAR-10 is not found.
    """

    seeds: int
    steps: int  # of each training; a ceiling where training stops at a loss
    every: int = 1  # settings are thinned out by this factor
    data: str = "digits"
    network: str = "perceptron"  # another one takes the place of both small networks
    samples: int = 1000
    batch: int = 64
    points: int | None = None
    images: str = "auto"  # of convolutional networks; "auto": cifar10 where it is found, else digits
    conv_seeds: int = 3
    conv_steps: int = 4000  # a ceiling
    conv_samples: int = 256

    @property
    def small(self) -> bool:
        """Whether small networks stand in for the paper's network."""
        return self.network == "perceptron"

    def protocol(self, settings: Mapping[str, Any], **changes: Any) -> Protocol:
        """A training at this scale: the batch of the scale, unless the settings say otherwise; plain SGD."""
        plain = {"momentum": 0.0, "batch": self.batch, "replacement": self.data == "digits", "steps": self.steps}
        base = Protocol({**plain, **settings}, self.data, self.samples, network=self.network, points=self.points)
        if not self.small:  # its own initialisation, and all of the data
            changes = {k: v for k, v in changes.items() if k not in ("hidden", "samples")}
        return replace(base, **changes)

    def convolutional(self, images: str, settings: Mapping[str, Any], **changes: Any) -> Protocol:
        """A training of the small convolutional network at this scale."""
        plain = {"momentum": 0.0, "batch": CONV_BATCH, "replacement": True, "steps": self.conv_steps}
        base = Protocol({**plain, **settings}, images, self.conv_samples, CONV_SIZE, "convnet", points=self.points)
        return replace(base, **changes)

    def thinned(self, values: Sequence[float]) -> tuple[float, ...]:
        return tuple(values)[:: self.every]


def presets(steps: int) -> dict[str, Scale]:
    """The three scales of a sweep whose trainings take at most this many steps on a laptop."""
    return {
        "smoke": Scale(
            seeds=2,
            steps=12,
            every=2,
            samples=80,
            points=20,
            images="digits",
            conv_seeds=2,
            conv_steps=4,
            conv_samples=40,
        ),
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
            p.material()
    outcomes = runner.map(one, units, label or experiment)
    return curve_of(values, [o.numbers for o in outcomes], seeds)


def one(unit: Mapping[str, Any]) -> Outcome:
    """Train and measure one network."""
    protocol = Protocol(**{**unit["protocol"], "hidden": tuple(unit["protocol"]["hidden"])})
    seed = unit["seed"]
    X, y, X_test, y_test = protocol.material()
    classes = int(y.max()) + 1
    make = protocol.make(X, classes)
    labels = corrupted(y, protocol.corrupted, classes, seed)
    regularizer = None
    if protocol.regularizer is not None:
        kind = getattr(regularizers, protocol.regularizer)
        regularizer = kind(protocol.strength, seed=derived_seed(seed, "regularizer"))
    settings = Settings(**protocol.settings)
    trained = train_member(make, X, labels, settings, seed=seed, i=int(protocol.repeat), regularizer=regularizer)
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
def material(data: str, samples: int, flat: bool, size: int | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(X, y, X_test, y_test), less the training mean; digits are split anew into 1,000 and 797.

    Pixels stay between 0 and 1 before the mean is taken off: complexity depends on the units of the inputs.
    """
    if size is None or data == "digits":
        split = load_split(data, standardise=False)
    else:
        split = load_split(data, standardise=False, size=size, limit=(samples, TESTS))
    X, y, X_test, y_test = split.train.X, split.train.labels, split.test.X, split.test.labels
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
