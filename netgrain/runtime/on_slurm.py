"""Units as jobs of a SLURM cluster, through submitit. Extra [slurm].

Jobs and this process meet in a folder that all of them see. submitit pickles the work into it, so the folder is
private to the user; answers come back as checked safetensors files.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netgrain.runtime.answers import Answer, answer, failure, outcome_of
from netgrain.runtime.backlog import Backlog
from netgrain.runtime.engine_kinds import EngineKind, not_negative, positive, text
from netgrain.runtime.errors import NetgrainError, install
from netgrain.runtime.threads import one_thread_for_good
from netgrain.runtime.units import Outcome, Unit, Work
from netgrain.runtime.versions import versions

JOBS_PER_WORKER = 4  # a job takes several units; more jobs than workers even out units that take longer
LOOK_EVERY = {"slurm": 2.0, "local": 0.1}  # seconds


@dataclass(frozen=True)
class Slurm:
    """An engine that runs units in jobs of a SLURM cluster; extra ``[slurm]``.

    Each job takes several units. Units that a failed, preempted or timed-out job did not finish are submitted again.

    Parameters
    ----------
    workers : int, default 8
        Number of jobs at a time.
    minutes : int, default 60
        Time limit of a job.
    memory : str, default "4GB"
        Memory of a job.
    partition : str, optional
        Partition of a job; by default that of the cluster.
    gpus : float, default 0.0
        Number of GPUs of a job.
    folder : str, default ".netgrain-jobs"
        A folder that all nodes share; created if missing.
    cluster : {"slurm", "local"}, default "slurm"
        ``"local"`` runs the jobs on this machine, to try it out.
    name : str, default "slurm"
        Name of the engine.
    """

    workers: int = 8
    minutes: int = 60
    memory: str = "4GB"
    partition: str | None = None
    gpus: float = 0.0
    folder: str = ".netgrain-jobs"
    cluster: str = "slurm"
    name: str = "slurm"

    @property
    def parallel(self) -> int:
        """Number of jobs at a time."""
        return self.workers

    def run(self, work: Work, units: Sequence[Unit], ahead: int | None = None) -> Iterator[tuple[Unit, Outcome]]:
        """Run units, and yield each one once with its outcome.

        Parameters
        ----------
        work : callable
            Takes the configuration of a unit and returns its `Outcome`.
        units : sequence of Unit
            The units.
        ahead : int, optional
            See `Engine.run`.

        Yields
        ------
        tuple of Unit and Outcome
            As they are finished.
        """
        if not units:
            return
        room = self._room()
        try:
            yield from self._through(room, work, units, Backlog(len(units), ahead=ahead))
        finally:
            shutil.rmtree(room, ignore_errors=True)

    def _through(
        self, room: Path, work: Work, units: Sequence[Unit], backlog: Backlog
    ) -> Iterator[tuple[Unit, Outcome]]:
        executor = self._executor(room)
        share = max(1, -(-len(units) // (self.workers * JOBS_PER_WORKER)))
        jobs: list[tuple[Any, list[int]]] = []  # with the units that it has still to answer, in its order
        try:
            while not backlog.finished:
                while len(jobs) < self.workers:
                    indices = [i for _ in range(share) if (i := backlog.take()) is not None]
                    if not indices:
                        break
                    configs = {i: dict(units[i].config) for i in indices}
                    jobs.append((executor.submit(_job, work, configs, str(room), versions()), indices))
                for job, left in list(jobs):
                    ended = job.done()  # asked first: an answer may be written while we look
                    for i in list(left):
                        if (found := _arrived(room / f"{i}.safetensors")) is not None:
                            left.remove(i)
                            if backlog.done(i):
                                yield units[i], outcome_of(found)
                    if ended or not left:
                        jobs.remove((job, left))
                        if left:  # it was busy with the first of them, and had not begun the others
                            backlog.lost(left[0], f"its job ended as {job.state}", "more minutes or memory for a job")
                        for i in left[1:]:
                            backlog.again(i)
                if not backlog.finished:
                    time.sleep(LOOK_EVERY[self.cluster])
        finally:
            for job, _ in jobs:
                job.cancel(check=False)

    def _executor(self, room: Path) -> Any:
        import submitit

        executor = submitit.AutoExecutor(folder=room / "log", cluster=self.cluster)
        executor.update_parameters(
            name="netgrain", timeout_min=int(self.minutes), cpus_per_task=1, gpus_per_node=int(self.gpus)
        )
        if self.cluster == "slurm":
            executor.update_parameters(slurm_mem=self.memory)
            if self.partition is not None:
                executor.update_parameters(slurm_partition=self.partition)
        return executor

    def _room(self) -> Path:
        """A private folder for this run, where SLURM and submitit are."""
        if self.cluster not in LOOK_EVERY:
            raise NetgrainError(f"cluster expects slurm, or local to try it out; found '{self.cluster}'.")
        if importlib.util.find_spec("submitit") is None:
            raise NetgrainError(f"engine 'slurm' needs an extra; type: {install('slurm')}.")
        if self.cluster == "slurm" and shutil.which("sbatch") is None:
            raise NetgrainError(
                "engine 'slurm' needs SLURM's sbatch, which is not on this machine; run it on a login node, "
                "or try it out with slurm:cluster=local."
            )
        try:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(prefix="run-", dir=self.folder)).absolute()  # mode 0700
        except OSError as e:
            raise NetgrainError(
                f"cannot write to {self.folder} ({e.strerror}); choose another with slurm:folder=DIR."
            ) from e


SLURM = EngineKind(
    name="slurm",
    make=Slurm,
    options={
        "minutes": positive,
        "memory": text,
        "partition": text,
        "gpus": not_negative,
        "folder": text,
        "cluster": text,
    },
    elsewhere=True,
    start_up=60.0,
    package="submitit",
    extra="slurm",
)


def _job(work: Work, configs: dict[int, dict[str, Any]], room: str, expected: dict[str, str]) -> None:
    """The units of one job, each answered by a file as soon as it is finished."""
    import torch

    from netgrain.runtime.packed import write_packed

    one_thread_for_good()
    for i, config in configs.items():
        if (found := versions()) == expected:
            facts, tensors = answer(work, config)
        else:
            facts, tensors = failure(f"the job's node has {found}, this process {expected}; install the same on both.")
        content = torch.frombuffer(bytearray(tensors or b"\0"), dtype=torch.uint8)
        write_packed(Path(room) / f"{i}.safetensors", "answer", json.loads(facts), {"tensors": content})


def _arrived(file: Path) -> Answer | None:
    from netgrain.runtime.packed import read_packed

    if not file.exists():
        return None
    facts, arrays = read_packed(file, "answer")
    file.unlink()
    return json.dumps(facts).encode(), arrays["tensors"].numpy().tobytes()
