"""Figure 2: what the geometry of networks looks like while they learn to tell animals from vehicles.

Claim: within the first 20 steps of gradient descent Corr(Gᵗ, G S G) rises above its start, and for LeNet, ResNet18 and
ViT it lies above Corr(Gᵗ, S). Beside it the theory's sign: to first order Gᵗ loses G S G, so the correlation must fall
at t = 0 before it can rise. Correlations are over different members (thin lines: plug-in, as in the paper).
Cost: smoke seconds, laptop two minutes on two cores (3 × 16 × 16, 256 images, 30 steps), paper for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain import following
from netgrain.experiments.grain.drawing import band, legend_below, panels
from netgrain.experiments.grain.following import Rise
from netgrain.experiments.grain.grains import NARROW, images_found, model_config, pictures, shape_in
from netgrain.experiments.grain.trials import MORE, Trials, curve_of, joined, left_out, open_subjects, until_decided
from netgrain.experiments.theory.inclusion import Inside, change_inside
from netgrain.geometry.covariance import data_covariance
from netgrain.geometry.estimate import Estimate, mean
from netgrain.geometry.forms import Dense, Form
from netgrain.geometry.structured_forms import Kronecker
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 167  # processor seconds at laptop scale
EARLY = 20  # steps within which the correlation is to rise
SHARE = 0.9  # of the trace of G S G: its leading eigenspace
SLOPE = "slope at 0"  # the claim that is made from other members than the rest
STYLES = {"GSG": "#d55e00", "S": "#0072b2", "I": "#999999"}  # what Gᵗ is compared with
AT_ONCE = 8  # members in one unit of first-order changes


@dataclass(frozen=True, kw_only=True)
class Config:
    networks: list[str]
    images: str  # "auto": cifar10 where it is found, else digits
    size: int
    widths: dict[str, float]  # of networks that are not at full width
    samples: int  # one full batch, half of either class
    tests: int
    labels: str  # "true" or "random"
    optimizer: str
    lr: dict[str, float]
    snapshots: list[int]  # numbers of steps; the last one ends training
    method: str = "auto"  # how G is known: "auto" (closed form; ViT sampled) or "sampled"
    geometry_members: int  # networks behind a sampled G, or points behind a closed form
    mlp_members: int  # networks behind the MLP's G, which is sampled: the exact one is a multiple of I
    probes: int  # points per member at which ∇ₓf is taken
    members: dict[str, int]  # to begin with
    most_members: dict[str, int]  # added while a claim of the network is undecided
    first_members: dict[str, int]  # pairs of twins behind the change at first order
    device: str = "cpu"


def presets(networks: Sequence[str], labels: str, optimizer: str, lr: Mapping[str, float]) -> dict[str, Config]:
    """Settings of figures 2 and 8, which differ in networks, labels and optimiser."""

    def members(number: int | Mapping[str, int]) -> dict[str, int]:
        return {n: number if isinstance(number, int) else number[n] for n in networks}

    laptop = Config(
        networks=list(networks), labels=labels, optimizer=optimizer, lr=dict(lr),
        images="auto", size=16, widths=dict(NARROW), samples=256, tests=200,
        snapshots=[*range(9), 10, 12, 14, 16, 18, 20, 25, 30], geometry_members=64, mlp_members=1000, probes=8,
        members=members({"MLP": 32, "LeNet": 48, "VGG11": 24, "ResNet18": 24, "ViT": 16}),
        most_members=members({"MLP": 64, "LeNet": 80, "VGG11": 32, "ResNet18": 28, "ViT": 24}),
        first_members=members({"MLP": 200, "LeNet": 300, "VGG11": 64, "ResNet18": 48, "ViT": 32}),
    )  # fmt: skip
    smoke = replace(
        laptop, images="digits", widths={"LeNet": 0.5, "VGG11": 1 / 16, "ResNet18": 1 / 32, "ViT": 1 / 12},
        samples=16, tests=16, snapshots=[0, 1, 2], geometry_members=2, mlp_members=8, probes=2,
        members=members(6), most_members=members(6), first_members=members(2),
    )  # fmt: skip
    paper = replace(
        laptop, images="cifar10", size=32, widths={}, samples=10_000, tests=10_000, snapshots=list(range(101)),
        method="sampled", geometry_members=10_000, mlp_members=10_000, probes=16,
        members=members(25), most_members=members(25), first_members=members(200), device="best",
    )  # fmt: skip
    return {"smoke": smoke, "laptop": laptop, "paper": paper}


RATES = {"MLP": 0.01, "LeNet": 0.1, "ResNet18": 0.1, "ViT": 0.1}
PRESETS = presets(("MLP", "LeNet", "ResNet18", "ViT"), "true", "sgd", RATES)


@dataclass(frozen=True, eq=False, kw_only=True)
class Course:
    """One network on its way."""

    steps: list[int]
    corr: dict[str, list[Estimate]]  # "GSG", "S", "I" → at every snapshot, over different members, plug-in beside
    train: list[Estimate]  # per cent
    test: list[Estimate]
    since: list[Estimate]  # Corr(Gᵗ, GSG) minus its start, on the same members
    rise: Rise
    inside: Inside
    dimension: int  # of the leading eigenspace of G S G
    slope: Estimate  # of Corr(Gᵗ, GSG) at t = 0, per step
    members: int
    left_out: int


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    courses: dict[str, Course]
    images: str


# --- units --------------------------------------------------------------------------------------------------------


def data_of(images: Mapping[str, Any], labels: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images, half of either class, and test images; random labels are drawn once, the same for all members."""
    samples = images["samples"]
    split = pictures(**{**images, "samples": 2 * samples})
    chosen = torch.cat([(split.train.y == c).nonzero()[: samples // 2, 0] for c in (0, 1)])
    X, y, test = split.train.X[chosen], split.train.y[chosen], split.test
    if labels == "true":
        return X, y, test.X, test.y
    drawn = [
        torch.randint(2, (len(t),), generator=torch.Generator().manual_seed(derived_seed(0, "random labels", part)))
        for part, t in enumerate((y, test.y))
    ]
    return X, drawn[0], test.X, drawn[1]


def _targets(unit: Mapping[str, Any]) -> Outcome:
    """G, S and G S G of a family, and the leading eigenspace of the last."""
    X = data_of(unit["images"], "true")[0]
    S = data_covariance(X).matrix()
    G = following.geometry_at_start(unit["model"], method=unit["method"], members=unit["members"]).matrix()
    known = G
    if unit["model"]["network"] == "MLP":
        known = following.geometry_at_start(unit["model"], method="sampled", members=unit["mlp_members"]).matrix()
    P = known @ S @ known
    values, vectors = torch.linalg.eigh((P + P.T) / 2)
    values, vectors = values.flip(0), vectors.flip(1)
    k = int((values.cumsum(0) < SHARE * values.sum()).sum()) + 1
    return Outcome({"dimension": k}, {"G": G, "S": S, "GSG": P, "top": vectors[:, :k].contiguous()})


def _member(device: str, unit: Mapping[str, Any]) -> Outcome:
    X, y, *tests = data_of(unit["images"], unit["labels"])
    settings = Settings(**unit["settings"])
    return following.followed(
        unit["model"], X, y, settings, seed=0, i=unit["member"], probes=unit["probes"], device=device,
        tests=(tests[0], tests[1]),
    )  # fmt: skip


def _first(targets: Mapping[str, Outcome], device: str, unit: Mapping[str, Any]) -> Outcome:
    X, y, *_ = data_of(unit["images"], unit["labels"])
    arrays = targets[unit["model"]["network"]].arrays
    settings = Settings(**unit["settings"])
    found = following.slopes(
        unit["model"], X, y, settings, G=arrays["G"], P=arrays["GSG"], seed=1, members=range(*unit["members"]),
        probes=unit["probes"], device=device, tiny=unit["tiny"],
    )  # fmt: skip
    return Outcome({"slopes": found})


# --- the run ------------------------------------------------------------------------------------------------------


def run(config: Config, runner: Runner) -> Result:
    name = images_found(runner, config.images)
    images = {"name": name, "size": config.size, "samples": config.samples, "tests": config.tests, "two": True}
    shape = shape_in(images)
    models = {n: model_config(n, shape, activation="relu", width=config.widths.get(n, 1.0)) for n in config.networks}
    start = {"method": config.method, "members": config.geometry_members, "mlp_members": config.mlp_members}
    asked = [{"part": "targets", "model": m, "images": images, **start} for m in models.values()]

    def on_images(part: str, network: str, steps: Sequence[int]) -> dict[str, Any]:
        sgd = config.optimizer == "sgd"
        settings = Settings(
            optimizer=config.optimizer, lr=config.lr[network], steps=max(steps), batch=None,
            decay="linear" if sgd else None, clip=5.0 if sgd else None, snapshots=tuple(steps),
        )  # fmt: skip
        return {
            "part": part,
            "model": models[network],
            "images": images,
            "labels": config.labels,
            "settings": settings.as_dict(),
            "probes": config.probes,
        }

    def training(network: str, member: int) -> list[dict[str, Any]]:
        return [{**on_images("training", network, config.snapshots), "member": member}]

    def first(network: str) -> list[dict[str, Any]]:
        shared = {**on_images("first order", network, [0, 1]), "start": start, "tiny": following.TINY}
        last = config.first_members[network]
        return [{**shared, "members": [a, min(a + AT_ONCE, last)]} for a in range(0, last, AT_ONCE)]

    opening = [u for n in config.networks for u in first(n)]
    begin = [u for n, members in config.members.items() for i in range(members) for u in training(n, i)]
    if not runner.has([*asked, *opening, *begin]):
        data_of(images, config.labels)  # read here, before processes are forked
    targets = dict(zip(models, runner.map(_targets, asked, "geometries"), strict=True))
    changes = iter(runner.map(partial(_first, targets, config.device), opening, "first-order changes"))
    slope = {n: mean_slope([next(changes) for _ in first(n)]) for n in config.networks}
    done: dict[tuple[str, int], Course] = {}

    def result(trials: Mapping[str, Trials]) -> Result:
        courses = {}
        for n, t in trials.items():
            key = n, len(t.rows)
            if key not in done:
                done[key] = course_of(config.snapshots, t, targets[n], slope[n])
            courses[n] = done[key]
        return Result(config, courses, name)

    return until_decided(
        runner,
        partial(_member, config.device),
        training,
        {n: (config.members[n], config.most_members[n]) for n in config.networks},
        result=result,
        undecided=lambda result: open_subjects(c for c in claims(result) if c.kind != SLOPE),
        step=4,
    )


def mean_slope(outcomes: Sequence[Outcome]) -> Estimate:
    return mean([s for o in outcomes for s in o.numbers["slopes"] if s is not None])


def course_of(steps: Sequence[int], trials: Trials, target: Outcome, slope: Estimate) -> Course:
    good = [outcome for (outcome,) in trials.kept.values()]
    shared: dict[str, Any] = {
        "steps": list(steps),
        "dimension": target.numbers["dimension"],
        "slope": slope,
        "members": len(good),
        "left_out": trials.left_out,
    }
    if len(good) < 2:
        none = Estimate(math.nan, math.nan, len(good), math.nan)
        gone = [none] * len(steps)
        rise, inside = Rise(none, none, (0, 0)), Inside(none, math.nan, none)
        corr = dict.fromkeys(STYLES, gone)
        return Course(corr=corr, train=gone, test=gone, since=gone, rise=rise, inside=inside, **shared)
    rows = torch.stack([o.arrays["rows"] for o in good])
    arrays, times = target.arrays, list(range(len(steps)))
    early = [t for t in times if 1 <= steps[t] <= EARLY]
    forms: dict[str, Form] = {n: Dense(arrays[n]) for n in ("GSG", "S")}
    forms["I"] = Kronecker(Dense(torch.eye(1, dtype=torch.float64)), len(arrays["S"]), torch.arange(len(arrays["S"])))
    products = following.Products.of(rows, forms)
    return Course(
        corr={n: [products.estimate(t, n) for t in times] for n in forms},
        train=curve_of(o.numbers["train"] for o in good),
        test=curve_of(o.numbers["test"] for o in good),
        since=[products.since(t, "GSG") for t in times],
        rise=following.highest(products, early, "GSG", "S"),
        inside=change_inside(rows, [0, *early], arrays["top"]),
        **shared,
    )


# --- what it says -------------------------------------------------------------------------------------------------


def claims(result: Result) -> list[Claim]:
    return [c for network, course in result.courses.items() for c in _claims(network, course, result.config.optimizer)]


def _claims(network: str, c: Course, optimizer: str) -> list[Claim]:
    judged, out = partial(claim, subject=network), left_out(c.left_out, "members")
    same = "sampled G: for the exact G ∝ I, G S G is S up to a factor, an identity" if network == "MLP" else ""
    at = " and ".join(str(c.steps[t]) for t in c.rise.chosen)
    chosen = f"half of the members choose the step ({at}), the others are judged there, and the other way round"
    rise = judged(
        "rise",
        f"the maximum over steps 1 to {EARLY} of Corr(Gᵗ, GSG) exceeds its value at 0",
        c.rise.rise,
        low=MORE,
        paper="rises at the beginning of training",
        note=joined(f"Corr {_short(c.corr['GSG'][0])} at 0; {chosen}", when(c), same, out),
    )
    above = judged(
        "above S",
        "at that step Corr(Gᵗ, GSG) is larger than Corr(Gᵗ, S)",
        c.rise.above,
        low=MORE,
        paper="the curve of GSG lies above that of S",
        note=joined(chosen, out),
    )
    slope = judged(
        SLOPE,
        "to first order Corr(Gᵗ, GSG) falls: dCorr/dt at t = 0 is negative, per step",
        c.slope,
        high=-MORE,
        paper="an increasing correlation",
        note="central difference along the first update, pairs of twins with opposite last layers; the theory's "
        "sign is for gradient flow" + (", Adam moves otherwise" if optimizer == "adam" else ""),
    )
    moves = judged(
        "where it moves",
        f"of the change of Gᵗ in {EARLY} steps more lies inside the leading eigenspace of GSG ({SHARE:.0%} of "
        "its trace) than inside a random subspace of that dimension: share minus chance",
        c.inside.excess,
        low=MORE,
        paper="changes follow GSG",
        note=joined(
            f"share {_short(c.inside.share)} in {c.dimension} dimensions, by chance {c.inside.chance:.3f}", out
        ),
    )
    return [rise, slope, moves] if same else [rise, above, slope, moves]


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


def figure(result: Result) -> Figure:
    labels = "" if result.config.labels == "true" else ", random labels"
    figure, axes = panels(
        f"The geometry of networks in training on two classes of {result.images}{labels}\n"
        "full lines: different members only, ± 1 standard error; dotted: plug-in, as in the paper; dashed: the start",
        (11.5, 8.2), rows=2, columns=2, fontsize=11,
    )  # fmt: skip
    for ax, (network, c) in zip(axes, result.courses.items(), strict=False):
        for key, colour in STYLES.items():
            band(ax, c.steps, c.corr[key], alpha=0.18, color=colour, lw=1.8, label=f"Corr(Gᵗ, {key})")
            ax.plot(c.steps, [v.plug_in for v in c.corr[key]], color=colour, lw=0.9, ls=":")
        ax.axhline(c.corr["GSG"][0], color=STYLES["GSG"], lw=0.7, ls="--")
        ax.axvspan(1, EARLY, color="#000000", alpha=0.04, lw=0)
        right = ax.twinx()
        for part, curve, style in (("train", c.train, "-"), ("test", c.test, "--")):
            right.plot(c.steps, [v.value for v in curve], style, color="#009e73", lw=1.2, label=f"{part} accuracy")
        right.set_ylim(30, 102)
        right.set_ylabel("accuracy, %", color="#009e73")
        ax.set(ylim=(-0.02, 1.05), xlabel="step", ylabel="correlation")
        slope = "" if math.isnan(c.slope.stderr) else f", slope at 0: {c.slope.value:.2g} ± {c.slope.stderr:.1g}"
        ax.set_title(f"{network}, {c.members} members{slope}", fontsize=11)
    legend_below(figure, [h for a in (axes[0], right) for h in a.get_legend_handles_labels()[0]], columns=5)
    return figure
