"""Memory: what is free, what weights take, and a sentence instead of a traceback when none is left."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from netgrain.cli import doctor
from netgrain.cli.app import app
from netgrain.models import load_model
from netgrain.models.specs import BUILTIN_NAMES
from netgrain.runtime import memory
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import (
    MemoryShortage,
    all_memory,
    ask,
    budget,
    checked_memory,
    free_memory,
    in_words,
    shortage,
    weights_in_bytes,
    within,
)
from netgrain.runtime.processes import Processes
from netgrain.runtime.units import Outcome, Unit

GB = 10**9


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str = "") -> Path:
    """40 GB free, and a control group of that name."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 99999999 kB\nMemFree: 5 kB\nMemAvailable: 40000000 kB\n")
    (tmp_path / "proc/self/cgroup").write_text(f"4:memory:/elsewhere\n0::/{group}\n")
    (tmp_path / "groups" / group).mkdir(parents=True)
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "groups")
    return tmp_path / "groups"


def _limit(folder: Path, most: object, used: int, cached: int) -> None:
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 12\nfile 99\ninactive_file {cached}\nactive_file 7\n")


def test_free_is_what_the_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(tmp_path, monkeypatch)
    assert free_memory() == 40_000_000 * 1024


def test_less_is_free_where_a_job_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = _machine(tmp_path, monkeypatch, "slurm/job7/step0")
    _limit(groups / "slurm/job7/step0", "max", 3 * GB, 0)
    assert free_memory() == 40_000_000 * 1024
    _limit(groups / "slurm/job7", 8 * GB, 3 * GB, GB)  # of a folder above, as SLURM does
    assert free_memory() == 6 * GB
    _limit(groups / "slurm/job7/step0", 2 * GB, 3 * GB, 0)
    assert free_memory() == 0
    _limit(tmp_path, 1, 1, 0)  # no group: above all of them
    _limit(groups / "slurm/job7/step0", "max", 3 * GB, 0)
    assert free_memory() == 6 * GB


def test_free_memory_of_this_machine() -> None:
    assert GB / 4 < free_memory() < all_memory() < 10**15


def test_nothing_is_refused_where_the_system_does_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PROC", tmp_path)
    assert free_memory() == all_memory()
    monkeypatch.delattr(os, "sysconf")  # as on Windows
    assert free_memory() == sys.maxsize
    assert {c.name: c.found for c in doctor.examine()}["memory"] == "unknown on this system"


@pytest.mark.parametrize("name", BUILTIN_NAMES)
def test_weights_are_counted_without_making_them(name: str) -> None:
    family = load_model(name, channels=3, image_size=32)
    before = torch.get_rng_state()
    counted = weights_in_bytes(family)
    assert torch.equal(torch.get_rng_state(), before)
    assert counted == sum(t.nbytes for t in family().state_dict().values())


def test_the_shortage_of_torch_is_recognised() -> None:
    with pytest.raises(RuntimeError) as e:
        torch.empty(10**17, dtype=torch.uint8)
    assert str(shortage(e.value)).startswith("memory ran out (100000 TB were asked for at once); try a smaller")
    assert str(shortage(MemoryError())).startswith("memory ran out; try a smaller")
    assert str(shortage(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))).startswith("memory ran")
    assert shortage(RuntimeError("you tried to allocate 5 bytes")) is None
    assert in_words(3e12) == "3 TB"


def test_weights_that_do_not_fit_are_refused_before_they_are_made() -> None:
    refused = invoke("geometry", "mlp:width=1000000", "--input", "3x32x32")
    assert refused.exit_code == 2
    assert "the weights of 'mlp:width=1000000' take 40001 TB for this input" in refused.stderr
    assert "choose a smaller width, depth or input." in refused.stderr


GREEDY = """
import torch
from torch import nn

class Greedy(nn.Linear):
    def __init__(self):
        super().__init__(4, 1)

    def forward(self, x):
        return super().forward(x) + torch.empty(10**17, dtype=torch.uint8)

class Fat(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("all", torch.empty(10**17, dtype=torch.uint8))

built = []

class Later(nn.Linear):
    def __init__(self):
        super().__init__(4, 1)
        built.append(self)
        if len(built) > 2:
            torch.empty(10**17, dtype=torch.uint8)
"""


@pytest.mark.parametrize("name", ["Greedy", "Fat", "Later"])
def test_no_memory_left_is_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "greedy.py").write_text(GREEDY)
    monkeypatch.chdir(tmp_path)
    failed = invoke("geometry", f"greedy.py:{name}", "--input", "4", "--members", "8", "--method", "sampled")
    assert failed.exit_code == 2, failed.stderr
    (line,) = failed.stderr.strip().splitlines()
    assert "memory ran out (100000 TB were asked for at once" in line
    assert line.startswith("error: 'greedy.py:Fat' could not be built: memory" if name == "Fat" else "error: memory")


def test_a_worker_without_memory_says_so() -> None:
    def greedy(unit: Mapping[str, Any]) -> Outcome:
        return Outcome({}, {"all": torch.empty(10**17, dtype=torch.uint8)})

    with pytest.raises(NetgrainError, match=r"^memory ran out \(100000 TB were asked for at once"):
        list(Processes(1).run(greedy, [Unit({})]))


def test_a_budget_holds_inside_its_block_only() -> None:
    assert budget() == 4 * GB
    with within("2 GB"):
        assert budget() == 2 * GB
        with within(None):
            assert budget() == 2 * GB
        with pytest.raises(NetgrainError), within(10**8):
            ask(2 * 10**8, "a matrix")
        assert budget() == 2 * GB
    assert budget() == 4 * GB


def test_what_does_not_fit_the_budget_is_a_shortage_with_the_way_out() -> None:
    with within("4 GB"):
        ask(1, "a number")
        with pytest.raises(MemoryShortage, match=r"^a matrix would take 20 GB of memory, and the budget is 4 GB; pass"):
            ask(20 * GB, "a matrix")
        with pytest.raises(MemoryShortage) as e:
            ask(20_141_047_808, "a matrix")
    asked = str(e.value).split("memory='")[1].split("'")[0]
    with within(asked):  # the advice is enough, roundings included
        assert budget() > 20_141_047_808
    assert shortage(e.value) is None  # nothing ran out: it was counted


def test_what_is_not_free_is_an_error_and_no_shortage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(tmp_path, monkeypatch)  # 41 GB
    with within("80 GB"):
        ask(40 * GB, "a matrix")
        with pytest.raises(NetgrainError, match=r"a matrix takes 50 GB of memory and 41 GB are free") as e:
            ask(50 * GB, "a matrix")
    assert not isinstance(e.value, MemoryShortage)


@pytest.mark.parametrize(
    ("memory", "size"),
    [("4 GB", 4 * GB), ("4g", 4 * GB), ("0.5gb", GB // 2), ("1 GiB", 2**30), ("3000000", 3 * 10**6), (2**30, 2**30)],
)
def test_sizes_as_people_write_them(memory: Any, size: int) -> None:
    assert checked_memory(memory) == size


@pytest.mark.parametrize("memory", ["", "GB", "-4 GB", "4 XB", "1 kB", 0, -5, True, 2.5, None])
def test_what_is_no_size_is_refused(memory: Any) -> None:
    with pytest.raises(NetgrainError, match="memory expects"):
        checked_memory(memory)


def test_the_command_refuses_a_bad_size_early() -> None:
    refused = invoke("geometry", "lenet", "--input", "1x32x32", "--memory", "much")
    assert refused.exit_code == 2
    assert "memory expects bytes or a text such as '4 GB', found 'much'" in refused.stderr
