"""Random modules: the default call against plain sampling of other members, the share of each method, all violations.

A violation is a debiased Corr below 0.99 by more than 4 standard errors, a trace off by more than 10 % and 4 standard
errors, or a failure that is no sentence. Each module is judged in a process of its own; one that was judged is not
judged again (remove its file in out/bench/random_modules).

    python benchmarks/random_modules.py [--count 200] [--first 0] [--most 4096] [--timeout 300] [--budget MINUTES]
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from measure import machine

sys.path.insert(0, str(Path(__file__).parent.parent))
from netgrain.runtime.threads import one_thread_for_good
from tests.judging import Verdict, judge
from tests.random_modules import RandomModule


def _child(number: int, most: int, timeout: float, path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(timeout), int(timeout) + 1))  # ends it, however busy the machine is
    started = time.process_time()
    verdict = judge(number, most=most).as_dict()
    written = {**verdict, "number": number, "all_seconds": round(time.process_time() - started, 2)}
    part = path.with_suffix(".part")
    part.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
    part.replace(path)


def one(number: int, most: int, timeout: float, path: Path) -> None:
    """Judge a module in a forked process; what takes too long or dies is written down as that."""
    process = multiprocessing.get_context("fork").Process(
        target=_child, args=(number, most, timeout, path), daemon=True
    )
    process.start()
    process.join()
    if not path.exists():
        late = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        said = f"not finished after {timeout:.0f} s" if late else f"died with exit code {process.exitcode}"
        verdict = Verdict(f"random module {number}", "no answer", RandomModule(number).parts, (said,))
        path.write_text(json.dumps({**verdict.as_dict(), "number": number}, indent=1, ensure_ascii=False) + "\n")


def report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares, violations and refusals on stdout."""
    kinds = collections.Counter(row["kind"] for row in rows)
    print(f"\n{len(rows)} random modules")
    for kind, count in kinds.most_common():
        times = sorted(row["seconds"] for row in rows if row["kind"] == kind)
        print(
            f"  {count / len(rows):6.1%}  {kind:42s} median {times[len(times) // 2]:.2f} s, longest {times[-1]:.1f} s"
        )
    bad = [row for row in rows if row["violations"]]
    print(f"\n{len(bad)} violations")
    for row in bad:
        print(f"  {row['number']:4d} {'; '.join(row['violations'])}\n       {row['kind']}, probe {row['probe']}")
        print(f"       {' | '.join(row['parts'])}")
    silent = [row for row in rows if row["kind"] in ("refused", "no answer")]
    print(f"\n{len(silent)} refused or without an answer")
    for row in silent:
        print(f"  {row['number']:4d} {row['reasons'][0]}\n       {' | '.join(row['parts'])}")
    loose = [row for row in rows if row["reference"] and 4 * row["corr"][1] > 0.05]
    print(f"\n{len(loose)} compared only to within 0.05 of Corr: {', '.join(str(row['number']) for row in loose)}")
    return {"machine": machine(), "kinds": dict(kinds), "violations": bad, "refused": silent, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--most", type=int, default=4096, help="members of a reference at most")
    parser.add_argument("--timeout", type=float, default=300, help="seconds of the processor for one module")
    parser.add_argument(
        "--budget", type=float, default=None, help="minutes of processor time, then report what is there"
    )
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and the module that is being judged ends with it
    one_thread_for_good()  # forked processes must not find other threads' locks
    folder = args.out / "random_modules"
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(args.first, args.first + args.count):
        path = folder / f"{number}.json"
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not path.exists():
            if args.budget is not None and used.ru_utime + used.ru_stime > 60 * args.budget:
                continue
            one(number, args.most, args.timeout, path)
        row = json.loads(path.read_text())
        rows.append(row)
        numbers = (
            f"Corr {row['corr'][0]:.4f} ± {row['corr'][1]:.4f}  trace {row['trace'][0]:.3f} ± {row['trace'][1]:.3f}"
        )
        print(f"{number:4d} {row['kind']:40s} {numbers}  {'; '.join(row['violations'])}", flush=True)
    (args.out / "random_modules.json").write_text(json.dumps(report(rows), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
