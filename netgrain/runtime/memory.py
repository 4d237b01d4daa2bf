"""How much memory is free, what a network takes of it, and how it is said that none is left."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Bytes that a new process may use: what the machine has left, or less where a container or a job is limited."""
    free = told_by_the_system("meminfo", "MemAvailable")
    return min([all_memory() if free is None else free, *_left_by_limits()])


def most_used() -> int | None:
    """The most memory this process had at a time since it was forked; None where the system does not say."""
    return told_by_the_system("self/status", "VmHWM")


def told_by_the_system(file: str, name: str) -> int | None:
    """Bytes in a line of a file below /proc; None where there is none."""
    try:
        lines = (PROC / file).read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])
    except (OSError, StopIteration):
        return None


def all_memory() -> int:
    """Bytes of the machine; endless where the system does not say, so that nothing is refused there."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):
        return sys.maxsize


def _left_by_limits() -> Iterator[int]:
    """What each control group (version 2) that this process is in has left; files it only caches count as free."""
    try:
        lines = (PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for own in (line[len("0::/") :] for line in lines if line.startswith("0::/")):
        group = CGROUPS / own
        for folder in (group, *group.parents[: len(Path(own).parts)]):
            try:
                limit = int((folder / "memory.max").read_text())  # the word "max" where there is none
                used = int((folder / "memory.current").read_text())
                cached = re.search(r"^inactive_file (\d+)$", (folder / "memory.stat").read_text(), re.MULTILINE)
            except (OSError, ValueError):
                continue
            yield max(0, limit - used + (int(cached[1]) if cached else 0))


def weights_in_bytes(make: Callable[[], nn.Module]) -> int:
    """What the weights of a network would take; none of them is made."""
    import torch

    with torch.device("meta"):
        network = make()
    return sum(t.numel() * t.element_size() for t in (*network.parameters(), *network.buffers()))


def shortage(e: BaseException) -> str | None:
    """What to say of an error that means that memory ran out; None of any other.

    >>> shortage(RuntimeError("a shape is wrong")) is None
    True
    """
    import torch

    text = str(e)
    known = "DefaultCPUAllocator" in text and ("allocate memory" in text or "not enough memory" in text)
    if not (known or isinstance(e, MemoryError | torch.OutOfMemoryError)):
        return None
    asked = re.search(r"tried to allocate (\d+) bytes", text)
    how = f" ({in_words(int(asked[1]))} were asked for at once)" if asked else ""
    return f"memory ran out{how}; try a smaller input or network, fewer samples, or fewer workers."


def in_words(count: float) -> str:
    """
    >>> in_words(900), in_words(3.2e6), in_words(41e9)
    ('0.9 kB', '3.2 MB', '41 GB')
    """
    unit, scale = next(((u, x) for u, x in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if count >= x), ("kB", 1e3))
    return f"{count / scale:.2g} {unit}" if count < 100 * scale else f"{count / scale:.0f} {unit}"
