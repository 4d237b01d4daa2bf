"""Figure 2: what the geometry of networks looks like while they learn to tell animals from vehicles.

Claim: within the first 20 steps of gradient descent Corr(Gᵗ, G S G) rises above its start, and for LeNet, ResNet18 and
ViT it lies above Corr(Gᵗ, S). Beside it the theory's sign: to first order Gᵗ loses G S G, so the correlation must fall
at t = 0 before it can rise. For the MLP S and G S G are virtually identical. Early in training labels do not matter:
true and random ones are compared on the same members. The change |uᵀ(Gᵗ − G)u| falls with the index of the eigenvector
u of G (footnote 4), further than an MLP's along the same u. Correlations are over different members (thin lines:
plug-in, as in the paper). variant="code" has the learning rate of the authors' code for the MLP.
Cost: smoke seconds, laptop two minutes on two cores (3 × 16 × 16, 256 images, 30 steps), paper for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.experiments.claims import Claim
from netgrain.experiments.grain import following
from netgrain.experiments.grain.course_claims import MORE_MEMBERS, SHARE, course_claims
from netgrain.experiments.grain.course_drawing import draw_courses
from netgrain.experiments.grain.courses import Course, beside_mlp, course_of, mean_slope, rows_of
from netgrain.experiments.grain.grains import NARROW, model_config, pictures, shape_in
from netgrain.experiments.grain.trials import Trials, open_subjects, until_decided
from netgrain.experiments.image_sets import images_found
from netgrain.geometry.covariance import data_covariance
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 356  # processor seconds at laptop scale, on a busy machine
COVERS = (20, 22, 33, 34)
TWINS = 3  # independent samples of the MLP's G
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
    variant: str = "text"  # learning rates of the text; "code": of the authors' code, where it differs
    lr: dict[str, float]
    code_lr: dict[str, float]
    decay: str | None  # of the learning rate; the text is silent, the authors' code has it with SGD
    clip: float | None  # of the gradient's norm; likewise
    microbatch: int | None = None  # samples at a time, so that a full batch fits into the memory of a GPU
    snapshots: list[int]  # numbers of steps; the last one ends training
    method: str = "auto"  # how G is known: "auto" (closed form; ViT sampled) or "sampled"
    geometry_members: int  # networks behind a sampled G, or points behind a closed form
    mlp_members: int  # networks behind the MLP's G, which is sampled: the exact one is a multiple of I
    probes: int  # points per member at which ∇ₓf is taken
    members: dict[str, int]  # to begin with
    most_members: dict[str, int]  # added while a claim of the network is undecided
    first_members: dict[str, int]  # pairs of twins behind the change at first order
    both_labels: dict[str, int]  # members that are trained with random labels as well as with true ones
    device: str = "cpu"

    def rate(self, network: str) -> float:
        """The learning rate of a network in this variant."""
        return self.code_lr.get(network, self.lr[network]) if self.variant == "code" else self.lr[network]


def presets(
    networks: Sequence[str],
    labels: str,
    optimizer: str,
    lr: Mapping[str, float],
    *,
    code_lr: Mapping[str, float] | None = None,
    both_labels: Mapping[str, int] | None = None,
) -> dict[str, Config]:
    """Settings of figures 2 and 8, which differ in networks, labels and optimiser."""
    sgd, pairs = optimizer == "sgd", dict(both_labels or {})

    def members(number: int | Mapping[str, int]) -> dict[str, int]:
        return {n: number if isinstance(number, int) else number[n] for n in networks}

    laptop = Config(
        networks=list(networks), labels=labels, optimizer=optimizer, lr=dict(lr), code_lr=dict(code_lr or {}),
        decay="linear" if sgd else None, clip=5.0 if sgd else None, both_labels=pairs,
        images="auto", size=16, widths=dict(NARROW), samples=256, tests=200,
        snapshots=[*range(9), 10, 12, 14, 16, 18, 20, 25, 30], geometry_members=64, mlp_members=1000, probes=8,
        members=members({"MLP": 32, "LeNet": 48, "VGG11": 24, "ResNet18": 24, "ViT": 16}),
        most_members=members({"MLP": 64, "LeNet": 80, "VGG11": 32, "ResNet18": 28, "ViT": 24}),
        first_members=members({"MLP": 200, "LeNet": 300, "VGG11": 64, "ResNet18": 48, "ViT": 32}),
    )  # fmt: skip
    smoke = replace(
        laptop, images="digits", widths={"LeNet": 0.5, "VGG11": 1 / 16, "ResNet18": 1 / 32, "ViT": 1 / 12},
        samples=16, tests=16, snapshots=[0, 1, 2], geometry_members=2, mlp_members=8, probes=2,
        members=members(6), most_members=members(6), first_members=members(2), both_labels=dict.fromkeys(pairs, 3),
    )  # fmt: skip
    paper = replace(
        laptop, images="cifar10", size=32, widths={}, samples=10_000, tests=10_000, snapshots=list(range(101)),
        method="sampled", geometry_members=10_000, mlp_members=10_000, probes=16,
        members=members(25), most_members=members(25), first_members=members(200), microbatch=1000,
        both_labels=dict.fromkeys(pairs, 25), device="best",
    )  # fmt: skip
    return {"smoke": smoke, "laptop": laptop, "paper": paper}


NETWORKS = ("MLP", "LeNet", "ResNet18", "ViT")
PRESETS = presets(
    NETWORKS, "true", "sgd", dict.fromkeys(NETWORKS, 0.1), code_lr={"MLP": 0.01},
    both_labels={"MLP": 32, "LeNet": 24, "ResNet18": 12, "ViT": 8},
)  # fmt: skip


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
    chosen = torch.cat([(split.train.labels == c).nonzero()[: samples // 2, 0] for c in (0, 1)])
    X, y, test = split.train.X[chosen], split.train.labels[chosen], split.test
    if labels == "true":
        return X, y, test.X, test.labels
    drawn = [
        torch.randint(2, (len(t),), generator=torch.Generator().manual_seed(derived_seed(0, "random labels", part)))
        for part, t in enumerate((y, test.labels))
    ]
    return X, drawn[0], test.X, drawn[1]


def _targets(unit: Mapping[str, Any]) -> Outcome:
    """G, S and G S G of a family, and the leading eigenspace of the last."""
    X = data_of(unit["images"], "true")[0]
    S = data_covariance(X).matrix()
    G = following.geometry_at_start(unit["model"], method=unit["method"], members=unit["members"]).matrix()
    known, twins = G, []
    if unit["model"]["network"] == "MLP":
        known, *others = (
            following.geometry_at_start(unit["model"], method="sampled", members=unit["mlp_members"], seed=k).matrix()
            for k in range(TWINS)
        )
        twins = [_corr(S, H @ S @ H) for H in (known, *others)]
    P = known @ S @ known
    values, vectors = torch.linalg.eigh((P + P.T) / 2)
    values, vectors = values.flip(0), vectors.flip(1)
    k = int((values.cumsum(0) < SHARE * values.sum()).sum()) + 1
    return Outcome({"dimension": k, "twins": twins}, {"G": G, "S": S, "GSG": P, "top": vectors[:, :k].contiguous()})


def _corr(A: Tensor, B: Tensor) -> float:
    return float((A * B).sum() / A.norm() / B.norm())


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
        settings = Settings(
            optimizer=config.optimizer, lr=config.rate(network), steps=max(steps), batch=None, decay=config.decay,
            clip=config.clip, snapshots=tuple(steps), microbatch=config.microbatch,
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
        unit = {**on_images("training", network, config.snapshots), "member": member}
        twice = member < config.both_labels.get(network, 0)
        return [{**unit, "labels": labels} for labels in (config.labels, *(["random"] if twice else []))]

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
        mlp = trials.get("MLP")
        if mlp is not None and len(mlp.kept) > 2:
            courses = beside_mlp(courses, rows_of(mlp))
        return Result(config, courses, name)

    return until_decided(
        runner,
        partial(_member, config.device),
        training,
        {n: (config.members[n], config.most_members[n]) for n in config.networks},
        result=result,
        undecided=lambda result: open_subjects(c for c in claims(result) if c.kind in MORE_MEMBERS),
        step=4,
    )


def claims(result: Result) -> list[Claim]:
    config = result.config
    return [
        c
        for network, course in result.courses.items()
        for c in course_claims(
            network, course, adam=config.optimizer == "adam", sampled=config.mlp_members, how=_how(config, network)
        )
    ]


def _how(config: Config, network: str) -> str:
    """The setting in which text and code of the paper differ, where they do."""
    if network not in config.code_lr:
        return ""
    source = "text" if config.variant == "text" else "authors' code"
    return f"learning rate {config.rate(network):g} of the {source}"


def figure(result: Result) -> Figure:
    labels = "" if result.config.labels == "true" else ", random labels"
    return draw_courses(
        f"The geometry of networks in training on two classes of {result.images}{labels}", result.courses
    )
