"""Processes, network namespaces and small disks; what is made here is taken away again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torture.parts import CannotRun

ROOT = Path(__file__).parent.parent
# one thread each: the workers are what runs in parallel
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


# --- processes ----------------------------------------------------------------------------------------------------


def python(*words: object) -> list[str]:
    return [sys.executable, *map(str, words)]


def netgrain(*words: object) -> list[str]:
    """The command line as a user types it."""
    return [str(Path(sys.executable).parent / "netgrain"), *map(str, words)]


def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
    options = {"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, cwd=ROOT, text=True, **options)


def finished(command: list[str], timeout: float = 120, **options: Any) -> tuple[int, str, str]:
    """Exit code, output and errors of a command that ends by itself."""
    process = start(command, **options)
    try:
        out, errors = process.communicate(timeout=timeout)
    finally:
        end(process)
    return process.returncode, out, errors


def end(process: subprocess.Popen[str], patience: float = 0) -> None:
    """End a process that was started here, politely first where there is patience."""
    if process.poll() is None and patience:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    if process.poll() is None:
        process.kill()
    with suppress(ValueError):  # its pipes were read to the end already
        process.communicate()


def state(pid: int) -> str:
    """R: running, S: waiting, Z: ended and not missed yet, and so on; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def children(parent: int) -> list[int]:
    """Living processes whose parent this is."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent and fields[0] != "Z":
                    found.append(int(entry.name))
    return sorted(found)


def strike(pid: int, blow: signal.Signals = signal.SIGKILL) -> bool:
    """False if it had ended already."""
    try:
        os.kill(pid, blow)
    except ProcessLookupError:
        return False
    return True


def wait_until(true: Callable[[], bool], seconds: float, every: float = 0.01) -> bool:
    limit = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < limit:
        time.sleep(every)
    return found


def crew_of(driver: subprocess.Popen[str]) -> list[int]:
    """The workers of a driver, once it has some; none when it has ended."""
    crew: list[int] = []

    def there() -> bool:
        crew[:] = children(driver.pid)
        return bool(crew) or driver.poll() is not None

    wait_until(there, 60)
    return crew


# --- disks and networks, for which one must be root -----------------------------------------------------------------


@contextmanager
def scratch(prefix: str = "torture-") -> Iterator[Path]:
    """An empty folder with a short name (Ray keeps sockets in it), removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def as_root(*command: object) -> None:
    """Run a command of the system, or say that this part cannot run."""
    words = [str(c) for c in command]
    if shutil.which(words[0]) is None:
        raise CannotRun(f"there is no command '{words[0]}'")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotRun(f"'{' '.join(words)}' failed: {' '.join(done.stderr.split())[:200]}")


class Disk:
    """A disk of some kilobytes in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resize(self, kilobytes: int) -> None:
        as_root("mount", "-o", f"remount,size={kilobytes}k", self.path)

    def read_only(self, yes: bool) -> None:
        as_root("mount", "-o", f"remount,{'ro' if yes else 'rw'}", self.path)


@contextmanager
def disk(kilobytes: int) -> Iterator[Disk]:
    """A small disk on an empty folder, unmounted afterwards."""
    with scratch() as path:
        as_root("mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "torture", path)
        try:
            yield Disk(path)
        finally:
            subprocess.run(["umount", "--lazy", str(path)], check=False, capture_output=True)


class TwoHosts:
    """Two network namespaces joined by a cable: what runs in one reaches the other only through it."""

    def __init__(self) -> None:
        tag = os.getpid()
        self.names = (f"near{tag}", f"far{tag}")
        self.addresses = ("10.213.7.1", "10.213.7.2")
        self.plugs = (f"vn{tag}", f"vf{tag}")

    def lay(self) -> None:
        for name in self.names:
            as_root("ip", "netns", "add", name)
        as_root("ip", "link", "add", self.plugs[0], "type", "veth", "peer", "name", self.plugs[1])
        for name, plug, address in zip(self.names, self.plugs, self.addresses, strict=True):
            as_root("ip", "link", "set", plug, "netns", name)
            as_root("ip", "-n", name, "address", "add", f"{address}/24", "dev", plug)
            as_root("ip", "-n", name, "link", "set", "lo", "up")
            as_root("ip", "-n", name, "link", "set", plug, "up")
            # without one Ray does not find the address of its own host
            as_root("ip", "-n", name, "route", "add", "default", "dev", plug)

    def inside(self, host: int, command: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self.names[host], *command]

    def network(self, host: int) -> str:
        """What a process of that host finds at /proc/self/ns/net."""
        words = self.inside(host, ["readlink", "/proc/self/ns/net"])
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    def cut(self) -> None:
        """Pull the cable at the far end: the near end hears nothing more, and is told nothing."""
        as_root("ip", "-n", self.names[1], "link", "set", self.plugs[1], "down")

    def clear(self) -> None:
        for name in self.names:
            listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
            for pid in map(int, listed.stdout.split()):  # nothing runs in there but what was started for it
                strike(pid)
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@contextmanager
def two_hosts() -> Iterator[TwoHosts]:
    hosts = TwoHosts()
    try:
        hosts.lay()
        yield hosts
    finally:
        hosts.clear()
