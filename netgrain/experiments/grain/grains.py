"""What the experiments on geometry share: families, their grain, and images.

A model in a unit is a plain mapping (`model_config`), which a run folder can keep. The grain of a family is its average
geometry as eigenvalues, directions and blocks, computed once as a unit of its own and read by all others.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from netgrain.auditing.axes import Axes
from netgrain.data.dataset import Dataset, Split
from netgrain.data.images import load_split
from netgrain.families.members import Family
from netgrain.geometry.average import average_geometry
from netgrain.geometry.covariance import data_covariance
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.symmetric import corr
from netgrain.geometry.value import Geometry
from netgrain.models.specs import load_model
from netgrain.runtime.devices import best_device
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

NARROW = {"ResNet18": 1 / 8, "ViT": 1 / 4, "VGG11": 1 / 8}  # widths at laptop scale; LeNet and MLP are always whole
NORMS = {"ResNet18": "batch", "VGG11": "batch", "ViT": "layer"}  # of figures whose networks are normalised
COLOURS = {"MLP": "#999999", "LeNet": "#0072b2", "ResNet18": "#d55e00", "ViT": "#009e73", "VGG11": "#cc79a7"}
TWIN_MEMBERS = 16  # behind either side of Corr(G narrow, G full) where it is sampled


# --- families -----------------------------------------------------------------------------------------------------


def model_config(
    network: str,
    shape: Sequence[int],  # (channels, size, size)
    *,
    activation: str,
    normed: bool = False,
    width: float | None = None,
    outputs: int = 2,
) -> dict[str, Any]:
    """A family as plain values, at the width of laptop scale unless one is given."""
    return {
        "network": network,
        "channels": shape[0],
        "size": shape[1],
        "activation": activation,
        "norm": NORMS.get(network) if normed else None,
        "width": NARROW.get(network, 1.0) if width is None else width,
        "outputs": outputs,
    }


def make_of(model: Mapping[str, Any]) -> Family:
    """The family that a unit names."""
    return load_model(
        model["network"].lower(),
        channels=model["channels"],
        image_size=model["size"],
        outputs=model["outputs"],
        activation=model["activation"],
        norm=model["norm"],
        width=model["width"],
    )


def shape_of(model: Mapping[str, Any]) -> tuple[int, int, int]:
    return model["channels"], model["size"], model["size"]


def shape_in(pool: Mapping[str, Any]) -> tuple[int, int, int]:
    """The shape of these images (arguments of `pictures`)."""
    return 1 if pool["name"] == "digits" else 3, pool["size"], pool["size"]


def in_order(networks: Collection[str]) -> list[str]:
    """Networks as figures and tables list them; a mapping that was stored has lost its order."""
    return [n for n in COLOURS if n in networks]


def device_named(device: str) -> torch.device:
    """Where a unit computes: "best" is a GPU where there is one."""
    return best_device() if device == "best" else torch.device(device)


# --- the grain ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Grain:
    """Eigenvalues and directions of G (or of G S G), descending, with the blocks inside which they are free."""

    values: Tensor  # (d,) float64, zeros for the null space
    directions: Tensor  # (d, *input_shape) float64
    blocks: list[tuple[int, int]]  # first index and the one after the last
    twin: Estimate | None  # Corr(G, G of the full-width family), where the family is narrow
    method: str

    def block_of(self, index: int) -> tuple[int, int]:
        index = index % len(self.values)
        return next(b for b in self.blocks if b[0] <= index < b[1])

    def direction(self, index: int, seed: int) -> Tensor:
        """The eigenvector of this index (−1: the last), drawn at random inside its block; float64, unit norm."""
        start, stop = self.block_of(index)
        if stop - start == 1:
            return self.directions[start]
        generator = torch.Generator().manual_seed(derived_seed(seed, "direction in a block", start, index))
        weights = torch.randn(stop - start, generator=generator, dtype=torch.float64)
        vector: Tensor = torch.tensordot(weights, self.directions[start:stop], 1)
        return torch.div(vector, vector.norm())

    def axes(self) -> Axes:
        """The same for the audit."""
        return Axes.of(self.values, self.directions.flatten(1), self.blocks)

    def geometry(self) -> Geometry:
        """The matrix again, for scores, flips and samples."""
        flat = self.directions.flatten(1)
        return Geometry.from_matrix((flat.T * self.values) @ flat, tuple(self.directions.shape[1:]))


def grains_of(
    runner: Runner,
    models: Mapping[str, Mapping[str, Any]],
    *,
    members: int | None = None,
    images: Mapping[str, Any] | None = None,
    twins: bool = False,
) -> dict[str, Grain]:
    """The grain of each family at the origin; with images (arguments of `pictures`) that of G S G, S the covariance of
    their training part.

    members: networks where G is sampled. twins: also compare narrow families with full-width ones.
    """
    units = [
        {
            "grain": dict(m),
            "members": members,
            "probe": "origin",
            "images": None if images is None else dict(images),
            "twin": twins and m["width"] != 1.0,
            "method": "auto",
        }
        for m in models.values()
    ]
    if images is not None and not runner.has(units):
        pictures(**images)
    found = runner.map(_grain, units, "geometries")
    return {name: _read(o) for name, o in zip(models, found, strict=True)}


def _grain(unit: Mapping[str, Any]) -> Outcome:
    m = unit["grain"]
    G = _geometry(m, unit["members"])
    numbers: dict[str, Any] = {"method": G.method, "twin": None}
    if unit["twin"]:
        ours = _geometry(m, TWIN_MEMBERS) if G.method == "sampled" else G
        numbers["twin"] = corr(ours, _geometry({**m, "width": 1.0}, TWIN_MEMBERS, seed=1)).as_dict()
    if unit["images"] is not None:
        G = G.project(data_covariance(pictures(**unit["images"]).train.X))
    directions = G.directions()
    values = torch.zeros(G.d, dtype=torch.float64)
    known = G.eigenvalues
    values[: len(known)] = known
    numbers["blocks"] = [[b.start, b.stop] for b in G.blocks()]
    return Outcome(numbers, {"values": values, "directions": directions})


def _geometry(m: Mapping[str, Any], members: int | None, seed: int = 0) -> Geometry:
    # the rows of the last layer are independent and alike, so the sum over both outputs is what their difference has,
    # too, up to a factor; and the sum has a closed form
    return average_geometry(make_of(m), shape_of(m), members=members, seed=seed, progress=False)


def _read(outcome: Outcome) -> Grain:
    numbers = outcome.numbers
    twin = numbers["twin"]
    return Grain(
        outcome.arrays["values"],
        outcome.arrays["directions"],
        [(int(a), int(b)) for a, b in numbers["blocks"]],
        None if twin is None else Estimate(twin["value"], twin["stderr"] or 0.0, twin["n"]),
        numbers["method"],
    )


# --- images -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def pictures(*, name: str, size: int, samples: int, tests: int, two: bool = False, seed: int = 0) -> Split:
    """Standardised images, area-averaged to size × size (digits, which are 8 × 8, are enlarged).

    two: with two classes: animals and vehicles of cifar10, digits below five and the others.
    """
    if name == "digits":
        split = load_split("digits", limit=(samples, tests), seed=seed)
        factor = size // split.train.X.shape[-1]
        return Split(*(_enlarged(part, factor, two) for part in (split.train, split.test)))
    name = "cifar2" if two and name == "cifar10" else name
    return load_split(name, limit=(samples, tests), size=size, seed=seed)


def _enlarged(data: Dataset, factor: int, two: bool) -> Dataset:
    X = data.X.repeat_interleave(factor, -1).repeat_interleave(factor, -2) if factor > 1 else data.X
    y, classes = ((data.labels >= 5).long(), ("below five", "five or more")) if two else (data.labels, data.classes)
    return Dataset(X.contiguous(), y, data.name, classes, data.note)
