"""An engine by the name that a person types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from netgrain.runtime.engine_in_use import current, inside_a_unit
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.local import Local
from netgrain.runtime.on_ray import Ray
from netgrain.runtime.on_slurm import Slurm
from netgrain.runtime.processes import Processes
from netgrain.runtime.units import Engine

ENGINES: dict[str, Callable[..., Engine]] = {"local": Local, "processes": Processes, "ray": Ray, "slurm": Slurm}


def engine(text: str = "processes", workers: int | None = None, address: str | None = None) -> Engine:
    """An engine by its command-line name, with options after a colon: `processes:deadline=600`, `ray:gpus=1`.

    workers: units at a time. address: of a Ray cluster, as in 10.0.0.1:6379.

    >>> engine("processes:deadline=60", workers=2)
    Processes(workers=2, deadline=60.0, attempts=5, name='processes')
    """
    name, _, rest = text.partition(":")
    known_name("engine", name, ENGINES)
    if workers is not None and workers < 1:
        raise NetgrainError(f"expected at least one worker, found {workers}.")
    known = [p for p in inspect.signature(ENGINES[name]).parameters if p not in ("name", "parallel", "workers")]
    options: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in rest.split(","))):
        key, _, value = part.partition("=")
        if key not in known or not value:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise NetgrainError(f"engine '{name}' has no option '{part}'; {takes}, each as key=value.")
        options[key] = value
    if address is not None:
        if "address" not in known:
            raise NetgrainError(f"--address belongs to the engine ray; '{name}' has none: leave it out.")
        options["address"] = address
    if workers is not None and name != "local":
        options["workers"] = workers
    if name == "local" and workers not in (None, 1):
        raise NetgrainError(f"engine 'local' has one worker, {workers} were asked for; use processes.")
    for key in ("deadline", "gpus", "minutes", "attempts"):
        if key in options:
            options[key] = _number(key, options[key])
    return ENGINES[name](**options)


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
    if inside_a_unit():
        return Local()
    if workers is not None:
        return Local() if workers == 1 else Processes(workers)
    if (default := current()) is not None:
        return default
    if device is not None and device.type != "cpu":
        return Local()
    return None


def _number(key: str, text: Any) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf") and not (key == "gpus" and value == 0):
        raise NetgrainError(f"engine option {key} expects a positive number, found '{text}'.")
    return value
