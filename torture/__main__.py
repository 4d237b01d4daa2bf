"""All parts one after the other: a line for each, a table, a report; exit code 1 if anything was lost."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

import netgrain
from netgrain.runtime.files import write_whole
from torture.parts import CannotRun, Findings, TimeIsOver, at_most

# the quick ones first, so that little is lost when the time is over
PARTS = ("files", "clock", "disk", "ray_worker", "ray_host", "kills", "fuzz", "large")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="NAME", help=", ".join(PARTS))
    parser.add_argument("--minutes", type=float, default=20, help="of wall clock in all (default 20)")
    parser.add_argument("--out", type=Path, default=Path("out/torture"))
    args = parser.parse_args()
    # ended from outside, it tidies up as it would by itself
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    end = time.monotonic() + 60 * args.minutes
    rows = []
    for name in args.only:
        row = _part(name, end - time.monotonic())
        rows.append(row)
        say(f"{name:<11} {row['verdict']:<8} {row['seconds']:6.1f} s  {_short(row)}")
        for sentence in row["lost"]:
            say(f"            lost: {sentence}")
        report = {"machine": _machine(), "date": time.strftime("%Y-%m-%d"), "parts": rows}
        write_whole(args.out / "report.json", (json.dumps(report, indent=2) + "\n").encode())
    say("")
    for row in rows:
        say(f"{row['part']:<11} {row['verdict']:<8} {row['seconds']:6.1f} s")
        for key, value in row["facts"].items():
            say(f"    {key}: {value}")
    say(f"\n{sum(r['verdict'] == 'held' for r in rows)} of {len(rows)} parts held; {args.out / 'report.json'}")
    return int(any(r["verdict"] == "LOST" for r in rows))


def _part(name: str, seconds: float) -> dict[str, Any]:
    """A part within its own time and what is left of the whole."""
    begun = time.monotonic()
    reason, found = "", Findings()
    part = importlib.import_module(f"torture.{name}")
    if seconds < 30:
        verdict, reason = "not run", "the time was over"
    else:
        try:
            with at_most(min(seconds, part.SECONDS)):
                part.run(found)
            verdict = "LOST" if found.lost else "held"
        except CannotRun as e:
            verdict, reason = "not run", str(e)
        except Exception as e:
            kind = "" if isinstance(e, TimeIsOver) else f"{type(e).__name__}: "
            verdict = "LOST"
            found.lost.append(f"{kind}{e}")
    taken = round(time.monotonic() - begun, 1)
    return {"part": name, "verdict": verdict, "reason": reason, "seconds": taken, **vars(found)}


def _short(row: dict[str, Any]) -> str:
    return row["reason"] or ", ".join(f"{k} {v}" for k, v in row["facts"].items() if isinstance(v, int))


def _machine() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0))
    versions = {"netgrain": netgrain.__version__, "torch": torch.__version__, "python": platform.python_version()}
    return {"cores": cores, "machine": platform.machine(), "gpu": torch.cuda.is_available(), **versions}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
