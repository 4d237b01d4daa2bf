"""What was tried of a catalogue of changes, and what each of them is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from netgrain.auditing.paired_gains import Gain
from netgrain.families.members import Family
from netgrain.geometry.estimate import Estimate


@dataclass(frozen=True, eq=False)
class Row:
    """A change that was tried.

    Attributes
    ----------
    change, action, kind : str
        What it is, what the user types or edits, and what it is about.
    gain : Gain
        Predicted, on samples and members that did not choose it.
    before, after : Estimate
        Expected score without and with it, with the whole error.
    cost_ratio : float
        Operations of a prediction (for more samples: of an epoch) relative to the network as it is; NaN if unknown.
    family : callable or None
        The changed family; None for more samples.
    trained : bool
        Whether a short training (for more samples: the learning curve) is behind the gain, and not kernels alone.
    """

    change: str
    action: str
    kind: str
    gain: Gain
    before: Estimate
    after: Estimate
    cost_ratio: float
    family: Family | None = None
    trained: bool = False

    def __repr__(self) -> str:
        return f"expected score {self.before} → {self.after}, {_points(self.gain)} points"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "change": self.change,
            "action": self.action,
            "kind": self.kind,
            "gain": self.gain.as_dict(),
            "clear": self.gain.clear,
            "trained": self.trained,
            "before": _plain(self.before),
            "after": _plain(self.after),
            "cost_ratio": None if math.isnan(self.cost_ratio) else float(f"{self.cost_ratio:.3g}"),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Advice:
    """Changes that were tried, ranked by predicted gain.

    Attributes
    ----------
    rows : tuple of Row
        Trained changes, then the others; in each group the largest gain on the selecting half comes first.
    measure : str
        "accuracy" or "R²".
    tried, left, unfit : int
        Number of changes that were evaluated, that exceeded the budget, and that do not fit the network.
    budget : float or None
        Number of operations allowed; None if there was no limit.
    samples, members : int
        Number of samples and of random networks behind each estimate.
    steps, rates : int
        Number of updates and of learning rates in the short trainings; 0 if the budget allowed none.

    See Also
    --------
    advise : Makes one.
    what_if : The same for a change of your own.
    """

    rows: tuple[Row, ...]
    measure: str
    tried: int
    left: int
    unfit: int
    budget: float | None
    samples: int
    members: int
    steps: int = 0
    rates: int = 0

    @property
    def first(self) -> Row | None:
        """The selected change; None if no change gained on the selecting half.

        If changes were trained, it is one of those; changes that were not trained rank behind them.
        """
        rows = [row for row in self.rows if row.gain.chosen_by > 0 and (row.trained or not self.steps)]
        return rows[0] if rows else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        Returns
        -------
        dict
            Rows, and how many changes were tried.
        """
        return {
            "rows": [row.as_dict() for row in self.rows],
            "measure": self.measure,
            "tried": self.tried,
            "left": self.left,
            "unfit": self.unfit,
            "budget": self.budget,
            "samples": self.samples,
            "members": self.members,
            "steps": self.steps,
            "rates": self.rates,
        }

    def __repr__(self) -> str:
        lines = [f"Advice({self.tried} changes tried, {self.left} left for their cost, {self.unfit} do not fit)"]
        for row in self.rows[:5]:
            lines.append(f"  {row.change}: {_points(row.gain)} points; {row.action}")
        return "\n".join(lines)


def _points(found: Gain) -> str:
    return f"{100 * found.value:+.1f} ± {100 * found.stderr:.1f}"


def _plain(estimate: Estimate) -> dict[str, Any]:
    found = estimate.as_dict()
    return {key: found[key] for key in ("value", "stderr", "n")}
