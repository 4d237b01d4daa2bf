"""Every theorem, conjecture, lemma and example of the paper as a statement that a command checks.

Each check measures a number with its error and sets it against what the paper prints and against what is true; where
the two differ, docs/theory.md derives why. `check()` runs them all.
"""

from __future__ import annotations

import time
from pathlib import Path

from netgrain.experiments.theory import conjectures, expectations, pooled, relu, theorems
from netgrain.experiments.theory.statements import Job, Statement, StatementCheck, timed
from netgrain.runtime.errors import known_name
from netgrain.runtime.progress import Bar
from netgrain.runtime.threads import one_thread

SCALES = ("smoke", "laptop")
STATEMENTS: dict[str, StatementCheck] = {
    "linear-regression": theorems.linear_regression,
    "theorem-3.1": relu.theorem_31,
    "theorem-3.2": pooled.theorem_32,
    "conjecture-1": conjectures.conjecture_1,
    "conjecture-1-sign": conjectures.sign,
    "conjecture-2": conjectures.conjecture_2,
    "proposition-a1": theorems.proposition_a1,
    "theorem-a2": theorems.theorem_a2,
    "theorem-a3": theorems.theorem_a3,
    "corollary-a4": expectations.corollary_a4,
    "example-a10": theorems.example_a10,
    "lemma-a5": expectations.lemma_a5,
    "lemma-a6": expectations.lemma_a6,
    "lemma-a7": expectations.lemma_a7,
    "moments": expectations.moments,
}

__all__ = ["SCALES", "STATEMENTS", "Statement", "measure_statements"]


@one_thread()
def measure_statements(
    name: str | None = None,
    scale: str = "smoke",
    seed: int = 0,
    *,
    data_dir: str | Path | None = None,
    progress: bool | None = None,
) -> list[Statement]:
    """Measure the statement of this name, or all of them.

    scale: "smoke" (seconds, synthetic data) or "laptop" (minutes; CIFAR-2 where it is found in data_dir, $NETGRAIN_DATA
    or the cache folder, else synthetic images).

    >>> [s.verdict + "/" + s.corrected for s in measure_statements("moments")]  # printed, true
    ['fails/holds', 'holds/holds', 'fails/holds']
    """
    chosen = list(STATEMENTS) if name is None else [known_name("statement", name, STATEMENTS)]
    job = Job(known_name("scale", scale, SCALES) == "laptop", seed, None if data_dir is None else str(data_dir))
    found = []
    try:
        with Bar("statements", len(chosen), progress) as bar:
            for each in chosen:
                bar.advance(0, note=each)
                begin = time.perf_counter()
                rows = STATEMENTS[each](job)
                found += timed(rows, time.perf_counter() - begin)
                bar.advance()
    finally:
        conjectures.course.cache_clear()
        conjectures.geometry.cache_clear()
    return found
