"""How long until the average geometry is known to Corr 0.99? netgrain against a straightforward loop, in one run.

The loop is what one writes first: a fresh model, probe points, the gradient, its outer product, added up. It runs with
128 Gaussian points per member (σ = 1e-3, as in the paper) and with one point at the origin, on one or two torch
threads, whichever is faster. Both sides are judged by the same plug-in Corr with one converged reference. A loop that
does not reach the target within its budget is extrapolated from Corr² = 1/(1 + c/n), and marked with ~.

    python benchmarks/geometry.py [--only resnet18] [--budget 40] [--out out/bench]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measure import machine, measured
from torch import Tensor, nn

import netgrain as ng
from netgrain.models import MLP, VGG11, LeNet, ResNet18, ViT

TARGET = 0.99
SHAPE = (1, 32, 32)
OPTIONS: dict[str, Any] = {"channels": 1, "outputs": 1, "activation": "gelu"}
# family, members of the reference, how netgrain is asked
MODELS: dict[str, tuple[type[nn.Module], int, dict[str, Any]]] = {
    "MLP": (MLP, 100, {}),
    "LeNet": (LeNet, 6000, {}),
    "VGG11": (VGG11, 600, {"first_layer": "always"}),
    "ResNet18": (ResNet18, 300, {}),
    "ViT": (ViT, 300, {}),
}


def family(name: str) -> partial[nn.Module]:
    return partial(MODELS[name][0], **OPTIONS)


def plug_in(A: Tensor, B: Tensor) -> float:
    return float((A * B).sum() / A.norm() / B.norm())


def netgrain_once(name: str, members: int, seed: int) -> Tensor:
    return ng.average_geometry(family(name), SHAPE, members=members, seed=seed, **MODELS[name][2]).matrix().float()


def loop(name: str, points: int, reference: Tensor, budget: float, threads: int) -> dict[str, Any]:
    """The straightforward loop, until Corr ≥ TARGET or the budget ends; checking is not on its clock."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    make, d = family(name), math.prod(SHAPE)
    G = torch.zeros(d, d)
    members, spent, corr, check = 0, 0.0, 0.0, 1
    # VGG11 pools by maximum: at the origin itself autograd picks one slope, so one Gaussian point stands for it
    sigma = 1e-3 if points > 1 or name == "VGG11" else 0.0
    while spent < budget and corr < TARGET:
        started = time.perf_counter()
        model = make().eval()
        x = (sigma * torch.randn(points, *SHAPE)).requires_grad_(True)
        (g,) = torch.autograd.grad(model(x).sum(), x)
        g = g.flatten(1)
        G += g.T @ g / points
        spent += time.perf_counter() - started
        members += 1
        if members >= check:
            corr = plug_in(G, reference)
            check = math.ceil(check * 1.05)
    corr = plug_in(G, reference)
    reached = corr >= TARGET
    needed = members if reached else members * (1 / corr**2 - 1) / (1 / TARGET**2 - 1)
    return {
        "members": members,
        "corr": corr,
        "reached": reached,
        "members_needed": math.ceil(needed),
        "seconds_per_member": spent / members,
        "seconds": spent / members * needed,
        "threads": threads,
    }


def best_loop(name: str, points: int, reference: Tensor, budget: float) -> dict[str, Any]:
    """One or two threads, whichever is faster in a short trial."""
    trials = {t: measured(loop, name, points, reference, 2.0, t)["result"]["seconds_per_member"] for t in (1, 2)}
    run = measured(loop, name, points, reference, budget, min(trials, key=trials.__getitem__))
    return {**run["result"], "extra_mib": run["extra_mib"]}


def ours(name: str, reference: Tensor) -> dict[str, Any]:
    """The smallest number of members of a growing grid that reaches the target, as one call from nothing."""
    members = 2
    while True:
        run = measured(netgrain_once, name, members, 1)
        corr = plug_in(run["result"], reference)
        if corr >= TARGET:
            return {"members": members, "corr": corr, "seconds": run["seconds"], "extra_mib": run["extra_mib"]}
        members = math.ceil(members * 1.4)


def row(name: str, budget: float) -> dict[str, Any]:
    make, (_, members, options) = family(name), MODELS[name]
    G = ng.average_geometry(make, SHAPE, members=members, seed=12345, **options)
    reference = G.matrix().float()
    mine = ours(name, reference)
    loops = {points: best_loop(name, points, reference, budget) for points in (128, 1)}
    return {
        "model": name,
        "integration": G.about.averaged,
        "probe": str(G.about.probe),
        "reference_fidelity": G.fidelity,
        "netgrain": mine,
        "loop_128": loops[128],
        "loop_1": loops[1],
        "ratio_128": loops[128]["seconds"] / mine["seconds"],
        "ratio_1": loops[1]["seconds"] / mine["seconds"],
    }


def show(r: dict[str, Any]) -> None:
    def cell(v: dict[str, Any]) -> str:
        return f"{'' if v['reached'] else '~'}{v['seconds']:.1f} s ({v['members_needed']})"

    m = r["netgrain"]
    print(
        f"{r['model']:9s} {m['seconds']:7.2f} s ({m['members']:4d})   "
        f"{cell(r['loop_128']):>20s} {cell(r['loop_1']):>20s}   "
        f"{r['ratio_128']:8.0f}x {r['ratio_1']:8.1f}x   "
        f"{m['extra_mib']:5.0f} MiB  {r['loop_128']['extra_mib']:5.0f} MiB   {r['reference_fidelity']:.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(MODELS), help="models to measure")
    parser.add_argument("--budget", type=float, default=40.0, help="seconds for each loop before it is extrapolated")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    wanted = [name for name in MODELS if name.lower() in {o.lower() for o in args.only}]
    if not wanted:
        parser.error(f"expected some of {', '.join(MODELS)}")
    print(
        f"time to Corr {TARGET} (members), 1x32x32, GELU, one output; ratios are loop / netgrain; ~ is extrapolated\n"
    )
    print(
        f"{'model':9s} {'netgrain':>16s}   {'loop, 128 points':>20s} {'loop, origin':>20s}   "
        f"{'ratio':>9s} {'ratio':>9s}   extra memory (netgrain, loop)   reference"
    )
    rows = []
    for name in wanted:
        rows.append(row(name, args.budget))
        show(rows[-1])
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "geometry.json"
    path.write_text(json.dumps({"target": TARGET, "machine": machine(), "rows": rows}, indent=2) + "\n")
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
