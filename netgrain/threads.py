"""How many torch threads work at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread for a while; also a decorator.

    Members are what runs in parallel, and sums must not depend on the number of threads. On a busy machine several
    threads per operation can be ten times slower than one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
