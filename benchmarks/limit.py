"""How near to the end of training does each method come, and how fast?

Tables of docs and issue: D8 by every method (relative gap to the optimum of depth 2, KKT residual of depth 3), larger
groups by the flow, and the means over seeds of Fourier and real ratios at the limit of depth 3. One thread, CPU time.

    python benchmarks/limit.py [--out out/bench]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import machine
from torch import Tensor

from netgrain.equivariant import (
    Limit,
    limit,
    real_ratio,
    schatten_objective,
    schatten_ratio,
    spherical_limit,
    support_vector,
)
from netgrain.groups import Group, dihedral, parse

METHODS: dict[str, dict[str, Any]] = {
    "sgd, 10,000 epochs": {"method": "sgd", "epochs": 10_000},
    "ngd, 10,000 steps": {"method": "ngd", "epochs": 10_000},
    "flow, cap 1e3": {"cap": 1e3},
    "flow, cap 1e4": {"cap": 1e4},
    "flow, cap 1e5": {"cap": 1e5},
    "flow, cap 1e6": {"cap": 1e6},
}
LARGER = [("D60", 10), ("D60", 20), ("C5xC5:Q8", 10)]
ORDERING = [("D8", 2, 20), ("D8", 5, 20), ("D60", 10, 6)]  # group, points, seeds


def teacher(n: int, points: int, seed: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((points, n))
    return torch.from_numpy(X), torch.from_numpy(np.sign(X @ rng.standard_normal(n)))


def row(name: str, found: Limit, seconds: float, best: float | None = None) -> dict[str, Any]:
    gap = found.dual_gap if best is None or found.dual_gap is None else found.objective / best - 1
    print(
        f"{name:42} L={found.depth} objective {found.objective:10.6f} "
        f"gap {'   –   ' if gap is None else f'{gap:.1e}'} KKT {found.kkt_residual:.1e} "
        f"rank {found.weighted_rank:3} of {len(found.beta)} {seconds:6.2f} s",
        flush=True,
    )
    return {
        "name": name,
        "depth": found.depth,
        "objective": found.objective,
        "gap": gap,
        "kkt_residual": found.kkt_residual,
        "balancedness": found.balancedness,
        "weighted_rank": found.weighted_rank,
        "seconds": seconds,
    }


def methods() -> list[dict[str, Any]]:
    rows, group = [], dihedral(order=8)
    for seed in range(3):
        X, y = teacher(8, 10, seed)
        best = limit(group, X, y, cap=1e8).lower
        for name, options in METHODS.items():
            for depth in (2, 3):
                started = time.process_time()
                found = limit(group, X, y, depth=depth, seed=seed, **options)
                rows.append(row(f"D8, seed {seed}, {name}", found, time.process_time() - started, best))
    return rows


def larger() -> list[dict[str, Any]]:
    rows = []
    for name, points in LARGER:
        group = parse(name)
        for depth in (2, 3):
            started = time.process_time()
            found = limit(group, *teacher(group.order, points, 0), depth=depth)
            rows.append(row(f"{name}, {points} points", found, time.process_time() - started))
    for depth in (2, 3):
        started = time.process_time()
        found = spherical_limit(5, *teacher(165, 10, 0), depth=depth)
        rows.append(row("SO(3), l < 5, 10 points", found, time.process_time() - started))
    return rows


def ordering() -> list[dict[str, Any]]:
    """Means over seeds at depth 3, alternating labels: group CNN, circular CNN, fully connected (spec 5.1)."""
    rows = []
    for name, points, seeds in ORDERING:
        group: Group = parse(name)
        values = np.zeros((seeds, 3, 3))  # seed, net, (Fourier ratio, objective, real ratio)
        for seed in range(seeds):
            X = torch.from_numpy(np.random.default_rng(seed).standard_normal((points, group.order)))
            y = torch.tensor([(-1.0) ** i for i in range(points)], dtype=torch.float64)
            betas = [limit(group, X, y, depth=3, net=net, seed=seed).beta for net in ("group-cnn", "circular")]
            for i, b in enumerate([*betas, support_vector(X, y)]):
                values[seed, i] = [
                    float(schatten_ratio(group, b, 3)),
                    float(schatten_objective(group, b, X, y, 3)),
                    float(real_ratio(b, 3)),
                ]
        lowest = (values[:, 0, 0] <= values[:, 1:, 0].min(1)).mean()
        mean = values.mean(0)
        print(f"{name}, {points} points, {seeds} seeds: group CNN lowest in {lowest:.2f}")
        for i, net in enumerate(("group-cnn", "circular", "fully-connected")):
            print(
                f"  {net:16} Fourier ratio {mean[i, 0]:8.4g} objective {mean[i, 1]:8.4g} real ratio {mean[i, 2]:7.4g}"
            )
        rows.append({"group": name, "points": points, "seeds": seeds, "means": mean.tolist(), "lowest": lowest})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    report = {"machine": machine(), "methods": methods(), "larger": larger(), "ordering": ordering()}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "limit.json").write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
