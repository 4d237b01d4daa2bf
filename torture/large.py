"""Large inputs: the geometry of 3x224x224 (d = 150,528) from 1,024 members over two Ray workers, in bounded memory."""

from __future__ import annotations

import importlib.util
import json
import resource
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from torture.parts import CannotRun, Findings
from torture.subject import Noted, read_log
from torture.system import end, python, scratch, start

SECONDS = 420
SHAPE, MEMBERS = (3, 224, 224), 1024
MOST = 3 * 2**30  # bytes of one worker
PACE = 0.25  # seconds between two looks at the memory


def run(found: Findings) -> None:
    if importlib.util.find_spec("ray") is None:
        raise CannotRun("Ray is not installed")
    with scratch() as folder:
        log = folder / "log"
        driver = start(python("-m", "torture.large", log))
        peaks: dict[int, int] = {}
        try:
            while driver.poll() is None:
                for pid in {b.pid for b in read_log(log)[0]}:
                    peaks[pid] = max(peaks.get(pid, 0), _peak(pid))
                time.sleep(PACE)
            out, errors = driver.communicate()
        finally:
            end(driver, patience=10)
        if not found.check(driver.returncode == 0, f"the run failed: {errors[-300:]}"):
            return
        told = json.loads(out.splitlines()[-1])
    found.facts |= told | {"peaks of the workers in MiB": [peak >> 20 for peak in peaks.values()]}
    found.check(len(peaks) >= 2, f"expected two workers, found {len(peaks)}")
    found.check(max(peaks.values(), default=0) < MOST, "a worker took more than 3 GB")
    found.check(told["d"] == 150_528 and told["members"] == MEMBERS, f"another geometry than was asked for: {told}")


def _peak(pid: int) -> int:
    """Bytes of memory at its most; 0 when the process is gone."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) << 10
    return 0


def main() -> None:
    import netgrain as ng
    from netgrain.models import ResNet18
    from netgrain.runtime.on_ray import Ray

    log = sys.argv[1]
    make = partial(ResNet18, channels=3, image_size=SHAPE[1], outputs=1, activation="gelu", width=1 / 16)
    begun = time.monotonic()
    G = ng.average_geometry(make, SHAPE, members=MEMBERS, engine=Noted(Ray(2), log), method="sampled")
    seconds = time.monotonic() - begun
    told = {
        "d": G.d,
        "members": G.about.members,
        "seconds": round(seconds, 1),
        "peak of the driver in MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "geometry": repr(G),
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
