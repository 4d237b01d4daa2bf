"""The runs that are disturbed, each a program of its own that keeps finished units in a folder and can be resumed.

    python -m torture.subject sweep|geometry FOLDER --result FILE --log FILE [--engine processes] [--workers 2] ...

The result file has a digest of the final numbers. In the log every worker says which unit it begins and ends, so that a
reader knows what a kill has hit; it is no part of the run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from netgrain.complexity.sweeping import sweep

import netgrain as ng
from netgrain.models import LeNet
from netgrain.runtime.engines import engine
from netgrain.runtime.files import write_whole
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner, WrappedEngine
from netgrain.runtime.units import Engine, Outcome, Unit, Work, fingerprint
from netgrain.training import Settings
from netgrain.training.regularizers.norms import L2

SIZE = 16


def small_lenet() -> torch.nn.Module:
    return LeNet(channels=1, outputs=2, image_size=SIZE, activation="gelu")


def trained_sweep(via: Engine, units: int, chunk: int) -> str:
    """LeNets under weight decay: one training of chunk steps to a unit."""
    X = torch.randn(64, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0, 0, 0] > 0).long()
    settings = Settings(steps=chunk, batch=16, lr=0.05)
    curve = sweep(small_lenet, X, y, [0.0, 0.001, 0.01], settings, regularizer=L2, seeds=units // 3, engine=via)
    return json.dumps(curve.numbers, sort_keys=True)


def sampled_geometry(via: Engine, units: int, chunk: int) -> str:
    """The average geometry of LeNets, chunk members to a unit; its matrix bit for bit."""
    G = ng.average_geometry(
        small_lenet, (1, SIZE, SIZE), probe=ng.Gaussian(1.0), probes=8, members=units * chunk, engine=via, chunk=chunk
    )
    return G.matrix().numpy().tobytes().hex()


SUBJECTS: dict[str, Callable[[Engine, int, int], str]] = {"sweep": trained_sweep, "geometry": sampled_geometry}


@dataclass
class Noted(WrappedEngine):
    """An engine whose workers note what they begin and end, and that notices an outcome that comes twice."""

    engine: Engine
    log: str
    twice: int = 0

    def run(self, work: Work, units: Sequence[Unit], ahead: int | None = None) -> Iterator[tuple[Unit, Outcome]]:
        seen: set[str] = set()
        for unit, outcome in self.engine.run(partial(_noted, work, self.log), units, ahead):
            self.twice += unit.id in seen
            seen.add(unit.id)
            yield unit, outcome


def _noted(work: Work, log: str, config: Mapping[str, Any]) -> Outcome:
    where = f"{fingerprint(config)} {os.getpid()} {Path('/proc/self/ns/net').readlink()}"
    _append(log, f"begins {where}\n")
    outcome = work(config)
    _append(log, f"ends {where}\n")
    return outcome


def _append(log: str, line: str) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line.encode())  # one write, so that lines of several workers do not mix
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Begun:
    """A unit that a worker has begun; host is its network namespace."""

    unit: str
    pid: int
    host: str


def read_log(log: Path) -> tuple[list[Begun], list[Begun]]:
    """All that were begun, and those of them that were not ended."""
    begun: list[Begun] = []
    left: list[Begun] = []
    for line in log.read_text().splitlines() if log.exists() else ():
        kind, unit, pid, host = line.split()
        this = Begun(unit, int(pid), host)
        if kind == "begins":
            begun.append(this)
            left.append(this)
        else:
            left.remove(this)
    return begun, left


def _wait_for_hosts(address: str, count: int) -> None:
    """Go on when so many hosts are there, each with a worker that is ready."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    limit = time.monotonic() + 60
    while not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError):
            if time.monotonic() > limit:
                raise
            time.sleep(1)
    nodes: list[str] = []
    while len(nodes) < count and time.monotonic() < limit:
        time.sleep(0.2)
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    warm = ray.remote(num_cpus=1)(small_lenet)
    ray.get([warm.options(scheduling_strategy=NodeAffinitySchedulingStrategy(n, soft=False)).remote() for n in nodes])


def command(name: str, folder: Path, *options: object) -> list[str]:
    """The words that start a subject; log and result lie beside its folder."""
    fixed = (f"--log={folder}.log", f"--result={folder}.json")
    return [sys.executable, "-m", "torture.subject", name, str(folder), *fixed, *map(str, options)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--engine", default="processes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--address")
    parser.add_argument("--hosts", type=int, help="of a Ray cluster, to wait for")
    parser.add_argument("--units", type=int, default=150)
    parser.add_argument("--chunk", type=int, default=8)
    args = parser.parse_args()
    about = {"units": args.units, "chunk": args.chunk}
    workers = None if args.engine == "local" else args.workers
    if args.hosts:
        _wait_for_hosts(args.address, args.hosts)
    noted = Noted(engine(args.engine, workers, args.address), args.log)
    with RunFolder.create(args.folder, experiment=args.subject, scale="torture", config=about, resume=True) as folder:
        found = SUBJECTS[args.subject](Runner(folder, noted), args.units, args.chunk)
        result: dict[str, Any] = {"digest": hashlib.sha256(found.encode()).hexdigest(), "twice": noted.twice}
        looks = [time.time() for _ in range(50)]
        result["days"] = (max(looks) - min(looks)) / 86400  # by which the clock jumps
    write_whole(args.result, json.dumps(result).encode())


if __name__ == "__main__":
    main()
