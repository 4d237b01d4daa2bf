"""How many threads work at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for a while, of torch and of the linear algebra under NumPy and SciPy; also a decorator.

    Members are what runs in parallel, and sums must not depend on the number of threads. On a busy machine several
    threads per operation can be ten times slower than one.
    """
    import torch  # late: the command line knows the engines before it needs torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


def one_thread_for_good() -> None:
    """The same for the rest of this process: a worker that was forked to do one thing at a time."""
    import torch

    torch.set_num_threads(1)
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # for what is loaded from now on
    _libraries().limit(limits=1, user_api="blas")


_found: dict[tuple[int, str], ThreadpoolController] = {}  # the last answer


def _libraries() -> ThreadpoolController:
    """The libraries that compute in threads, looked up anew (3 ms) only if modules were imported since the last time.

    SciPy brings a library of its own, and may be imported at any time.
    """
    state = (len(sys.modules), next(reversed(sys.modules)))
    found = _found.get(state)
    if found is None:
        found = ThreadpoolController()
        _found.clear()
        _found[state] = found
    return found
