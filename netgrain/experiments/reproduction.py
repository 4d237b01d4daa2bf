"""Every experiment in one folder, then every claim in one list; a run that was killed goes on where it stopped.

run.json                which experiments, at which scale, by which version
NAME/                   the run folder of one experiment
wall.csv                how long each took on the clock
reproduction.json, reproduction.md   the scorecard, made from the folders
heuristics.png          all sweeps of geometric complexity side by side, if there are any
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netgrain.experiments import registry as experiments
from netgrain.experiments.claims import Claim, counted
from netgrain.experiments.registry import run_experiment
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import append_line, write_whole
from netgrain.runtime.run_folder import FolderError, RunFolder
from netgrain.runtime.units import Engine

FIRST = "geometry"  # the study that is run first
COLUMNS = {"name": "claim", "value": "ours"}  # of reproduction.json, where they are not called as in a claim


@dataclass(frozen=True, eq=False)
class Part:
    """One experiment of a reproduction.

    Attributes
    ----------
    name : str
        Name of the experiment.
    study : str
        The study it belongs to.
    title : str
        What it shows, in one line.
    claims : list of Claim
        What came out; empty if it could not be run.
    core_seconds : float
        Processor time of its units.
    problem : str
        Why it could not be run; empty if it was.
    panels : list
        What the picture of the whole study shows of it.
    """

    name: str
    study: str
    title: str
    claims: list[Claim]
    core_seconds: float
    problem: str = ""
    panels: list[Any] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Every claim of the experiments that were run into one folder.

    Attributes
    ----------
    folder : Path
        Where the run folders of the experiments are.
    scale : str
        The scale of all of them.
    parts : list of Part
        One for each experiment.
    wall : float
        Seconds on the clock, over all sessions.
    about : dict
        Versions and hardware.
    date : str
        The day on which it was finished.
    """

    folder: Path
    scale: str
    parts: list[Part]
    wall: float
    about: dict[str, Any]
    date: str

    @property
    def claims(self) -> list[tuple[str, Claim]]:
        """Name of the experiment and claim, for all claims."""
        return [(part.name, c) for part in self.parts for c in part.claims]

    @property
    def skipped(self) -> list[Part]:
        """Experiments that could not be run here, such as those whose data are missing."""
        return [part for part in self.parts if part.problem]

    def as_list(self) -> list[dict[str, Any]]:
        """One entry per claim, for reproduction.json."""
        return [
            {
                "experiment": part.name,
                **{COLUMNS.get(k, k): v for k, v in c.as_dict().items() if k not in ("low", "high")},
                "seconds": round(part.core_seconds, 1),
            }
            for part in self.parts
            for c in part.claims
        ]


def chosen(only: Sequence[str] | None) -> list[str]:
    """The experiments of a reproduction: all that follow a paper, or these names and studies.

    >>> chosen(["fig9", "equivariant"])[:2]
    ['fig9', 'eq-ccq200']
    """
    every = experiments.everything()
    names = experiments.names()
    ours = [n for n in names if every[n].study == FIRST]
    ordered = ours + [n for n in names if n not in ours]
    if not only:
        own = experiments.own_studies()
        return [n for n in ordered if every[n].study not in own]
    asked: set[str] = set()
    for word in only:
        if word in experiments.studies():
            asked |= {n for n in ordered if every[n].study == word}
        else:
            asked.add(experiments.find(word).name)
    return [n for n in ordered if n in asked]


def reproduce(
    scale: str,
    out: str | Path,
    *,
    only: Sequence[str] | None = None,
    engine: Engine | None = None,
    resume: bool = False,
    progress: bool | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Reproduction:
    """Run experiments into one folder and collect their claims.

    An experiment that cannot be run, for example because its data are missing, is reported, and the others still run.

    Parameters
    ----------
    scale : {"smoke", "laptop", "paper", "overnight"}
        The scale of all experiments; ``"overnight"`` only for studies of our own.
    out : str or Path
        The folder; each experiment gets a run folder inside.
    only : sequence of str, optional
        Names of experiments, or the studies ``"geometry"``, ``"complexity"``, ``"equivariant"`` and
        ``"learnability"``; by default all that follow a paper.
    engine : Engine, optional
        Where units are computed; by default in this process.
    resume : bool, default False
        Finish the reproduction in the folder.
    progress : bool, optional
        Show progress bars; by default on a terminal, after two seconds.
    say : callable, optional
        Called with a line before and after each experiment.

    Returns
    -------
    Reproduction
        The claims of all experiments, with times and versions.

    Raises
    ------
    NetgrainError
        If a name or the scale is not known, or if the folder holds another reproduction.

    See Also
    --------
    run_experiment : Run one experiment.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = reproduce("smoke", f"{folder}/all", only=["gc-double-descent"], progress=False)
    >>> [part.name for part in found.parts], len(found.claims) > 0
    (['gc-double-descent'], True)
    """
    names = chosen(only)
    for name in names:
        experiments.preset(name, scale)  # a wrong scale is refused before a folder is made
    config = {"experiments": names}
    with RunFolder.create(out, experiment="reproduction", scale=scale, config=config, resume=resume) as folder:
        parts: list[Part] = []
        clock = Clock({name: experiments.find(name).cost for name in names})
        for name in names:
            say(clock.line(name))
            begin = time.monotonic()
            part = _part(name, scale, folder.path / name, engine, progress)
            parts.append(part)
            clock.done(name)
            append_line(folder.path / "wall.csv", f"{name},{time.monotonic() - begin:.2f}")
            say(_verdicts(part))
        _draw_overview(folder.path, parts)
        return Reproduction(folder.path, scale, parts, _wall(folder.path), folder.about, f"{datetime.date.today()}")


def _part(name: str, scale: str, out: Path, engine: Engine | None, progress: bool | None) -> Part:
    experiment = experiments.find(name)
    about = (name, experiment.study, experiment.title)
    try:
        finished = run_experiment(
            name, scale, out, engine=engine, resume=(out / "run.json").exists(), progress=progress
        )
    except FolderError:
        raise
    except NetgrainError as e:
        return Part(*about, [], 0.0, str(e))
    return Part(*about, finished.claims, RunFolder.open(out).core_seconds(), panels=finished.panels)


def _draw_overview(folder: Path, parts: Sequence[Part]) -> None:
    panels = [panel for part in parts for panel in part.panels]
    if panels:
        from netgrain.experiments.heuristics.drawing import overview
        from netgrain.geometry.plots import png

        write_whole(folder / "heuristics.png", png(overview(panels)))


class Clock:
    """Time left, from the share of the expected work that is done."""

    def __init__(self, costs: Mapping[str, float], now: Callable[[], float] = time.monotonic) -> None:
        self.costs, self.now, self.start = costs, now, now()
        self.finished: list[str] = []

    def done(self, name: str) -> None:
        self.finished.append(name)

    def line(self, name: str) -> str:
        place = f"{name} ({len(self.finished) + 1} of {len(self.costs)})"
        if not self.finished:
            return place
        passed = self.now() - self.start
        share = sum(self.costs[name] for name in self.finished) / sum(self.costs.values())
        left = passed * (1 - share) / share
        return f"{place}, {passed / 60:.1f} min so far, about {left / 60:.1f} min left"


def _verdicts(part: Part) -> str:
    if part.problem:
        return f"  not run: {part.problem}"
    return "  " + ", ".join(f"{n} {verdict}" for verdict, n in counted(part.claims).items() if n)


def _wall(path: Path) -> float:
    total = 0.0
    for line in (path / "wall.csv").read_text().splitlines():
        with suppress(ValueError):  # a line that a kill cut short
            total += float(line.partition(",")[2])
    return total
