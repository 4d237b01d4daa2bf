"""What figures 2 and 8 say of a network on its way."""

from __future__ import annotations

import math
from functools import partial

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain.change_by_index import Change
from netgrain.experiments.grain.courses import EARLY, Course, Labels
from netgrain.experiments.grain.trials import MORE, joined, left_out
from netgrain.geometry.estimate import Estimate, mean

SHARE = 0.9  # of the trace of G S G: its leading eigenspace
MORE_MEMBERS = ("rise", "above S", "where it moves")  # claims that are worth more members
SAME = 0.05  # correlations that differ by less are virtually the same
ORDER = -0.8  # rank correlation of a curve that falls, as in figures 4 and 10
UNORDERED = 0.5  # rank correlation below which there is no order, to either side


def course_claims(network: str, c: Course, *, adam: bool, sampled: int, how: str = "") -> list[Claim]:
    """sampled: networks behind the G of the MLP. how: the settings, where text and code of the paper differ."""
    found = [_rise(network, c, how), _slope(network, c, adam), _moves(network, c), *index_claims(network, c.change)]
    if network == "MLP":
        found += _same(c, how, sampled)
    else:
        found.insert(1, _above(network, c))
        if c.beside is not None:
            found.append(steeper(network, c.change, c.beside))
    return found + ([] if c.labels is None else _labels(network, c, c.labels))


def _rise(network: str, c: Course, how: str) -> Claim:
    same = "sampled G: for the exact G ∝ I, G S G is S up to a factor, an identity" if network == "MLP" else ""
    return claim(
        "rise",
        f"the maximum over steps 1 to {EARLY} of Corr(Gᵗ, GSG) exceeds its value at 0",
        c.rise.rise,
        subject=network,
        low=MORE,
        paper="rises at the beginning of training",
        note=joined(f"Corr {_short(c.corr['GSG'][0])} at 0; {_chosen(c)}", when(c), same, _out(c), how),
    )


def _above(network: str, c: Course) -> Claim:
    return claim(
        "above S",
        "at that step Corr(Gᵗ, GSG) is larger than Corr(Gᵗ, S)",
        c.rise.above,
        subject=network,
        low=MORE,
        paper="the curve of GSG lies above that of S",
        note=joined(_chosen(c), _out(c)),
    )


def _slope(network: str, c: Course, adam: bool) -> Claim:
    return claim(
        "slope at 0",
        "to first order Corr(Gᵗ, GSG) falls: dCorr/dt at t = 0 is negative, per step",
        c.slope,
        subject=network,
        high=-MORE,
        paper="an increasing correlation",
        basis="counter",
        note="central difference along the first update, pairs of twins with opposite last layers; the theory's "
        "sign is for gradient flow" + (", Adam moves otherwise" if adam else ""),
    )


def _moves(network: str, c: Course) -> Claim:
    share = f"share {_short(c.inside.share)} in {c.dimension} dimensions, by chance {c.inside.chance:.3f}"
    return claim(
        "where it moves",
        f"of the change of Gᵗ in {EARLY} steps more lies inside the leading eigenspace of GSG ({SHARE:.0%} of "
        "its trace) than inside a random subspace of that dimension: share minus chance",
        c.inside.excess,
        subject=network,
        low=MORE,
        paper="changes follow GSG",
        basis="derived",
        note=joined(share, _out(c)),
    )


def _same(c: Course, how: str, sampled: int) -> list[Claim]:
    """S and G S G of an MLP; the other networks are the control ("above S")."""
    judged = partial(claim, subject="MLP", paper="S and GSG are virtually identical for the MLP")
    return [
        judged(
            "GSG and S",
            f"Corr(Gᵗ, GSG) and Corr(Gᵗ, S) differ by at most {SAME:g}: mean over training of their difference",
            c.apart,
            low=-SAME,
            high=SAME,
            note=joined("G from sampled networks, as in the paper; the exact one makes it an identity", how),
        ),
        judged(
            "GSG is S",
            f"Corr(S, GSG) is at least 0.95 with G from {sampled:,} networks",
            mean(c.twins),
            low=0.95,
            note=f"{len(c.twins)} independent samples of G; the paper has 10,000 networks; 1 for the exact G ∝ I",
        ),
    ]


def _labels(network: str, c: Course, labels: Labels) -> list[Claim]:
    judged = partial(claim, subject=network, paper="the behaviour is independent of the task")
    far = next((s for s, v in zip(c.steps, labels.curve, strict=True) if s and abs(v) > 2 * v.stderr), None)
    seen = "never" if far is None else f"first at step {far}"
    return [
        judged(
            "labels",
            f"in the first {EARLY} steps Corr(Gᵗ, GSG) does not depend on the labels: true minus random labels, same "
            f"members and optimiser, mean over steps, within ±{SAME:g}",
            labels.early,
            low=-SAME,
            high=SAME,
            note=joined(f"two standard errors apart {seen}, at the last step {_short(labels.curve[-1])}", _out(c)),
        ),
        judged(
            "rise with random labels",
            f"with random labels Corr(Gᵗ, GSG) rises as well: mean over the first {EARLY} steps, minus the start",
            labels.rise,
            low=MORE,
            note=_out(c),
        ),
    ]


def index_claims(network: str, change: Change, *, data: str = "") -> list[Claim]:
    """The change along u against the index of u: footnote 4, with random directions and the MLP as controls."""
    judged = partial(claim, subject=joined_by(network, data))
    if not change.directions.ordered:
        return [
            judged(
                "no order without a grain",
                f"where G ∝ I the change along u has no order: rank correlation with its index within ±{UNORDERED:g}, "
                "over random bases",
                change.random,
                low=-UNORDERED,
                high=UNORDERED,
                basis="derived",
            )
        ]
    words = "the changes in Gᵗ along u gradually decrease as uᵀGu becomes smaller"
    if change.directions.few:
        return [
            judged(
                "change by eigenspace",
                "|uᵀ(Gᵗ − G)u| is larger in the leading eigenspace of G than in the last, in decades",
                change.fall,
                low=MORE,
                paper=words,
                note=joined(_bands(change), "G has too few eigenvalues for a rank correlation"),
            )
        ]
    control = f"along random directions {_short(change.random)}"
    return [
        judged(
            "change by index",
            f"|uᵀ(Gᵗ − G)u| falls with the index of u: rank correlation over {len(change.directions.bands)} bands at "
            f"most {ORDER:g}",
            change.order,
            high=ORDER,
            paper=words,
            note=joined(_bands(change), control),
        ),
        judged(
            "relative change by index",
            f"relative to uᵀGu it falls as well: rank correlation at most {ORDER:g}",
            change.relative_order,
            high=ORDER,
            basis="own",
            note="a geometry that only grows or shrinks as a whole changes by the same share along every u",
        ),
    ]


def steeper(network: str, mine: Change, mlp: Change) -> Claim:
    """Images are smooth, so that part of the fall is theirs: the MLP along the same directions shows it."""
    both = mine.fall.value - mlp.fall.value
    return claim(
        "steeper than the MLP",
        "from the first band to the last |uᵀ(Gᵗ − G)u| falls further than an MLP's along the same u, in decades",
        Estimate(both, math.hypot(mine.fall.stderr, mlp.fall.stderr), min(mine.fall.n, mlp.fall.n)),
        subject=network,
        low=MORE,
        paper="invariant in directions that depend on the architecture",
        basis="derived",
        note=f"{_short(mine.fall)} decades, the MLP {_short(mlp.fall)}",
    )


def joined_by(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _bands(change: Change) -> str:
    first, last = change.directions.bands[0], change.directions.bands[-1]
    ends = [
        f"{curve[0].value:.2g} ± {curve[0].stderr:.1g} at indices {first[0]} to {first[1] - 1}, "
        f"{curve[-1].value:.2g} ± {curve[-1].stderr:.1g} at {last[0]} to {last[1] - 1}"
        for curve in (change.absolute, change.relative)
    ]
    return f"root mean square {ends[0]}; relative {ends[1]}"


def _chosen(c: Course) -> str:
    at = " and ".join(str(c.steps[t]) for t in c.rise.chosen)
    return f"half of the members choose the step ({at}), the others are judged there, and the other way round"


def _out(c: Course) -> str:
    return left_out(c.left_out, "members")


def when(c: Course) -> str:
    """The first steps at which the correlation is two standard errors below and above its start."""
    moves = list(zip(c.steps, c.since, strict=True))[1:]
    below = next((s for s, v in moves if v < -2 * v.stderr), None)
    above = next((s for s, v in moves if v > 2 * v.stderr), None)
    words = [
        f"{word} its start {'never' if s is None else f'first at step {s}'}"
        for word, s in (("below", below), ("above", above))
    ]
    return f"two standard errors {', '.join(words)}"


def _short(value: Estimate) -> str:
    return f"{value.value:.3f} ± {value.stderr:.3f}"
