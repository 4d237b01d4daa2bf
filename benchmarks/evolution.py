"""What does the evolution Δ cost, beside one gradient of the loss over the data, next to plain geometry?

Same members, same probe points, one process, one thread. The plain reference is netgrain's own sampled geometry without
first-layer integration; the loss gradient is timed by a loop written here.

    python benchmarks/evolution.py [--out out/bench]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measure import machine
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.members import member
from netgrain.models import MLP, LeNet, ResNet18, ViT

SHAPE = (1, 32, 32)
OPTIONS: dict[str, Any] = {"channels": 1, "outputs": 1, "activation": "gelu"}
MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "MLP": (partial(MLP, **OPTIONS), 200),
    "LeNet": (partial(LeNet, **OPTIONS), 200),
    "ResNet18, width 1/8": (partial(ResNet18, width=1 / 8, **OPTIONS), 60),
    "ViT, width 1/4": (partial(ViT, width=1 / 4, **OPTIONS), 60),
    "ViT": (partial(ViT, **OPTIONS), 40),
}
PROBES = 8


def seconds(function: Callable[[], object]) -> float:
    """The faster of two runs: CPU time, as the machine may be shared."""
    spent = []
    for _ in range(2):
        started = time.process_time()
        function()
        spent.append(time.process_time() - started)
    return min(spent)


def loss_gradients(make: Callable[[], nn.Module], members: int, X: Tensor) -> None:
    for i in range(members):
        model = member(make, 0, i).requires_grad_(True)
        torch.autograd.grad(model(X).square().sum() / 2, list(model.parameters()), allow_unused=True)


def build(make: Callable[[], nn.Module], members: int) -> None:
    for i in range(members):
        member(make, 0, i)


def row(name: str, X: Tensor) -> dict[str, Any]:
    make, members = MODELS[name]
    common: dict[str, Any] = {"probe": ng.Gaussian(1e-3), "probes": PROBES, "members": members, "workers": 1}
    quiet = {"progress": False}
    evolution = seconds(lambda: ng.average_evolution(make, X, **common, **quiet))
    geometry = seconds(
        lambda: ng.average_geometry(make, SHAPE, method="sampled", first_layer="never", **common, **quiet)
    )
    gradient = seconds(lambda: loss_gradients(make, members, X))
    building = seconds(lambda: build(make, members))
    ratio = (evolution - (gradient - building)) / geometry
    return {"evolution": evolution, "geometry": geometry, "loss_gradient": gradient - building, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    X = torch.randn(64, *SHAPE, generator=torch.Generator().manual_seed(0))
    report: dict[str, Any] = {"machine": machine(), "rows": {}}
    print(f"CPU seconds, 1x32x32, {PROBES} probe points, 64 samples; ratio = (evolution - loss gradient) / geometry\n")
    for name in MODELS:
        r = report["rows"][name] = row(name, X)
        print(
            f"{name:20s} evolution {r['evolution']:6.2f}   loss gradient {r['loss_gradient']:6.2f}   "
            f"geometry {r['geometry']:6.2f}   ratio {r['ratio']:.2f}x",
            flush=True,
        )
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "evolution.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
