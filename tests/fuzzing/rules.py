"""What every input must keep to: accepted, or refused with one sentence, in time, in memory, without traces."""

from __future__ import annotations

import os
import random
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netgrain.runtime.errors import GrainWarning, NetgrainError

SECONDS = 10  # for one input
MEMORY = 3 * 2**29  # bytes above what the process has: an input that needs more is a failure
SHOWN = 5  # failures described in full in a tally

Random = random.Random


class Failure(Exception):
    """An input that was neither accepted nor refused in one sentence; `kind` is the same for the same mistake."""

    def __init__(self, text: str, kind: str | None = None) -> None:
        super().__init__(text)
        self.kind = kind or text


class Reached(Exception):
    """Stands for work that would take long: every argument was read and checked before it."""


class Hang(BaseException):
    """Not an Exception, so that no handler of the package swallows it."""


@dataclass(frozen=True)
class Target:
    """What is drawn, and what is done with it in an empty folder; run returns True for accepted, False for refused."""

    name: str
    draw: Callable[[Random], Any]
    run: Callable[[Any, Path], bool]


@dataclass
class Tally:
    """What became of the inputs."""

    target: str
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)  # one text for each kind, with the input that shows it
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        return not self.failures


def fuzz(target: Target, inputs: int, seed: int = 0) -> Tally:
    """Try this many inputs; the same seed gives the same inputs. Failures with one traceback are told once."""
    tally = Tally(target.name)
    known: set[str] = set()
    start = time.perf_counter()
    for i in range(inputs):
        value = target.draw(Random(f"{seed} {target.name} {i}"))
        tally.inputs += 1
        try:
            accepted = attempt(target, value)
        except Failure as e:
            tally.failed += 1
            if e.kind not in known and len(known) < SHOWN:
                tally.failures.append(f"{target.name}, seed {seed}, input {i}: {shown(value)}\n{e}")
            known.add(e.kind)
            continue
        tally.accepted += accepted
        tally.refused += not accepted
    tally.seconds = time.perf_counter() - start
    return tally


def attempt(target: Target, value: Any) -> bool:
    """Was the input accepted? Raises Failure for everything but a result or a sentence."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        try:
            with _bounded(), warnings.catch_warnings():
                warnings.simplefilter("error")  # a warning of Python, NumPy or torch is not a sentence
                warnings.simplefilter("ignore", GrainWarning)
                return target.run(value, folder)
        except NetgrainError as e:
            check_sentence(str(e))
            return False
        except Failure:
            raise
        except (Exception, Hang) as e:
            frames = [f for f in traceback.extract_tb(e.__traceback__) if "tests/fuzzing" not in f.filename]
            ours = [f for f in frames if "/netgrain/" in f.filename]
            where = "".join(f"  {Path(f.filename).name}:{f.lineno} {f.line}\n" for f in [*ours[-3:], *frames[-1:]])
            kind = f"{type(e).__name__} {[(f.filename, f.lineno) for f in ours[-1:]]}"
            raise Failure(f"{type(e).__name__}: {str(e)[:300]}\n{where}", kind) from e
        finally:
            os.chdir(here)


@contextmanager
def _bounded() -> Iterator[None]:
    """Time and memory for one input; a request for more memory fails at once instead of filling the machine."""

    def ring(number: int, frame: object) -> None:
        raise Hang(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, limits[1]))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def check_sentence(text: str) -> None:
    if not text.strip() or "Traceback" in text:
        raise Failure(f"not a sentence: {text[:300]!r}")


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 600 else f"{text[:400]} … {text[-150:]}"


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Reading changes no file and leaves none behind."""
    before = contents(folder)
    yield_error: BaseException | None = None
    try:
        yield
    except NetgrainError as e:
        yield_error = e
    if (after := contents(folder)) != before:
        changed = sorted({*before, *after} - {k for k in before if before[k] == after.get(k)})
        raise Failure(f"files changed: {changed[:5]}")
    if yield_error is not None:
        raise yield_error


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def each(*calls: Callable[[], object]) -> bool:
    """Every reader sees the input; accepted if one of them accepts it."""
    accepted = False
    for call in calls:
        try:
            call()
            accepted = True
        except NetgrainError as e:
            check_sentence(str(e))
    return accepted
