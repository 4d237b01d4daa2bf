"""Several families on one data set, and for each pair a verdict with its uncertainty."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netgrain.auditing.audits import Audit
from netgrain.auditing.checks import comparable
from netgrain.auditing.pages import Document, comparison
from netgrain.auditing.sections.contract import with_error
from netgrain.runtime.versions import __version__

LEAST = 1e-12  # reaction that counts as none
CLEAR = 1.96  # standard errors that a difference of log reactions must have


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Document):
    """Several audits of the same data, with a verdict for each pair.

    Its repr lists the verdicts, one in each line.

    Parameters
    ----------
    report : dict
        The reports under "audits" and the verdicts under "verdicts", as plain values for JSON.

    See Also
    --------
    compare : Makes one.
    """

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """For each pair of audits: the names ("between"), the level and the text."""
        found: list[dict[str, Any]] = self.report["verdicts"]
        return found

    def html(self) -> str:
        """The audits side by side as one HTML page that works offline.

        Returns
        -------
        str
            The page. It loads nothing and holds its numbers as JSON.
        """
        return comparison(self.report)

    def __repr__(self) -> str:
        return "\n".join(f"- {verdict['text']}" for verdict in self.verdicts)


def compare(audits: Sequence[Audit]) -> Comparison:
    """Compare several audits of the same data, pair by pair.

    Parameters
    ----------
    audits : sequence of Audit
        Two or more, of the same samples and labels.

    Returns
    -------
    Comparison
        The reports side by side, and for each pair which network reacts more strongly to the directions of the labels.

    Raises
    ------
    NetgrainError
        If there are fewer than two audits, or if they are of different data.

    See Also
    --------
    audit : Makes the audit of one family.

    Examples
    --------
    A network and itself cannot be told apart.

    >>> from functools import partial
    >>> import torch
    >>> from netgrain.auditing import audit
    >>> from netgrain.models import MLP
    >>> X = torch.randn(64, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    >>> make = partial(MLP, channels=1, image_size=2, outputs=2)
    >>> one, two = (audit(make, X, (X[:, 0, 0, 0] > 0).long(), name=name) for name in ("A", "B"))
    >>> compare([one, two]).verdicts[0]["text"].partition(":")[0]
    'A and B cannot be told apart'
    """
    reports = comparable(audits)
    return Comparison(
        {
            "netgrain": __version__,
            "date": str(datetime.date.today()),
            "audits": reports,
            "verdicts": [verdict(a, b) for a, b in itertools.combinations(reports, 2)],
        }
    )


def verdict(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Which of two families reacts more strongly to the directions of the label, beyond the errors of both."""
    one, two = a["labels"]["reaction"], b["labels"]["reaction"]
    names = [a["model"], b["model"]]
    if one["value"] is None or two["value"] is None:
        text = f"{names[0]} and {names[1]} cannot be compared: no single direction carries the label."
        return {"between": names, "level": "note", "text": text}
    sizes = [max(r["value"], LEAST) for r in (one, two)]
    gap = math.log(sizes[0] / sizes[1])
    error = math.hypot(*((r["stderr"] or 0.0) / size for r, size in zip((one, two), sizes, strict=True)))
    places = {r["geometry"]["where"] for r in (a, b)}
    reactions = [with_error(r["value"], r["stderr"]) for r in (one, two)]
    said = (
        f"they react {reactions[0]} and {reactions[1]} times as strongly to the directions that carry the label as to "
        f"an average one (G {' and '.join(sorted(places))})"
    )
    shares = [r["labels"]["nonlinear"]["value"] for r in (a, b)]
    if None not in shares:
        said += f"; their leading directions hold {shares[0]:.0%} and {shares[1]:.0%} of the label signal"
    said += ". That does not tell which of them will be more accurate"
    if abs(gap) <= CLEAR * error:
        return {"between": names, "level": "note", "text": f"{names[0]} and {names[1]} cannot be told apart: {said}."}
    stronger, weaker = names if gap > 0 else names[::-1]
    text = f"{stronger} reacts more strongly to the directions of these labels than {weaker}: {said}."
    return {"between": names, "level": "note", "text": text}
