"""Equivariant networks at the true limit: the G-CNN has the lowest Fourier norm and the widest β, on average.

Claim: at depth 3, on Gaussian points with alternating labels, the mean over draws of |β̂|_{2/3}/|β|₂ and of |β̂|_{2/3} at
margin one is lowest for the G-CNN, and the mean of |β|_{2/3}/|β|₂ is highest; not in every draw, because the limit is
stationary and not always optimal: the rates are given. All norms are in the Fourier space of the group, for every
network; the CNN is circular on the elements in the order r^a s^b → 2a + b, the FC limit is the support vector machine.
Cost: smoke a second, laptop 20 s on two cores, paper two minutes (100 draws, 30 of D60).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.studies import HUES, NETS, RATIOS, Seeds, collected, narrow, trainings
from netgrain.geometry.estimate import mean
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 45  # processor seconds at laptop scale
COVERS = (65, 67)
DEPTH = 3
MEASURES = {  # short name, name, 1 if the G-CNN's is claimed to be lowest, −1 if highest
    "ratio": ("Fourier ratio", RATIOS["ratio"], 1),
    "objective": ("objective", "|β̂|_{2/3} at margin one", 1),
    "real": ("real ratio", RATIOS["real"], -1),
}
EXPECTED = {  # G-CNN, CNN, FC, from an earlier prototype on other draws
    ("D8", 2): {"ratio": (5.03, 6.30, 16.9), "objective": (4.75, 6.36, 10.3), "real": (7.27, 6.64, 6.28)},
    ("D8", 5): {"ratio": (7.99, 10.5, 18.3), "objective": (20.6, 21.1, 28.1), "real": (6.38, 6.16, 6.09)},
    ("D60", 10): {"ratio": (37.0, 47.8, 340), "objective": (41.3, 56.6, 159), "real": (46.2, 44.8, 43.3)},
}


@dataclass(frozen=True)
class Config:
    problems: Sequence[Sequence[Any]]  # group, points, draws


PRESETS = {
    "smoke": Config(problems=(("D8", 2, 3), ("D8", 5, 3))),
    "laptop": Config(problems=(("D8", 2, 24), ("D8", 5, 24), ("D60", 10, 12))),
    "paper": Config(problems=(("D8", 2, 100), ("D8", 5, 100), ("D60", 10, 30))),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    trained: dict[tuple[str, int, str], Seeds]  # group, points, network → one per draw


def run(config: Config, runner: Runner) -> Result:
    asked = {
        (group, points, net): trainings(
            group, {"kind": "gaussian", "points": points}, range(draws), net=net, depth=DEPTH, **narrow(net)
        )
        for group, points, draws in reversed(config.problems)  # the long ones first
        for net in NETS
    }
    return Result(config, collected(runner, asked, "limits"))


def claims(result: Result) -> list[Claim]:
    found = []
    for group, points, _ in result.config.problems:
        nets = {net: result.trained[group, points, net] for net in NETS}
        where = f"{group}, {points} points"
        ours = nets["group-cnn"]
        for measure, (short, name, sign) in MEASURES.items():
            expected = EXPECTED.get((group, points), {}).get(measure)
            for net in ("circular", "fully-connected"):
                low, high = (ours, nets[net])[::sign]
                found.append(
                    claim(
                        f"{where}: {short} of the G-CNN {'below' if sign > 0 else 'above'} the {NETS[net]}'s",
                        f"mean over draws of the difference in {name} is positive",
                        high.minus(low, measure),
                        low=0,
                        paper=f"on average; prototype {' / '.join(f'{v:g}' for v in expected)}" if expected else "",
                        note=f"{ours.told(measure)} and {nets[net].told(measure)}; {_how_often(nets, measure, '.2f')} "
                        "of the draws",
                    )
                )
        residuals = [kkt for outcomes in nets.values() for kkt in outcomes.each("kkt")]
        found.append(
            claim(
                f"{where}: limits are stationary",
                "the mean KKT residual over draws and networks is at most 1e-4",
                mean(residuals),
                high=1e-4,
                paper="the theorem",
                note=f"largest {max(residuals):.0e}",
            )
        )
    return found


def _how_often(nets: Mapping[str, Seeds], measure: str, form: str) -> str:
    sign = MEASURES[measure][2]
    return f"G-CNN {'lowest' if sign > 0 else 'highest'} in {mean(_best(nets, measure, sign)).value:{form}}"


def _best(nets: Mapping[str, Seeds], measure: str, sign: int) -> list[bool]:
    """Draw by draw: the G-CNN is not beaten by another (by more than 1e-6: ties at the same β happen)."""
    rows = zip(*(nets[net].each(lambda n: sign * n[measure]) for net in NETS), strict=True)
    return [row[0] <= min(row[1:]) + 1e-6 * abs(row[0]) for row in rows]


def figure(result: Result) -> Figure:
    """Every draw as a point, means with standard errors, and where the networks began."""
    from netgrain.experiments.equivariance.panels import above, key, labelled, mean_mark, picture, plain_ticks, spread

    problems = list(result.config.problems)
    title = "The true limit of depth 3: every draw, means ± standard errors, and the level at initialisation"
    figure = picture(12.5, 1.2 + 2.7 * len(problems), title)
    axes = figure.subplots(len(problems), 3, squeeze=False)
    for line, (group, points, draws) in zip(axes, problems, strict=True):
        nets = {net: result.trained[group, points, net] for net in NETS}
        for ax, (measure, (_, name, _)) in zip(line, MEASURES.items(), strict=True):
            for at, (net, outcomes) in enumerate(nets.items()):
                values, centre = outcomes.each(measure), outcomes.mean(measure)
                ax.plot(values, spread(at, draws, 0.14), "o", color=HUES[net], ms=3, alpha=0.35, mew=0)
                if measure != "objective":  # at initialisation the data are not separated
                    mean_mark(ax, outcomes.mean(f"start_{measure}"), at + 0.3, colour=HUES[net], filled=False, size=5)
                mean_mark(ax, centre, at - 0.3, colour=HUES[net], size=6)
                above(ax, centre, at - 0.3, f"{centre.value:.3g} ± {centre.stderr:.1g}")
            if measure != "real" and max(nets["fully-connected"].each(measure)) > 100:
                ax.set_xscale("log")
                plain_ticks(ax, "x", (10, 20, 50, 100, 200, 400))
            ax.set_yticks(range(len(NETS)), list(NETS.values()))
            ax.set_ylim(len(NETS) - 0.4, -0.75)
            labelled(ax, f"{group}, {points} points, {draws} draws: {_how_often(nets, measure, '.0%')}", name)
    marks = [key("0.3", "limit", "o"), key("white", "initialisation", "o")]
    figure.legend(handles=marks, loc="outside lower center", ncols=2, frameon=False)
    return figure
