"""Whatever a user may hand to netgrain, spoiled: the targets of tests/fuzzing, in a process of their own."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from torture.parts import Findings
from torture.system import finished, python

SECONDS = 300
INPUTS = 12_000


def run(found: Findings) -> None:
    """At least 10,000 inputs over all targets; each is accepted, or refused in one sentence."""
    code, out, errors = finished(python("-m", "torture.fuzz", f"--inputs={INPUTS}"), timeout=SECONDS - 10)
    if not found.check(code == 0, f"the fuzzer itself failed: {errors[-300:]}"):
        return
    for tally in (json.loads(line) for line in out.splitlines() if line.startswith("{")):
        for kind in ("inputs", "accepted", "refused", "failed"):
            found.count(kind, tally[kind])
        found.lost += [" ".join(failure.split())[:600] for failure in tally["failures"]]
    found.check(found.facts.get("inputs", 0) >= 10_000, f"only {found.facts.get('inputs', 0)} inputs were tried")


def main() -> None:
    from tests.fuzzing import TARGETS, fuzz

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for target in TARGETS.values():
        tally = fuzz(target, -(-args.inputs // len(TARGETS)), args.seed)
        sys.stdout.write(json.dumps(asdict(tally)) + "\n")


if __name__ == "__main__":
    main()
