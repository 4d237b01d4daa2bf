"""Ray workers are killed with a unit in hand; the run goes on with new ones and the numbers stay."""

from __future__ import annotations

import importlib.util
import random
import time
from pathlib import Path

from torture.comparison import compare
from torture.kills import SEED, spared
from torture.parts import CannotRun, Findings
from torture.subject import command, read_log
from torture.system import end, finished, scratch, start, strike

SECONDS = 240
KILLS = 12
GAP = 0.5, 2.0  # seconds; Ray needs some to start a new worker
WORK = ("--units=90", "--chunk=60")


def run(found: Findings) -> None:
    if importlib.util.find_spec("ray") is None:
        raise CannotRun("Ray is not installed")
    rng = random.Random(SEED)
    with scratch() as folder:
        quiet, hit = folder / "quiet", folder / "hit"
        code, _, errors = finished(command("geometry", quiet, *WORK))
        if not found.check(code == 0, f"the undisturbed run failed: {errors[-300:]}"):
            return
        struck: list[int] = []
        driver = start(command("geometry", hit, "--engine=ray", *WORK))
        try:
            while len(struck) < KILLS and driver.poll() is None:
                busy = [b.pid for b in read_log(Path(f"{hit}.log"))[1] if b.pid not in struck]
                if (mild := spared(busy, hit, struck)) and strike(pid := rng.choice(mild)):
                    struck.append(pid)
                    time.sleep(rng.uniform(*GAP))
                time.sleep(0.01)
            _, errors = driver.communicate(timeout=150)
        finally:
            end(driver, patience=10)
        at_work = {b.pid for b in read_log(Path(f"{hit}.log"))[1]}
        found.facts |= {"kills of workers": len(struck), "of them at work": sum(p in at_work for p in struck)}
        found.check(len(struck) == KILLS, f"the run was over after {len(struck)} of {KILLS} kills")
        if found.check(driver.returncode == 0, f"the run ended with {driver.returncode}: {errors[-300:]}"):
            compare(found, quiet, hit)
