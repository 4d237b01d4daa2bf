"""How much memory is free, how much a computation may use, and how it is said that there is too little.

The budget decides which way a computation takes: it is given, not measured, so the same call gives the same answer on
every machine. What is free decides only whether it can be taken.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netgrain.runtime.arguments import found, whole
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from torch import nn

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
BUDGET = 4 * 10**9  # bytes, unless asked otherwise
LEAST = 10**6  # bytes of a budget: below this not even small matrices fit
WORTH_LOOKING = 10**8  # bytes from which on it is asked whether they are free
UNITS = {"": 1, "b": 1} | {f"{p}b": 1000**k for k, p in enumerate("kmgt", 1)}
UNITS |= {f"{p}ib": 1024**k for k, p in enumerate("kmgt", 1)} | {p: 1000**k for k, p in enumerate("kmgt", 1)}

_budget: ContextVar[int] = ContextVar("memory budget", default=BUDGET)


class MemoryShortage(NetgrainError):
    """Something was counted before it was made and does not fit the budget.

    Parameters
    ----------
    needed : int
        Bytes that it would take.
    what : str
        What would take them, as the subject of a sentence.
    allowed : int
        Bytes of the budget.
    """

    def __init__(self, needed: int, what: str, allowed: int) -> None:
        self.needed, self.what, self.allowed = needed, what, allowed
        super().__init__(
            f"{self.reason}; pass memory='{in_words(1.1 * needed)}' or more, or use a smaller input or network."
        )

    @property
    def reason(self) -> str:
        """A clause that can follow "because"."""
        return f"{self.what} would take {in_words(self.needed)} of memory, and the budget is {in_words(self.allowed)}"


@contextmanager
def within(memory: int | str | None) -> Iterator[None]:
    """Give everything inside a `with` block this budget; None changes nothing.

    It holds in this process and thread: units of an engine that need it are given it as a number.

    >>> with within("2 GB"):
    ...     budget()
    2000000000
    """
    before = _budget.set(_budget.get() if memory is None else checked_memory(memory))
    try:
        yield
    finally:
        _budget.reset(before)


def budget() -> int:
    """Bytes that a computation may use."""
    return _budget.get()


def ask(needed: int, what: str) -> None:
    """Refuse what does not fit, before it is made; what: the subject of a sentence in the singular.

    More than the budget is a `MemoryShortage`, after which another way may be tried. Less that is not free is an error
    and never changes the way.
    """
    if needed > budget():
        raise MemoryShortage(needed, what, budget())
    if needed > WORTH_LOOKING and needed > (free := free_memory()):
        raise NetgrainError(
            f"{what} takes {in_words(needed)} of memory and {in_words(free)} are free; free some, or pass a smaller "
            "memory= than that."
        )


def checked_memory(memory: Any) -> int:
    """Bytes from a whole number or a text.

    >>> checked_memory("4 GB"), checked_memory("512MiB"), checked_memory(10**9)
    (4000000000, 536870912, 1000000000)
    """
    if isinstance(memory, str):
        written = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-z]*)\s*", memory.lower())
        if written is None or written[2] not in UNITS:
            raise NetgrainError(f"memory expects bytes or a text such as '4 GB', found {found(memory)}.")
        memory = round(float(written[1]) * UNITS[written[2]])
    if whole("memory", memory) < LEAST:
        raise NetgrainError(f"memory expects at least {in_words(LEAST)}, found {memory} bytes.")
    return whole("memory", memory)


def free_memory() -> int:
    """Bytes that a new process may use: what the machine has left, or less where a container or a job is limited."""
    free = told_by_the_system("meminfo", "MemAvailable")
    return min([all_memory() if free is None else free, *_left_by_limits()])


def most_used() -> int | None:
    """The most memory this process had at a time since it was forked or began to watch; None where nobody says."""
    return told_by_the_system("self/status", "VmHWM")


def give_back() -> None:
    """Give pages that malloc keeps for later back to the system; forked processes would inherit them."""
    with suppress(AttributeError, OSError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)


def begin_to_watch() -> None:
    """Let `most_used` count from what is in use now, in a process that was forked to be measured.

    A forked process inherits garbage that is not collected yet and pages that malloc keeps for later. What it computes
    would free the one or use the other, and its own need would be hidden below a mark that was high before.
    """
    gc.collect()
    gc.freeze()  # what is left is not its own to free
    give_back()
    with suppress(OSError):  # a kernel without it: the mark stays at what it was when the process was forked
        (PROC / "self/clear_refs").write_text("5")  # 5: sets VmHWM to VmRSS


def told_by_the_system(file: str, name: str) -> int | None:
    """Bytes in a line of a file below /proc; None where there is none."""
    try:
        lines = (PROC / file).read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])
    except (OSError, StopIteration):
        return None


def all_memory() -> int:
    """Total memory in bytes, or `sys.maxsize` where the system does not report it, so that no job is refused."""
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
