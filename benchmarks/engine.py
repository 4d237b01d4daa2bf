"""What engines cost and gain: two workers against one on a sweep of trainings, and the overhead of a unit.

The sweep trains LeNets (1x32x32, batch 128, one thread each), so its units are independent and alike; the plain
reference is a for loop over them in this process. Overhead: units that do nothing but return a small tensor, counted
from the second one back (the first pays for the start); it is what a unit costs the one who waits, with one worker.
Sides take turns, and the best round of each counts.

    python benchmarks/engine.py [--units 24] [--steps 40] [--rounds 3] [--empty 200] [--out out/bench]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measure import machine

from netgrain.models import LeNet
from netgrain.runtime.on_ray import Ray
from netgrain.runtime.processes import Processes
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Engine, Outcome, Unit
from netgrain.training import Settings, train_member


def training(steps: int, unit: Mapping[str, Any]) -> Outcome:
    generator = torch.Generator().manual_seed(0)
    X, y = torch.randn(1024, 1, 32, 32, generator=generator), torch.arange(1024) % 10
    trained = train_member(partial(LeNet, channels=1), X, y, Settings(steps=steps, batch=128), seed=unit["seed"], i=0)
    return Outcome({"loss": float(trained.losses[-1])})


def empty(unit: Mapping[str, Any]) -> Outcome:
    return Outcome({"n": unit["n"]}, {"rows": torch.zeros(1000)})


def loop(steps: int, units: list[Unit]) -> tuple[float, list[float]]:
    """The plain reference."""
    started = time.perf_counter()
    with one_thread():
        losses = [training(steps, u.config).numbers["loss"] for u in units]
    return time.perf_counter() - started, losses


def through(engine: Engine, steps: int, units: list[Unit]) -> tuple[float, list[float]]:
    started = time.perf_counter()
    found = {u.id: o.numbers["loss"] for u, o in engine.run(partial(training, steps), units)}
    return time.perf_counter() - started, [found[u.id] for u in units]


def overhead(engine: Engine, count: int) -> float:
    """Seconds per unit after the start."""
    moments = [time.perf_counter() for _ in engine.run(empty, [Unit({"n": n}) for n in range(count + 1)])]
    return (moments[-1] - moments[0]) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("units", 24), ("steps", 40), ("rounds", 3), ("empty", 200)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    units = [Unit({"seed": s}) for s in range(args.units)]
    engines: dict[str, Engine] = {"processes(1)": Processes(1), "processes(2)": Processes(2)}
    if importlib.util.find_spec("ray") is not None:
        engines |= {"ray(1)": Ray(1), "ray(2)": Ray(2)}
        through(Ray(2), 1, units[:4])  # its start is paid for before the clock
    best = dict.fromkeys(["loop", *engines], float("inf"))
    answers = {}
    for _ in range(args.rounds):
        seconds, answers["loop"] = loop(args.steps, units)
        best["loop"] = min(best["loop"], seconds)
        for name, engine in engines.items():
            seconds, answers[name] = through(engine, args.steps, units)
            best[name] = min(best[name], seconds)
    assert all(a == answers["loop"] for a in answers.values()), "engines differ"
    report: dict[str, Any] = {"machine": machine(), "units": args.units, "steps": args.steps, "seconds": best}
    print(f"{args.units} trainings of {args.steps} steps; all engines give the same bits\n")
    for name, seconds in best.items():
        print(f"{name:14} {seconds:7.2f} s   {best['loop'] / seconds:5.2f} x the plain loop")
    for kind in ("processes", "ray"):
        if f"{kind}(1)" in best:
            report[f"{kind}_gain"] = best[f"{kind}(1)"] / best[f"{kind}(2)"]
            print(f"{kind}: two workers are {report[f'{kind}_gain']:.2f} x one")
    print()
    for name, engine in engines.items():
        cost = min(overhead(engine, args.empty) for _ in range(args.rounds))
        report[f"overhead {name}"] = cost
        print(f"overhead of a unit, {name:14} {1000 * cost:6.2f} ms")
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "engine.json").write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
