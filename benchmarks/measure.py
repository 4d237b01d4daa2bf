"""Time and peak memory of a function, measured in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _high_water() -> int:
    """Largest resident size of this process so far, KiB (ru_maxrss would remember the parent's, too)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def _child(pipe: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    import torch

    import netgrain.geometry.average  # imports are paid for before the clock starts

    assert netgrain.geometry.average.average_geometry
    torch.randn(64, 64) @ torch.randn(64, 64)
    base = _high_water()
    started = time.perf_counter()
    result = function(*arguments)
    seconds = time.perf_counter() - started
    own = _high_water()
    forked = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    # plain pickle: tensors sent the usual way would need this process to stay alive
    pipe.send_bytes(pickle.dumps((result, seconds, (own - base) / 1024, max(own, forked) / 1024)))


def measured(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """result, seconds, extra MiB over the imports, and the largest resident size of any process in MiB."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        result, seconds, extra, peak = pickle.loads(ours.recv_bytes())
    except EOFError:
        raise SystemExit(f"{function.__name__} died") from None
    process.join()
    return {"result": result, "seconds": seconds, "extra_mib": extra, "peak_mib": peak}


def machine() -> dict[str, Any]:
    import torch

    return {
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
    }
