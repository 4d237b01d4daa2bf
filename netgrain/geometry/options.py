"""The options of the front doors, checked in one place."""

from __future__ import annotations

from netgrain.families.probes import Data, Probe
from netgrain.runtime.arguments import found, number, switch, whole
from netgrain.runtime.errors import NetgrainError

POINTS_PER_MEMBER = 8  # Gaussian points per member: beyond this, more members help more than more points
SAMPLES_PER_MEMBER = 16  # samples per member, for the same reason


def check_counts(
    members: int | None, tolerance: float | None, probes: int | None, first_layer: str, seed: int = 0
) -> tuple[int | None, int]:
    """Refuse numbers that are none; members and seed as plain numbers."""
    if members is not None and tolerance is not None:
        raise NetgrainError("expected members= or tolerance=, found both; keep one.")
    if members is not None and (members := whole("members", members)) < 1:
        raise NetgrainError(f"expected at least one member, found {members}.")
    if tolerance is not None and not 0 < number("tolerance", tolerance) < 1:
        raise NetgrainError(f"expected a tolerance between 0 and 1 (0.01 asks for Corr 0.99), found {tolerance}.")
    if probes is not None and whole("probes", probes) < 1:
        raise NetgrainError(f"expected at least one probe point per member, found {probes}.")
    if first_layer not in ("auto", "never", "always"):
        raise NetgrainError(f"first_layer expects 'auto', 'never' or 'always', found {found(first_layer)}.")
    return members, whole("seed", seed)


def check_places(engine: object, workers: object, chunk: object, vmapped: object, progress: object) -> None:
    """Refuse what is no engine, no number of workers, no switch."""
    if engine is not None and not isinstance(engine, str) and not hasattr(engine, "run"):
        raise NetgrainError(f"engine expects a name such as 'processes', or an engine, found {found(engine)}.")
    if workers is not None:
        whole("workers", workers)  # how many it may be, engines say
    if chunk is not None:
        whole("chunk", chunk, 1)
    switch("vmapped", vmapped)
    switch("progress", progress)


def points_per_member(probe: Probe, probes: int | None) -> int:
    if probes is not None:
        return probes
    return SAMPLES_PER_MEMBER if isinstance(probe, Data) else POINTS_PER_MEMBER
