"""Runs the tutorials for the site: `conf.py` passes every file of docs/tutorials through `executed`.

A tutorial is a Python file with cells. It runs in a real Jupyter kernel with one thread. The result is kept in
out/notebooks under a hash of the tutorial and of all sources of netgrain, so an unchanged tutorial is not run twice and
a changed library never shows old output.

Kernels are reached through files, not ports: on a busy machine another program may take a port between the moment it is
chosen and the moment the kernel binds it, and the kernel dies. A kernel that dies all the same is started again.
"""

import hashlib
import os
import tempfile
import time
from pathlib import Path

import jupytext
import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "out" / "notebooks"
STARTS = 3  # of a kernel, before its death is reported
SECONDS = 900  # for the start of a kernel and for one cell; they take seconds on an idle machine
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # beside other work, one thread is faster than two


def executed(text: str) -> NotebookNode:
    """The notebook of a tutorial with its outputs."""
    kept = KEPT / f"{_key(text)}.ipynb"
    if kept.exists():
        return nbformat.read(kept, as_version=4)
    notebook = jupytext.reads(text, fmt="py:percent")
    for start in range(1, STARTS + 1):
        try:
            notebook = _run(notebook)
            break
        except (DeadKernelError, RuntimeError) as error:  # jupyter_client says RuntimeError if a kernel does not start
            if start == STARTS:
                raise
            print(f"the kernel of a tutorial is started again ({error})")
            time.sleep(2)
    KEPT.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(f".{os.getpid()}")
    nbformat.write(notebook, partial)
    partial.replace(kept)
    return notebook


def _run(notebook: NotebookNode) -> NotebookNode:
    """A copy of a notebook with the outputs of its cells, in order; an exception in a cell is raised here."""
    with tempfile.TemporaryDirectory() as folder:  # short: the path of a socket may have 107 bytes
        manager = AsyncKernelManager(kernel_name="python3", transport="ipc", connection_file=f"{folder}/k.json")
        client = NotebookClient(
            nbformat.from_dict(notebook),
            km=manager,
            timeout=SECONDS,
            startup_timeout=SECONDS,
            shutdown_kernel="immediate",
            record_timing=False,
        )
        client.log.setLevel("WARNING")
        return client.execute(cwd=folder, env={**os.environ, **ENVIRONMENT}, cleanup_kc=True)


def _key(text: str) -> str:
    """What the outputs depend on: the tutorial and the sources of netgrain."""
    digest = hashlib.sha256(text.encode())
    for path in sorted((ROOT / "netgrain").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]
