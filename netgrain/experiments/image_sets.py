"""Which set of images a run uses, where it depends on what is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netgrain.data.images import load_split
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome


def images_found(runner: Runner, asked: str) -> str:
    """The set of images that a run uses: what was asked for, or for "auto" cifar10 where it is found, else digits.

    Looked up once and kept in the run folder, so that a run goes on with the images it began with.
    """
    (found,) = runner.map(_look, [{"images": asked}], "images")
    return str(found.numbers["name"])


def _look(unit: Mapping[str, Any]) -> Outcome:
    if unit["images"] != "auto":
        return Outcome({"name": unit["images"]})
    try:
        load_split("cifar10", limit=1, standardise=False)
    except NetgrainError:
        return Outcome({"name": "digits"})
    return Outcome({"name": "cifar10"})
