"""A disk that is full, a folder that is read-only, two runs in one folder: real commands, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.packed import read_packed
from torture.parts import Findings
from torture.system import disk, end, finished, netgrain, scratch, start

SECONDS = 300
EXPERIMENT = "fig9"  # eight units, two megabytes, a few seconds
FULL_AT = (0, 400, 1600, 2100)  # kilobytes
AT_ONCE = 3  # pairs of runs


def run(found: Findings) -> None:
    found.facts |= {"full disks": 0, "read-only folders": 0, "pairs of runs": 0}
    with scratch() as folder:
        quiet = folder / "quiet"
        code, _, errors = finished(_command(quiet))
        if not found.check(code == 0, f"the undisturbed run failed: {errors[-300:]}"):
            return
        for kilobytes in FULL_AT:
            _full(found, kilobytes, quiet)
        _read_only(found, quiet)
        for i in range(AT_ONCE):
            _two_at_once(found, folder / f"both{i}", quiet)


def _command(folder: Path, *options: str) -> list[str]:
    return netgrain("run", EXPERIMENT, "--scale=smoke", "--workers=2", f"--out={folder}", *options)


def _full(found: Findings, kilobytes: int, quiet: Path) -> None:
    """The disk is full after some kilobytes; with more space the run goes on."""
    where = f"a disk of {kilobytes} kB"
    with disk(max(kilobytes, 4)) as small:
        if kilobytes == 0:
            (small.path / "other").write_bytes(b"x" * 4096)
        run = small.path / "run"
        code, _, errors = finished(_command(run))
        found.count("full disks")
        refused(found, where, code, errors)
        kept = units(found, run, where)
        small.resize(16384)
        code, _, errors = finished(_command(run, "--resume"))
        found.check(code == 0, f"{where}: the run could not be resumed with more space: {errors[-300:]}")
        found.count("units kept on full disks", len(kept))
        found.count("units on full disks", len(list((quiet / "units").iterdir())))
        same(found, where, quiet, run)


def _read_only(found: Findings, quiet: Path) -> None:
    with disk(16384) as small:
        small.read_only(True)
        code, _, errors = finished(_command(small.path / "run"))
        refused(found, "a read-only folder", code, errors)
        found.count("read-only folders")
        small.read_only(False)
        code, _, errors = finished(_command(small.path / "run"))
        found.check(code == 0, f"a folder that was read-only: {errors[-300:]}")
        small.read_only(True)
        code, _, errors = finished(_command(small.path / "run", "--resume"))
        refused(found, "a finished run on a read-only disk", code, errors)
        found.count("read-only folders")
        same(found, "a finished run on a read-only disk", quiet, small.path / "run")


def _two_at_once(found: Findings, folder: Path, quiet: Path) -> None:
    both = [start(_command(folder, "--resume")) for _ in range(2)]
    try:
        ends = [(*process.communicate(timeout=120), process.returncode) for process in both]
    finally:
        for process in both:
            end(process)
    found.count("pairs of runs")
    ends.sort(key=lambda e: e[2])
    (_, first_errors, first), (_, errors, second) = ends
    found.check(first == 0, f"two runs at once: neither went on: {first_errors[-200:]}")
    refused(found, "the second of two runs", second, errors)
    found.check("another process is working in" in errors, f"the second of two runs said: {errors[-200:]}")
    same(found, "two runs at once", quiet, folder)


def refused(found: Findings, where: str, code: int, errors: str) -> None:
    """Exit code 2 and one sentence."""
    lines = [line for line in errors.splitlines() if line.strip()]
    found.check(code == 2, f"{where}: expected exit code 2, found {code}: {errors[-200:]}")
    found.check(len(lines) == 1 and lines[0].startswith("error: "), f"{where}: not one sentence: {errors[-300:]}")


def units(found: Findings, run: Path, where: str) -> list[Path]:
    """The units that are there; each must be whole, and nothing half-written lie beside them."""
    there = sorted((run / "units").iterdir()) if (run / "units").exists() else []
    for file in there:
        try:
            found.check(file.suffix == ".safetensors", f"{where}: {file.name} was left behind")
            read_packed(file, "unit")
        except NetgrainError as e:
            found.lost.append(f"{where}: {e}")
    return there


def same(found: Findings, where: str, quiet: Path, run: Path) -> None:
    """The same units, claims and figure, and nothing else."""
    ours, theirs = ({str(p.relative_to(f)): p for p in f.rglob("*") if p.is_file()} for f in (run, quiet))
    found.check(ours.keys() == theirs.keys(), f"{where}: other files: {sorted(ours.keys() ^ theirs.keys())[:4]}")
    for name in ours.keys() & theirs.keys() - {"seconds.csv"}:
        content = [p[name].read_bytes() for p in (ours, theirs)]
        if name == "claims.json":
            content = [json.dumps(_numbers(json.loads(c))).encode() for c in content]
        found.check(content[0] == content[1], f"{where}: {name} differs from that of an undisturbed run")


def _numbers(claims: object) -> object:
    """Claims without the time that they took."""
    if isinstance(claims, list):
        return [_numbers(c) for c in claims]
    if isinstance(claims, dict):
        return {k: _numbers(v) for k, v in claims.items() if "seconds" not in k}
    return claims
