"""How long does the closed form take, next to a plain loop over random networks? And how far off is its wide limit?

The loop is what one writes first: a fresh model, 128 Gaussian points (σ = 1e-3), the gradient, its outer product, added
up. Its time per member is measured here, in the same run; the members it needs to Corr 0.99 follow from the Corr it has
reached with the closed form (Corr² = 1/(1 + c/n)).

    python benchmarks/closed_form.py [--budget 15] [--widths] [--no-times] [--members 2000] [--out out/bench]
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
from measure import machine, measured
from torch import nn

import netgrain as ng
from netgrain.models import LeNet, ResNet18

TARGET = 0.99
POINTS = 128
GELU: dict[str, Any] = {"outputs": 1, "activation": "gelu"}
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "LeNet 1x32x32": (partial(LeNet, channels=1, **GELU), (1, 32, 32)),
    "ResNet18 1x32x32": (partial(ResNet18, channels=1, **GELU), (1, 32, 32)),
    "ResNet18 3x32x32": (partial(ResNet18, channels=3, **GELU), (3, 32, 32)),
    "ResNet18 3x64x64": (partial(ResNet18, channels=3, image_size=64, **GELU), (3, 64, 64)),
    "ResNet18 3x224x224": (partial(ResNet18, channels=3, image_size=224, **GELU), (3, 224, 224)),
}


def closed(name: str, repeats: int) -> list[float]:
    """Seconds of each of several calls; the first also fills caches."""
    make, shape = CASES[name]
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        ng.average_geometry(make, shape, method="closed-form")
        seconds.append(time.perf_counter() - started)
    return seconds


def directions(name: str, k: int) -> dict[str, Any]:
    """The k leading directions from nothing, and how well they solve G v = λ v."""
    make, shape = CASES[name]
    G = ng.average_geometry(make, shape, method="closed-form")
    V = G.directions(k).flatten(1)
    GV = G.matvec(V)
    values = (V * GV).sum(1)
    return {"residual": float((GV - values[:, None] * V).norm(dim=1).max() / values[0]), "largest": float(values[0])}


def loop(name: str, budget: float, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    make, shape = CASES[name]
    exact = ng.average_geometry(make, shape, method="closed-form").matrix().float()
    d = math.prod(shape)
    G = torch.zeros(d, d)
    members, spent = 0, 0.0
    while spent < budget:
        started = time.perf_counter()
        model = make().eval()
        x = (1e-3 * torch.randn(POINTS, *shape)).requires_grad_(True)
        (g,) = torch.autograd.grad(model(x).sum(), x)
        g = g.flatten(1)
        G += g.T @ g / POINTS
        spent += time.perf_counter() - started
        members += 1
    corr = float((G * exact).sum() / G.norm() / exact.norm())
    needed = members * (1 / corr**2 - 1) / (1 / TARGET**2 - 1)
    return {"per_member": spent / members, "members": members, "corr": corr, "needed": needed}


def two_convolutions(width: int, channels: int, activation: type[nn.Module], bias: bool) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(channels, width, 3, padding=1, bias=bias), activation()),
        *(nn.Conv2d(width, width, 3, padding=1, bias=bias), activation(), nn.AvgPool2d(2), nn.Flatten()),
        nn.Linear(width * 16, 1),
    )


def lenet(width: int, **options: Any) -> nn.Module:
    return LeNet(channels=1, image_size=16, outputs=1, width=width / 6, **options)


def resnet(width: int, **options: Any) -> nn.Module:
    return ResNet18(channels=3, image_size=8, outputs=1, width=width / 64, **options)


WIDE: dict[str, tuple[Callable[[int], nn.Module], tuple[int, ...], ng.Gaussian | None]] = {
    "LeNet, GELU, origin": (partial(lenet, activation="gelu"), (1, 16, 16), None),
    "LeNet, ReLU, origin": (lenet, (1, 16, 16), None),
    "two convolutions with biases, tanh, origin": (
        partial(two_convolutions, channels=1, activation=nn.Tanh, bias=True),
        (1, 8, 8),
        None,
    ),
    "two convolutions, ReLU, 1 channel, Gaussian(1)": (
        partial(two_convolutions, channels=1, activation=nn.ReLU, bias=False),
        (1, 8, 8),
        ng.Gaussian(1),
    ),
    "two convolutions, ReLU, 3 channels, Gaussian(1)": (
        partial(two_convolutions, channels=3, activation=nn.ReLU, bias=False),
        (3, 8, 8),
        ng.Gaussian(1),
    ),
    "narrow ResNet18, ReLU, Gaussian(1)": (resnet, (3, 8, 8), ng.Gaussian(1)),
}


def widths(name: str) -> tuple[int, ...]:
    """A ResNet18 of width 256 has 176 million weights: one step down."""
    return (4, 16, 64) if "ResNet" in name else (16, 64, 256)


def deviation(name: str, width: int, members: int) -> dict[str, Any]:
    """Sampled over closed trace, and the Corr of the two."""
    make, shape, probe = WIDE[name]
    family = partial(make, width)
    G = ng.average_geometry(family, shape, method="closed-form", probe=probe, probes=None if probe is None else 256)
    count = members if width < 64 else members // 2
    S = ng.average_geometry(family, shape, method="sampled", probe=probe, members=count, first_layer="never", seed=1)
    ratio = S.trace.value / G.trace.value
    error = math.hypot(S.trace.stderr / S.trace.value, G.trace.stderr / G.trace.value) * ratio
    corr = ng.corr(G, S)
    return {"width": width, "ratio": ratio, "stderr": error, "corr": corr.value, "corr_stderr": corr.stderr}


def measure_times(report: dict[str, Any], budget: float) -> None:
    print("closed form, seconds of one call (median of 9, after a first call)\n")
    for name in CASES:
        run = measured(closed, name, 10 if "224" not in name else 3)
        first, *rest = run["result"]
        row: dict[str, Any] = {"first": first, "seconds": statistics.median(rest), "extra_mib": run["extra_mib"]}
        line = f"{name:20s} {row['seconds']:7.3f} s   first call {first:6.3f} s   {row['extra_mib']:6.0f} MiB"
        if name.startswith(("ResNet18 1x", "LeNet")):
            trials = {t: measured(loop, name, 2.0, t)["result"]["per_member"] for t in (1, 2)}
            slow = measured(loop, name, budget, min(trials, key=trials.__getitem__))["result"]
            row |= {"loop": slow}
            row["ratio_to_corr"] = slow["per_member"] * slow["needed"] / row["seconds"]
            row["ratio_to_10000"] = slow["per_member"] * 10_000 / row["seconds"]
            line += (
                f"   loop: {slow['per_member']:.3f} s a member, {slow['needed']:.0f} members to Corr {TARGET}: "
                f"{row['ratio_to_corr']:,.0f}x; its 10,000 members: {row['ratio_to_10000']:,.0f}x"
            )
        print(line, flush=True)
        report["times"][name] = row
    run = measured(directions, "ResNet18 3x224x224", 64)
    report["directions"] = {k: run[k] for k in ("result", "seconds", "peak_mib")}
    print(
        f"\n64 leading directions of ResNet18 at 3x224x224: {run['seconds']:.1f} s, at most {run['peak_mib']:.0f} MiB, "
        f"largest residual {run['result']['residual']:.1e} of the first eigenvalue"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=15.0, help="seconds for each loop")
    parser.add_argument("--widths", action="store_true", help="also measure the wide limit at three widths")
    parser.add_argument("--no-times", action="store_true", help="the wide limit only")
    parser.add_argument(
        "--members", type=int, default=2000, help="sampled networks per width (half of it from width 64 on)"
    )
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    report: dict[str, Any] = {"machine": machine(), "times": {}, "wide": {}}
    if not args.no_times:
        measure_times(report, args.budget)
    if args.widths:
        print("\nthe wide limit: sampled over closed trace, and their Corr\n")
        for name in WIDE:
            report["wide"][name] = [deviation(name, width, args.members) for width in widths(name)]
            for r in report["wide"][name]:
                print(
                    f"{name:50s} width {r['width']:3d}   {r['ratio']:.4f} ± {r['stderr']:.4f}   "
                    f"Corr {r['corr']:.4f} ± {r['corr_stderr']:.4f}",
                    flush=True,
                )
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "closed_form.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
