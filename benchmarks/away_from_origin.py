"""The closed form away from the origin: how right, against a kernel differentiated twice and against wide networks?

"recursion" leaves out that a unit's slope and its own gradient depend on each other; "closed form" follows it. Both are
compared with the mixed derivative of the kernel (tests/naive.py, automatic differentiation in float64), and with
sampled wide networks: energies along the first point, along the mean of the points and along the direction in which the
recursion is furthest off, in standard errors. Then: processor time of one thread and memory for images of 8, 16 and 32
pixels.

    python benchmarks/away_from_origin.py [--members 400] [--width 256] [--no-sizes] [--out out/bench]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measure import machine, measured
from torch import Tensor, nn

import netgrain as ng
from netgrain.geometry import closed as geometry

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests import naive

SIDE = 8


class Erf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(x)


# activation, kernel, distance from the kernel's corner, weight variance times fan-in
ACTIVATIONS: dict[str, tuple[Callable[[], nn.Module], naive.Kernel, float, float]] = {
    "erf": (Erf, naive.erf_kernel, 0.0, 4.0),
    "ReLU": (nn.ReLU, naive.relu_kernel, 1e-4, 2.0),
    "GELU": (nn.GELU, naive.gelu_kernel, 0.0, 2.0),
}


def network(kind: str, activation: str, channels: int, width: int, side: int = SIDE) -> nn.Sequential:
    act, _, _, gain = ACTIVATIONS[activation]
    if kind == "MLP":
        layers = [nn.Flatten(), nn.Linear(channels * side * side, width), act(), nn.Linear(width, width), act()]
        net = nn.Sequential(*layers, nn.Linear(width, 10))
    else:
        layers = [nn.Conv2d(channels, width, 3, padding=1), act(), nn.Conv2d(width, width, 3, padding=1), act()]
        net = nn.Sequential(*layers, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(width * (side // 2) ** 2, 10))
    for layer in net:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            variance = gain / layer.weight[0].numel()
            nn.init.normal_(layer.weight, std=math.sqrt(variance))
            nn.init.normal_(layer.bias, std=0.1)
            layer.variances = (variance, 0.01)  # type: ignore[assignment]
    return net


def closed(make: Callable[[], nn.Module], probe: ng.Data, count: int, *, terms: bool) -> ng.Geometry:
    limit = geometry.MOST_POSITIONS
    geometry.MOST_POSITIONS = limit if terms else 0
    try:
        return ng.average_geometry(make, tuple(probe.X.shape[1:]), method="closed-form", probe=probe, probes=count)
    finally:
        geometry.MOST_POSITIONS = limit


def compared(found: Tensor, exact: Tensor, points: Tensor) -> dict[str, float]:
    x = points[0].flatten()
    return {
        "corr": naive.corr(found, exact),
        "trace": float(found.trace() / exact.trace()),
        "error": float((found - exact).norm() / exact.norm()),
        "along_x": float((x @ found @ x) / (x @ exact @ x)),
    }


def deviations(sampled: ng.Geometry, found: Tensor, directions: Tensor) -> list[float]:
    """(sampled − found) / standard error along each row."""
    form = sampled.form.batched(32)
    energies = torch.stack([(directions * form.part(i).matvec(directions)).sum(1) for i in range(form.parts)])
    expected = ((directions @ found) * directions).sum(1)
    return [float(z) for z in (energies.mean(0) - expected) / (energies.std(0) / math.sqrt(form.parts))]


def case(kind: str, activation: str, channels: int, count: int, members: int, width: int) -> dict[str, Any]:
    _, kernel, apart, _ = ACTIVATIONS[activation]
    shape = (channels, SIDE, SIDE)
    X = torch.randn(count, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.3
    model = network(kind, activation, channels, 2)
    exact = torch.stack([naive.wide_geometry(model, kernel, x, apart) for x in X]).mean(0) * 1.0
    make = partial(network, kind, activation, channels, width)
    probe = ng.Data(X)
    before, after = (closed(make, probe, count, terms=terms).matrix() for terms in (False, True))
    values, vectors = torch.linalg.eigh(before - exact)
    worst = vectors[:, values.abs().argmax()]
    directions = torch.stack([X[0].flatten(), X.mean(0).flatten(), worst])
    directions = directions / directions.norm(dim=1, keepdim=True)
    sampled = ng.average_geometry(
        make, shape, method="sampled", probe=probe, members=members, first_layer="never", seed=1, workers=1
    )
    return {
        "recursion": compared(before, exact, X),
        "closed form": compared(after, exact, X),
        "recursion, standard errors": deviations(sampled, before, directions),
        "closed form, standard errors": deviations(sampled, after, directions),
    }


def seconds(side: int, channels: int, keep: int | None) -> float:
    """Processor time of one point (a whole matrix) or of some leading directions there."""
    torch.set_num_threads(1)
    make = partial(network, "conv", "ReLU", channels, 64, side)
    X = torch.randn(1, channels, side, side, generator=torch.Generator().manual_seed(0))
    started = time.process_time()
    ng.average_geometry(make, (channels, side, side), method="closed-form", probe=ng.Data(X), keep=keep)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=400)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--no-cases", action="store_true", help="times only")
    parser.add_argument("--no-sizes", action="store_true", help="no times")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    report: dict[str, Any] = {"machine": machine(), "cases": {}, "sizes": {}}
    kinds = [("MLP", 1), ("conv", 1), ("conv", 3)]
    for (kind, channels), activation, count in (
        (k, a, n) for k in ([] if args.no_cases else kinds) for a in ACTIVATIONS for n in (1, 8)
    ):
        name = f"{kind}, {channels} channel{'s' * (channels > 1)}, {activation}, {count} point{'s' * (count > 1)}"
        row = case(kind, activation, channels, count, args.members, args.width)
        report["cases"][name] = row
        for way in ("recursion", "closed form"):
            r, z = row[way], row[f"{way}, standard errors"]
            print(
                f"{name:34s} {way:12s} Corr {r['corr']:.4f}  trace {r['trace']:.3f}  error {r['error']:.1e}  "
                f"along x {r['along_x']:.3f}  standard errors: {', '.join(f'{v:+.1f}' for v in z)}",
                flush=True,
            )
    sizes = [(8, 1, None), (8, 3, None), (16, 1, None), (16, 3, None), (32, 1, 16)]
    for side, channels, keep in [] if args.no_sizes else sizes:
        run = measured(seconds, side, channels, keep)
        what = "whole matrix" if keep is None else f"{keep} leading directions"
        print(
            f"{channels}x{side}x{side}, one point, {what}: {run['result']:.2f} s, {run['extra_mib']:.0f} MiB",
            flush=True,
        )
        report["sizes"][f"{channels}x{side}x{side}"] = {"what": what, "seconds": run["result"], "mib": run["extra_mib"]}
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "away_from_origin.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
