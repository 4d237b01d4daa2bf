"""Member-steps per second: netgrain's training against the plain loop one writes first, in one run.

LeNet on 1x32x32, batch 128, 2,048 random samples in memory, SGD with momentum. The plain loop trains one member after
the other on two torch threads: fresh model, a permutation per epoch, indexing, zero_grad, backward, step. netgrain
trains them in one single-thread process per core. Both sides are started in a process of their own, take turns, and
the best round of each counts. Before that, one member trained by both with the same minibatches must agree to 1e-6.

    python benchmarks/training.py [--steps 128] [--members 4] [--rounds 3] [--out out/bench]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from measure import machine, measured
from torch import Tensor, nn

from netgrain.families.members import member
from netgrain.models import LeNet
from netgrain.training import Settings, minibatch_order, train, train_member

SAMPLES, BATCH, LR, MOMENTUM = 2048, 128, 0.1, 0.9
family = partial(LeNet, channels=1)


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(SAMPLES, 1, 32, 32, generator=generator)
    return X, torch.randint(10, (SAMPLES,), generator=generator)


def plain(model: nn.Module, X: Tensor, y: Tensor, steps: int, order: Callable[[int], Tensor]) -> nn.Module:
    """The loop one writes first, on data in memory."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    step = epoch = 0
    while step < steps:
        rows = order(epoch)
        for start in range(0, SAMPLES - BATCH + 1, BATCH):
            if step == steps:
                break
            chosen = rows[start : start + BATCH]
            optimizer.zero_grad()
            F.cross_entropy(model(X[chosen]), y[chosen]).backward()
            optimizer.step()
            step += 1
        epoch += 1
    return model


def plain_rate(members: int, steps: int, threads: int) -> float:
    torch.set_num_threads(threads)
    X, y = data()

    def shuffled(epoch: int) -> Tensor:
        return torch.randperm(SAMPLES)

    plain(family(), X, y, 2, shuffled)  # torch.optim imports torch's compiler at its first use: not on the clock
    started = time.perf_counter()
    for _ in range(members):
        plain(family(), X, y, steps, shuffled)
    return members * steps / (time.perf_counter() - started)


def netgrain_rate(members: int, steps: int, workers: int) -> float:
    X, y = data()
    settings = Settings(steps=steps, batch=BATCH, lr=LR, momentum=MOMENTUM)
    train(family, X, y, Settings(steps=2, batch=BATCH), members=1, workers=1)
    started = time.perf_counter()
    train(family, X, y, settings, members=members, workers=workers)
    return members * steps / (time.perf_counter() - started)


def difference(steps: int = 10) -> float:
    """Largest difference of a weight after the same minibatches."""
    torch.set_num_threads(1)
    X, y = data()
    trained = train_member(family, X, y, Settings(steps=steps, batch=BATCH, lr=LR, momentum=MOMENTUM), seed=1, i=2)
    start = member(family, 1, 2).requires_grad_(True)
    ours = plain(start, X, y, steps, lambda epoch: minibatch_order(SAMPLES, seed=1, i=2, epoch=epoch))
    return max(float((p.detach() - trained.state[name]).abs().max()) for name, p in ours.named_parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=128, help="of each member")
    parser.add_argument("--members", type=int, default=4, help="networks to train")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    workers = len(os.sched_getaffinity(0))
    gap = difference()
    print(f"same member, same minibatches, 10 steps: weights differ by at most {gap:.1e}")
    if gap > 1e-6:
        raise SystemExit("the two loops do not train the same network; no speed is reported")
    rounds: list[dict[str, Any]] = []
    for _ in range(args.rounds):
        rounds.append(
            {
                "load": os.getloadavg()[0],
                "plain": measured(plain_rate, args.members, args.steps, 2)["result"],
                "netgrain": measured(netgrain_rate, args.members, args.steps, workers)["result"],
            }
        )
        now = rounds[-1]
        print(
            f"plain loop, two threads {now['plain']:6.1f}   netgrain, {workers} processes {now['netgrain']:6.1f}   "
            f"member-steps per second (load {now['load']:.1f})"
        )
    best = {side: max(r[side] for r in rounds) for side in ("plain", "netgrain")}
    ratio = best["netgrain"] / best["plain"]
    print(f"ratio of the best rounds: {ratio:.2f}")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "training.json"
    facts = {"steps": args.steps, "members": args.members, "workers": workers, "difference": gap, "rounds": rounds}
    path.write_text(json.dumps({"ratio": ratio, **facts, "machine": machine()}, indent=2) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
