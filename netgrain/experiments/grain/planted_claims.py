"""What figures 4, 10, 11 and 14 claim about their curves, each claim with the curves whose seeds can decide it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from netgrain.complexity.sweeps import spearman
from netgrain.experiments.claims import Basis, claim
from netgrain.experiments.grain.planted_labels import (
    CHANCE,
    FITTED,
    LEARNT,
    NULL,
    SCALED,
    AccuracyCurve,
    CurveName,
    Judged,
    unlearnt,
)
from netgrain.experiments.grain.trials import MORE, joined, left_out
from netgrain.geometry.estimate import Estimate, mean

Curves = Mapping[CurveName, AccuracyCurve]
FEWEST = 4  # indices from which a rank correlation is taken


def fit_at_worst(curve: AccuracyCurve) -> Estimate:
    """Train accuracy at the index that is fitted worst, over seeds."""
    columns = [mean(column) for column in zip(*curve.train.values(), strict=True)]
    return min(columns, key=lambda column: column.value, default=Estimate(math.nan, math.nan, 0))


def is_fitted(curve: AccuracyCurve) -> bool:
    """Whether training samples are fitted as the paper's are, at every index; true where the paper does not say so."""
    return not curve.to_fit or fit_at_worst(curve).value >= FITTED


def radians(curve: AccuracyCurve) -> str:
    """How fast the sine of sinusoidal labels turns at the first index and at the last; empty for other labels."""
    found = [mean([row[k] for row in curve.spread.values()]).value for k in (0, -1)] if curve.spread else [math.nan]
    if math.isnan(found[0]):
        return ""
    first, last = found
    both = f"{first:.1f}" if math.isclose(first, last) else f"{first:.2g} at the first index, {last:.2g} at the last"
    return f"standard deviation inside the sine, in radians: {both}"


def ranked(curve: AccuracyCurve) -> bool:
    """Whether a rank correlation says something: four indices, and eigenvalues that are not just large and small."""
    kinds = {f"{v:.6g}" for v in _null_tied(curve)}
    return len(curve.indices) >= FEWEST and len(kinds) > 2


def per_seed(curve: AccuracyCurve, number: Callable[[list[float]], float]) -> Estimate:
    """The mean over seeds of a number of one row of test accuracies; seeds in which it does not exist are dropped."""
    found = [number(row) for row in curve.accuracy.values()]
    return mean([x for x in found if not math.isnan(x)])


def drop(row: Sequence[float]) -> float:
    """Mean of the first two minus mean of the last three (of two in a row of four, of one in a shorter one).

    >>> drop([98, 96, 70, 52, 50, 51])
    46.0
    """
    last = max(1, min(3, len(row) - 2))
    return sum(row[:2]) / len(row[:2]) - sum(row[-last:]) / last


def order(curve: AccuracyCurve, row: Sequence[float]) -> float:
    """Rank correlation between eigenvalue and test accuracy; what counts as null is tied."""
    return spearman(_null_tied(curve), row)


def _null_tied(curve: AccuracyCurve) -> list[float]:
    return [0.0 if v < NULL * max(curve.values) else v for v in curve.values]


def remaining(indices: Sequence[int], row: Sequence[float], at: Iterable[int]) -> float:
    """How much of its first accuracy above chance a curve keeps on average at these indices; NaN where none is learnt.

    >>> remaining([0, 10, 20], [90, 70, 50], [0, 10, 20])
    0.5
    """
    if row[0] - CHANCE < LEARNT:
        return math.nan
    kept = [(row[indices.index(i)] - CHANCE) / (row[0] - CHANCE) for i in at]
    return sum(kept) / len(kept)


def judged(
    name: CurveName,
    curve: AccuracyCurve,
    kind: str,
    statement: str,
    value: Estimate,
    *,
    low: float = MORE,
    high: float | None = None,
    paper: str = "",
    notes: Sequence[str] = (),
    basis: Basis | None = None,
) -> Judged:
    """A claim about one curve, which its seeds can decide; without other bounds that the value is positive.

    It cannot fail where training samples are not fitted. Labels with a scale of our own are not the paper's.
    """
    fitted = is_fitted(curve)
    worst = "" if fitted else f"train accuracy {fit_at_worst(curve).value:.1f} % at the index that is fitted worst"
    note = joined(left_out(curve.left_out), *notes, worst, radians(curve))
    basis = "own" if name.line == SCALED else basis
    options = {"low": low, "high": high, "paper": paper, "note": note, "subject": str(name)}
    return claim(kind, statement, value, basis=basis, fitted=fitted, **options), (name,)  # type: ignore[arg-type]


def falls(name: CurveName, curve: AccuracyCurve, paper: str) -> Judged:
    """The drop of at least 30 points with an interval above 20."""
    value = per_seed(curve, drop)
    return judged(
        name,
        curve,
        "falls",
        "mean accuracy of the first two indices minus the last three is at least 30 points, its interval above 20",
        value,
        low=20 if value >= 30 else 30,
        paper=paper,
        notes=[unlearnt(curve)],
    )


def predicted_order(name: CurveName, curve: AccuracyCurve, *, matrix: str, low: float | None = None) -> Judged:
    """How well eigenvalues order accuracies; of linear labels at least 0.8 is asked, unless another bound is given."""
    if low is None:
        low = 0.8 if name.line == "linear" else MORE
    least = f"at least {low:g}" if low > MORE else "positive"
    statement = f"rank correlation between eigenvalue of {matrix} and test accuracy is {least}"
    value = per_seed(curve, lambda row: order(curve, row))
    return judged(name, curve, "predicted order", statement, value, low=low, paper="falls with the eigenvalue")


def audited(name: CurveName, curve: AccuracyCurve) -> Judged:
    """What an audit of the training set, which knows G and the samples but no training, says about accuracy."""
    rows = [
        spearman([-x for x in curve.difficulty[seed]], row)
        for seed, row in curve.accuracy.items()
        if not any(map(math.isnan, curve.difficulty.get(seed, [math.nan])))
    ]
    statement = "rank correlation between test accuracy and the reaction to the label's directions is positive"
    return judged(
        name, curve, "reaction that netgrain audit measures", statement, mean([r for r in rows if not math.isnan(r)])
    )


def narrow(twins: Mapping[str, Estimate]) -> list[Judged]:
    """A narrow family has the geometry of the full one, which no seed of a curve decides."""
    statement = "Corr(G of the narrow family, G at full width) is at least 0.95"
    return [
        (claim("narrow as full", statement, twin, low=0.95, paper="full width", subject=network, basis="own"), ())
        for network, twin in twins.items()
    ]


def fitted(name: CurveName, curve: AccuracyCurve) -> Judged:
    """Train accuracy at the index where it is lowest."""
    statement = f"train accuracy is at least {FITTED:g} % at every index (the lowest is given)"
    return judged(name, curve, "training samples are fitted", statement, fit_at_worst(curve), low=FITTED, paper="100 %")


def sooner(curves: Curves, harder: CurveName) -> Judged:
    """Harder labels keep less of their first accuracy than linear ones, at the indices both curves have."""
    a, b = curves[harder._replace(line="linear")], curves[harder]
    at = [i for i in a.indices if i in b.indices and i != a.indices[0]]
    seeds = [s for s in a.accuracy if s in b.accuracy]
    pairs = [remaining(a.indices, a.accuracy[s], at) - remaining(b.indices, b.accuracy[s], at) for s in seeds]
    known = [p for p in pairs if not math.isnan(p)]
    lost = f"{len(pairs) - len(known)} seeds in which nothing was learnt at the first index" * (len(known) < len(pairs))
    return claim(
        "falls sooner than linear",
        "share of the first accuracy above chance that is kept at the other indices: linear minus this is positive",
        mean(known),
        low=MORE,
        paper="sharper for more complex labels",
        note=joined(lost, left_out(a.left_out + b.left_out)),
        subject=str(harder),
        basis="own" if harder.line == SCALED else None,
        fitted=is_fitted(a) and is_fitted(b),
    ), ()  # told with the seeds there are: two curves would have to grow for it


def spaces(name: CurveName, curve: AccuracyCurve, inside: Sequence[bool], *, paper: str, note: str = "") -> Judged:
    """Directions in the first of the two eigenspaces of a ViT's G (inside) against those in the second."""

    def gap(row: list[float]) -> float:
        first, second = ([x for x, top in zip(row, inside, strict=True) if top == side] for side in (True, False))
        return mean(first) - mean(second)  # NaN where one of them is empty

    statement = "mean accuracy in the first eigenspace of G minus that in the second is positive"
    return judged(name, curve, "first eigenspace", statement, per_seed(curve, gap), paper=paper, notes=[note])


def beyond_noise(name: CurveName, curve: AccuracyCurve) -> Judged:
    """Label noise alone would make late directions harder, too: they are harder than that."""
    gaps = []
    for seed, row in curve.accuracy.items():
        missed = [best - found for best, found in zip(curve.ceiling[seed], row, strict=True)]
        gaps.append(-drop(missed))
    statement = "points below what the planted rule itself scores: last three indices minus the first two is positive"
    return judged(name, curve, "more than label noise", statement, mean(gaps), basis="own")


# --- what figures 4 and 10 say alike ------------------------------------------------------------------------------


def along_the_spectrum(
    curves: Curves, networks: Sequence[str], *, matrix: str, paper: str, audits: bool = False
) -> list[Judged]:
    """Networks whose G has a spectrum worth the name: accuracy falls with the eigenvalue, sooner for harder labels."""
    out: list[Judged] = []
    for name in (name for network in networks for name in curves if name.panel == network):
        out.append(falls(name, curves[name], paper))
        if ranked(curves[name]):
            out.append(predicted_order(name, curves[name], matrix=matrix))
            if audits:
                out.append(audited(name, curves[name]))
        if name.line != "linear":
            out.append(sooner(curves, name))
    return out


def in_two_eigenspaces(
    curves: Curves, first: Callable[[int], bool], *, matrix: str, paper: str, note: str = ""
) -> list[Judged]:
    """A ViT, whose G has two eigenspaces; first: whether an eigenvector belongs to the first of them.

    Its G S G has a spectrum, by which accuracies can be ranked; its G has two eigenvalues, by which they cannot.
    """
    out: list[Judged] = []
    for name in (name for name in curves if name.panel == "ViT"):
        inside = [first(i) for i in curves[name].indices]
        out.append(spaces(name, curves[name], inside, paper=paper, note=note))
        if ranked(curves[name]):
            out.append(predicted_order(name, curves[name], matrix=matrix, low=MORE))
    return out
