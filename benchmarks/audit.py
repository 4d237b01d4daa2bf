"""How long do `netgrain audit` and the commands around it take, and how much memory, on real sizes?

Every row is one command in a process of its own: seconds by the clock, seconds of the processor with all its workers,
and the resident size of the largest process. A row that was measured is not measured again: remove its file in
out/bench/audit, or name it with --only. CIFAR-10 comes from NETGRAIN_DATA, or its folder is given with --data-dir; 500
of its images, enlarged to 224 × 224, stand for photographs. timm is needed for two rows.

    python benchmarks/audit.py [--only "resnet50, 224"] [--out out/bench]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import machine
from torch.nn.functional import interpolate

from netgrain.data.images import load_split
from netgrain.runtime.errors import NetgrainError

PHOTOS, SIDE = 500, 224
COLOUR = 60  # images of 32 × 32
PLAIN = ("--no-trial", "--no-advice")
PROGRAM = "from netgrain.cli import main; main()"


@dataclass(frozen=True)
class Row:
    """One command, and the seconds and gigabytes that it should stay within, if there is a goal."""

    arguments: tuple[str, ...]
    seconds: float | None = None
    gigabytes: float | None = None
    needs: tuple[str, ...] = ()  # modules


def rows(folder: Path) -> dict[str, Row]:
    """All commands by name; {photos} and the like are files that `prepared` writes to the folder."""
    photos, pattern, colour = (str(folder / name) for name in ("photos.npz", "pattern.npy", "colour.npz"))
    page, table, card = (str(folder / name) for name in ("page.html", "table.csv", "card"))
    own = str(Path(__file__).parent.parent / "examples" / "mymodels.py") + ":Net"
    quarter = "resnet18:width=0.25"
    found = {}
    for model in ("mlp", quarter):  # digits have 8 × 8 pixels, which LeNet does not take
        audit = ("audit", model, "--data", "digits", "--out", page)
        found[f"{model}, digits"] = Row((*audit, *PLAIN), 10)
        found[f"{model}, digits, trial and changes"] = Row(audit, 60)
    for model in ("lenet", quarter):
        found[f"{model}, CIFAR-10"] = Row(("audit", model, "--data", "cifar10", "--out", page, *PLAIN), 60)
    found[f"own model, {COLOUR} colour images"] = Row(("audit", own, "--data", colour, "--out", page, *PLAIN))
    large = (("resnet50", "timm:resnet50"), ("vit_small", "timm:vit_small_patch16_224"))
    for name, model in large:
        audit = ("audit", model, "--data", photos, "--out", page, *PLAIN)
        found[f"{name}, {SIDE}"] = Row(audit, 180, 4, ("timm",))
    shape = f"3x{SIDE}x{SIDE}"
    found[f"visible, {SIDE}"] = Row(("visible", quarter, "--signal", pattern))
    found[f"card, {SIDE}"] = Row(("card", quarter, "--input", shape, "--out", card))
    found[f"score, {SIDE}"] = Row(("score", quarter, "--data", photos, "--out", table))
    found[f"prune, {SIDE}"] = Row(("prune", quarter, "--data", photos, "--out", table))
    compare = ("compare", "lenet", quarter, "--data", photos, "--quick", "--samples", "100", "--out", page)
    found[f"compare, {SIDE}, quick"] = Row(compare)
    return found


def prepare(folder: Path, data_dir: Path | None) -> None:
    """The files that the commands read, unless they are there."""
    if (folder / "photos.npz").exists():
        return
    images = load_split("cifar10", limit=(PHOTOS, 1), data_dir=data_dir).train
    low, high = images.X.min(), images.X.max()
    pixels = (images.X - low) / (high - low) * 255
    np.savez(folder / "colour.npz", X=pixels[:COLOUR].round().byte().numpy(), y=images.y[:COLOUR].numpy())
    np.save(folder / "pattern.npy", torch.randn(3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)).numpy())
    large = interpolate(pixels, size=(SIDE, SIDE), mode="bicubic").clamp(0, 255).round().byte()
    np.savez(folder / "photos.npz", X=large.numpy(), y=images.y.numpy())


def measured(row: Row, timeout: float, data_dir: Path | None) -> dict[str, Any]:
    """The command in a process group of its own, which is stopped after the timeout."""
    environment = os.environ | ({} if data_dir is None else {"NETGRAIN_DATA": str(data_dir)})
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *row.arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)
    said, late = b"", False
    while True:
        said += process.stderr.read() or b""
        done, status, used = os.wait4(process.pid, os.WNOHANG)
        if done:
            break
        if not late and time.perf_counter() - started > timeout:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.05)
    process.returncode = os.waitstatus_to_exitcode(status)
    said += process.stderr.read() or b""
    return {
        "seconds": time.perf_counter() - started,
        "cpu": used.ru_utime + used.ru_stime,
        "gigabytes": used.ru_maxrss * 1024 / 1e9,
        "code": process.returncode,
        "stopped": late,
        "said": said.decode(errors="replace")[-500:] if process.returncode else "",
    }


def told(row: Row, found: dict[str, Any]) -> str:
    """The line of a row in the table."""
    goal = "" if row.seconds is None else f"goal {row.seconds:.0f} s"
    goal += "" if row.gigabytes is None else f", {row.gigabytes:g} GB"
    end = "stopped" if found["stopped"] else f"failed: {found['said']}" if found["code"] else goal
    return f"{found['seconds']:7.1f} s {found['cpu']:7.1f} cpu {found['gigabytes']:5.1f} GB   {end}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="a row, measured anew; may be given again")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds for a row")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    folder = args.out / "audit"
    folder.mkdir(parents=True, exist_ok=True)
    every = rows(folder)
    if unknown := set(args.only or ()) - set(every):
        raise SystemExit(f"no row is called {sorted(unknown)}; expected some of {list(every)}")
    try:
        prepare(folder, args.data_dir)
    except NetgrainError as e:
        print(f"not run: {e}")
        return
    for name in args.only or every:
        row, file = every[name], folder / f"{name.replace(' ', '-').replace(':', '-')}.json"
        if any(find_spec(module) is None for module in row.needs):
            print(f"{name:45s} not run: {', '.join(row.needs)} is missing")
            continue
        if args.only or not file.exists():
            found = measured(row, args.timeout, args.data_dir)
            file.write_text(json.dumps(found | {"command": row.arguments, "machine": machine()}, indent=2) + "\n")
        print(f"{name:45s} {told(row, json.loads(file.read_text()))}", flush=True)


if __name__ == "__main__":
    main()
