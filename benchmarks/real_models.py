"""Real models: the default call on sixteen models of timm at native size with 1,000 classes, each in its own process.

    python benchmarks/real_models.py                  # the sixteen: 60 s, 4 GB and Corr 0.99 each is the aim
    python benchmarks/real_models.py --reduced        # at 64 × 64, 10 classes: against plain sampling of other members
    python benchmarks/real_models.py --outputs        # what 1,000 outputs cost over 10
    python benchmarks/real_models.py --families 0     # ten further families of timm, drawn with that seed: 120 s, 4 GB

Every process has at most --memory GB of address space (as `ulimit -v` gives) and --timeout seconds. A model that was
measured is not measured again: remove its file in out/bench/real_models, or name it with --only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measure import machine

sys.path.insert(0, str(Path(__file__).parent.parent))

SIXTEEN = (
    *("resnet18", "resnet50", "seresnet50", "densenet121", "vgg16_bn", "mobilenetv3_large_100", "efficientnet_b0"),
    *("regnety_004", "convnext_tiny", "nf_resnet50", "darknet53", "hrnet_w18_small", "poolformer_s12"),
    *("mixer_s16_224", "vit_tiny_patch16_224", "swin_tiny_patch4_window7_224"),
)
SWITCHED_ON = ("mixer_s16_224",)  # its head starts at zero: G = 0
TAKES_SIZE = ("mixer_s16_224", "vit_tiny_patch16_224", "swin_tiny_patch4_window7_224")
CORR, GIGABYTE = 0.99, 2**30
SMALL = 64  # pixels of the reduced models
REPEATS = 3  # of each number of outputs
BUDGET = 240.0  # seconds of the processor for a reference
REFERENCE = 2048  # members of it at most
FAMILIES = 10


@dataclass(frozen=True)
class Mode:
    """A table: the names of its rows, what a process does for one of them, and what it is allowed."""

    names: Callable[[argparse.Namespace], list[str]]
    work: Callable[[str], dict[str, Any]]
    columns: tuple[str, ...]
    seconds: float  # within which a call should end
    title: str


# --- what a process does ----------------------------------------------------------------------------------------------


def family(name: str, **options: object) -> Callable[[], Any]:
    from netgrain.models.timm_models import import_timm

    return partial(import_timm(f"timm:{name}").create_model, name, **options)


def native(name: str) -> dict[str, Any]:
    """The default call at the size and with the classes that the model is known for."""
    size = native_size(name)
    G, spent = timed(name, family(name, num_classes=1000), (3, size, size))
    return {"size": size, **spent, **facts(G)}


def native_size(name: str) -> int:
    from netgrain.models.timm_models import import_timm

    return int(import_timm(f"timm:{name}").get_pretrained_cfg(name).input_size[-1])


def timed(name: str, make: Callable[[], Any], shape: tuple[int, ...]) -> tuple[Any, dict[str, Any]]:
    """The default call, with its times and the memory that this process had at its most."""
    import torch

    import netgrain as ng

    torch.randn(64, 64) @ torch.randn(64, 64)
    asked = {"switched_on": True} if name in SWITCHED_ON else {}
    before, started = _processor(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is in the remarks
        G = ng.average_geometry(make, shape, **asked)  # type: ignore[arg-type]
    wall, cpu = time.perf_counter() - started, _processor() - before
    return G, {"seconds": wall, "cpu_seconds": cpu, "peak_gb": peak()}


def _processor() -> float:
    """Seconds of the processor, those of worker processes included."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def peak() -> float:
    """GB that this process or a worker had at most; ru_maxrss of a process itself would remember its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    own = int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) * 1024 / GIGABYTE


def facts(G: Any) -> dict[str, Any]:
    """What a geometry says of itself."""
    from tests.judging import kind_of

    return {
        "method": kind_of(G),
        "exact": G.exact,
        "probe": str(G.about.probe),
        "members": G.members,
        "corr": expected_corr(G),
        "effective_rank": told(lambda: G.effective_rank.as_dict()),
        "trace": told(lambda: G.trace.as_dict()),
        "remarks": list(G.about.notes),
        "averaged": G.about.averaged,
        "geometry": told(lambda: repr(G)),
    }


def told(value: Callable[[], Any]) -> Any:
    """A value, or how its computation failed: the call itself was measured before."""
    try:
        return value()
    except (RuntimeError, MemoryError, ValueError) as e:
        return f"failed: {e}"[:200]


def expected_corr(G: Any) -> float | None:
    """The expected Corr with the true G: what its provenance says, or what its parts show."""
    for name in ("corr", "expected_corr", "fidelity"):
        if (value := getattr(G.about, name, None)) is not None:
            return float(value)
    return None if math.isnan(G.fidelity) else float(G.fidelity)


def reduced(name: str, budget: float = BUDGET) -> dict[str, Any]:
    """The default call at 64 × 64 with ten classes, against plain sampling of other members."""
    from tests.judging import judged

    size = {"img_size": SMALL} if name in TAKES_SIZE else {}
    make = family(name, num_classes=10, **size)
    found: dict[str, Any] = {}

    def default(make: Callable[[], Any], shape: tuple[int, ...]) -> Any:
        G, spent = timed(name, make, shape)
        found.update(spent, **facts(G))
        return G

    reference = partial(_with_a_head, make) if name in SWITCHED_ON else make
    shape = (3, SMALL, SMALL)
    verdict = judged(
        name, reference, shape, most=REFERENCE, budget=budget, large=True, default=lambda _, s: default(make, s)
    )
    if verdict.kind in ("refused", "crashed"):
        raise SystemExit(verdict.reasons[0])
    compared = {"found_corr": verdict.corr, "trace_ratio": verdict.trace, "reference": verdict.reference}
    return {**found, **compared, "violations": verdict.violations}


def _with_a_head(make: Callable[[], Any]) -> Any:
    """A model whose last layer has a centred law of variance 1/fan-in instead of zeros: switched on by hand."""
    model = make()
    head = model.get_classifier()
    head.weight.data.normal_(0, head.in_features**-0.5)
    return model


def outputs(name: str) -> dict[str, Any]:
    """resnet18 at 64 × 64 with 10 or 1,000 outputs; the name is 'resnet18, 10 outputs, 1'."""
    model, words, _ = name.split(", ")
    G, spent = timed(model, family(model, num_classes=int(words.split()[0])), (3, SMALL, SMALL))
    return {**spent, **facts(G)}


def further_families(seed: int) -> list[str]:
    """The smallest model of each of ten families that the sixteen do not belong to."""
    from netgrain.models.timm_models import import_timm

    timm = import_timm("timm")
    ours = {name for module in timm.list_modules() for name in timm.list_models(module=module) if name in SIXTEEN}
    assert ours == set(SIXTEEN)
    others = [m for m in timm.list_modules() if not set(timm.list_models(module=m)) & set(SIXTEEN)]
    drawn = random.Random(seed).sample([m for m in others if timm.list_models(module=m)], FAMILIES)
    return [f"{module}: {min(timm.list_models(module=module), key=_parameters)}" for module in drawn]


def _parameters(name: str) -> int:
    import torch

    make = family(name)
    try:
        with torch.device("meta"):
            return sum(p.numel() for p in make().parameters())
    except (RuntimeError, NotImplementedError, ValueError):  # reads a number from a tensor while it is built
        return sum(p.numel() for p in make().parameters())


# --- tables -----------------------------------------------------------------------------------------------------------


def short(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, dict):
        return short(value.get("value"))
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, float) for v in value):
        return f"{value[0]:.4f} ± {value[1]:.4f}"
    if isinstance(value, float):
        return f"{value:.4f}" if 0.1 < abs(value) < 1.1 else f"{value:,.1f}"
    return str(value)


NATIVE = ("size", "seconds", "cpu_seconds", "peak_gb", "method", "members", "corr", "effective_rank")
CHECKED = ("seconds", "cpu_seconds", "peak_gb", "method", "members", "corr", "found_corr", "trace_ratio", "reference")
MODES = {
    "native": Mode(lambda args: list(SIXTEEN), native, NATIVE, 60, "native size, 1,000 classes"),
    "reduced": Mode(lambda args: list(SIXTEEN), reduced, CHECKED, 60, f"{SMALL} × {SMALL}, 10 classes"),
    "outputs": Mode(
        lambda args: [f"resnet18, {n} outputs, {i}" for i in range(REPEATS) for n in (10, 1000)],
        outputs,
        ("seconds", "cpu_seconds", "peak_gb", "method", "members", "corr"),
        60,
        "1,000 outputs over 10",
    ),
    "families": Mode(lambda args: _drawn(args), native, NATIVE, 120, "further families of timm, native size"),
}


def _drawn(args: argparse.Namespace) -> list[str]:
    path = args.out / "real_models" / f"families-{args.families}.json"
    if not path.exists():
        path.write_text(json.dumps(further_families(args.families)) + "\n")
    return json.loads(path.read_text())


def measured_row(mode: str, name: str, args: argparse.Namespace) -> dict[str, Any]:
    """A row from its file, or from a process of its own that writes it; how it ended if it does not."""
    path = args.out / "real_models" / f"{mode}-{name.replace(': ', '-').replace(', ', '-').replace(' ', '-')}.json"
    if path.exists() and name not in args.only:
        return json.loads(path.read_text())
    path.unlink(missing_ok=True)
    limits = [str(args.memory), str(args.budget)]
    command = [sys.executable, __file__, "--child", mode, name.rpartition(": ")[2], str(path), *limits]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        _, errors = process.communicate(timeout=args.timeout)
        said = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
        ended = f"killed by signal {-process.returncode}" if process.returncode < 0 else said
    except subprocess.TimeoutExpired:
        ended = f"not finished after {args.timeout:.0f} s"
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if not path.exists():
        path.write_text(json.dumps({"failed": ended[-500:]}) + "\n")
    row = {"name": name, "machine": machine(), **json.loads(path.read_text())}
    path.write_text(json.dumps(row, indent=1, ensure_ascii=False) + "\n")
    return row


def within(mode: Mode, row: dict[str, Any]) -> bool:
    """The aim: in time, within 4 GB, and Corr 0.99 expected (and found, where it was compared)."""
    if "failed" in row or row["seconds"] > mode.seconds or row["peak_gb"] > 4 or row.get("violations"):
        return False
    return row["exact"] or (row["corr"] or 0) >= CORR or mode.title.startswith("further")


def child(mode: str, name: str, path: Path, memory: float, budget: float) -> None:
    limit = int(memory * GIGABYTE)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    row = reduced(name, budget) if mode == "reduced" else MODES[mode].work(name)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(row, ensure_ascii=False) + "\n")
    part.replace(path)


def table(name: str, args: argparse.Namespace) -> None:
    mode = MODES[name]
    names = mode.names(args)
    if args.only:
        names = [n for n in names if any(only in n for only in args.only)] or list(args.only)
    print(f"\n{mode.title}\n{'':32s} " + "  ".join(mode.columns), flush=True)
    rows = []
    for model in names:
        row = measured_row(name, model, args)
        rows.append(row)
        if "failed" in row:
            print(f"{model:32s} {row['failed']}", flush=True)
            continue
        cells = "  ".join(f"{short(row[c]):>{len(c)}s}" for c in mode.columns)
        print(f"{model:32s} {cells}{'' if within(mode, row) else '  <-'}", flush=True)
        for sentence in (*row.get("violations", ()), *row["remarks"]):
            print(f"{'':34s}{sentence}")
    print(f"{sum(within(mode, r) for r in rows)} of {len(rows)} within {mode.seconds:.0f} s, 4 GB and Corr {CORR}")
    result = {"machine": machine(), "rows": rows}
    if name == "outputs" and not any("failed" in row for row in rows):
        best = {n: min(r["cpu_seconds"] for r in rows if f" {n} outputs" in r["name"]) for n in (10, 1000)}
        result["ratio"] = best[1000] / best[10]
        print(f"1,000 outputs take {result['ratio']:.2f} times the processor time of 10 (best of {REPEATS} each)")
    (args.out / f"real_models_{name}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        mode, name, path, memory, budget = sys.argv[2:]
        child(mode, name, Path(path), float(memory), float(budget))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reduced", action="store_true", help="against plain sampling at a reduced size")
    parser.add_argument("--outputs", action="store_true", help="what 1,000 outputs cost over 10")
    parser.add_argument("--families", type=int, metavar="SEED", help="ten further families of timm")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="these models alone, measured anew")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of one model (default: 600)")
    parser.add_argument("--memory", type=float, default=8, help="GB of address space of one process (default: 8)")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of a reference (default: 240)")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the process of a model ends with this one
    (args.out / "real_models").mkdir(parents=True, exist_ok=True)
    asked = [m for m in ("reduced", "outputs") if getattr(args, m)] + ["families"] * (args.families is not None)
    for name in asked or ["native"]:
        table(name, args)


if __name__ == "__main__":
    main()
