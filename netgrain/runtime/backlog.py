"""Which units are waiting, out and done: what is lost or late goes out again, and the first answer counts."""

from __future__ import annotations

import time
from collections.abc import Callable

from netgrain.runtime.errors import NetgrainError

ATTEMPTS = 5  # times that a unit is lost before it is given up
SHORT = "fewer workers (most likely memory is short)"  # what helps against most reasons


class UnitLost(NetgrainError):
    """A unit of work was begun several times and never answered."""


class UnitLate(UnitLost):
    """A unit of work did not answer within its deadline, each time longer, and was given up."""


class Backlog:
    """The indices 0 to count − 1 on their way through an engine.

    ahead: see Engine.run. deadline: seconds after which a unit that has not come back is sent again; each time it has
    twice as long, so that a deadline that is too short delays but does not prevent the end.
    """

    def __init__(
        self,
        count: int,
        *,
        ahead: int | None = None,
        deadline: float | None = None,
        attempts: int = ATTEMPTS,
        clock: Callable[[], float] = time.monotonic,  # never the time of day, which jumps
    ) -> None:
        self.count, self.ahead, self.deadline, self.attempts, self.clock = count, ahead, deadline, attempts, clock
        self._next = 0
        self._again: list[int] = []
        self._open: set[int] = set()  # sent or to be sent again
        self._sent: dict[int, float] = {}  # index → when it was sent last
        self._begun: dict[int, float] = {}  # index → when it was sent first
        self._tries: dict[int, int] = {}
        self._losses: dict[int, int] = {}
        self.slowest = 0.0  # seconds from the first sending to the answer, of those that came back

    @property
    def finished(self) -> bool:
        return self._next == self.count and not self._open

    def take(self) -> int | None:
        """The next index to send, if there is one that may be begun."""
        if self._again:
            i = self._again.pop(0)
        elif self._next < self.count and (
            self.ahead is None or self._next - min(self._open, default=self._next) < self.ahead
        ):
            i = self._next
            self._next += 1
            self._open.add(i)
        else:
            return None
        self._sent[i] = self.clock()
        self._begun.setdefault(i, self._sent[i])
        self._tries[i] = self._tries.get(i, 0) + 1
        return i

    def done(self, i: int) -> bool:
        """It came back; False if it already had, and this is the answer to a second sending."""
        if i not in self._open:
            return False
        self._open.remove(i)
        self._sent.pop(i, None)
        self.slowest = max(self.slowest, self.clock() - self._begun.pop(i))
        if i in self._again:
            self._again.remove(i)
        return True

    def overdue(self, i: int) -> None:
        """It gave no answer within its deadline, and will not."""
        self.lost(i, "no answer within the deadline", "a longer deadline", UnitLate)

    def lost(self, i: int, why: str, remedy: str = SHORT, kind: type[UnitLost] = UnitLost) -> None:
        """It will not come back: send it again, or give up with a sentence that says what to try."""
        if i not in self._open or i in self._again:
            return
        self._losses[i] = self._losses.get(i, 0) + 1
        if self._losses[i] >= self.attempts:
            raise kind(
                f"a unit of work was lost {self._losses[i]} times ({why}); try {remedy}, or a smaller piece of work."
            )
        self.again(i)

    def again(self, i: int) -> None:
        """Send it once more, which is no loss: it may still be answered, or was never begun."""
        self._sent.pop(i, None)
        self._again.append(i)

    def late(self) -> list[int]:
        """Indices that are out for longer than they may be."""
        if self.deadline is None:
            return []
        now = self.clock()
        return [i for i in self._sent if now > self._due(i)]

    def patience(self) -> float | None:
        """Seconds until the first one can be late."""
        if self.deadline is None or not self._sent:
            return None
        return max(0.0, min(map(self._due, self._sent)) - self.clock())

    def _due(self, i: int) -> float:
        assert self.deadline is not None
        return self._sent[i] + self.deadline * float(2 ** (self._tries[i] - 1))
