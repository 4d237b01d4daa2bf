"""Every theorem, conjecture, lemma and example of the paper as a statement that a command checks.

Each check measures a number with its error and sets it against what the paper prints and against what is true; where
the two differ, docs/theory.md derives why. `measure_statements` runs them all.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from netgrain.experiments.contract import SCALES
from netgrain.experiments.theory import (
    conjectures,
    courses,
    curvature,
    expectations,
    isotropy,
    networks,
    normalised,
    pooled,
    relu,
    theorems,
)
from netgrain.experiments.theory.bounds import clear
from netgrain.experiments.theory.complexity_statements import COVERS as COMPLEXITY_COVERS
from netgrain.experiments.theory.complexity_statements import STATEMENTS as COMPLEXITY
from netgrain.experiments.theory.statements import Job, Statement, StatementCheck
from netgrain.runtime.errors import known_name
from netgrain.runtime.progress import Bar
from netgrain.runtime.threads import one_thread

STATEMENTS: dict[str, StatementCheck] = {
    "mean-gradient": isotropy.mean_gradient,
    "linear-regression": theorems.linear_regression,
    "theorem-3.1": relu.theorem_31,
    "theorem-3.2": pooled.theorem_32,
    "conjecture-1": conjectures.conjecture_1,
    "conjecture-1-sign": conjectures.sign,
    "conjecture-2": conjectures.conjecture_2,
    "proposition-a1": theorems.proposition_a1,
    "theorem-a2": isotropy.theorem_a2,
    "theorem-a3": isotropy.theorem_a3,
    "corollary-a4": expectations.corollary_a4,
    "corollary-a4-network": normalised.normalised_networks,
    "curvature": curvature.curvature,
    "example-a10": theorems.example_a10,
    "lemma-a5": expectations.lemma_a5,
    "lemma-a6": expectations.lemma_a6,
    "lemma-a7": expectations.lemma_a7,
    "moments": expectations.moments,
}

COVERS: dict[str, tuple[int, ...]] = {  # statement → its numbers in docs/coverage.md
    "mean-gradient": (7,),
    "linear-regression": (14,),
    "theorem-3.1": (15,),
    "theorem-3.2": (16,),
    "conjecture-1": (17,),
    "conjecture-1-sign": (18,),
    "conjecture-2": (8, 19),
    "proposition-a1": (21,),
    "theorem-a2": (23,),
    "theorem-a3": (24,),
    "corollary-a4": (25,),
    "corollary-a4-network": (25,),
    "curvature": (27, 28),
    "example-a10": (29,),
    "lemma-a5": (26,),
    "lemma-a6": (26,),
    "lemma-a7": (26,),
    "moments": (26,),
}

WORKS = {"geometry": STATEMENTS, "complexity": COMPLEXITY}  # by the study of the work


def statements_of(name: str, job: Job) -> list[Statement]:
    """Measure one statement of the table."""
    covers, check = (COVERS | COMPLEXITY_COVERS)[name], (STATEMENTS | COMPLEXITY)[name]
    return [replace(row, name=name, covers=covers) for row in check(job)]


@one_thread()
def measure_statements(
    name: str | None = None,
    scale: str = "smoke",
    seed: int = 0,
    *,
    work: str = "geometry",
    data_dir: str | Path | None = None,
    progress: bool | None = None,
) -> list[Statement]:
    """Measure the statements of a work: its theorems, conjectures and bounds.

    Each theorem, conjecture, lemma and example becomes one or more numbers. A number comes with its error, with what
    the paper prints, and with what is true; docs/theory.md derives the latter where the two differ.

    Parameters
    ----------
    name : str, optional
        One statement, for example ``"theorem-3.1"``; by default all of them.
    scale : {"smoke", "laptop", "paper"}, default "smoke"
        ``"smoke"`` takes seconds and uses synthetic images; ``"laptop"`` takes minutes and uses CIFAR-2 where it is
        found, otherwise synthetic images; ``"paper"`` uses CIFAR-2 at 3 × 32 × 32, at least 1,000 images and networks
        at full width, takes hours and wants a GPU.
    seed : int, default 0
        Seed of weights, synthetic images and samples.
    work : {"geometry", "complexity"}, default "geometry"
        ``"complexity"`` measures the inequalities behind geometric complexity instead, with how tight they are, on
        digits.
    data_dir : str or Path, optional
        Folder with CIFAR-10; by default ``$NETGRAIN_DATA`` or the cache folder. If you name a folder, it must have the
        data.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    list of Statement
        One for each number: `measured`, `predicted`, and the verdicts ``"holds"``, ``"fails"`` or ``"undecided"`` on
        what is printed (`paper`) and on what is predicted here (`corrected`).

    Raises
    ------
    NetgrainError
        If the name, the scale or the work is not known, or `data_dir` has no data.

    See Also
    --------
    run_experiment : Run a figure or a table of one of the papers.

    References
    ----------
    .. [1] Movahedi, Orvieto, Moosavi-Dezfooli, "Geometric Inductive Biases of Deep Networks: the Role of Data and
       Architecture".

    Examples
    --------
    Three fourth moments in the proofs of Theorems 3.1 and 3.2: two are printed wrong, all three are predicted right.

    >>> [s.verdict + "/" + s.corrected for s in measure_statements("moments")]
    ['fails/holds', 'holds/holds', 'fails/holds']
    """
    table = WORKS[known_name("work", work, WORKS)]
    chosen = list(table) if name is None else [known_name("statement", name, table)]
    job = Job(known_name("scale", scale, SCALES), seed, None if data_dir is None else str(data_dir))
    found = []
    try:
        with Bar("statements", len(chosen), progress) as bar:
            for each in chosen:
                bar.advance(0, note=each)
                begin = time.perf_counter()
                rows = statements_of(each, job)
                seconds = time.perf_counter() - begin
                found += [replace(row, seconds=seconds / len(rows)) for row in rows]
                bar.advance()
    finally:
        clear()
        courses.course.cache_clear()
        networks.geometry.cache_clear()
    return found
