"""Units as jobs of SLURM, in the local mode of submitit."""

import importlib.util
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import netgrain as ng
from netgrain.runtime import on_slurm
from netgrain.runtime.local import Local
from netgrain.runtime.on_slurm import Slurm
from netgrain.runtime.units import Outcome, in_order
from tests.runtime.tried import needs_slurm, noise, quiet, units_of


@needs_slurm
@quiet
def test_slurm_in_its_local_mode(tmp_path: Path) -> None:
    def dies_once(unit: Mapping[str, Any]) -> Outcome:
        mark = tmp_path / "died"
        if unit["n"] == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return noise(unit)

    units = units_of(3)
    via = Slurm(2, folder=str(tmp_path / "jobs"), cluster="local")
    found = [o.arrays["a"] for o in in_order(via.run(dies_once, units), units)]
    expected = [o.arrays["a"] for _, o in Local().run(noise, units)]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert (tmp_path / "died").exists()
    assert list((tmp_path / "jobs").iterdir()) == []


class _TooShort:
    """An executor whose jobs have time for so many units."""

    units = 2

    def submit(self, job: Any, work: Any, configs: dict[int, Any], *rest: Any) -> Any:
        job(work, {i: configs[i] for i in list(configs)[: self.units]}, *rest)
        return SimpleNamespace(state="TIMEOUT", done=lambda: True, cancel=lambda check: None)


@needs_slurm
def test_jobs_of_slurm_that_end_too_early_come_to_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty units to a job, of which it does two: the others were not lost, they were never begun."""
    monkeypatch.setattr(Slurm, "_executor", lambda self, room: _TooShort())
    monkeypatch.setitem(on_slurm.LOOK_EVERY, "local", 0.0)
    monkeypatch.setattr(on_slurm, "one_thread_for_good", lambda: None)
    via = Slurm(1, folder=str(tmp_path), cluster="local")
    found = via.run(lambda unit: Outcome({"n": unit["n"]}), units_of(80))
    assert [o.numbers["n"] for _, o in found] == list(range(80))
    monkeypatch.setattr(_TooShort, "units", 0)
    with pytest.raises(ng.NetgrainError, match=r"5 times \(its job ended as TIMEOUT\); try more minutes or memory"):
        list(via.run(noise, units_of(3)))


def test_slurm_without_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "there")
    with pytest.raises(ng.NetgrainError, match=r"needs SLURM's sbatch"):
        list(Slurm(1).run(noise, units_of(1)))
    with pytest.raises(ng.NetgrainError, match=r"cluster expects slurm, or local"):
        list(Slurm(1, cluster="moon").run(noise, units_of(1)))
