"""A host of a Ray cluster falls silent: two network namespaces joined by a cable, and the cable is pulled.

The driver is on the near host. When a unit is in hand on the far one the cable goes, without a word to anybody. The
run must end within a minute, with the numbers of a run on this machine alone: with the health settings on both hosts,
as docs/reliability.md tells, and without them but with a deadline for every unit. Of who gives neither, nothing is
lost but time: a unit is sent again after two minutes.
"""

from __future__ import annotations

import importlib.util
import json
import secrets
import subprocess
import time
from pathlib import Path

from netgrain.runtime.on_ray import HEALTH, QUIET
from torture.parts import CannotRun, Findings
from torture.subject import command, read_log
from torture.system import ENVIRONMENT, TwoHosts, end, finished, python, scratch, start, two_hosts, wait_until

SECONDS = 600
PATIENCE = 60  # seconds from the cut to the end of the run
UNTOLD = 240  # the same without health settings and deadline
WORK = ("--units=40", "--chunk=60")
PORT = 6399
RAYS_OWN = {  # what Ray does when it is told nothing; written out, since the driver would set what is missing
    "RAY_grpc_client_keepalive_time_ms": "300000",
    "RAY_grpc_client_keepalive_timeout_ms": "120000",
    "RAY_health_check_period_ms": "3000",
    "RAY_health_check_timeout_ms": "10000",
    "RAY_health_check_failure_threshold": "5",
}


def run(found: Findings) -> None:
    if importlib.util.find_spec("ray") is None:
        raise CannotRun("Ray is not installed")
    with scratch() as folder:
        alone = folder / "alone"
        code, _, errors = finished(command("geometry", alone, "--engine=processes", *WORK))
        if found.check(code == 0, f"the undisturbed run failed: {errors[-300:]}"):
            _lose_the_far_host(found, folder, "with health settings", "ray", HEALTH, PATIENCE)
            _lose_the_far_host(found, folder, "with a deadline only", "ray:deadline=5", RAYS_OWN, PATIENCE)
            _lose_the_far_host(found, folder, "with neither", "ray", RAYS_OWN, UNTOLD)


def _lose_the_far_host(
    found: Findings, folder: Path, how: str, engine: str, health: dict[str, str], within: float
) -> None:
    # every node of a cluster and the driver share a secret; in ~/.ray/auth_token, or as here
    shared = {**health, **QUIET, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = {k: v for k, v in ENVIRONMENT.items() if not k.startswith("RAY_")} | shared
    with two_hosts() as hosts, scratch("rn-") as near, scratch("rf-") as far:
        address = f"{hosts.addresses[0]}:{PORT}"
        nodes = [
            _node(hosts, 0, near, environment, "--head", f"--port={PORT}", "--include-dashboard=false"),
            _node(hosts, 1, far, environment, f"--address={address}"),
        ]
        name = folder / how.replace(" ", "-")
        words = command("geometry", name, f"--engine={engine}", f"--address={address}", "--hosts=2", *WORK)
        driver = start(hosts.inside(0, words), env=environment)
        try:
            _cut_in_flight(found, hosts, driver, how, folder, name, within)
        finally:
            for process in (driver, *nodes):
                end(process)


def _node(
    hosts: TwoHosts, host: int, folder: Path, environment: dict[str, str], *options: str
) -> subprocess.Popen[str]:
    words = python("-m", "ray.scripts.scripts", "start", "--block", f"--node-ip-address={hosts.addresses[host]}")
    words += [*options, "--num-cpus=1", "--object-store-memory=200000000", f"--temp-dir={folder}"]
    return start(hosts.inside(host, words), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _cut_in_flight(
    found: Findings, hosts: TwoHosts, driver: subprocess.Popen[str], how: str, folder: Path, name: Path, within: float
) -> None:
    log, far = Path(f"{name}.log"), hosts.network(1)

    def in_hand() -> int:
        return sum(b.host == far for b in read_log(log)[1])

    # both hosts have worked for a while, and the far one is at it
    ready = wait_until(lambda: (len(read_log(log)[0]) >= 6 and in_hand() > 0) or driver.poll() is not None, 90)
    if not found.check(ready and driver.poll() is None, f"{how}: the far host was given no unit"):
        return
    hosts.cut()
    cut = time.monotonic()
    caught = in_hand()
    try:
        _, errors = driver.communicate(timeout=2 * within)
    except subprocess.TimeoutExpired:
        found.lost.append(f"{how}: the run had not ended {2 * within:g} s after the cut")
        return
    seconds = time.monotonic() - cut
    begun, _ = read_log(log)
    found.facts[how] = {
        "seconds from the cut to the end": round(seconds, 1),
        "units in hand on the far host": caught,
        "units begun on the far host": sum(b.host == far for b in begun),
        "units begun": len(begun),
    }
    found.check(caught > 0, f"{how}: no unit was in hand on the far host when the cable was pulled")
    found.check(seconds <= within, f"{how}: the run took {seconds:.0f} s after the cut")
    if found.check(driver.returncode == 0, f"{how}: the run failed: {errors[-300:]}"):
        ours, theirs = (json.loads(Path(f"{f}.json").read_text()) for f in (name, folder / "alone"))
        found.check(ours["digest"] == theirs["digest"], f"{how}: the matrix differs from that of an undisturbed run")
        found.check(ours["twice"] == 0, f"{how}: {ours['twice']} outcomes came twice")
