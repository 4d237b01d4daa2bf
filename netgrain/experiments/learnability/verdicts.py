"""What the experiment claims: how well scores told before training agree with those that were reached.

The bounds were written before the first run on verdict tasks; on tuning tasks, which chose the predictors, they are no
verdicts, and every claim says so.
"""

from __future__ import annotations

import math

import numpy as np

from netgrain.experiments.claims import ROUNDING, Claim, claim
from netgrain.experiments.learnability import agreement
from netgrain.experiments.learnability.agreement import Interval
from netgrain.experiments.learnability.pairs import Judgement, Pairs
from netgrain.experiments.learnability.predictors import COMBINED, OURS, SAYS
from netgrain.geometry.estimate import Estimate

EACH, MEAN, MEAN_COMBINED = 0.8, 0.88, 0.92  # rank correlations across tasks
# points; the last one written after the tuning tasks (7.1 points there) and before any prediction on a verdict task
MEDIAN, TAIL, TAIL_COMBINED = 3.0, 8.0, 7.5
WITHIN, PICKED, LOST = 0.65, 0.8, 1.5
AGREES, TIES = 0.85, 1 / 3  # shares of tasks
CAUGHT, FALSE = 0.8, 0.15  # shares of pairs that are warned of
CORRECTION = "after one line for all networks and tasks, fitted without the task"
TUNING = "tuning tasks, which chose the predictor: no verdict"


def verdicts(pairs: Pairs, remarks: str = "") -> list[Claim]:
    """Every claim; remarks are added to the first one."""
    tuned = TUNING if any(task.part == "tuning" for task in pairs.tasks) else ""
    return [
        *_across_tasks(pairs, "; ".join(filter(None, (tuned, remarks)))),
        *_level(pairs, tuned),
        *_within_tasks(pairs, tuned),
        *_warnings(pairs, tuned),
        *_compared(pairs, tuned),
    ]


def _noted(found: Interval, *notes: str) -> str:
    interval = "" if math.isnan(found.low) else f"95 % of bootstraps over tasks in [{found.low:.3g}, {found.high:.3g}]"
    return "; ".join(filter(None, (interval, *notes)))


def _across_tasks(pairs: Pairs, note: str) -> list[Claim]:
    out = []
    reached, predicted = pairs.reached, pairs.of(OURS)
    rest = pairs.without_features()
    for j, network in enumerate(pairs.networks):
        column, ours = reached[:, j : j + 1], predicted[:, j : j + 1]
        found = agreement.across_interval(column, ours)
        apart = agreement.mean_of(agreement.across(rest.reached[:, j : j + 1], rest.of(OURS)[:, j : j + 1]))
        out.append(
            claim(
                "rank correlation across tasks",
                f"at least {EACH}",
                found.estimate,
                low=EACH,
                subject=network,
                note=_noted(found, f"without tasks that need learnt features {apart:.2f}", note),
            )
        )
    for name, least in ((OURS, MEAN), (COMBINED, MEAN_COMBINED)):
        if name in pairs.judged:
            found = pairs.judged[name].tasks
            apart = agreement.mean_of(agreement.across(rest.reached, rest.of(name)))
            out.append(
                claim(
                    "rank correlation across tasks, mean over networks",
                    f"at least {least}",
                    found.estimate,
                    low=least,
                    subject=SAYS[name],
                    note=_noted(found, f"without tasks that need learnt features {apart:.2f}", note),
                )
            )
    return out


def _level(pairs: Pairs, note: str) -> list[Claim]:
    out = []
    for name, most in ((OURS, TAIL), (COMBINED, TAIL_COMBINED)):
        if name not in pairs.judged:
            continue
        judged = pairs.judged[name]
        plain = f"as it is {judged.plain.value:.2g}" if judged.plain is not None else ""
        for kind, found, high, extra in (
            ("median error in points", judged.median, MEDIAN, plain),
            ("90 % of errors in points", judged.tail, most, ""),
        ):
            out.append(
                claim(
                    kind,
                    f"at most {high:g} {CORRECTION}",
                    found.estimate,
                    high=high,
                    subject=SAYS[name],
                    note=_noted(found, extra, note),
                )
            )
    return out


def _within_tasks(pairs: Pairs, note: str) -> list[Claim]:
    ours = [name for name in (OURS, COMBINED) if name in pairs.judged]
    return [c for name in ours for c in (*_of_networks(pairs, name, note), *_told_apart(pairs, name, note))]


def _told_apart(pairs: Pairs, name: str, note: str) -> list[Claim]:
    """What `ng.compare` would say: its first network, or that some cannot be told apart from it."""
    first = agreement.alike(pairs.of(name), [task.samples for task in pairs.tasks])
    found = np.isfinite(first).any(1)
    right = np.where(found, ((first == 1) & (pairs.good == 1)).any(1), np.nan)
    ties = np.where(found, (first == 1).sum(1) > 1, np.nan)
    agrees, cannot = (agreement.share_interval(values.tolist()) for values in (right, ties))
    return [
        claim(
            "one that compare calls best, or like the best, is not significantly worse than the best network",
            f"in at least {AGREES:.0%} of tasks",
            agrees.estimate,
            low=AGREES,
            subject=SAYS[name],
            note=_noted(agrees, note),
        ),
        claim(
            "compare cannot tell the best from others",
            "in at most a third of tasks",
            cannot.estimate,
            high=TIES,
            subject=SAYS[name],
            note=_noted(cannot, note),
        ),
    ]


def _of_networks(pairs: Pairs, name: str, note: str) -> list[Claim]:
    """How well a predictor ranks the networks of a task."""
    judged, fixed = pairs.judged[name], "fixed ranking"
    out = [
        claim(
            "rank correlation across networks within a task, mean over tasks",
            f"at least {WITHIN}",
            judged.networks.estimate,
            low=WITHIN,
            subject=SAYS[name],
            note=_noted(judged.networks, note),
        )
    ]
    if fixed in pairs.judged:
        more = pairs.better_within(fixed, ours=name)
        out.append(
            claim(
                "within tasks, more than a fixed ranking",
                "the difference of rank correlations is positive",
                more.estimate,
                low=0.0,
                subject=SAYS[name],
                note=_noted(more, f"fixed ranking {pairs.judged[fixed].networks.value:.2f}", note),
            )
        )
    out.append(
        claim(
            "the pick is not significantly worse than the best network",
            f"in at least {PICKED:.0%} of tasks",
            judged.picked.estimate,
            low=PICKED,
            subject=SAYS[name],
            note=_noted(judged.picked, note),
        )
    )
    out.append(
        claim(
            "points lost by the pick",
            f"at most {LOST} on average",
            judged.lost.estimate,
            high=LOST,
            subject=SAYS[name],
            note=_noted(judged.lost, note),
        )
    )
    return out


def _warnings(pairs: Pairs, note: str) -> list[Claim]:
    reached, predicted, warned = pairs.reached, pairs.of(OURS), pairs.warned
    caught, others = agreement.warned_intervals(reached, predicted, warned)
    low = int(np.nansum(reached - predicted > agreement.UNDERRATED))
    count = f"{low} of {int(np.isfinite(reached).sum())} pairs are underrated"
    return [
        claim(
            "pairs underrated by more than 10 points that carry the warning",
            f"at least {CAUGHT:.0%}",
            caught.estimate,
            low=CAUGHT,
            note=_noted(caught, count, note),
        ),
        claim(
            "other pairs that carry the warning",
            f"at most {FALSE:.0%}",
            others.estimate,
            high=FALSE,
            note=_noted(others, count, note),
        ),
    ]


def all_three(judged: Judgement) -> bool:
    """Whether a predictor reaches the bounds across tasks, within tasks and in level, as point values."""
    return judged.tasks.value >= MEAN and judged.networks.value >= WITHIN and judged.median.value <= MEDIAN


def _compared(pairs: Pairs, note: str) -> list[Claim]:
    out = []
    others = [name for name in pairs.predictors if name != OURS]
    for name in others:
        found = pairs.better_than(name)
        out.append(
            claim(
                "ranks tasks better",
                "our rank correlation across tasks minus that of the other is positive",
                found.estimate,
                low=0.0,
                subject=f"against {SAYS[name]}",
                note=_noted(found, f"tasks, networks, median error: {numbers(pairs.judged[name])}", note),
            )
        )
    # the trial and what it is combined with train a network, and kernels by themselves are parts of ours
    foreign = [n for n in others if n not in (COMBINED, "layers", "tangent")]
    three = [SAYS[n] for n in foreign if all_three(pairs.judged[n])]
    out.append(
        claim(
            "predictors of others with all three: tasks, networks and level",
            f"none has at least {MEAN}, at least {WITHIN} and a median error of at most {MEDIAN:g} points",
            Estimate(float(len(three)), 0.0, len(pairs.tasks)),
            low=-ROUNDING,
            high=ROUNDING,
            note="; ".join(filter(None, (f"ours: {numbers(pairs.judged[OURS])}", ", ".join(three), note))),
        )
    )
    return out


def numbers(judged: Judgement) -> str:
    """The three numbers of a predictor; a dash where it has none."""
    found = [(judged.tasks, ".2f"), (judged.networks, ".2f"), (judged.median, ".1f")]
    return ", ".join("–" if math.isnan(i.value) else f"{i.value:{how}}" for i, how in found)
