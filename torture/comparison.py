"""Is a run that was disturbed the same as one that was left alone?"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from torture.parts import Findings


def compare(found: Findings, quiet: Path, disturbed: Path) -> None:
    """Two runs of the same: the same files with the same bytes, nothing else, and the same numbers at the end."""
    name = disturbed.name
    if not found.check(Path(f"{disturbed}.json").exists(), f"{name}: the run did not come to its end"):
        return
    ours, theirs = ({p.name: p.read_bytes() for p in (f / "units").iterdir()} for f in (disturbed, quiet))
    lost, strange = theirs.keys() - ours.keys(), ours.keys() - theirs.keys()
    found.count("units", len(theirs))
    found.count("units lost", len(lost))
    found.check(not lost, f"{name}: {len(lost)} units are missing")
    found.check(not strange, f"{name}: left behind: {sorted(strange)[:3]}")
    changed = [n for n in ours.keys() & theirs.keys() if ours[n] != theirs[n]]
    found.check(not changed, f"{name}: {len(changed)} units have other bytes")
    beside = sorted(p.name for p in disturbed.iterdir())
    found.check(beside == sorted(p.name for p in quiet.iterdir()), f"{name}: the folder has {beside}")
    _compare_seconds(found, disturbed, {n.removesuffix(".safetensors") for n in theirs})
    result, expected = (json.loads(Path(f"{f}.json").read_text()) for f in (disturbed, quiet))
    found.count("outcomes that came twice", result["twice"])
    found.check(result["twice"] == 0, f"{name}: {result['twice']} outcomes came twice")
    found.check(result["digest"] == expected["digest"], f"{name}: the final numbers differ")


def _compare_seconds(found: Findings, run: Path, units: set[str]) -> None:
    """A line for every time that a unit was computed and kept: one, for each."""
    times = Counter(line.partition(",")[0] for line in (run / "seconds.csv").read_text().splitlines())
    again = sum(n - 1 for n in times.values())
    found.count("units counted twice", again)
    found.check(again == 0, f"{run.name}: {again} finished units were computed again")
    found.check(times.keys() <= units, f"{run.name}: seconds.csv has {sorted(times.keys() - units)[:3]}")
    # a driver that is killed between a unit's file and its line leaves the line out
    found.count("units without a time", len(units - times.keys()))
