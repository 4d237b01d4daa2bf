"""Is this installation sound? What it consists of, what the machine offers, and two answers that are known by hand."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from netgrain.cli.output import FAILED, Answer
from netgrain.data.names import SETS
from netgrain.runtime.engines import ENGINES
from netgrain.runtime.errors import NetgrainError, install
from netgrain.runtime.memory import all_memory, free_memory, in_words
from netgrain.runtime.processes import Processes, most_workers
from netgrain.runtime.units import Outcome, Unit, in_order
from netgrain.runtime.versions import __version__

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

EXAMPLES = "  netgrain doctor\n  netgrain doctor --json"

PACKAGES = ("torch", "numpy", "scipy", "matplotlib", "safetensors", "typer", "rich")
FAR = 4.0  # standard errors that a sound result stays within
MEMBERS = 1000  # of the sampled self-check
REPEATS = 3

# optional parts: the package of an extra, and what needs it
EXTRAS = {
    "vision": ("timm", "models named timm:…"),
    "lightning": ("lightning", "the callback for Lightning"),
    "transformers": ("transformers", "the callback for the Trainer of transformers"),
    "tensorboard": ("tensorboard", "logging to TensorBoard"),
    "tables": ("pyarrow", "parquet files and data sets of Hugging Face"),
    **{kind.extra: (kind.package, f"--engine {kind.name}") for kind in ENGINES.values() if kind.extra and kind.package},
}

Status = Literal["info", "ok", "missing", "warning", "fail"]
WORDS: dict[Status, str] = {"info": "", "ok": "ok", "missing": "missing", "warning": "warning", "fail": "FAIL"}


@dataclass(frozen=True)
class Finding:
    """One line of the report; `status` is "info" where there is nothing to judge."""

    name: str
    found: str
    status: Status = "info"
    advice: str = ""


def doctor() -> Answer:
    """Check the installation: versions, the machine, and two results that are known by hand.

    The exit code is 1 if a check fails.
    """
    found = examine()
    sound = all(finding.status != "fail" for finding in found)
    rows = [(f.name, f"{WORDS[f.status]:8}{f.found}" + (f"; {f.advice}" if f.advice else "")) for f in found]
    document = {"ok": sound, "checks": [asdict(finding) for finding in found]}
    return Answer(document, [rows, f"\n{conclusion(found)}"], 0 if sound else FAILED)


def examine() -> list[Finding]:
    """Look at everything; a few seconds. Nothing raises: what goes wrong is a line of the report."""
    return [
        Finding("netgrain", __version__),
        Finding("python", f"{platform.python_version()} on {platform.platform()}"),
        *(_version(name) for name in PACKAGES),
        *(_guarded(name, look) for name, look in LOOKS.items()),
        *(_extra(name) for name in EXTRAS),
        *(_set(name) for name in SETS if name != "cifar2"),  # made from CIFAR-10
    ]


def conclusion(checks: list[Finding]) -> str:
    """One sentence about all checks; what is not there does not work, and is not said to."""
    if any(check.status == "fail" for check in checks):
        return f"Something is wrong: see the lines with {WORDS['fail']}."
    missing = sum(check.status == "missing" for check in checks)
    if not missing:
        return "Everything works."
    return (
        f"What is installed works. {missing} optional part{'s are' if missing > 1 else ' is'} missing: the lines with "
        f"{WORDS['missing']} name the command that brings each."
    )


def _installed(package: str) -> str | None:
    """Its version, if it is there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _version(package: str) -> Finding:
    if version := _installed(package):
        return Finding(package, version)
    return Finding(package, "not installed", "fail", f"install it: pip install {package}")


def _guarded(name: str, look: Callable[[str], Finding]) -> Finding:
    try:
        return look(name)
    except Exception as e:  # a doctor reports a failure of any kind
        return Finding(name, f"{type(e).__name__}: {e}", "fail", "please report this line with the versions above")


# --- what can be added ------------------------------------------------------------------------------------------------


def _extra(extra: str) -> Finding:
    package, use = EXTRAS[extra]
    name = f"extra '{extra}'"
    if version := _installed(package):
        return Finding(name, f"{package} {version}", "ok")
    return Finding(name, f"{package} is not installed, for {use}", "missing", install(extra))


def _set(key: str) -> Finding:
    from netgrain.data.images import place_of
    from netgrain.data.set_files import bringing

    name = f"data '{key}'"
    try:
        return Finding(name, place_of(key), "ok")
    except NetgrainError as e:
        if key == "digits":  # these cannot be downloaded
            return Finding(name, str(e), "missing")
        advice = f"{bringing(key)}, or set NETGRAIN_DATA to the folder that holds it"
        return Finding(name, f"{SETS[key]} was not found", "missing", advice)


# --- the machine ------------------------------------------------------------------------------------------------------


def _cores(name: str) -> Finding:
    import torch

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding(name, f"{usable} usable of {os.cpu_count()}; torch uses {torch.get_num_threads()} threads")


def _memory(name: str) -> Finding:
    free = free_memory()
    found = f"{in_words(free)} free of {in_words(all_memory())}" if free < sys.maxsize else "unknown on this system"
    return Finding(name, found)


def _accelerator(name: str) -> Finding:
    import torch

    if torch.cuda.is_available():
        return Finding(name, f"CUDA: {torch.cuda.get_device_name(0)} (--device cuda)")
    if torch.backends.mps.is_available():
        return Finding(name, "MPS (--device mps)")
    return Finding(name, "none; everything runs on the CPU")


def _square(unit: Mapping[str, Any]) -> Outcome:
    return Outcome({"square": unit["i"] ** 2})


def _workers(name: str) -> Finding:
    count = most_workers()
    if count == 1:
        return Finding(name, "one process only: one core, or a system where forking is not safe")
    units = [Unit({"i": i}) for i in range(4)]
    found = in_order(Processes(count).run(_square, units), units)
    if [o.numbers["square"] for o in found] != [0, 1, 4, 9]:
        return Finding(name, "forked processes give wrong answers", "fail", "use --workers 1 and report this")
    return Finding(name, f"{count} forked processes work", "ok")


def _engines(name: str) -> Finding:
    """Which engines could be used; nothing is started."""
    here = [kind.name for kind in ENGINES.values() if kind.package is None]
    for kind in ENGINES.values():
        if kind.package is not None and (version := _installed(kind.package)):  # else named among the extras
            here.append(f"{kind.name} ({kind.package} {version})")
    return Finding(name, ", ".join(here))


def _folder(name: str) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=Path.cwd()):
            return Finding(name, f"{Path.cwd()} can be written to", "ok")
    except OSError as e:
        advice = "give --out a folder that you may write to"
        return Finding(name, f"cannot write here ({e.strerror})", "warning", advice)


def _speed(name: str) -> Finding:
    import torch

    before = torch.get_num_threads()
    threads = max(before, most_workers())
    matrix = torch.randn(512, 512, generator=torch.Generator().manual_seed(0))
    seconds = {}
    try:
        for count in (1, threads):
            torch.set_num_threads(count)
            seconds[count] = min(_seconds(matrix) for _ in range(REPEATS))
    finally:
        torch.set_num_threads(before)
    found = f"{1000 * seconds[1]:.0f} ms with one thread"
    if threads == 1:
        return Finding(name, found)
    found += f", {1000 * seconds[threads]:.0f} ms with {threads}"
    if seconds[threads] > 1.1 * seconds[1]:
        advice = "several threads are slower than one: the machine is busy, so expect longer times"
        return Finding(name, found, "warning", advice)
    return Finding(name, found, "ok")


def _seconds(matrix: torch.Tensor) -> float:
    started = time.perf_counter()
    for _ in range(20):
        matrix @ matrix
    return time.perf_counter() - started


# --- answers that are known -------------------------------------------------------------------------------------------


def _two_taps() -> nn.Module:
    from torch import nn

    net = nn.Sequential(nn.Conv1d(1, 1, 2, bias=False), nn.AvgPool1d(2), nn.Flatten())
    for weight in net.parameters():
        nn.init.normal_(weight)
    return net


def _known() -> Tensor:
    """G by hand: f(x) = ((w₁x₁ + w₂x₂) + (w₁x₂ + w₂x₃)) / 2 with independent w of variance 1."""
    import torch

    return torch.tensor([[1.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0]], dtype=torch.float64) / 4


def _integrated(name: str) -> Finding:
    """The first layer integrated: the right matrix to rounding, up to the measured variance of the weights."""
    from netgrain.geometry.average import average_geometry
    from netgrain.geometry.provenance import Integration

    known = _known()
    G = average_geometry(_two_taps, (1, 3), members=4, progress=False)
    error = float((G.matrix() / G.trace.value - known / known.trace()).abs().max())
    away = abs(G.trace.value - float(known.trace())) / max(G.trace.stderr, 1e-12)
    found = f"relative error {error:.1e}, trace {away:.1f} standard errors away"
    if not isinstance(G.about.integration, Integration):
        return Finding(name, f"not integrated: {G.about.averaged}", "fail", "report this with the versions above")
    return _verdict(name, found, error < 1e-6 and away < FAR)


def _sampled(name: str) -> Finding:
    """Plain sampling: every entry within a few of its standard errors."""
    import torch

    from netgrain.geometry.average import average_geometry

    G = average_geometry(_two_taps, (1, 3), members=MEMBERS, first_layer="never", progress=False)
    form = G.form
    parts = torch.stack([form.part(i).dense() for i in range(form.parts)])
    errors = parts.std(0) / len(parts) ** 0.5
    away = float(((G.matrix() - _known()).abs() / errors).max())
    return _verdict(name, f"{G.members} members, largest deviation {away:.1f} standard errors", away < FAR)


def _verdict(name: str, found: str, good: bool) -> Finding:
    if good:
        return Finding(name, found, "ok")
    return Finding(name, found, "fail", "results of this installation cannot be trusted; report this with the versions")


LOOKS: dict[str, Callable[[str], Finding]] = {
    "cores": _cores,
    "memory": _memory,
    "accelerator": _accelerator,
    "workers": _workers,  # before anything starts threads
    "engines": _engines,
    "current folder": _folder,
    "speed": _speed,
    "self-check, exact": _integrated,
    "self-check, sampled": _sampled,
}
