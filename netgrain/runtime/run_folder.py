"""The run folder: everything an experiment was asked, where it ran, and one file per finished unit.

    run.json          experiment, scale, configuration, versions, hardware
    units/ID.safetensors   numbers and arrays of one finished unit, written whole
    seconds.csv       processor time of every unit
    claims.json, figure.png   made from the units, and made again from them at any time

A run that was killed is resumed where it stopped: only units without a file are computed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import torch

from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.files import append_line, write_whole
from netgrain.runtime.packed import read_packed, write_packed
from netgrain.runtime.units import Outcome, Unit
from netgrain.runtime.versions import versions

LAYOUT = 1
ASKED = ("experiment", "scale", "config", "layout")  # of run.json: what makes it this run and no other


class FolderError(NetgrainError):
    """The folder cannot be used for this run."""


def hardware() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"machine": platform.machine(), "system": platform.system(), "cores": cores, "gpu": gpu}


class RunFolder:
    """A folder that belongs to one run, locked while a process writes to it.

    Create one with `RunFolder.create`, or read one with `RunFolder.open`.

    Parameters
    ----------
    path : Path
        The folder.
    about : dict
        Content of run.json: what was asked, with which versions, on which hardware.
    lock : file or None
        The locked file; None for a folder that is only read.

    See Also
    --------
    netgrain.runtime.Runner : An engine that keeps what it finishes in a run folder.

    Examples
    --------
    The second run reads the two finished units and computes the third.

    >>> import tempfile
    >>> from netgrain.runtime import Outcome, RunFolder, Runner
    >>> def square(config):
    ...     return Outcome({"square": config["n"] ** 2})
    >>> asked = {"experiment": "squares", "scale": "small", "config": {}, "resume": True}
    >>> path = tempfile.mkdtemp()
    >>> with RunFolder.create(path, **asked) as folder:
    ...     _ = Runner(folder).map(square, [{"n": 1}, {"n": 2}])
    >>> with RunFolder.create(path, **asked) as folder:
    ...     runner = Runner(folder)
    ...     [found.numbers["square"] for found in runner.map(square, [{"n": 1}, {"n": 2}, {"n": 3}])]
    [1, 4, 9]
    >>> runner.computed
    1
    """

    def __init__(self, path: Path, about: dict[str, Any], lock: TextIO | None) -> None:
        self.path, self.about, self._lock = path, about, lock
        self._run = hashlib.sha256(_pretty({key: about.get(key) for key in ASKED})).hexdigest()[:16]

    @property
    def writable(self) -> bool:
        """Whether this process may write to the folder."""
        return self._lock is not None

    @classmethod
    def create(
        cls, path: str | Path, *, experiment: str, scale: str, config: Mapping[str, Any], resume: bool
    ) -> RunFolder:
        """Create the folder of a new run, or resume the run that it holds.

        Parameters
        ----------
        path : str or Path
            The folder; created if missing.
        experiment : str
            Name of the computation.
        scale : str
            Its size, in a word.
        config : mapping
            Everything that the results depend on, as JSON values.
        resume : bool
            Whether to continue a run of the same experiment, scale and configuration.

        Returns
        -------
        RunFolder
            Locked until the end of its `with` block.

        Raises
        ------
        NetgrainError
            If the folder belongs to another run, another version of netgrain or another process,
            or holds other files.
        """
        path = Path(path)
        file = path / "run.json"
        asked = {"experiment": experiment, "scale": scale, "config": json.loads(json.dumps(config)), "layout": LAYOUT}
        if path.exists() and not path.is_dir():
            raise FolderError(f"{path} is a file; expected a folder for the run.")
        if path.exists() and not file.exists() and not all(_of_a_run_that_began(p) for p in path.iterdir()):
            raise FolderError(f"{path} is not empty and not a run; choose a new or an empty folder.")
        lock = _locked(path)
        try:
            _tidy(path)
            about = _continued(path, asked, resume) if file.exists() else None
            if about is None:
                about = {**asked, "versions": versions(), "hardware": hardware()}
                write_whole(file, _pretty(about))
        except BaseException:
            lock.close()
            raise
        return cls(path, about, lock)

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Open a run for reading; nothing in it is changed.

        Parameters
        ----------
        path : str or Path
            The folder of a run.

        Returns
        -------
        RunFolder
            Not writable.
        """
        file = Path(path) / "run.json"
        if not file.is_file():
            raise NetgrainError(f"{path} is not a run; expected a folder written by netgrain run.")
        return cls(Path(path), _read_about(file), None)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def unit_file(self, unit: Unit) -> Path:
        """The file of a unit, whether it exists or not.

        Parameters
        ----------
        unit : Unit
            A unit.

        Returns
        -------
        Path
            Its file.
        """
        return self.path / "units" / f"{unit.id}.safetensors"

    def stored(self, unit: Unit) -> Outcome | None:
        """The outcome of a finished unit.

        Parameters
        ----------
        unit : Unit
            A unit.

        Returns
        -------
        Outcome or None
            None if its file is missing or damaged.

        Warns
        -----
        GrainWarning
            If the file is damaged or belongs to another unit or run.
        """
        file = self.unit_file(unit)
        if not file.exists():
            return None
        try:
            header, arrays = read_packed(file, "unit")
        except NetgrainError as e:
            warnings.warn(f"{e} The unit counts as missing.", GrainWarning, stacklevel=2)
            return None
        # files that were written before they named their run are taken at their word
        if not _is_of(unit, header) or header.get("run", self._run) != self._run:
            warnings.warn(
                f"{file} holds another unit, or that of another run; it counts as missing.", GrainWarning, stacklevel=2
            )
            return None
        return Outcome(header["numbers"], arrays)

    def store(self, unit: Unit, outcome: Outcome) -> None:
        """Write the file of a unit, atomically.

        Parameters
        ----------
        unit : Unit
            A unit.
        outcome : Outcome
            Its result.
        """
        header = {"config": dict(unit.config), "numbers": outcome.numbers, "run": self._run}
        write_packed(self.unit_file(unit), "unit", header, outcome.arrays)

    def note_seconds(self, unit: Unit, seconds: float) -> None:
        """Store the processor time of a unit.

        Parameters
        ----------
        unit : Unit
            A unit.
        seconds : float
            Its processor time.
        """
        append_line(self.path / "seconds.csv", f"{unit.id},{seconds:.4f}")

    def core_seconds(self) -> float:
        """Processor time of all finished units in seconds.

        For a unit that was computed again, the last time counts.
        """
        try:
            lines = (self.path / "seconds.csv").read_text().splitlines()
        except (OSError, ValueError):
            return 0.0
        found: dict[str, float] = {}
        for line in lines:
            name, _, value = line.partition(",")
            with suppress(ValueError):  # a line that a kill cut short
                found[name] = float(value)
        return sum(found.values())

    def write_json(self, name: str, content: Any) -> Path:
        """Write a file with JSON values, atomically.

        Parameters
        ----------
        name : str
            Name of the file in the folder.
        content : JSON value
            What to write.

        Returns
        -------
        Path
            The file.
        """
        return write_whole(self.path / name, _pretty(content))


def _is_of(unit: Unit, header: Mapping[str, Any]) -> bool:
    """Is the file that of this unit? A right checksum does not say that everything is there."""
    config, numbers = header.get("config"), header.get("numbers")
    try:
        return isinstance(config, dict) and isinstance(numbers, dict) and Unit(config).id == unit.id
    except ValueError:  # NaN in a configuration
        return False


def _continued(path: Path, asked: dict[str, Any], resume: bool) -> dict[str, Any]:
    """What the folder was made for, when it may be continued."""
    found = _read_about(path / "run.json")
    if not resume:
        raise FolderError(
            f"{path} already holds a run of {found.get('experiment')}; "
            "continue it with --resume or choose another folder."
        )
    for key, value in asked.items():
        if found.get(key) != value:
            raise FolderError(
                f"{path} belongs to another run: its {key} is {_short(found.get(key))}, "
                f"asked for was {_short(value)}; choose another folder."
            )
    made_by = found.get("versions")
    ours, theirs = versions()["netgrain"], made_by.get("netgrain") if isinstance(made_by, dict) else None
    if theirs != ours:
        raise FolderError(
            f"{path} was made by netgrain {theirs}, this is {ours}, and results of two versions are not mixed; "
            "choose another folder."
        )
    return found


def _of_a_run_that_began(path: Path) -> bool:
    """What is there when a run was killed before it had written its run.json."""
    return path.name == ".lock" or (path.name.startswith(".run.json.") and path.suffix == ".tmp")


def _tidy(path: Path) -> None:
    """Take away what a kill in the middle of writing left behind; the caller holds the lock."""
    try:
        for folder in (path, path / "units"):
            for left in folder.glob(".*.tmp"):
                left.unlink()
        if (seconds := path / "seconds.csv").exists() and not seconds.read_bytes().endswith(b"\n"):
            append_line(seconds, "")  # so that the next line is one of its own
    except OSError as e:
        raise FolderError(f"cannot write to {path}: {e.strerror}; choose another folder.") from e


def _read_about(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text()))
    except (ValueError, OSError, TypeError) as e:
        raise FolderError(f"{file} cannot be read ({e}); the folder is damaged, choose another.") from e


def _locked(path: Path) -> TextIO:
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / ".lock").open("a")
    except OSError as e:
        raise FolderError(f"cannot write to {path}: {e.strerror}; choose another folder.") from e
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        lock.close()
        raise FolderError(f"another process is working in {path}; wait for it or choose another folder.") from e
    return lock


def _pretty(content: Any) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
