"""Seeds from labels, and generators given back as they were found."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derived_seed(seed: int, *labels: int | str) -> int:
    """A 63-bit seed for one use of randomness, a function of its labels alone.

    >>> derived_seed(0, "member", 1) == derived_seed(0, "member", 1) != derived_seed(0, "member", 2)
    True
    """
    digest = hashlib.blake2b(repr((seed, *labels)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator_for(seed: int, *labels: int | str) -> torch.Generator:
    """A generator of its own for one use of randomness."""
    return torch.Generator().manual_seed(derived_seed(seed, *labels))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run with torch's, NumPy's and Python's global generators set to a seed; the caller's states come back."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    mps_state = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=list(devices)):
        _seed_torch(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
            if mps_state is not None:
                torch.mps.set_rng_state(mps_state)


def _seed_torch(seed: int) -> None:
    """`torch.manual_seed`, which without an accelerator spends most of its time on notes of who called it."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)
