"""Where independent work runs: here, in processes, on a Ray cluster, on SLURM. One door, the same bits.

A unit is a plain JSON configuration; its result is numbers and tensors. Units are idempotent and independent, so an
engine may run them anywhere, in any order, and again after a failure.

    units.py      Unit, Outcome and the protocol of an engine
    answers.py    what a worker sends back
    backlog.py    what is waiting, out and done; what is lost or late goes out again
    local.py, processes.py, on_ray.py, on_slurm.py   the engines
    choosing.py   an engine by its name; current.py the one in use
    streams.py    members of an ensemble, several to a unit
"""

from netgrain.engine.answers import UnitError
from netgrain.engine.choosing import ENGINES, engine, engine_for
from netgrain.engine.current import current, using
from netgrain.engine.local import Local
from netgrain.engine.on_ray import Ray
from netgrain.engine.on_slurm import Slurm
from netgrain.engine.processes import Processes, most_workers
from netgrain.engine.streams import Stream
from netgrain.engine.units import Engine, Outcome, Unit, Work, fingerprint, in_order, timed

__all__ = [
    "ENGINES",
    "Engine",
    "Local",
    "Outcome",
    "Processes",
    "Ray",
    "Slurm",
    "Stream",
    "Unit",
    "UnitError",
    "Work",
    "current",
    "engine",
    "engine_for",
    "fingerprint",
    "in_order",
    "most_workers",
    "timed",
    "using",
]
