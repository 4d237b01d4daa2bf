"""Whatever a user may hand to netgrain, spoiled: the targets of tests/fuzzing, in a process of their own."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from torture.parts import Findings
from torture.system import finished, python

SECONDS = 390
INPUTS = 12_000
GUIDED = ("idx", "npz", "archive", "MODEL", "geometry")  # under atheris, too, where it is installed
GUIDED_INPUTS = 300


def run(found: Findings) -> None:
    """At least 10,000 inputs over all targets; each is accepted, or refused in one sentence."""
    code, out, errors = finished(python("-m", "torture.fuzz", f"--inputs={INPUTS}"), timeout=SECONDS - 10)
    if not found.check(code == 0, f"the fuzzer itself failed: {errors[-300:]}"):
        return
    for tally in (json.loads(line) for line in out.splitlines() if line.startswith("{")):
        if tally["guided"]:  # atheris counts no more than this
            found.count("inputs guided by coverage", tally["inputs"])
            found.count("failed", tally["failed"])
        else:
            for kind in ("inputs", "accepted", "refused", "failed"):
                found.count(kind, tally[kind])
        found.lost += [" ".join(failure.split())[:600] for failure in tally["failures"]]
    found.check(found.facts.get("inputs", 0) >= 10_000, f"only {found.facts.get('inputs', 0)} inputs were tried")


def main() -> None:
    from tests.fuzzing import TARGETS, fuzz, guided

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for target in TARGETS.values():
        tally = fuzz(target, -(-args.inputs // len(TARGETS)), args.seed)
        _tell(tally, by_coverage=False)
    for name in GUIDED:
        if (found := guided(name, GUIDED_INPUTS, args.seed + 1)) is not None:
            _tell(found, by_coverage=True)


def _tell(tally: Any, *, by_coverage: bool) -> None:
    sys.stdout.write(json.dumps({**asdict(tally), "guided": by_coverage}) + "\n")


if __name__ == "__main__":
    main()
