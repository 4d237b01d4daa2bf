"""A family whose members start with everything switched on: factors at one, a zero last layer with a centred law."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from netgrain.families.batch_statistics import DataStatistics
from netgrain.families.failures import unwrapped_model
from netgrain.families.members import Family
from netgrain.families.switched_off import OffKind, Switches

SET_TO_ONE: tuple[OffKind, ...] = ("norm", "gain", "layer scale")


@dataclass(frozen=True, eq=False)
class SwitchedOn:
    """A family that calls another one and then switches its members on.

    What it does is part of its initialisation program, so laws are read off it as of any other family. Random numbers
    come from the generator that a member's own initialisation uses: member i stays a function of (seed, i).

    Parameters
    ----------
    make : callable
        The family itself.
    ones : tuple of str
        Parameters that start at one.
    heads : tuple of str
        Weights that start with a centred normal law of variance 1/fan-in.

    Examples
    --------
    >>> from netgrain.families.reading import read
    >>> from netgrain.families.switched_off import switches_of
    >>> def make():
    ...     net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    ...     nn.init.zeros_(net[2].weight)
    ...     return net
    >>> on = SwitchedOn.of(make, switches_of(read(make, (4,))))
    >>> read(on, (4,)).initialisation.of("2.weight").text
    'normal, sd 0.25'
    """

    make: Family
    ones: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()

    @classmethod
    def of(cls, make: Family, switches: Switches) -> Family:
        """The family with its switches on; response norms and layers inside stay as they are."""
        if isinstance(make, DataStatistics):  # whose statistics are those of the network that is switched on
            return replace(make, make=cls.of(make.make, switches))
        ones = tuple(s.parameter for s in switches.found if s.kind in SET_TO_ONE and s.parameter)
        return cls(make, ones, tuple(s.parameter for s in switches.found if s.kind == "head"))

    @property
    def __name__(self) -> str:
        return getattr(self.make, "__name__", type(self.make).__name__)

    @property
    def name(self) -> Any:
        """How the family itself is called."""
        return getattr(self.make, "name", None)

    @property
    def keywords(self) -> Any:
        """Options of the family itself, if it is a partial."""
        return getattr(self.make, "keywords", None)

    def __call__(self) -> nn.Module:
        model = self.make()
        parameters = dict(unwrapped_model(model).named_parameters())
        with torch.no_grad():
            for name in self.ones:
                parameters[name].fill_(1.0)
            for name in self.heads:
                weight = parameters[name]
                weight.normal_(0.0, 1 / math.sqrt(weight[0].numel()))
        return model
