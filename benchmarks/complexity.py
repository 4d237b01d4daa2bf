"""How long does geometric complexity take, and is the error bar right? Every estimator on one network, one thread.

MLP 64-256-256-k with 128 points; times are medians of whole calls of `geometric_complexity`, checks included, beside
torch.func's vmap(jacrev), in processor time of the one thread: other work on the machine does not count. For the
probes: the root mean square of the relative error over 300 seeds, and how often the 95 % interval holds the exact value
on these points. Then a narrow trained ResNet18 with batch norm on 1,000 images.

    python benchmarks/complexity.py [--repetitions 300] [--out out/bench]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measure import machine
from torch import Tensor, nn

from netgrain.complexity import geometric_complexity
from netgrain.models import ResNet18
from netgrain.training import Settings, train_member

POINTS, D, IMAGES = 128, 64, 1000
EXACT = ("exact", "forward")
PROBED = ("vjp", "jvp", "outputs")


def network(k: int) -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Linear(D, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, k))
    return nn.Sequential(*layers).requires_grad_(False).eval()


def seconds(call: Callable[[], object], repetitions: int) -> float:
    """Median processor time of a call, after one that warms up."""
    call()
    times = []
    for _ in range(repetitions):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return statistics.median(times)


def jacrev(net: nn.Module, X: Tensor) -> float:
    J = torch.func.vmap(torch.func.jacrev(lambda x: net(x[None])[0]))(X)
    return float(J.square().sum()) / len(X)


def rows(k: int, repetitions: int) -> list[dict[str, Any]]:
    net, X = network(k), torch.randn(POINTS, D, generator=torch.Generator().manual_seed(1))
    few = 3 if k >= 1000 else 10
    exact = geometric_complexity(net, X, estimator="exact").value
    found = []
    for name in EXACT:
        value = geometric_complexity(net, X, estimator=name).value
        spent = seconds(lambda name=name: geometric_complexity(net, X, estimator=name), few)
        found.append({"k": k, "estimator": name, "seconds": spent, "error": abs(value / exact - 1), "coverage": None})
    by_torch = {"error": abs(jacrev(net, X) / exact - 1), "seconds": seconds(lambda: jacrev(net, X), few)}
    found.append({"k": k, "estimator": "vmap(jacrev)", **by_torch, "coverage": None})
    for name in PROBED:
        spent = seconds(lambda name=name: geometric_complexity(net, X, estimator=name, probes=1), 30)
        errors, inside = [], 0
        for seed in range(repetitions):
            one = geometric_complexity(net, X, estimator=name, probes=1, seed=seed)
            errors.append(one.value / exact - 1)
            low, high = one.interval(0.95)
            inside += low <= exact <= high
        error = math.sqrt(statistics.fmean(e * e for e in errors))
        found.append(
            {
                "k": k,
                "estimator": f"{name}, 1 probe",
                "seconds": spent,
                "error": error,
                "coverage": inside / repetitions,
            }
        )
    slowest = found[0]["seconds"]
    return [{**row, "times_faster": slowest / row["seconds"]} for row in found]


def resnet() -> dict[str, Any]:
    make = partial(ResNet18, width=1 / 8, norm="batch")
    X = torch.randn(IMAGES, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    y = X[:, :, :8].mean((2, 3)).argmax(1)  # something that can be learnt
    net = train_member(make, X, y, Settings(steps=40, batch=50, lr=0.05), seed=0, i=0).model(make)
    found = {}
    for name, options in {"exact": {}, "vjp, 1 probe": {"estimator": "vjp", "probes": 1}}.items():
        started = time.process_time()
        value = geometric_complexity(net, X, **options)
        found[name] = {"seconds": time.process_time() - started, "value": value.value, "stderr": value.stderr}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=300, help="seeds behind errors and coverage")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"MLP {D}-256-256-k, {POINTS} points, one thread; error: root mean square over {args.repetitions} seeds\n")
    print(f"{'k':>5s}  {'estimator':18s} {'time':>10s} {'faster':>8s} {'error':>9s} {'95 % interval holds':>20s}")
    table = []
    for k in (10, 100, 1000):
        for row in rows(k, args.repetitions):
            table.append(row)
            share = "" if row["coverage"] is None else f"{row['coverage']:.1%}"
            print(
                f"{k:5d}  {row['estimator']:18s} {1e3 * row['seconds']:7.1f} ms {row['times_faster']:7.1f}x "
                f"{row['error']:9.1e} {share:>20s}"
            )
    one = next(r for r in table if r["k"] == 1000 and r["estimator"] == "vjp, 1 probe")
    print(
        f"\nk = 1000: one-probe VJP is {one['times_faster']:.0f} times faster than exact, "
        f"at a relative error of {one['error']:.1%}; its 95 % interval holds in {one['coverage']:.1%}"
    )
    images = resnet()
    for name, row in images.items():
        print(
            f"ResNet18 of width 1/8, batch norm, {IMAGES} images 3x32x32, 10 outputs, {name}: {row['seconds']:.1f} s, "
            f"{1e3 * row['seconds'] / IMAGES:.1f} ms per image"
        )
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "complexity.json"
    path.write_text(json.dumps({"machine": machine(), "rows": table, "resnet18": images}, indent=2) + "\n")
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
