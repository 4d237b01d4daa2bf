"""How much an audit does to predict the score: by a fixed model of cost, never by the clock."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from torch import nn

from netgrain.families.reading import Reading
from netgrain.families.sizes import operations
from netgrain.learning.kernel_costs import FEWEST, MEMBERS, PASSES
from netgrain.learning.kernel_value import KernelKind
from netgrain.runtime.threads import one_thread

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
WORK, QUICK_WORK = 2e11, 5e10  # floating-point operations of all forward passes: seconds of one core
QUICK_SAMPLES, FEWEST_SAMPLES = 500, 300
LARGE = 3e8  # operations of a prediction from which several threads make a pass faster


@dataclass(frozen=True)
class Effort:
    """What the prediction of the score may use."""

    kinds: tuple[KernelKind, ...]
    members: int | None  # None: as many as is usual
    samples: int


def effort_for(reading: Reading, samples: int, *, quick: bool = False) -> Effort:
    """Both kernels and the usual number of networks where they are cheap; else fewer networks, then fewer samples.

    Networks with convolutions are read out by all layers alone: on the tuning tasks of `validity` the tangent kernel
    was better for none of them (0 of 42 pairs), and it takes over half of the time.

    >>> from netgrain.families.reading import read
    >>> effort_for(read(lambda: nn.Linear(3, 5), (3,)), 1000)
    Effort(kinds=('layers', 'tangent'), members=None, samples=1000)
    """
    each, work = operations(reading), QUICK_WORK if quick else WORK
    if quick:
        samples = min(samples, QUICK_SAMPLES)
    both: tuple[KernelKind, ...] = ("layers", "tangent")
    dense = not any(isinstance(module, CONVOLUTIONS) for module in reading.model.modules())
    if not quick and dense and samples * each * sum(MEMBERS[kind] * PASSES[kind] for kind in both) <= work:
        return Effort(both, None, samples)
    members = max(FEWEST, min(MEMBERS["layers"], int(work / (samples * each))))
    affordable = int(work / (members * each))
    return Effort(("layers",), members, min(samples, max(affordable, FEWEST_SAMPLES)))


def threads_for(reading: Reading) -> AbstractContextManager[None]:
    """One thread for a while, unless the network is large: threads cost small layers more time than they save.

    Eight gradients of a quarter-width ResNet18 on digits took 14 s of two busy cores with two threads, 0.6 s with one.
    """
    return nullcontext() if operations(reading) >= LARGE else one_thread()
