"""Tasks and networks with numbers that are known by hand."""

import math
from dataclasses import replace

import numpy as np

from netgrain.experiments.learnability.pairs import Pairs
from netgrain.experiments.learnability.predictors import SAYS
from netgrain.experiments.learnability.tasks import of_part

TESTS = 1000


def made_up_pairs(tasks: int = 12, networks: int = 4, *, tuning: bool = False, off: float = 0.0) -> Pairs:
    """Networks in one order on all tasks; our prediction is what they reach, but on every third task they are `off`.

    Every third task is one in which features must be learnt, and its pairs are warned of. Proxies say nothing (NaN),
    but for "neighbours", one number for each task in the opposite order, and "synflow", which orders the networks.
    """
    rows = of_part("tuning" if tuning else "verdict")[:tasks]
    rows = [replace(task, features=t % 3 == 0) for t, task in enumerate(rows)]
    level = np.linspace(0.3, 0.85, tasks)[:, None]
    reached = np.round((level + 0.03 * np.arange(networks)) * TESTS) / TESTS
    right = {}
    for t in range(tasks):
        for j in range(networks):
            hits = np.zeros((2, TESTS), dtype=bool)
            hits[:, : round(reached[t, j] * TESTS)] = True
            right[t, j] = hits
    learnt = (np.arange(tasks) % 3 == 0)[:, None] & np.ones(networks, dtype=bool)
    predicted = {name: np.full(reached.shape, math.nan) for name in SAYS}
    predicted["kernel"] = np.where(learnt, reached - off, reached)
    predicted["combined"] = reached.copy()
    predicted["neighbours"] = np.repeat(1 - level, networks, 1)
    predicted["synflow"] = np.tile(np.arange(networks, dtype=float), (tasks, 1))
    return Pairs(
        tuple(rows),
        tuple("ABCDEFGH"[:networks]),
        reached,
        right,
        np.ones(reached.shape),
        predicted,
        learnt.astype(float),
    )
