"""Several networks on one data set: one ranking by expected score, with ties, and what each network costs."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netgrain.auditing.audits import SCHEMA, Audit
from netgrain.auditing.checks import comparable
from netgrain.auditing.pages import Document, comparison
from netgrain.auditing.sections.expected import constant, shown
from netgrain.auditing.verdicts import LABELS, Verdict
from netgrain.geometry.estimate import Estimate
from netgrain.learning.rankings import ranked
from netgrain.runtime.snippets import snippet
from netgrain.runtime.versions import __version__

STEP = 3 * 50  # forward passes of one sample that a training step of 50 samples costs: forward, and twice that back


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Document):
    """Several audits of the same data with one ranking.

    Its repr begins with the verdict, then one line for each network, the best first.

    Parameters
    ----------
    report : dict
        The reports under "audits", the ranking under "ranking", as plain values for JSON.

    See Also
    --------
    compare : Makes one.
    """

    @property
    def ranking(self) -> list[dict[str, Any]]:
        """A row for each network, the best first; unranked without labels."""
        found: list[dict[str, Any]] = self.report["ranking"]
        return found

    def html(self) -> str:
        """The audits side by side as one HTML page that works offline.

        Returns
        -------
        str
            The page. It loads nothing and holds its numbers as JSON.
        """
        return comparison(self.report)

    def lines(self) -> list[tuple[str, str]]:
        """The verdict, what to do, and a line for each network.

        Returns
        -------
        list of (str, str)
            Names and sentences, for a terminal.
        """
        said = self.report["verdict"]
        rows = [("verdict", said["sentence"]), ("do this", said["action"])]
        return rows + [(row["model"], _row_in_words(row)) for row in self.ranking]

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {text}" for name, text in self.lines())

    def _repr_html_(self) -> str:
        return snippet("Comparison", self.lines())


def compare(audits: Sequence[Audit]) -> Comparison:
    """Rank several networks by the score to expect on the same data.

    Parameters
    ----------
    audits : sequence of Audit
        Two or more, of the same samples and labels.

    Returns
    -------
    Comparison
        One ranking, which says where two networks cannot be told apart, and the reports side by side.

    Raises
    ------
    NetgrainError
        If there are fewer than two audits, or if they are of different data.

    See Also
    --------
    audit : Makes the audit of one family.

    Notes
    -----
    Two networks cannot be told apart if their expected scores differ by less than three points, or by less than 1.645
    times their combined sampling error. Errors that a task causes for all networks alike are not counted. Costs are
    numbers of operations in linear layers and convolutions; measured times are not used.

    Examples
    --------
    A network and itself cannot be told apart.

    >>> from functools import partial
    >>> import torch
    >>> from netgrain.auditing import audit
    >>> from netgrain.models import MLP
    >>> X = torch.randn(64, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    >>> make = partial(MLP, channels=1, image_size=2, outputs=2)
    >>> y = (X[:, 0, 0, 0] > 0).long()
    >>> found = compare([audit(make, X, y, name=name, quick=True) for name in ("A", "B")])
    >>> [row["like_best"] for row in found.ranking]
    [True, True]
    """
    reports = comparable(audits)
    rows = _rows(reports)
    return Comparison(
        {
            "schema": SCHEMA,
            "netgrain": __version__,
            "date": str(datetime.date.today()),
            "verdict": verdict(reports, rows),
            "ranking": rows,
            "audits": reports,
        }
    )


def verdict(reports: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> Verdict:
    """Which network is expected to do best, whether others cannot be told apart from it, and which to take."""
    if any(row["score"] is None for row in rows):
        names = _listed([str(row["model"]) for row in rows])
        return {"sentence": f"Without labels {names} cannot be ranked.", "level": "note", "action": LABELS}
    first = reports[0]["expected"]
    if all(r["expected"]["at_chance"] for r in reports):
        sentence = f"None of these networks finds anything to learn: {constant(first)}."
        return {"sentence": sentence, "level": "error", "action": "Check that each label belongs to its sample."}
    alike = [row for row in rows if row["like_best"]]
    rest = [row for row in rows if not row["like_best"]]
    said = [f"{row['model']} ({shown(first, row['score'])})" for row in rows]
    known = [row for row in alike if row["operations"] is not None]
    cheapest = min(known, key=lambda row: row["operations"]) if known else alike[0]
    if len(alike) == 1:
        sentence = f"{rows[0]['model']} is expected to do best: {_listed(said)}."
        return {"sentence": sentence, "level": "good", "action": f"Take {rows[0]['model']}."}
    sentence = f"Cannot tell {_listed(said[: len(alike)])} apart."
    if rest:
        sentence += f" {_listed(said[len(alike) :])} {'is' if len(rest) == 1 else 'are'} expected to do worse."
    action = f"Take {cheapest['model']}, the cheapest of those that cannot be told apart, or train both and see."
    if len(alike) > 2:
        action = f"Take {cheapest['model']}, the cheapest of those that cannot be told apart."
    return {"sentence": sentence, "level": "note", "action": action}


def _rows(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each network, by expected score; the audits' order without labels."""
    named = {str(r["model"]) if _single(reports, r) else f"{r['model']} ({i + 1})": r for i, r in enumerate(reports)}
    if any(r.get("expected") is None for r in reports):
        return [_row(name, r, None, None, None) for name, r in named.items()]
    same = len({r["expected"]["settings"]["samples"] for r in reports}) == 1
    tried = all(r["expected"]["combined"] for r in reports)  # a trial ranks networks better than the kernel alone
    scores = []
    for name, r in named.items():
        e = r["expected"]
        # where one was measured on fewer samples: with all of them
        score = e["combined" if tried else "score"] if same else e["all"]["score"]
        found = Estimate(score["value"], score["stderr"], score["n"])
        scores.append((name, found, e["error"]["samples"], e["warning"]))
    return [_row(p.name, named[p.name], p.score, p.like_best, p.warning) for p in ranked(scores)]


def _single(reports: Sequence[Mapping[str, Any]], one: Mapping[str, Any]) -> bool:
    return [r["model"] for r in reports].count(one["model"]) == 1


def _row(
    name: str, report: Mapping[str, Any], score: Estimate | None, like_best: bool | None, warning: str | None
) -> dict[str, Any]:
    costs = report.get("network") or {}
    counted = costs.get("operations")
    return {
        "model": name,
        "score": None if score is None else score.as_dict(),
        "like_best": like_best,
        "warning": warning,
        "parameters": costs.get("parameters"),
        "operations": counted,
        "step_operations": None if counted is None else STEP * counted,
    }


def _row_in_words(row: Mapping[str, Any]) -> str:
    said = []
    if row["score"] is not None:
        tie = "" if row["like_best"] else ", lower than the best"
        said.append(f"{shown({}, row['score'])}{tie}")
    if row["operations"] is not None:
        said.append(f"{_short(row['operations'])} operations a prediction, {_short(row['step_operations'])} a step")
    if row["parameters"] is not None:
        said.append(f"{_short(row['parameters'])} parameters")
    return "; ".join(said)


def _short(count: float) -> str:
    """Two digits and a word, as in "69 million".

    >>> _short(69289984.0), _short(34800), _short(120)
    ('69 million', '35 thousand', '120')
    """
    for size, word in ((1e12, " trillion"), (1e9, " billion"), (1e6, " million"), (1e3, " thousand")):
        if count >= size:
            return f"{float(f'{count / size:.2g}'):g}{word}"
    return f"{count:.0f}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
