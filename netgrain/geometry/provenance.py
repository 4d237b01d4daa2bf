"""Where a geometry came from: kept with it, shown by it, saved beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from netgrain.runtime.versions import versions


@dataclass(frozen=True)
class Provenance:
    """What was computed, in words and numbers that survive a file."""

    method: str  # "sampled", "closed-form", "data" or "derived"
    model: str = ""
    probe: str = ""
    output: str = "all"
    seed: int | None = None
    members: int = 0
    exact: bool = False
    integration: str = ""  # "first layer integrated (…)" or why it was not
    zero_share: float = 0.0  # share of members whose input gradient is exactly zero
    notes: tuple[str, ...] = ()
    leaves_out: tuple[str, ...] = ()  # of a closed form: what the limit of wide layers has and this does not
    versions: dict[str, str] = field(default_factory=versions)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Provenance:
        known = {k: v for k, v in values.items() if k in cls.__dataclass_fields__}
        lists = {k: tuple(known.get(k, ())) for k in ("notes", "leaves_out")}
        return cls(**{**known, **lists})
