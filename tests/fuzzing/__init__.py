"""What a user may hand to netgrain, spoiled in every way: inputs, targets, and the rules they must keep.

    fuzz(TARGETS["npz"], inputs=1000, seed=0)      a Tally of accepted, refused and failed inputs
    guided("npz", inputs=1000)                     the same target guided by coverage, with atheris

An input is accepted, or refused with one sentence; anything else is a failure: another exception, a second line, an
undocumented exit code, more than SECONDS, more than MEMORY, a file that was changed or left behind. Mutated valid files
get deeper than random bytes, so every format starts from a file that the package itself accepts.

Rules are in rules.py, mutations in spoiling.py, targets in the other files. Random numbers come from a random.Random,
so the same generators serve a seed, Hypothesis and atheris.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzzing import commands, files, own_files, words
from tests.fuzzing.rules import Failure, Tally, Target, attempt, fuzz

__all__ = ["TARGETS", "Failure", "Tally", "Target", "attempt", "fuzz", "guided"]

TARGETS: dict[str, Target] = {
    target.name: target for part in (files, own_files, words, commands) for target in part.TARGETS
}


def guided(name: str, inputs: int, seed: int = 1) -> Tally | None:
    """The target under atheris, which takes its process over: therefore in a child. None where atheris is not here."""
    if importlib.util.find_spec("atheris") is None:
        return None
    tally, start = Tally(name), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:  # libFuzzer writes what it finds there
        options = [f"-runs={inputs}", f"-seed={seed}", "-max_len=512", "-len_control=0", f"-artifact_prefix={folder}/"]
        options += ["-handle_alrm=0", "-verbosity=1"]  # the alarm is ours
        command = [sys.executable, "-m", "tests.fuzzing", name, *options]
        done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    tally.seconds = time.perf_counter() - start
    counted = re.search(r"Done (\d+) runs", done.stderr)
    tally.inputs = int(counted[1]) if counted else 0
    if done.returncode or not counted:
        tally.failures.append(f"{name}, guided, seed {seed}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
        tally.failed = 1
    return tally
