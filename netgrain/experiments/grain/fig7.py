"""Figure 7: how well the evolution of two networks follows the data, against their width.

Claim: with growing width Δ of a one-hidden-layer ReLU network aligns with S (Theorem 3.1), Δ of a linear convolution
with pooling with G S G (Theorem 3.2). Both theorems are measured number by number, on CIFAR-2 where it is found; what
the paper prints is judged, and where it prints nothing, what is predicted in docs/theory.md. `netgrain theory` has the
other statements. The paper gives no widths, so those here are ours: 16 to 4096 hidden units and 1 to 128 channels. Its
data are CIFAR-2 at 3 × 32 × 32, as at paper scale (1,000 images); at laptop scale the curves are drawn at 16 × 16 with
200 images. Cost: smoke seconds, laptop about a minute, paper an hour of one core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from netgrain.experiments.claims import Claim
from netgrain.experiments.contract import SCALES
from netgrain.experiments.theory import figures
from netgrain.experiments.theory.measuring import statements_of
from netgrain.experiments.theory.statements import Job
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 333  # processor seconds at laptop scale, on a busy machine
COVERS = (15, 16, 41)
THEOREMS = ("theorem-3.1", "theorem-3.2")


@dataclass(frozen=True)
class Config:
    scale: str  # of the statements
    seed: int


PRESETS = {scale: Config(scale, 0) for scale in SCALES}


@dataclass(frozen=True, eq=False)
class Result:
    statements: list[dict[str, Any]]
    curves: list[figures.WidthCurve]


def run(config: Config, runner: Runner) -> Result:
    units = [{"figure": 7, "part": part, **asdict(config)} for part in ("curves", *THEOREMS)]
    drawn, *theorems = runner.map(_one, units, "theorems")
    curves = [
        figures.WidthCurve(**{**c, "measured": [_estimate(m) for m in c["measured"]]}) for c in drawn.numbers["curves"]
    ]
    return Result([s for o in theorems for s in o.numbers["statements"]], curves)


def _one(unit: Mapping[str, Any]) -> Outcome:
    job = Job(unit["scale"], unit["seed"])
    if unit["part"] == "curves":
        found = figures.curves(job)
        return Outcome({"curves": [{**vars(c), "measured": [m.as_dict() for m in c.measured]} for c in found]})
    return Outcome({"statements": [s.as_dict() for s in statements_of(unit["part"], job)]})


def _estimate(stored: Mapping[str, Any]) -> Estimate:
    return Estimate(_number(stored["value"]), _number(stored["stderr"]), stored["n"], stored["plug_in"])


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def claims(result: Result) -> list[Claim]:
    return [
        Claim(
            subject=s["name"],
            kind=s["quantity"],
            statement=s["claim"] if s["paper"] else f"{_number(s['predicted']):.4g} as predicted",
            paper=s["printed"],
            value=_number(s["measured"]),
            stderr=_number(s["stderr"]),
            n=s["n"],
            low=None,
            high=None,
            verdict=s["verdict"],
            basis=s["basis"],
            note=s["note"] or (f"predicted here: {s['predicted']:.4g}" if s["predicted"] is not None else ""),
        )
        for s in result.statements
        if s["verdict"]
    ]


def figure(result: Result) -> Figure:
    return figures.figure_7(result.curves)
