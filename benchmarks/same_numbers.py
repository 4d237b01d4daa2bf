"""Are the numbers the same? Makes one file of results before a change, another after it, and compares the two.

    python benchmarks/same_numbers.py make before.json     (with the old code installed)
    python benchmarks/same_numbers.py make after.json      (with the new code installed)
    python benchmarks/same_numbers.py compare before.json after.json

Each file holds geometries of eight families (closed form and sampled), an evolution, a complexity, a limit of training,
a smoke run of every experiment and one audit: hashes of all tensors, and numbers that a person can read. Times,
versions, paths and random names are left out. The script uses only what both sides have: top-level functions of
netgrain, the classes of netgrain.models, and the command line in processes of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

MEMBERS = 6
SIZE = 16
# facts about the machine, the moment or the wording, not results
LEFT_OUT = {
    "date",
    "seconds",
    "versions",
    "hardware",
    "run",
    "sha256",
    "kind",
    "out",
    "page",
    "path",
    "folder",
    "report",
}
COMMAND = [sys.executable, "-c", "from netgrain.cli import main; main()"]


# --- what is computed -----------------------------------------------------------------------------------------------


def families() -> dict[str, Callable[[], Any]]:
    from netgrain import models

    shared = {"channels": 1, "image_size": SIZE, "outputs": 3}
    return {
        "MLP": partial(models.MLP, **shared, width=0.2),
        "LeNet": partial(models.LeNet, **shared),
        "SmallLeNet": partial(models.SmallLeNet, **shared),
        "VGG11": partial(models.VGG11, **shared, width=0.125),
        "ResNet18": partial(models.ResNet18, **shared, width=0.125),
        "ResNet18 with norm": partial(models.ResNet18, **shared, width=0.125, norm="batch"),
        "ViT": partial(models.ViT, **shared, width=0.125),
        "a module of a user": users_own,
    }


def users_own() -> Any:
    """Parameters of its own, a skip connection, tanh, average pooling: no class of ours."""
    import torch
    from torch import nn

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.randn(1, 1, SIZE, SIZE))
            self.first = nn.Conv2d(1, 4, 5, padding=2)
            self.second = nn.Conv2d(4, 4, 3, padding=1)
            self.last = nn.Linear(4 * (SIZE // 4) ** 2, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = torch.tanh(self.first(x * self.scale))
            h = nn.functional.avg_pool2d(h + torch.tanh(self.second(h)), 4)
            return self.last(h.flatten(1))

    return Own()


def geometries() -> dict[str, Any]:
    import netgrain as ng

    found: dict[str, Any] = {}
    for name, make in families().items():
        shape = (1, SIZE, SIZE)
        ways: dict[str, Callable[[], Any]] = {
            "auto": partial(ng.average_geometry, make, shape, tolerance=0.1),
            "closed form": partial(ng.average_geometry, make, shape, method="closed-form"),
            "sampled": partial(ng.average_geometry, make, shape, method="sampled", members=MEMBERS, seed=3),
            "sampled, whole networks": partial(
                ng.average_geometry, make, shape, members=MEMBERS, first_layer="never", probe=ng.Gaussian(0.5), probes=2
            ),
            "one output": partial(ng.average_geometry, make, shape, members=MEMBERS, output=1),
            "sampled in processes": partial(
                ng.average_geometry, make, shape, members=MEMBERS, engine="processes", workers=2, chunk=2
            ),
        }
        for way, compute in ways.items():
            found[f"{name}, {way}"] = outcome(compute, geometry_numbers)
            print(f"  {name}, {way}", flush=True)
    return found


def geometry_numbers(G: Any) -> dict[str, Any]:
    return {
        "matrix": tensor_hash(G.matrix()),
        "trace": float(G.trace),
        "effective rank": float(G.effective_rank),
        "first eigenvalues": [float(v) for v in G.eigenvalues[:5]],
        "method": G.method,
        "exact": G.exact,
        "members": G.about.members,
    }


def other_values() -> dict[str, Any]:
    """Evolution, complexity and the limit of a group network, from their front doors."""
    import torch

    import netgrain as ng
    from netgrain.equivariant import limit
    from netgrain.groups import dihedral

    make = families()["MLP"]
    torch.manual_seed(5)
    X = torch.randn(20, 1, SIZE, SIZE)
    targets = torch.eye(3)[torch.arange(20) % 3]
    model = make()
    model.eval()
    D8 = dihedral(order=8)
    beta = torch.randn(D8.order, dtype=torch.float64)
    points = torch.randn(6, D8.order, dtype=torch.float64)

    def evolution(E: Any) -> Any:
        return {"delta": tensor_hash(E.delta.matrix()), "trace": float(E.delta.trace)}

    return {
        "data covariance": outcome(partial(ng.data_covariance, X), lambda S: tensor_hash(S.matrix())),
        "geometry of a trained model": outcome(partial(ng.geometry_of, [model], ng.Data(X)), geometry_numbers),
        "scores": outcome(
            lambda: ng.score(ng.average_geometry(make, (1, SIZE, SIZE), method="closed-form"), X), tensor_hash
        ),
        "evolution": outcome(partial(ng.average_evolution, make, X, targets, loss="sse", members=4), evolution),
        "complexity": outcome(
            partial(ng.geometric_complexity, model, X), lambda c: {"value": float(c), "stderr": float(c.stderr)}
        ),
        "limit of training on D8": outcome(
            lambda: limit(D8, points, torch.sign(points @ beta), depth=3),
            lambda found: {"beta": tensor_hash(found.beta), "objective": float(found.objective)},
        ),
    }


def outcome(compute: Callable[[], Any], numbers: Callable[[Any], Any]) -> Any:
    """The numbers of a result; that it was refused, where it is (sentences may be rewritten)."""
    import warnings

    from netgrain import NetgrainError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return numbers(compute())
    except NetgrainError as e:
        return {"refused": True, "sentence (not compared)": str(e)}
    except Exception as e:  # a name that one side does not have is a difference, not the end
        return {"failed": f"{type(e).__name__}: {e}"}


def experiments(jobs: int, only: list[str]) -> dict[str, Any]:
    listed = json.loads(command("list", "--json").stdout)
    names = sorted(n for n in listed if not only or n in only)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(partial(smoke_run, Path(folder)), names))


def smoke_run(folder: Path, name: str) -> tuple[str, dict[str, Any]]:
    started = time.monotonic()
    out = folder / name
    done = command("run", name, "--scale", "smoke", "--out", str(out), "--engine", "local")
    print(f"  {name}: exit {done.returncode} after {time.monotonic() - started:.0f} s", flush=True)
    if done.returncode:
        return name, {"exit code": done.returncode, "sentence (not compared)": done.stderr.strip()[-500:]}
    units = [unit(file) for file in sorted(out.rglob("*.safetensors"))]
    claims = [cleaned(json.loads(file.read_text())) for file in sorted(out.rglob("claims.json"))]
    return name, {"exit code": 0, "units": dict(sorted(units)), "claims": claims}


def unit(file: Path) -> tuple[str, Any]:
    """A finished unit by its configuration: its numbers, and a hash of each tensor."""
    content = file.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    entries = json.loads(content[8 : 8 + size])
    header = json.loads(entries.pop("__metadata__")["netgrain"])
    config = header.pop("config", {"file": file.name})
    body = content[8 + size :]
    tensors = {
        name: hashlib.sha256(f"{e['dtype']}{e['shape']}".encode() + body[slice(*e["data_offsets"])]).hexdigest()[:16]
        for name, e in sorted(entries.items())
    }
    return json.dumps(config, sort_keys=True), {"numbers": cleaned(header), "tensors": tensors}


def audit() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        options = ["--data", "digits", "--limit", "120", "--members", "4", "--seed", "1", "--engine", "local"]
        swap = ["--what-if", "stem.1=Tanh()"]
        done = command("audit", "resnet18:width=0.125", *options, *swap, "--json", "--out", f"{folder}/report.html")
        if done.returncode:
            return {"exit code": done.returncode, "sentence (not compared)": done.stderr.strip()[-500:]}
        return cleaned(json.loads(done.stdout))


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, cwd=tempfile.gettempdir())


def tensor_hash(t: Any) -> str:
    t = t.detach().cpu().contiguous()
    return hashlib.sha256(f"{t.dtype}{tuple(t.shape)}".encode() + t.numpy().tobytes()).hexdigest()[:16]


def cleaned(value: Any) -> Any:
    """Without what may differ from run to run."""
    if isinstance(value, dict):
        return {k: cleaned(v) for k, v in value.items() if k not in LEFT_OUT}
    return [cleaned(v) for v in value] if isinstance(value, list) else value


# --- the comparison -------------------------------------------------------------------------------------------------


def differences(old: Any, new: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Places where two results differ, each with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if "not compared" not in key:
                yield from differences(
                    old.get(key, "absent"), new.get(key, "absent"), f"{where} / {key}" if where else key
                )
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from differences(a, b, f"{where}[{i}]")
    elif old != new and json.dumps(old) != json.dumps(new):  # NaN is not equal to itself
        yield where, old, new


def compare(old: dict[str, Any], new: dict[str, Any], most: int) -> int:
    """Print what is identical and what differs; 1 if anything does."""
    wrong = 0
    for part in sorted({*old, *new}):
        a, b = old.get(part, {}), new.get(part, {})
        on_both = sorted({*a, *b} if part == "audit" else {*a} & {*b})
        same = [key for key in on_both if not list(differences(a.get(key, "absent"), b.get(key, "absent")))]
        print(f"{part}: {len(same)} of {len(on_both)} identical")
        for side, ours, theirs in (("old", a, b), ("new", b, a)):
            if part != "audit" and (alone := sorted({*ours} - {*theirs})):
                print(f"  only in the {side} one: {', '.join(alone)}")
        for key in (k for k in on_both if k not in same):
            wrong += 1
            found = list(differences(a.get(key, "absent"), b.get(key, "absent")))
            print(f"  {key}: {len(found)} differences")
            for where, before, after in found[:most]:
                print(f"    {where}\n      old {short(before)}\n      new {short(after)}")
    print("all that both have is identical" if not wrong else f"{wrong} results differ")
    return int(wrong > 0)


def short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 300 else text[:297] + "..."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make", help="compute everything into a file")
    make.add_argument("out", type=Path)
    make.add_argument("--jobs", type=int, default=1, help="experiments at a time (default: 1)")
    make.add_argument("--only", nargs="*", default=[], help="parts (geometries, values, audit) or experiments")
    against = commands.add_parser("compare", help="compare two files; exit code 1 if anything differs")
    against.add_argument("old", type=Path)
    against.add_argument("new", type=Path)
    against.add_argument("--most", type=int, default=8, help="differences to print for each result (default: 8)")
    asked = parser.parse_args()
    if asked.command == "compare":
        return compare(json.loads(asked.old.read_text()), json.loads(asked.new.read_text()), asked.most)
    parts = {"geometries": geometries, "values": other_values, "audit": audit}
    found = {}
    for name, compute in parts.items():
        if not asked.only or name in asked.only:
            print(name, flush=True)
            found[name] = compute()
    only = [name for name in asked.only if name not in parts]
    if only or not asked.only:
        print("experiments", flush=True)
        found["experiments"] = experiments(asked.jobs, only)
    asked.out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
