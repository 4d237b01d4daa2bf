"""What do kernels and `ng.learnability` cost, next to gradients of single samples by vmap?

One thread, 1,000 images of 16 × 16 (random numbers: the time does not depend on them). The plain reference takes
``vmap(grad)`` over samples for one member and multiplies the rows in float64. With --large, 500 CIFAR-10 images,
enlarged to 224 × 224, pass through models of timm on two cores; each takes minutes.

    python benchmarks/learnability.py [--large resnet50 vit_small_patch16_224] [--samples 500] [--out out/bench]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measure import machine
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

import netgrain as ng
from netgrain.data.images import load_split
from netgrain.experiments.learnability.networks import NETWORKS, family
from netgrain.families.members import member
from netgrain.learning.member_kernels import plan_for
from netgrain.learning.tangent_products import TangentPlan, tangent_features
from netgrain.models.timm_models import import_timm
from netgrain.runtime.engine_in_use import using
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.local import Local

SHAPE, CLASSES = (1, 16, 16), 10
TANGENT = (
    "MLP",
    "LeNet",
    "ResNet, layer norm",
)  # vmap takes them; batch norms in eval mode as well, attention with care
GOAL = {"LeNet": 2.5}  # CPU seconds of learnability without the trial
PIECE = 50  # samples whose gradients the reference holds at once


def clock() -> float:
    """CPU seconds of this process and of its workers."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def seconds(function: Callable[[], object], repeats: int = 2) -> float:
    """The fastest of some runs: CPU time, as the machine may be shared."""
    spent = []
    for _ in range(repeats):
        started = clock()
        function()
        spent.append(clock() - started)
    return min(spent)


def by_vmap(model: nn.Module, X: Tensor, r: Tensor) -> Tensor:
    """Σ over weights of ∂(r·f)(x) ∂(r·f)(z), from rows of gradients written out."""
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def along(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        total: Tensor = (functional_call(model, weights, (x[None],))[0] * r).sum()
        return total

    each = vmap(grad(along), in_dims=(None, 0))
    rows = torch.cat([torch.cat([g.flatten(1) for g in each(weights, x).values()], 1) for x in X.split(PIECE)])
    return rows.double() @ rows.double().T


def tangent_row(name: str, X: Tensor) -> dict[str, float]:
    """The tangent kernel of one member, both ways, and how far they are apart beyond bins."""
    model = member(family(name, SHAPE, CLASSES), 0, 0)
    plan = plan_for("tangent", model, X, traced=True)
    assert isinstance(plan, TangentPlan)
    ours = seconds(lambda: tangent_features(model, X, plan, 128, 0).gram(len(X)))
    r = torch.ones(CLASSES)
    plain = seconds(lambda: by_vmap(model, X, r), 1)
    return {"tangent": ours, "vmap": plain, "ratio": ours / plain}


def learnability_row(name: str, X: Tensor, y: Tensor) -> dict[str, float]:
    make = family(name, SHAPE, CLASSES)
    with using(Local()):
        ng.learnability(make, X[:100], y[:100], trial=False)  # imports, and what is kept of a family
        return {"learnability": seconds(lambda: ng.learnability(make, X, y, trial=False))}


def large_row(name: str, samples: int) -> dict[str, Any]:
    """Learnability of a large model without the trial: seconds, CPU seconds and memory of the largest process."""
    images = load_split("cifar10", limit=(samples, 1)).train
    X = nn.functional.interpolate(images.X, size=(224, 224), mode="bilinear")
    make = partial(import_timm("timm").create_model, name, num_classes=CLASSES)
    wall, spent = time.perf_counter(), clock()
    found = ng.learnability(make, X, images.y, trial=False, progress=False)
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "samples": samples,
        "seconds": time.perf_counter() - wall,
        "cpu": clock() - spent,
        "peak MB, here and in a worker": [peak // 1024 for peak in peaks],
        "score": found.score.with_error,
        "kernels": list(found.kernels),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", nargs="*", default=[], help="names of timm models, at 224 x 224")
    parser.add_argument("--samples", type=int, default=500, help="images for those")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), help="networks at 16 x 16")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    X, y = torch.randn(1000, *SHAPE, generator=generator), torch.arange(1000) % CLASSES
    report: dict[str, Any] = {"machine": machine(), "rows": {}, "large": {}}
    print("CPU seconds, 1,000 images of 16 x 16, one thread\n")
    for name in args.networks:
        r = report["rows"][name] = learnability_row(name, X, y)
        text = f"{name:20s} learnability without trial {r['learnability']:6.2f}"
        if name in GOAL:
            text += f" (goal {GOAL[name]:.1f})"
        if name in TANGENT:
            r |= tangent_row(name, X)
            text += (
                f"   tangent kernel, one member {r['tangent']:6.2f}   vmap {r['vmap']:6.2f}   ratio {r['ratio']:.2f}x"
            )
        print(text, flush=True)
    for name in args.large:
        try:
            r = report["large"][name] = large_row(name, args.samples)
        except NetgrainError as e:
            print(f"{name}: not run ({e})")
            continue
        print(f"{name:20s} {r}", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "learnability.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
