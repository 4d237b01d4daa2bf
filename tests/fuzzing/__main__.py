"""One target under atheris: python -m tests.fuzzing NAME -runs=N; `tests.fuzzing.guided` starts this."""

from __future__ import annotations

import random
import sys
from contextlib import suppress

from tests.fuzzing import TARGETS
from tests.fuzzing.rules import Failure, Random, attempt


class FromBytes(random.Random):
    """Random numbers that are read off a string of bytes: what a guided fuzzer changes, changes the input."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        super().__init__()

    def getrandbits(self, k: int, /) -> int:
        count = (k + 7) // 8
        found = self.data[self.at : self.at + count]
        self.at += count
        return int.from_bytes(found, "little") & ((1 << k) - 1)

    def random(self) -> float:
        return self.getrandbits(16) / 2**16

    def randbytes(self, n: int) -> bytes:
        return self.getrandbits(8 * n).to_bytes(n, "little") if n else b""


def main() -> None:
    import atheris

    name, *options = sys.argv[1:]
    target = TARGETS[name]

    def one(data: bytes) -> None:
        attempt(target, target.draw(FromBytes(data)))

    # what the target imports is instrumented, and it imports when it is used
    with atheris.instrument_imports(include=["netgrain"]):
        for seed in range(20):
            with suppress(Failure):  # found again below; and atheris says on stderr what it instruments
                attempt(target, target.draw(Random(seed)))
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
