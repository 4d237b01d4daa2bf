"""The time of day jumps by days, forwards and back, at every look at it: neither numbers nor deadlines change.

The clock of the machine stays as it is: a small library stands between a process and the clock of the system.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

from torture.comparison import compare
from torture.parts import CannotRun, Findings
from torture.subject import command
from torture.system import ENVIRONMENT, crew_of, end, finished, scratch, start, state, strike, wait_until

SECONDS = 150
DEADLINE = 3.0  # seconds
SLACK = 3.0  # seconds by which a busy machine may be late
WORK = ("--units=120", "--chunk=20")


JUMPING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

static long jump(void) {  /* seconds: between -30 and 30 days */
    static unsigned state = 1;
    state = state * 1103515245u + 12345u;
    return 86400L * ((long)((state >> 16) % 61) - 30);
}

int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, t);
    if (code == 0 && id == CLOCK_REALTIME) t->tv_sec += jump();
    return code;
}

int gettimeofday(struct timeval *t, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t != NULL) *t = now.tv_sec;
    return now.tv_sec;
}
"""


def run(found: Findings) -> None:
    with scratch() as folder:
        jumping = {**ENVIRONMENT, "LD_PRELOAD": str(_library(folder))}
        for name in ("geometry", "sweep"):
            for path, environment in ((folder / name, ENVIRONMENT), (folder / f"{name}-jumping", jumping)):
                code, _, errors = finished(command(name, path, *WORK), env=environment)
                if not found.check(code == 0, f"{path.name} failed: {errors[-300:]}"):
                    return
            _compare(found, folder / name, folder / f"{name}-jumping")
        _hang(found, folder / "hung", jumping)
        _compare(found, folder / "geometry", folder / "hung")


def _library(folder: Path) -> Path:
    """What is loaded before the C library, and answers in its place."""
    if (compiler := shutil.which("cc")) is None:
        raise CannotRun("there is no C compiler")
    source, library = folder / "jumping.c", folder / "jumping.so"
    source.write_text(JUMPING)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, capture_output=True)
    return library


def _compare(found: Findings, quiet: Path, jumping: Path) -> None:
    compare(found, quiet, jumping)
    days = json.loads(Path(f"{jumping}.json").read_text())["days"]
    found.facts["days by which the clock jumps"] = round(days)
    found.check(days > 1, "the clock did not jump, so this shows nothing")


def _hang(found: Findings, folder: Path, environment: dict[str, str]) -> None:
    """A stopped worker is replaced after the deadline, neither at once nor days later."""
    engine = f"--engine=processes:deadline={DEADLINE}"
    driver = start(command("geometry", folder, *WORK, engine), env=environment)
    try:
        crew = crew_of(driver)
        if found.check(bool(crew) and strike(crew[0], signal.SIGSTOP), "the run was over before it could be disturbed"):
            stopped = time.monotonic()
            wait_until(lambda: not state(crew[0]), DEADLINE + SLACK)
            waited = time.monotonic() - stopped
            found.facts["seconds until a hung worker was replaced"] = round(waited, 2)
            # the unit may have been begun a little before the stop
            timely = DEADLINE - 1 < waited < DEADLINE + SLACK
            found.check(timely, f"a deadline of {DEADLINE:g} s took {waited:.1f} s")
        _, errors = driver.communicate(timeout=60)
    finally:
        end(driver)
    found.check(driver.returncode == 0, f"the run with a hung worker failed: {errors[-300:]}")
