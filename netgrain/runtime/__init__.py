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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
