"""The scorecard of a reproduction as Markdown: what was claimed, what came out, what it cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from netgrain.experiments.claims import BASES, ROUNDING, Claim, counted
from netgrain.experiments.registry import studies
from netgrain.experiments.reproduction import Part, Reproduction
from netgrain.geometry.estimate import Estimate

PREDICTED = "predicted order"  # the kind of claims on the central prediction


def scorecard(found: Reproduction) -> str:
    """The whole page."""
    blocks = [
        "# Reproduction",
        _opening(found),
        _summary(found),
        _central(found),
        *(_study(found, study, title) for study, title in studies().items()),
        _costs(found),
    ]
    return "\n\n".join(b for b in blocks if b) + "\n"


def _opening(found: Reproduction) -> str:
    machine, versions = found.about["hardware"], found.about["versions"]
    where = f"{machine['cores']} cores ({machine['machine']}, {machine['system']}), GPU: {machine['gpu'] or 'none'}"
    work = sum(p.core_seconds for p in found.parts)
    return (
        f"Made by `netgrain reproduce --scale {found.scale}` on {found.date}: {where}; "
        f"netgrain {versions['netgrain']}, torch {versions['torch']}, Python {versions['python']}. "
        f"{_minutes(found.wall)} on the clock, {_minutes(work)} of processor time.\n\n"
        "A claim *holds* when the 95 % interval of its value lies inside the bounds of its statement, *fails* when it "
        "lies outside, and is *undecided* when it straddles or only touches one; then the last column says what would "
        "decide it. Errors are standard errors over n independent results: seeds 0 to n − 1, each with fresh data and "
        "fresh weights, unless the note says otherwise. Where seeds were added until a claim was decided, the interval "
        "is that of a fixed number, so a verdict close to its bound is a little less certain than 95 %."
    )


def _summary(found: Reproduction) -> str:
    """Verdicts by work, each for statements of the sources first, and by what claims rest on."""
    every = [c for _, c in found.claims]
    works = {title: _claims(found, study) for study, title in studies().items()}
    works = {title: claims for title, claims in works.items() if claims} | {"**together**": every}
    theirs = [[title, *_counted([c for c in claims if c.basis == "paper"])] for title, claims in works.items()]
    bases = [[words, *_counted([c for c in every if c.basis == basis])] for basis, words in BASES.items()]
    bases.append(["**together**", *_counted(every)])
    missing = [f"- `{p.name}` was not run: {p.problem}" for p in found.skipped]
    verdicts = ["claims", "hold", "undecided", "fail", "not fitted"]
    return "\n\n".join(
        [
            "## In short",
            "What the sources state, by work. A claim that would fail for networks that have not fitted their training "
            "data as the source's have is *not fitted* instead.",
            _table(["work", *verdicts], theirs),
            "Not every claim is a statement of a source. All of them, by what they rest on:",
            _table(["what it rests on", *verdicts], bases),
            *(["\n".join(missing)] if missing else []),
        ]
    )


def _counted(claims: Sequence[Claim]) -> list[str]:
    return [str(len(claims)), *map(str, counted(claims).values())]


def _central(found: Reproduction) -> str:
    """Spearman's rho between predicted order and measured accuracy, with its interval."""
    rows = []
    for name, c in found.claims:
        if c.kind != PREDICTED:
            continue
        rows.append([f"`{name}`", c.subject, _number(c.value), _rho_interval(c), str(c.n), _threshold(c), c.verdict])
    if not rows:
        return ""
    return (
        "## The central prediction\n\n"
        "For labels planted along a direction, the eigenvalue of that direction (of G, or of G S G on images) predicts "
        "how well the network generalises: Spearman's rho between predicted and measured order, mean over seeds. The "
        "rows do not ask the same: where the threshold is 0, *holds* means that there is an order, however weak.\n\n"
        + _table(["experiment", "network and labels", "rho", "95 % interval", "n", "threshold", "verdict"], rows)
    )


def _rho_interval(c: Claim) -> str:
    """The interval of a rank correlation, as far as one is known."""
    if not math.isfinite(c.stderr):
        return "not determined"
    low, high = Estimate(c.value, c.stderr, c.n).interval(0.95)
    if low <= -1 and high >= 1:
        return "not determined"  # every rank correlation lies there
    if high - low < ROUNDING:
        return f"none: the same in all {c.n}"  # what cannot spread further, or happened not to
    return f"{_number(max(low, -1.0))} to {_number(min(high, 1.0))}"


def _threshold(c: Claim) -> str:
    """What the claim asks of rho; a bound of almost nothing stands for "positive"."""
    if c.low is None:
        return "–"
    return "> 0" if abs(c.low) <= ROUNDING else f"≥ {_number(c.low)}"


def _study(found: Reproduction, study: str, title: str) -> str:
    parts = [p for p in found.parts if p.study == study and p.claims]
    if not parts:
        return ""
    return "\n\n".join([f"## {title}", *(_part(p) for p in parts)])


def _part(part: Part) -> str:
    rows = [
        [c.verdict, f"{c.name}: {c.statement}", c.basis, c.paper, _value(c), str(c.n), _remark(c)] for c in part.claims
    ]
    heading = f"### `{part.name}`: {part.title}"
    return f"{heading}\n\n" + _table(["verdict", "claim", "rests on", "paper", "ours", "n", "remark"], rows)


def _costs(found: Reproduction) -> str:
    rows = [[f"`{p.name}`", f"{p.core_seconds:.0f}"] for p in found.parts if not p.problem]
    rows.append(["**together**", f"{sum(p.core_seconds for p in found.parts):.0f}"])
    return "## What it cost\n\n" + _table(["experiment", "core-seconds"], rows)


# --- inside -------------------------------------------------------------------------------------------------------


def _claims(found: Reproduction, study: str) -> list[Claim]:
    return [c for part in found.parts if part.study == study for c in part.claims]


def _remark(c: Claim) -> str:
    return "; ".join(filter(None, (c.note, c.needs and f"to decide it: {c.needs}")))


def _value(c: Claim) -> str:
    if not math.isfinite(c.value):
        return "–"
    if not math.isfinite(c.stderr):
        return _number(c.value)
    return f"{c.value:.4g}" if c.stderr == 0 else Estimate(c.value, c.stderr, c.n).with_error


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "–"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(c) for c in line) + " |" for line in lines)


def _cell(text: str) -> str:
    """A pipe, or a line break, would end the cell."""
    return " ".join(text.replace("|", "\\|").split())
