"""Files of a finished run are damaged in every way: it is noticed, said in one line, and the numbers stay the same.

Bits flipped, files cut short, emptied, swapped, taken from another run, replaced by a folder or by a link to nowhere; a
run.json and a seconds.csv that were cut.
"""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

import netgrain as ng
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.local import Local
from netgrain.runtime.packed import read_packed
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from torture.parts import Findings
from torture.system import scratch

SECONDS = 180
MEMBERS, CHUNK = 12, 2
FLIPS, CUTS, OTHERS = 400, 60, 10  # mutations


def run(found: Findings) -> None:
    rng = random.Random(0)
    with scratch() as folder:
        Damage(found, rng, folder).everything()


def tiny(gain: float) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(12, 6), torch.nn.LeakyReLU(gain), torch.nn.Linear(6, 1))


def geometry(folder: Path, gain: float = 0.1) -> tuple[bytes, int, list[str]]:
    """The bits of the matrix, how many units were computed, and what was said."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        config = {"gain": gain}
        with RunFolder.create(folder, experiment="files", scale="torture", config=config, resume=True) as kept:
            runner = Runner(kept, Local())
            G = ng.average_geometry(
                partial(tiny, gain), (12,), probe=ng.Gaussian(1.0), members=MEMBERS, chunk=CHUNK, engine=runner
            )
    assert all(issubclass(w.category, GrainWarning) for w in said)
    return G.matrix().numpy().tobytes(), runner.computed, [str(w.message) for w in said]


class Damage:
    """A finished run that is damaged and mended many times over."""

    def __init__(self, found: Findings, rng: random.Random, folder: Path) -> None:
        self.found, self.rng = found, rng
        self.run, self.other = folder / "run", folder / "other"
        self.matrix, self.units, _ = geometry(self.run)
        geometry(self.other, gain=0.2)
        self.sound = {p: p.read_bytes() for p in sorted((self.run / "units").iterdir())}

    def everything(self) -> None:
        for _ in range(FLIPS):
            self.one("single bits flipped", self.flip)
        for _ in range(CUTS):
            self.one("files cut short", self.cut)
        for _ in range(OTHERS):
            self.one("files emptied", lambda p: p.write_bytes(b""))
            self.one("files of another unit", self.swap)
            self.one("files of another run", self.foreign)
            self.one("links to nowhere", self.dangle)
            self.one("files replaced by a folder", self.folder)
            self.one("files made longer", lambda p: p.write_bytes(self.sound[p] + self.rng.randbytes(7)))
            self.about()
            self.seconds()

    # --- one unit -------------------------------------------------------------------------------------------------

    def one(self, kind: str, spoil: Callable[[Path], object]) -> None:
        """Spoil a unit: it is computed again after one line, or refused in a sentence, and everything is as before."""
        path = self.rng.choice(list(self.sound))
        spoil(path)
        self.found.count(kind)
        spoiled = not self.unharmed(path)
        self.found.count("damage that changed nothing that is read", not spoiled)
        try:
            matrix, computed, said = geometry(self.run)
        except NetgrainError as e:
            self.found.count("refused")
            self.found.check("\n" not in str(e) and path.is_dir(), f"{kind}: refused without need: {e}")
            shutil.rmtree(path)
            matrix, computed, said = geometry(self.run)
            self.found.check(computed == 1, f"{kind}: {computed} units were computed after the folder was taken away")
        else:
            self.found.count("computed again", computed)
            self.found.check(computed == spoiled, f"{kind}: not noticed in {path.name}")
            quiet = kind == "links to nowhere"  # nothing was there, and nothing needs to be said
            self.found.check(len(said) == (spoiled and not quiet), f"{kind}: said {said}")
            self.found.check(all("\n" not in s for s in said), f"{kind}: more than a line: {said}")
        self.found.check(matrix == self.matrix, f"{kind}: the matrix changed")
        if spoiled:
            self.found.check(path.read_bytes() == self.sound[path], f"{kind}: {path.name} has other bytes now")
        path.write_bytes(self.sound[path])

    def unharmed(self, path: Path) -> bool:
        """The content that is read is the one that was written, bit for bit: as 1e-05 and 1E-05 are one number."""
        if not path.is_file() or len(path.read_bytes()) != len(self.sound[path]):
            return False
        found = path.read_bytes()
        if sum((a ^ b).bit_count() for a, b in zip(found, self.sound[path], strict=True)) != 1:
            return False
        try:
            header, tensors = read_packed(path, "unit")
        except NetgrainError:
            return False
        path.write_bytes(self.sound[path])
        expected, originals = read_packed(path, "unit")
        path.write_bytes(found)
        return header == expected and all(torch.equal(tensors[k], originals[k]) for k in originals)

    def flip(self, path: Path) -> None:
        content = bytearray(self.sound[path])
        content[self.rng.randrange(len(content))] ^= 1 << self.rng.randrange(8)
        path.write_bytes(content)

    def cut(self, path: Path) -> None:
        path.write_bytes(self.sound[path][: self.rng.randrange(len(self.sound[path]))])

    def swap(self, path: Path) -> None:
        path.write_bytes(self.sound[self.rng.choice([p for p in self.sound if p != path])])

    def foreign(self, path: Path) -> None:
        # equal members of another network of this kind: the name is the same, the content is not
        path.write_bytes((self.other / "units" / path.name).read_bytes())

    def dangle(self, path: Path) -> None:
        path.unlink()
        path.symlink_to(path.parent / "nowhere")

    def folder(self, path: Path) -> None:
        path.unlink()
        path.mkdir()

    # --- the files beside the units -------------------------------------------------------------------------------

    def about(self) -> None:
        """A run.json that was cut is refused, and nothing is touched."""
        with self._kept(self.run / "run.json") as content:
            (self.run / "run.json").write_bytes(content[: self.rng.randrange(1, len(content) - 1)])
            self.found.count("run.json cut short")
            try:
                geometry(self.run)
            except NetgrainError as e:
                self.found.count("refused")
                self.found.check("\n" not in str(e), f"run.json: more than a line: {e}")
            else:
                self.found.lost.append("a run.json that was cut short was not noticed")

    def seconds(self) -> None:
        """A seconds.csv that was cut in a line loses that line's time and no other."""
        csv, unit = self.run / "seconds.csv", self.rng.choice(list(self.sound))
        with self._kept(csv) as content:
            lines = content.splitlines(keepends=True)[: self.units]
            csv.write_bytes(b"".join(lines[:-1]) + lines[-1][: self.rng.randrange(1, len(lines[-1]))])
            unit.unlink()
            matrix, computed, _ = geometry(self.run)
            self.found.count("seconds.csv cut short")
            self.found.check((matrix, computed) == (self.matrix, 1), "seconds.csv: the numbers changed")
            named = [line.partition(",")[0] for line in csv.read_text().splitlines()]
            expected = {line.partition(b",")[0].decode() for line in lines[:-1]} | {unit.stem}
            self.found.check(expected <= set(named), "seconds.csv: the time of a whole line was lost")

    @contextmanager
    def _kept(self, path: Path) -> Iterator[bytes]:
        content = path.read_bytes()
        try:
            yield content
        finally:
            path.write_bytes(content)
