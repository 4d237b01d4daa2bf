"""What a part of the torture finds: what it measured, and what was lost, which should be nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any


class CannotRun(Exception):
    """What a part needs is not on this machine; the text says what."""


class TimeIsOver(Exception):
    """A part took longer than it may."""


@dataclass
class Findings:
    """Facts for the report, and a sentence for everything that was lost."""

    facts: dict[str, Any] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def check(self, holds: bool, sentence: str) -> bool:
        """Note the sentence unless it holds."""
        if not holds:
            self.lost.append(sentence)
        return holds

    def count(self, name: str, by: int = 1) -> None:
        self.facts[name] = self.facts.get(name, 0) + by


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """An alarm that ends what takes longer, so that it can tidy up after itself."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeIsOver(f"not finished after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1.0))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
