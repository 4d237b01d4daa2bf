"""The options of the front doors, checked in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from netgrain.families.outputs import Output, checked_output
from netgrain.families.probes import Data, Probe, checked_probe
from netgrain.runtime.arguments import checked_shape, found, number, switch, whole
from netgrain.runtime.devices import best_device, checked_device
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import checked_memory
from netgrain.runtime.units import Engine

POINTS_PER_MEMBER = 8  # Gaussian points per member: beyond this, more members help more than more points
SAMPLES_PER_MEMBER = 16  # samples per member, for the same reason
LARGE_POINTS = 4  # of either for an input of more than some thousand entries, where a pass costs more than a member
DEFAULT_TOLERANCE = 0.01
KEEP = 64  # leading directions of an input too large for more

Method = Literal["auto", "closed-form", "sampled"]
EndLayer = Literal["auto", "never", "always"]


@dataclass(frozen=True, eq=False)
class Options:
    """What was asked for, refused with a sentence where it makes no sense; see `average_geometry`."""

    input_shape: Sequence[int]
    probe: Probe | None = None
    output: Output = "all"
    members: int | None = None
    tolerance: float | None = None
    probes: int | None = None
    first_layer: EndLayer = "auto"
    last_layer: Literal["auto", "never"] = "auto"
    seed: int = 0
    keep: int | None = None
    engine: Engine | str | None = None
    workers: int | None = None
    chunk: int | None = None
    device: torch.device | str | None = None
    vmapped: bool | None = None
    progress: bool | None = None
    memory: int | str | None = None
    switched_on: bool = False

    def __post_init__(self) -> None:
        shape = checked_shape(self.input_shape)
        if self.members is not None and self.tolerance is not None:
            raise NetgrainError("expected members= or tolerance=, found both; keep one.")
        if self.members is not None and (members := whole("members", self.members)) < 1:
            raise NetgrainError(f"expected at least one member, found {members}.")
        if self.tolerance is not None and not 0 < number("tolerance", self.tolerance) < 1:
            raise NetgrainError(
                f"expected a tolerance between 0 and 1 (0.01 asks for Corr 0.99), found {self.tolerance}."
            )
        if self.probes is not None and whole("probes", self.probes) < 1:
            raise NetgrainError(f"expected at least one probe point per member, found {self.probes}.")
        if self.first_layer not in ("auto", "never", "always"):
            raise NetgrainError(f"first_layer expects 'auto', 'never' or 'always', found {found(self.first_layer)}.")
        checked = {
            "input_shape": shape,
            "members": None if self.members is None else whole("members", self.members),
            "seed": whole("seed", self.seed),
            "output": checked_output(self.output),
            "keep": None if self.keep is None else whole("keep", self.keep, 1),
            "memory": None if self.memory is None else checked_memory(self.memory),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.engine is not None and not isinstance(self.engine, str) and not hasattr(self.engine, "run"):
            raise NetgrainError(f"engine expects a name such as 'processes', or an engine, found {found(self.engine)}.")
        if self.workers is not None:
            whole("workers", self.workers)  # how many it may be, engines say
        if self.chunk is not None:
            whole("chunk", self.chunk, 1)
        switch("vmapped", self.vmapped)
        switch("progress", self.progress)
        switch("switched_on", self.switched_on)
        checked_probe(self.probe, shape)
        if self.device is not None:
            checked_device(self.device)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.input_shape)

    @property
    def goal(self) -> float | None:
        """The tolerance to sample to; None if the number of members is fixed."""
        if self.members is not None:
            return None
        return DEFAULT_TOLERANCE if self.tolerance is None else self.tolerance

    @property
    def place(self) -> torch.device:
        """Where members are computed."""
        return best_device() if self.device is None else checked_device(self.device)

    @property
    def asks_for_sampling(self) -> list[str]:
        """Options given that only sampling knows, and that ask for it."""
        given = {"members": self.members, "first_layer": self.first_layer, "keep": self.keep}
        return [name for name, value in given.items() if value not in (None, "auto")]

    @property
    def of_sampling(self) -> list[str]:
        """All options given that a closed form does not know; the device is of no consequence for it."""
        where = {"engine": self.engine, "workers": self.workers, "chunk": self.chunk, "vmapped": self.vmapped}
        given = [name for name, value in where.items() if value is not None]
        return [name for name in self.asks_for_sampling if name != "keep"] + given


def points_per_member(probe: Probe, probes: int | None, *, large: bool = False) -> int:
    """Points of each member; probes: the number that was asked for. large: points of large inputs cost most."""
    if probes is not None:
        return probes
    if large:
        return LARGE_POINTS
    return SAMPLES_PER_MEMBER if isinstance(probe, Data) else POINTS_PER_MEMBER
