"""Members through an engine, in order."""

import time
from pathlib import Path

from netgrain.runtime.processes import Processes
from netgrain.runtime.streams import MemberStream
from netgrain.runtime.units import Outcome


def test_a_reader_in_order_holds_few_outcomes(tmp_path: Path) -> None:
    """The first unit is slow; the others must not pile up while it is awaited."""

    def work(members: range) -> list[Outcome]:
        (tmp_path / f"{members.start}").touch()
        if members.start == 0:
            time.sleep(0.5)
            return [Outcome({"begun": len(list(tmp_path.iterdir()))}) for _ in members]
        return [Outcome() for _ in members]

    found = list(MemberStream(work, Processes(2), 1).map(range(100), 0))
    assert len(found) == 100
    assert found[0].numbers["begun"] <= 17
