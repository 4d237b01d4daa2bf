"""A smoke run of each experiment, made once for all tests and all test processes."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from netgrain.experiments.registry import run_experiment
from netgrain.geometry import plots

SmokeRun = Callable[[str], Path]


@pytest.fixture(autouse=True)
def small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures at a third of the resolution: the same drawing, a fifth of the time."""
    monkeypatch.setattr(plots, "DPI", 50)


@pytest.fixture(scope="session")
def smoke_run(tmp_path_factory: pytest.TempPathFactory) -> SmokeRun:
    """The folder of a finished smoke run by the name of its experiment; copy it before you change it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    root = shared / "smoke"
    root.mkdir(exist_ok=True)

    def folder_of(name: str) -> Path:
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be at it
            if not (root / name / "figure.png").exists():
                run_experiment(name, "smoke", root / name)
        return root / name

    return folder_of
