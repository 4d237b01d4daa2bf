"""Memory: 64 leading directions of a network on 3x224x224 inputs (d = 150,528) from 256 members.

The matrix would take 181 GB, the gradient rows several; a sketch takes neither. Two independent runs show how much of
the leading directions is signal.

    python benchmarks/large_input.py [--members 256] [--out out/bench]
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

from measure import machine, measured
from torch import Tensor

import netgrain as ng
from netgrain.models import ResNet18

SHAPE = (3, 224, 224)
WIDTH, OUTPUTS = 0.125, 10


def run(members: int, seed: int) -> tuple[Tensor, Tensor, str]:
    make = partial(ResNet18, channels=3, image_size=224, outputs=OUTPUTS, activation="gelu", width=WIDTH)
    G = ng.average_geometry(make, SHAPE, members=members, seed=seed)
    return G.directions(64).flatten(1), G.eigenvalues, repr(G)


def overlap(a: Tensor, b: Tensor, k: int) -> float:
    """Mean squared cosine between two k-dimensional spaces: 1 when equal, k/d when unrelated."""
    return float((a[:k] @ b[:k].T).square().sum()) / k


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=256)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    runs = [measured(run, args.members, seed) for seed in (0, 1)]
    (a, values, text), (b, _, _) = (r["result"] for r in runs)
    result = {
        "d": a.shape[1],
        "members": args.members,
        "seconds": [r["seconds"] for r in runs],
        "peak_mib": [r["peak_mib"] for r in runs],
        # I₃ ⊗ core: blocks of three. The second and third differ by a thousandth, so 8 cuts through a tie; 9 does not
        "overlap": {k: overlap(a, b, k) for k in (8, 9, 12, 24, 27, 64)},
        "leading_eigenvalues": values[:30].tolist(),
        "geometry": text,
        "machine": machine(),
    }
    print(text)
    print(
        f"d = {result['d']:,}, {args.members} members: {runs[0]['seconds']:.0f} s and {runs[1]['seconds']:.0f} s, "
        f"largest process {max(result['peak_mib']):.0f} MiB, "
        f"overlap of the leading {', '.join(f'{k}: {v:.3f}' for k, v in result['overlap'].items())}"
    )
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "large_input.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
