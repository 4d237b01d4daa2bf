"""Forked processes: what dies or hangs is replaced, and nothing is left behind."""

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import netgrain as ng
from netgrain.runtime.processes import Processes
from netgrain.runtime.units import Outcome
from tests.runtime.tried import units_of


def test_a_unit_that_always_kills_its_worker_is_given_up() -> None:
    def dies(unit: Mapping[str, Any]) -> Outcome:
        os.kill(os.getpid(), signal.SIGKILL)
        return Outcome()

    with pytest.raises(ng.NetgrainError, match=r"lost 5 times \(its process ended by SIGKILL\); try fewer workers"):
        list(Processes(2).run(dies, units_of(2)))


def test_a_worker_that_hangs_in_the_middle_of_its_answer(tmp_path: Path) -> None:
    """A large answer does not fit into a pipe: its reader must not wait for the second half for ever."""

    def stops_once(unit: Mapping[str, Any]) -> Outcome:
        mark = tmp_path / "stopped"
        if unit["n"] == 1 and not mark.exists():
            mark.touch()
            threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGSTOP)).start()
            time.sleep(0.3)  # the other unit comes first
        return Outcome({"n": unit["n"]}, {"large": torch.zeros(1_000_000)})

    found = Processes(2, deadline=2.0).run(stops_once, units_of(2))
    _, first = next(found)
    time.sleep(1.2)  # meanwhile the other one has begun to answer, and was stopped
    assert sorted([first.numbers["n"], *(o.numbers["n"] for _, o in found)]) == [0, 1]
    assert (tmp_path / "stopped").exists()


def test_workers_end_with_the_reader() -> None:
    def pid(unit: Mapping[str, Any]) -> Outcome:
        return Outcome({"pid": os.getpid()})

    found = Processes(2).run(pid, units_of(4))
    _, first = next(found)
    found.close()
    with pytest.raises(ProcessLookupError):
        os.kill(first.numbers["pid"], 0)
