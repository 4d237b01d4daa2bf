"""Figure 2: what the geometry of networks looks like while they learn to tell animals from vehicles.

Claim: within the first 20 steps of gradient descent Corr(Gᵗ, G S G) rises above its start, and for LeNet, ResNet18 and
ViT it lies above Corr(Gᵗ, S). Beside it the theory's sign: to first order Gᵗ loses G S G, so the correlation must fall
at t = 0 before it can rise. Correlations are over different members (thin lines: plug-in, as in the paper).
Cost: smoke seconds, laptop two minutes on two cores (3 × 16 × 16, 256 images, 30 steps), paper for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.experiments.claims import UNDECIDED, Claim, claim
from netgrain.experiments.grain import following
from netgrain.experiments.grain.following import MORE, Inside, Rise
from netgrain.experiments.grain.grains import NARROW, images_found, model_config, pictures
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
AT_ONCE = 8  # members in one unit of first-order changes


@dataclass(frozen=True)
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
    method: str  # how G is known: "auto" (closed form; ViT sampled) or "sampled"
    geometry_members: int  # networks behind a sampled G, or points behind a closed form
    mlp_members: int  # networks behind the MLP's G, which is sampled: the exact one is a multiple of I
    probes: int  # points per member at which ∇ₓf is taken
    members: dict[str, int]  # to begin with
    most_members: dict[str, int]  # added while a claim of the network is undecided
    first_members: dict[str, int]  # pairs of twins behind the change at first order
    device: str


def presets(networks: Sequence[str], labels: str, optimizer: str, lr: Mapping[str, float]) -> dict[str, Config]:
    """Settings of figures 2 and 8, which differ in networks, labels and optimiser."""
    every = list(networks)
    shared: dict[str, Any] = {"networks": every, "labels": labels, "optimizer": optimizer, "lr": dict(lr)}
    counts = {"MLP": 32, "LeNet": 48, "VGG11": 24, "ResNet18": 24, "ViT": 16}
    most = {"MLP": 64, "LeNet": 80, "VGG11": 32, "ResNet18": 28, "ViT": 24}
    first = {"MLP": 200, "LeNet": 300, "VGG11": 64, "ResNet18": 48, "ViT": 32}
    dense = [*range(9), 10, 12, 14, 16, 18, 20]
    return {
        "smoke": Config(
            images="digits", size=16, widths={"LeNet": 0.5, "VGG11": 1 / 16, "ResNet18": 1 / 32, "ViT": 1 / 12},
            samples=16, tests=16, snapshots=[0, 1, 2], method="auto", geometry_members=2, mlp_members=8, probes=2,
            members=dict.fromkeys(every, 6), most_members=dict.fromkeys(every, 6),
            first_members=dict.fromkeys(every, 2), device="cpu", **shared,
        ),
        "laptop": Config(
            images="auto", size=16, widths=dict(NARROW), samples=256, tests=200,
            snapshots=[*dense, 25, 30], method="auto", geometry_members=64, mlp_members=1000, probes=8,
            members={n: counts[n] for n in every}, most_members={n: most[n] for n in every},
            first_members={n: first[n] for n in every}, device="cpu", **shared,
        ),
        "paper": Config(
            images="cifar10", size=32, widths={}, samples=10_000, tests=10_000, snapshots=list(range(101)),
            method="sampled", geometry_members=10_000, mlp_members=10_000, probes=16,
            members=dict.fromkeys(every, 25), most_members=dict.fromkeys(every, 25),
            first_members=dict.fromkeys(every, 200), device="best", **shared,
        ),
    }  # fmt: skip


RATES = {"MLP": 0.01, "LeNet": 0.1, "ResNet18": 0.1, "ViT": 0.1}
PRESETS = presets(("MLP", "LeNet", "ResNet18", "ViT"), "true", "sgd", RATES)


@dataclass(frozen=True, eq=False)
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
    shape = (1 if name == "digits" else 3, config.size, config.size)
    models = {n: model_config(n, shape, activation="relu", width=config.widths.get(n, 1.0)) for n in config.networks}
    start = {"method": config.method, "members": config.geometry_members, "mlp_members": config.mlp_members}
    asked = [{"part": "targets", "model": m, "images": images, **start} for m in models.values()]

    def settings(network: str, steps: Sequence[int]) -> dict[str, Any]:
        return Settings(
            optimizer=config.optimizer, lr=config.lr[network], steps=max(steps), batch=None,
            decay="linear" if config.optimizer == "sgd" else None,
            clip=5.0 if config.optimizer == "sgd" else None, snapshots=tuple(steps),
        ).as_dict()  # fmt: skip

    def training(network: str, members: int) -> list[dict[str, Any]]:
        shared: dict[str, Any] = {
            "part": "training",
            "model": models[network],
            "images": images,
            "labels": config.labels,
        }
        shared |= {"settings": settings(network, config.snapshots), "probes": config.probes}
        return [{**shared, "member": i} for i in range(members)]

    def first(network: str) -> list[dict[str, Any]]:
        shared: dict[str, Any] = {
            "part": "first order",
            "model": models[network],
            "images": images,
            "labels": config.labels,
        }
        shared |= {
            "settings": settings(network, [0, 1]),
            "probes": config.probes,
            "start": start,
            "tiny": following.TINY,
        }
        last = config.first_members[network]
        return [{**shared, "members": [a, min(a + AT_ONCE, last)]} for a in range(0, last, AT_ONCE)]

    def units(count: Mapping[str, int]) -> list[dict[str, Any]]:
        return [u for n, members in count.items() for u in training(n, members)]

    opening = [u for n in config.networks for u in first(n)]
    begin = units(config.members)
    if not runner.has([*asked, *opening, *begin]):
        data_of(images, config.labels)  # read here, before processes are forked
    targets = dict(zip(models, runner.map(_targets, asked, "geometries"), strict=True))
    work = partial(_first, targets, config.device)
    runner.map(work, opening, "first-order changes")
    slope = {n: mean([s for o in runner.map(work, first(n), f"{n} read") for s in o.numbers["slopes"]]) for n in models}
    member = partial(_member, config.device)

    def course(network: str, count: int) -> Course:
        found = runner.map(member, training(network, count), f"{network} read")
        return _course(config.snapshots, found, targets[network], slope[network])

    done: dict[tuple[str, int], Course] = {}

    def collect(count: Mapping[str, int]) -> Result:
        runner.map(member, units(count), "trainings")
        for key in count.items():
            if key not in done:
                done[key] = course(*key)
        return Result(config, {n: done[n, c] for n, c in count.items()}, name)

    count = {n: config.members[n] for n in config.networks}  # in this order, not in that of a stored mapping
    while True:  # as until_decided, with numbers of members that differ between networks
        result = collect(count)
        open_ = {c.subject for c in claims(result) if c.verdict == UNDECIDED and c.kind != SLOPE}
        grow = {
            n: min(c + 4, config.most_members[n]) for n, c in count.items() if c < config.most_members[n] and n in open_
        }
        more = {**count, **grow}
        if not grow or (not runner.folder.writable and not runner.has(units(more))):
            return result
        count = more


def _mean_slope(outcomes: Sequence[Outcome]) -> Estimate:
    return mean([s for o in outcomes for s in o.numbers["slopes"] if s is not None])


def _course(steps: Sequence[int], outcomes: Sequence[Outcome], target: Outcome, slope: Estimate) -> Course:
    good = [o for o in outcomes if not o.numbers["diverged"]]
    if len(good) < 2:
        none = Estimate(math.nan, math.nan, len(good), math.nan)
        gone = [none] * len(steps)
        rise, inside = Rise(none, none, (0, 0)), Inside(none, math.nan, none)
        corr = dict.fromkeys(("GSG", "S", "I"), gone)
        k, left = target.numbers["dimension"], len(outcomes) - len(good)
        return Course(list(steps), corr, gone, gone, gone, rise, inside, k, slope, len(good), left)
    rows = torch.stack([o.arrays["rows"] for o in good])
    arrays, times = target.arrays, list(range(len(steps)))
    early = [t for t in times if 1 <= steps[t] <= EARLY]
    forms: dict[str, Form] = {n: following.dense(arrays[n]) for n in ("GSG", "S")}
    forms["I"] = Kronecker(Dense(torch.eye(1, dtype=torch.float64)), len(arrays["S"]), torch.arange(len(arrays["S"])))
    products = following.Products.of(rows, forms)
    return Course(
        steps=list(steps),
        corr={n: [products.estimate(t, n) for t in times] for n in forms},
        train=following.curve_of([o.numbers["train"] for o in good]),
        test=following.curve_of([o.numbers["test"] for o in good]),
        since=[products.since(t, "GSG") for t in times],
        rise=following.highest(products, early, "GSG", "S"),
        inside=following.change_inside(rows, [0, *early], arrays["top"]),
        dimension=target.numbers["dimension"],
        slope=slope,
        members=len(good),
        left_out=len(outcomes) - len(good),
    )


# --- what it says -------------------------------------------------------------------------------------------------


def claims(result: Result) -> list[Claim]:
    found = []
    for network, c in result.courses.items():
        same = "sampled G: for the exact G ∝ I, G S G is S up to a factor, an identity" if network == "MLP" else ""
        out = f"{c.left_out} diverged members left out" if c.left_out else ""
        at = " and ".join(str(c.steps[t]) for t in c.rise.chosen)
        chosen = f"half of the members choose the step ({at}), the others are judged there, and the other way round"
        found.append(
            claim(
                "rise",
                f"the maximum over steps 1 to {EARLY} of Corr(Gᵗ, GSG) exceeds its value at 0",
                c.rise.rise,
                subject=network,
                low=MORE,
                paper="rises at the beginning of training",
                note=_joined(f"Corr {_short(c.corr['GSG'][0])} at 0; {chosen}", when(c), same, out),
            )
        )
        if network != "MLP":
            found.append(
                claim(
                    "above S",
                    "at that step Corr(Gᵗ, GSG) is larger than Corr(Gᵗ, S)",
                    c.rise.above,
                    subject=network,
                    low=MORE,
                    paper="the curve of GSG lies above that of S",
                    note=_joined(chosen, out),
                )
            )
        found += [
            claim(
                SLOPE,
                "to first order Corr(Gᵗ, GSG) falls: dCorr/dt at t = 0 is negative, per step",
                c.slope,
                subject=network,
                high=-MORE,
                paper="an increasing correlation",
                note=_joined(
                    "central difference along the first update, pairs of twins with opposite last layers; the theory's "
                    "sign is for gradient flow"
                    + (", Adam moves otherwise" if result.config.optimizer == "adam" else "")
                ),
            ),
            claim(
                "where it moves",
                f"of the change of Gᵗ in {EARLY} steps more lies inside the leading eigenspace of GSG ({SHARE:.0%} of "
                "its trace) than inside a random subspace of that dimension: share minus chance",
                c.inside.excess,
                subject=network,
                low=MORE,
                paper="changes follow GSG",
                note=_joined(
                    f"share {_short(c.inside.share)} in {c.dimension} dimensions, by chance {c.inside.chance:.3f}", out
                ),
            ),
        ]
    return found


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


def _joined(*parts: str) -> str:
    return "; ".join(p for p in parts if p)


def figure(result: Result) -> Figure:
    labels = "" if result.config.labels == "true" else ", random labels"
    return panels(result, f"The geometry of networks in training on two classes of {result.images}{labels}")


def panels(result: Result, title: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 8.2), layout="constrained")
    axes = figure.subplots(2, 2).flatten()
    styles = {"GSG": ("#d55e00", "Corr(Gᵗ, GSG)"), "S": ("#0072b2", "Corr(Gᵗ, S)"), "I": ("#999999", "Corr(Gᵗ, I)")}
    for ax, (network, c) in zip(axes, result.courses.items(), strict=False):
        for key, (colour, label) in styles.items():
            curve = c.corr[key]
            values = torch.tensor([v.value for v in curve])
            errors = torch.tensor([v.stderr for v in curve]).nan_to_num(0.0)
            ax.plot(c.steps, values, color=colour, lw=1.8, label=label)
            ax.fill_between(c.steps, values - errors, values + errors, color=colour, alpha=0.18, lw=0)
            ax.plot(c.steps, [v.plug_in for v in curve], color=colour, lw=0.9, ls=":")
        ax.axhline(c.corr["GSG"][0], color="#d55e00", lw=0.7, ls="--")
        ax.axvspan(1, EARLY, color="#000000", alpha=0.04, lw=0)
        right = ax.twinx()
        right.plot(c.steps, [v.value for v in c.train], color="#009e73", lw=1.2, label="train accuracy")
        right.plot(c.steps, [v.value for v in c.test], color="#009e73", lw=1.2, ls="--", label="test accuracy")
        right.set_ylim(30, 102)
        right.set_ylabel("accuracy, %", color="#009e73")
        ax.set_ylim(-0.02, 1.05)
        ax.set_xlabel("step")
        ax.set_ylabel("correlation")
        slope = "" if math.isnan(c.slope.stderr) else f", slope at 0: {c.slope.value:.2g} ± {c.slope.stderr:.1g}"
        ax.set_title(f"{network}, {c.members} members{slope}", fontsize=11)
    handles = [h for a in (axes[0], right) for h in a.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    figure.suptitle(
        f"{title}\nfull lines: different members only, ± 1 standard error; dotted: plug-in, as in the paper; "
        "dashed: the start",
        fontsize=11,
    )
    return figure
