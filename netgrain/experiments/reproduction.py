"""Every experiment in one folder, then every claim in one list; a run that was killed goes on where it stopped.

run.json                which experiments, at which scale, by which version
NAME/                   the run folder of one experiment
wall.csv                how long each took on the clock
reproduction.json, reproduction.md   the scorecard, made from the folders
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netgrain.experiments import registry as experiments
from netgrain.experiments.claims import Claim
from netgrain.experiments.registry import run_experiment
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import append_line
from netgrain.runtime.run_folder import FolderError, RunFolder
from netgrain.runtime.units import Engine

# Processor time at laptop scale on the machine of docs/reproduction.md: it only weighs the time left.
EXPECTED = {
    "fig1": 175.0, "fig2": 167.0, "fig3": 115.0, "fig4": 760.0, "fig5": 337.0, "fig6": 208.0, "fig7": 48.0, "fig8":
    196.0, "fig9": 61.0, "fig10": 986.0, "fig11": 168.0, "fig12": 113.0, "fig13": 99.0, "fig14": 240.0, "tab1":
    117.0, "tab2": 114.0, "eq-ccq200": 35.0, "eq-d8-columns": 49.0, "eq-d8-gaussians": 59.0, "eq-depth": 43.0,
    "eq-digits": 42.0, "eq-grain": 44.0, "eq-mnist": 52.0, "eq-ordering": 45.0, "eq-relu": 38.0, "eq-spherical":
    33.0, "eq-storage": 28.0, "eq-strips": 55.0, "eq-uncertainty": 3.0, "gc-batch-size": 39.0, "gc-depth": 90.0,
    "gc-double-descent": 1.0, "gc-explicit": 54.0, "gc-flatness": 94.0, "gc-init": 17.0, "gc-input-noise": 27.0,
    "gc-l2": 41.0, "gc-label-corruption": 28.0, "gc-label-noise": 28.0, "gc-learning-rate": 64.0, "gc-regression":
    87.0, "gc-spectral": 41.0,
}  # fmt: skip
TYPICAL = 45.0
GROUPS = {"geometry": ("fig", "tab"), "complexity": ("gc-",), "equivariant": ("eq-",)}


@dataclass(frozen=True, eq=False)
class Part:
    """One experiment of a reproduction."""

    name: str
    title: str
    claims: list[Claim]
    core_seconds: float
    problem: str = ""  # why it could not be run


@dataclass(frozen=True, eq=False)
class Reproduction:
    folder: Path
    scale: str
    parts: list[Part]
    wall: float  # seconds on the clock, over all sessions
    about: dict[str, Any]  # versions and hardware
    date: str

    @property
    def claims(self) -> list[tuple[str, Claim]]:
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
                "claim": c.name,
                "statement": c.statement,
                "paper": c.paper,
                "ours": found["value"],
                "stderr": found["stderr"],
                "n": c.n,
                "verdict": c.verdict,
                "note": c.note,
                "needs": c.needs,
                "seconds": round(part.core_seconds, 1),
            }
            for part in self.parts
            for c in part.claims
            for found in (c.as_dict(),)
        ]


def chosen(only: Sequence[str] | None) -> list[str]:
    """The experiments of a reproduction: all of them (summaries left out), or these names and groups.

    >>> chosen(["fig9", "equivariant"])[:2]
    ['fig9', 'eq-ccq200']
    """
    everything = [n for n in experiments.names() if not n.endswith("-all")]
    ours = [n for n in everything if n.startswith(GROUPS["geometry"])]
    ordered = ours + [n for n in everything if n not in ours]
    if not only:
        return ordered
    asked: set[str] = set()
    for word in only:
        if word in GROUPS:
            asked |= {n for n in ordered if n.startswith(GROUPS[word])}
        else:
            experiments.find(word)
            asked.add(word.replace("_", "-"))
    return [n for n in ordered if n in asked] + sorted(asked - set(ordered))


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
    """Run the experiments into a folder (or finish what is there) and collect their claims.

    An experiment that cannot be run here (no data) is reported as such, and the others go on.
    """
    names = chosen(only)
    for name in names:
        experiments.preset(name, scale)  # a wrong scale is refused before a folder is made
    config = {"experiments": names}
    with RunFolder.create(out, experiment="reproduction", scale=scale, config=config, resume=resume) as folder:
        parts: list[Part] = []
        clock = Clock(names)
        for name in names:
            say(clock.line(name))
            begin = time.monotonic()
            part = _part(name, scale, folder.path / name, engine, progress)
            parts.append(part)
            clock.done(name)
            append_line(folder.path / "wall.csv", f"{name},{time.monotonic() - begin:.2f}")
            say(_verdicts(part))
        return Reproduction(folder.path, scale, parts, _wall(folder.path), folder.about, f"{datetime.date.today()}")


def _part(name: str, scale: str, out: Path, engine: Engine | None, progress: bool | None) -> Part:
    title = experiments.title(name)
    try:
        finished = run_experiment(
            name, scale, out, engine=engine, resume=(out / "run.json").exists(), progress=progress
        )
    except FolderError:
        raise
    except NetgrainError as e:
        return Part(name, title, [], 0.0, str(e))
    return Part(name, title, finished.claims, RunFolder.open(out).core_seconds())


class Clock:
    """Time left, from the share of the expected work that is done."""

    def __init__(self, names: Sequence[str], now: Callable[[], float] = time.monotonic) -> None:
        self.names, self.now, self.start = list(names), now, now()
        self.finished: list[str] = []

    def done(self, name: str) -> None:
        self.finished.append(name)

    def line(self, name: str) -> str:
        place = f"{name} ({len(self.finished) + 1} of {len(self.names)})"
        passed, share = self.now() - self.start, self._work(self.finished) / self._work(self.names)
        if not self.finished:
            return place
        left = passed * (1 - share) / share
        return f"{place}, {passed / 60:.1f} min so far, about {left / 60:.1f} min left"

    @staticmethod
    def _work(names: Sequence[str]) -> float:
        return sum(EXPECTED.get(n, TYPICAL) for n in names)


def _verdicts(part: Part) -> str:
    if part.problem:
        return f"  not run: {part.problem}"
    count = {v: sum(c.verdict == v for c in part.claims) for v in ("holds", "undecided", "fails")}
    return "  " + ", ".join(f"{n} {v}" for v, n in count.items() if n)


def _wall(path: Path) -> float:
    total = 0.0
    for line in (path / "wall.csv").read_text().splitlines():
        with suppress(ValueError):  # a line that a kill cut short
            total += float(line.partition(",")[2])
    return total
