"""Random SIGKILLs during training sweeps and sampled geometries, and workers that hang.

Workers are struck at random moments, sometimes the driver itself, which is then started again with what it has kept.
Every unit must be there once, its file must have the bytes of an undisturbed run, and so must the final numbers.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path

from torture.comparison import compare
from torture.parts import Findings
from torture.subject import command, read_log
from torture.system import crew_of, end, finished, scratch, start, state, strike, wait_until

SECONDS = 420
SEED = 20261116
OF_WORKERS, OF_DRIVERS, HANGS = 180, 20, 6
GAP = 0.05, 0.45  # seconds between two kills
ROUNDS = 2  # at least: a sweep and a geometry
HITS = 3  # of one unit: the engine gives it up after five
DRIVER_SHARE = 0.11  # of all kills
WORK = {"sweep": ("--units=240", "--chunk=24"), "geometry": ("--units=160", "--chunk=20")}  # tens of milliseconds each


def run(found: Findings) -> None:
    found.facts |= {"kills of workers": 0, "of them at work": 0, "kills of the driver": 0, "hung workers": 0}
    rng = random.Random(SEED)
    with scratch() as folder:
        for name, work in WORK.items():
            code, _, errors = finished(command(name, folder / name, *work))
            if not found.check(code == 0, f"the undisturbed {name} failed: {errors[-300:]}"):
                return
        rounds = 0
        while found.facts["kills of workers"] < OF_WORKERS or found.facts["kills of the driver"] < OF_DRIVERS:
            name = list(WORK)[rounds % 2]
            disturbed = folder / f"{name}-{rounds}"
            if not _disturb(found, rng, name, disturbed):
                return
            compare(found, folder / name, disturbed)
            rounds += 1
        found.facts["runs"] = rounds
        _hang(found, rng, folder / "hung")
        compare(found, folder / "geometry", folder / "hung")


def _disturb(found: Findings, rng: random.Random, name: str, folder: Path) -> bool:
    """One run under kills until it is finished; False if it ended in another way."""
    struck: list[int] = []
    drivers = 0
    driver = start(command(name, folder, *WORK[name]))
    try:
        while True:
            time.sleep(rng.uniform(*GAP))
            crew = crew_of(driver)
            if not crew or (len(struck) >= OF_WORKERS / ROUNDS and drivers >= OF_DRIVERS / ROUNDS):
                break
            if rng.random() < DRIVER_SHARE:
                driver.kill()
                driver.wait()
                drivers += 1
                gone = wait_until(partial(_gone, *crew), 5)
                found.check(gone, f"workers {crew} outlived their killed driver")
                end(driver)
                driver = start(command(name, folder, *WORK[name]))
            elif (mild := spared(crew, folder, struck)) and strike(pid := rng.choice(mild)):
                struck.append(pid)
        _, errors = driver.communicate(timeout=150)
    finally:
        end(driver)
    at_work = {b.pid for b in read_log(Path(f"{folder}.log"))[1]}
    found.count("kills of workers", len(struck))
    found.count("of them at work", sum(pid in at_work for pid in struck))
    found.count("kills of the driver", drivers)
    return found.check(driver.returncode == 0, f"{folder.name} ended with {driver.returncode}: {errors[-300:]}")


def _gone(*crew: int) -> bool:
    return not any(map(state, crew))


def spared(crew: list[int], folder: Path, struck: list[int]) -> list[int]:
    """Those whose unit was not hit too often already."""
    left = read_log(Path(f"{folder}.log"))[1]
    hits = Counter(b.unit for b in left if b.pid in struck)
    in_hand = {b.pid: b.unit for b in left}
    return [pid for pid in crew if hits[in_hand.get(pid, "")] < HITS]


def _hang(found: Findings, rng: random.Random, folder: Path) -> None:
    """Stopped workers hold their unit without an end; the deadline must notice."""
    driver = start(command("geometry", folder, *WORK["geometry"], "--engine=processes:deadline=2"))
    stopped: list[int] = []
    try:
        while len(stopped) < HANGS and (crew := crew_of(driver)):
            time.sleep(rng.uniform(*GAP))
            if (pid := rng.choice(crew)) not in stopped and strike(pid, signal.SIGSTOP):
                stopped.append(pid)
                # the other one works on; the next is stopped when this one was replaced
                wait_until(partial(_gone, pid), 10)
        _, errors = driver.communicate(timeout=120)
    finally:
        end(driver)
    found.count("hung workers", len(stopped))
    found.check(len(stopped) == HANGS, f"the run was over after {len(stopped)} of {HANGS} hung workers")
    found.check(driver.returncode == 0, f"the run with hung workers ended with {driver.returncode}: {errors[-300:]}")
