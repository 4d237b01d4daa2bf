"""Where the audit takes G, how precisely, and how to say so: at some of the samples by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.families.members import Family
from netgrain.families.probes import Data, Probe, probe_named
from netgrain.geometry.average import average_geometry
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for

DATA = "data"
SHARES = (0.5, 0.9, 0.99)  # of tr G, for which directions are counted
POINTS = 512  # samples, chosen by the seed, that stand for all
# expected 1 − Corr with the true G: a sampled G costs at least (effective rank) / (2 · tolerance) gradients, a closed
# form is far below it at once
TOLERANCE = 0.05


@dataclass(frozen=True, eq=False)
class Place:
    """Where G is taken and how precisely: a number of networks that was asked for, or a tolerance."""

    probe: Probe | None = None
    members: int | None = None
    tolerance: float | None = None

    def geometry(
        self,
        make: Family,
        input_shape: Sequence[int],
        *,
        seed: int = 0,
        device: torch.device | str | None = None,
        progress: bool | None = None,
    ) -> Geometry:
        """The average geometry of a family there."""
        return average_geometry(
            make,
            input_shape,
            probe=self.probe,
            members=self.members,
            tolerance=self.tolerance,
            seed=seed,
            device=device,
            progress=progress,
        )


def place_of(probe: Probe | str | None, X: Tensor, *, members: int | None = None, seed: int = 0) -> Place:
    """None or "data": POINTS of the samples. "origin" and "gaussian:σ" by name, or a probe of your own."""
    found = _probe_of(probe, X, seed)
    return Place(found, members, TOLERANCE if members is None and isinstance(found, Data) else None)


def _probe_of(probe: Probe | str | None, X: Tensor, seed: int) -> Probe | None:
    if probe is not None and not isinstance(probe, str | Probe):
        raise NetgrainError(
            f"probe expects 'data', 'origin', 'gaussian:0.1' or a probe such as ng.Data(X), found "
            f"{type(probe).__name__}."
        )
    if isinstance(probe, Probe):
        return probe
    if probe not in (None, DATA):
        return probe_named(probe, X)
    chosen = torch.randperm(len(X), generator=generator_for(seed, "audit points"))[:POINTS]
    return Data(X[chosen.sort().values], name="data")


def where(G: Geometry, samples: int | None = None) -> str:
    """The place of G in words, to stand after "G …".

    >>> where(Geometry.from_matrix(torch.eye(2)))
    'as given'
    """
    probe = G.about.probe
    if not probe.used:
        return "as given"
    count = probe.samples
    if samples is not None and count is not None and probe.used == f"{DATA} ({count} samples)":
        return f"at {count} of the {samples} samples" if count < samples else f"at the {samples} samples"
    if probe.is_limit:
        return f"at the origin x = 0 (its limit: {probe.used})"
    return "at the origin x = 0" if probe.used == "origin" else f"at the probe {probe}"


def how(G: Geometry) -> str:
    """What was computed, in words."""
    if G.method == "closed-form":
        passes = f", over the forward passes of {G.members} random networks" if G.members else ", no network sampled"
        return f"closed form{', exact at any width' if G.exact else ', wide limit'}{passes}"
    if G.method == "sampled":
        return f"sampled from {G.members} random networks"
    return G.method
