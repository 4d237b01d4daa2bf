"""The table of engines, and an engine by the name that a person types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netgrain.runtime.engine_in_use import current, is_inside_unit
from netgrain.runtime.engine_kinds import EngineKind
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.local import LOCAL, Local
from netgrain.runtime.on_ray import RAY
from netgrain.runtime.on_slurm import SLURM
from netgrain.runtime.processes import PROCESSES, Processes
from netgrain.runtime.units import Engine

if TYPE_CHECKING:
    import torch

ENGINES: dict[str, EngineKind] = {kind.name: kind for kind in (LOCAL, PROCESSES, RAY, SLURM)}


def engine(text: str = "processes", workers: int | None = None, address: str | None = None) -> Engine:
    """An engine by its name, as `--engine` takes it.

    Parameters
    ----------
    text : str, default "processes"
        ``"local"``, ``"processes"``, ``"ray"`` or ``"slurm"``, with options after a colon:
        ``"processes:deadline=600"``, ``"ray:gpus=1"``.
    workers : int, optional
        Number of units (pieces of work) to run at once; by default as many as the engine has room for.
    address : str, optional
        Address of a running Ray cluster, such as ``"10.0.0.1:6379"``.

    Returns
    -------
    Engine
        Ready to be passed to any function with an `engine` parameter, or to `using`.

    Raises
    ------
    NetgrainError
        If the engine or one of its options is not known, or an option has no valid value.

    See Also
    --------
    using : Make an engine the default for a block of code.

    Examples
    --------
    >>> engine("processes:deadline=60", workers=2)
    Processes(workers=2, deadline=60.0, attempts=5, name='processes')
    """
    name, _, written = text.partition(":")
    kind = ENGINES[known_name("engine", name, ENGINES)]
    if workers is not None and workers < 1:
        raise NetgrainError(f"expected at least one worker, found {workers}.")
    options: dict[str, Any] = _options(kind, written)
    if address is not None:
        if "address" not in kind.options:
            owners = " and ".join(other.name for other in ENGINES.values() if "address" in other.options)
            raise NetgrainError(f"--address belongs to the engine {owners}; '{name}' has none: leave it out.")
        options["address"] = address
    if workers is not None and not kind.one_worker:
        options["workers"] = workers
    elif workers not in (None, 1):
        raise NetgrainError(f"engine '{name}' has one worker, {workers} were asked for; use processes.")
    return kind.make(**options)


def engine_for(asked: Engine | str | None, workers: int | None, device: torch.device | None = None) -> Engine | None:
    """The engine for some work: the one that is asked for, else that of `using`; None leaves it to the caller.

    workers alone means processes of this machine. Inside a unit everything stays where it is.
    """
    if workers is not None and workers < 1:
        raise NetgrainError(f"expected at least one worker, found {workers}.")
    if isinstance(asked, str):
        return engine(asked, workers)
    if asked is not None:
        if workers is not None:
            raise NetgrainError(f"workers={workers} belongs to the engine that was given; set it there.")
        return asked
    if is_inside_unit():
        return Local()
    if workers is not None:
        return Local() if workers == 1 else Processes(workers)
    if (default := current()) is not None:
        return default
    if device is not None and device.type != "cpu":
        return Local()
    return None


def engine_names() -> str:
    """The engines as a sentence lists them, each with the extra that it needs.

    >>> engine_names()
    'local, processes, ray (extra [distributed]) or slurm (extra [slurm])'
    """
    *first, last = (k.name if k.extra is None else f"{k.name} (extra [{k.extra}])" for k in ENGINES.values())
    return f"{', '.join(first)} or {last}"


def is_elsewhere(engine: Engine) -> bool:
    """Whether its units run on other machines, whose memory and disks we do not know."""
    return engine.name in ENGINES and ENGINES[engine.name].elsewhere


def _options(kind: EngineKind, written: str) -> dict[str, Any]:
    """Options as a person writes them: key=value, separated by commas."""
    options = {}
    for part in filter(None, (p.strip() for p in written.split(","))):
        key, _, value = part.partition("=")
        if key not in kind.options or not value:
            takes = f"it takes {', '.join(kind.options)}" if kind.options else "it takes none"
            raise NetgrainError(f"engine '{kind.name}' has no option '{part}'; {takes}, each as key=value.")
        options[key] = kind.options[key](key, value)
    return options
