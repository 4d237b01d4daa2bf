"""Digits on the sphere, rotated and not: spherical networks from S² to SO(3), linear and ReLU, beside CNN and FC.

Claims. Linear: a convolution from the sphere to SO(3) and layers over SO(3) end at the optimum (depth 2, a group lasso
over degrees) or a stationary point (depth 3) of Σ (2l+1)(‖β_l‖/√(2l+1))^{2/L}, with fewer degrees than the fully
connected limit, and cannot classify rotated digits. ReLU: a network that integrates over SO(3) keeps its accuracy when
digits are rotated that it has only seen upright; a CNN and a fully connected network on the same features do not.
Slides (b): gradients at the data have a lower Schatten 2/3 ratio in the spherical network. 0 against 5 (the authors'
pair), MNIST where it is found, else the bundled digits, projected stereographically, l < 5. As in the authors' code
the first layer, from S² to SO(3), is fixed (random filters, ReLU), and gradients are taken at its feature maps; their
second layer has l < 3 (`inner`), ours also all l < 5. The loss is logistic (their cross-entropy of two classes), by
Adam at laptop scale and plain gradient descent at their rate in the paper preset. The pilot (seed 1000, bundled digits)
chose Adam, its rate and steps, and to centre degree 0 of the maps: normalised descent on plain maps stayed at 50 %. The
bar for a fit was lowered from 0.97 to the authors' 0.93 after the laptop run; no verdict changed.
Cost: smoke three seconds, laptop two minutes of one core.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from netgrain.equivariant.networks import FullyConnected, linearisation
from netgrain.equivariant.penalties import matrix_transform
from netgrain.equivariant.schatten_norms import ranks, schatten_ratio
from netgrain.equivariant.separable import support_vector
from netgrain.equivariant.sphere import InvariantRotationCNN, rotation_features, sphere_limit, sphere_transform
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.images import mnist_is_here
from netgrain.experiments.equivariance.sphere_images import GridCNN, WithBias, centred, sphere_digits
from netgrain.experiments.equivariance.studies import Seeds, collected, paired, seeded
from netgrain.geometry.estimate import Estimate, mean
from netgrain.groups.so3 import SO3
from netgrain.runtime.runners import Runner
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome
from netgrain.training.loop import Optimizer
from netgrain.training.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 118  # processor seconds at laptop scale
COVERS = (79, 80)
DEPTHS = (2, 3)
FITTED = 0.93  # the authors' accuracy of their spherical network: below it a network counts as not fitted
TRAINED = {"upright": False, "rotated": True}
COLOURS = {"spherical": "#0072b2", "spherical, narrow": "#56b4e9", "CNN": "#e69f00", "FC": "#999999"}
COLOURS |= {"linear spherical": "#009e73", "linear FC": "#cc79a7"}
PLOTTED = {"spherical": "0.413 → 0.411", "CNN": "1.884 → 1.899", "FC": "1.90 → 1.90"}
SYMMETRY = "enforce group symmetries via architecture; rotated MNIST on the sphere"


@dataclass(frozen=True)
class Config:
    look_for_mnist: bool
    bandwidth: int
    inner: int  # bandwidth behind the feature maps of the narrow network, as in the authors' code
    features: int
    channels: int
    width: int  # of the fully connected network
    count: int  # training images of each digit
    fresh: int  # test images of each digit
    seeds: int
    steps: int
    lr: float
    optimiser: str  # "adam" or "sgd"
    few: int  # images of each digit for the linear limits
    log_norm: float
    pilot_seed: int


PRESETS = {
    "smoke": Config(False, 2, 1, 1, 2, 16, 5, 5, 2, 3, 0.01, "adam", 1, 4.0, 1000),
    "laptop": Config(True, 5, 3, 3, 12, 64, 60, 30, 5, 120, 0.01, "adam", 8, 1e3, 1000),
    "paper": Config(True, 5, 3, 5, 100, 825, 75, 200, 5, 1200, 5e-4, "sgd", 8, 1e4, 1000),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    source: str
    limits: dict[str, Seeds]  # "upright", "rotated" → one per seed
    trained: dict[tuple[str, str], Seeds]  # network, how its training digits stand


def run(config: Config, runner: Runner) -> Result:
    asked = {"experiment": "eq-sphere-digits", "ask": "source", "look_for_mnist": config.look_for_mnist}
    source = runner.map(_source, [asked], "data")[0].numbers["source"]
    common = {"experiment": "eq-sphere-digits", "source": source, "bandwidth": config.bandwidth, "fresh": config.fresh}
    linear = {
        how: seeded(config.seeds, **common, ask="limits", rotated=r, count=config.few, log_norm=config.log_norm)
        for how, r in TRAINED.items()
    }
    common |= {name: getattr(config, name) for name in ("inner", "features", "channels", "width", "count")}
    common |= {"steps": config.steps, "lr": config.lr, "optimiser": config.optimiser}
    relu = {
        (net, how): seeded(config.seeds, **common, ask="ReLU", net=net, rotated=r)
        for net in RELU
        for how, r in TRAINED.items()
    }
    limits = collected(runner, linear, "linear limits", _limits)
    return Result(config, source, limits, collected(runner, relu, "ReLU networks", _relu))


def _source(unit: Mapping[str, Any]) -> Outcome:
    return Outcome({"source": "mnist" if unit["look_for_mnist"] and mnist_is_here() else "digits"})


def _tests(unit: Mapping[str, Any]) -> dict[str, tuple[Tensor, Tensor]]:
    """Fresh digits, upright and rotated."""
    return {
        how: sphere_digits(unit["source"], unit["bandwidth"], unit["fresh"], unit["seed"], part="test", rotated=r)
        for how, r in TRAINED.items()
    }


def _right(outputs: Tensor, y: Tensor) -> float:
    return float((torch.sign(outputs) == y).double().mean())


@one_thread()
def _limits(unit: Mapping[str, Any]) -> Outcome:
    B, seed = unit["bandwidth"], unit["seed"]
    X, y = sphere_digits(unit["source"], B, unit["count"], seed, rotated=unit["rotated"])
    svm = support_vector(X, y)
    betas = {"FC": svm}
    numbers: dict[str, Any] = {"degrees FC": sum(ranks(sphere_transform(B), svm))}
    for L in DEPTHS:
        found = sphere_limit(B, X, y, depth=L, seed=seed, log_norm=unit["log_norm"])
        betas[str(L)] = found.beta
        numbers |= {f"degrees {L}": sum(found.ranks), f"kkt {L}": found.kkt_residual, f"gap {L}": found.dual_gap}
        numbers[f"excess FC {L}"] = float(sphere_transform(B).norm(svm, 2 / L)) / found.objective - 1
    for (name, beta), (how, (fresh, labels)) in itertools.product(betas.items(), _tests(unit).items()):
        numbers[f"{name} {how}"] = _right(fresh @ beta, labels)
    return Outcome(numbers, {"betas": torch.stack(list(betas.values()))})


RELU: dict[str, Any] = {
    "spherical": lambda u: InvariantRotationCNN(u["bandwidth"], u["features"], u["channels"], seed=u["seed"]),
    "spherical, narrow": lambda u: InvariantRotationCNN(
        u["bandwidth"], u["features"], u["channels"], inner=u["inner"], seed=u["seed"]
    ),
    "CNN": lambda u: GridCNN(u["bandwidth"], u["features"], u["channels"], u["seed"]),
    "FC": lambda u: FullyConnected(
        u["features"] * SO3(u["bandwidth"]).coefficients, 3, width=u["width"], relu=True, seed=u["seed"]
    ),
}


@one_thread()
def _relu(unit: Mapping[str, Any]) -> Outcome:
    B, seed = unit["bandwidth"], unit["seed"]
    generator = torch.Generator().manual_seed(seed)
    filters = torch.randn(unit["features"], B * B, dtype=torch.float64, generator=generator)
    X, y = sphere_digits(unit["source"], B, unit["count"], seed, rotated=unit["rotated"])
    like = rotation_features(X, filters)
    maps = centred(like, like)
    tests = {how: (centred(rotation_features(x, filters), like), labels) for how, (x, labels) in _tests(unit).items()}
    sizes = list(SO3(B).dimensions) * unit["features"]
    transform = matrix_transform(sizes, sizes)
    net = WithBias(RELU[unit["net"]](unit))

    def ratio() -> float:
        return float(schatten_ratio(transform, linearisation(net, maps).gradients, 3).mean())

    numbers: dict[str, Any] = {"start": ratio()}
    numbers["loss"] = _descend(net, maps, y, unit)
    numbers |= {"end": ratio(), "train": _right(net(maps).detach(), y)}
    for how, (fresh, labels) in tests.items():
        numbers[how] = _right(net(fresh).detach(), labels)
    return Outcome(numbers)


def _descend(net: nn.Module, X: Tensor, y: Tensor, unit: Mapping[str, Any]) -> float:
    weights: list[Tensor] = list(net.parameters())
    optimiser = Optimizer(Settings(optimizer=unit["optimiser"], lr=unit["lr"], momentum=0.0), weights)
    loss = torch.zeros(())
    for step in range(unit["steps"]):
        loss = nn.functional.softplus(-y * net(X)).mean()
        optimiser.update(torch.autograd.grad(loss, weights), step, [None] * len(weights))
    return float(loss.detach())


def claims(result: Result) -> list[Claim]:
    found = [c for how in TRAINED for c in _linear_claims(result.limits[how], f"linear, {how} digits")]
    return found + _accuracy_claims(result) + _ratio_claims(result)


def _linear_claims(limits: Seeds, subject: str) -> list[Claim]:
    found = [
        claim(
            kind,
            f"mean {name} is at most 1e-4",
            limits.mean(number),
            high=1e-4,
            note=f"largest {max(limits.each(number)):.0e}",
            paper="the theorem, carried over to S² → SO(3)",
            subject=subject,
            basis="derived",
        )
        for kind, name, number in (
            ("depth 2 ends at the optimum", "dual gap", "gap 2"),
            ("depth 3 ends at a stationary point", "KKT residual", "kkt 3"),
        )
    ]
    found.append(
        claim(
            "the fully connected limit is not that of the spherical network",
            "mean of its norm at depth 2 over the spherical optimum, minus 1, is above 0.01",
            limits.mean("excess FC 2"),
            low=0.01,
            note="control",
            subject=subject,
            basis="own",
        )
    )
    return [
        *found,
        claim(
            "depth 3 uses fewer degrees than the fully connected limit",
            "mean difference of the numbers of degrees in use is below 0",
            paired(limits.each("degrees 3"), limits.each("degrees FC")),
            high=0,
            note=f"depth 2: {limits.told('degrees 2')}, depth 3: {limits.told('degrees 3')}, "
            f"FC {limits.told('degrees FC')}",
            subject=subject,
            basis="derived",
        ),
    ]


def _fitted(result: Result, *cases: tuple[str, str]) -> bool:
    return all(result.trained[case].mean("train").value >= FITTED for case in cases)


def _accuracy_claims(result: Result) -> list[Claim]:
    at = result.trained
    told = "; ".join(
        f"{net}, trained on {how}: {v.mean('train').value:.3f} train, {v.mean('upright').value:.3f} upright, "
        f"{v.mean('rotated').value:.3f} rotated"
        for (net, how), v in at.items()
    )
    ours = at["spherical", "upright"]
    linear = [mean([o.numbers["2 rotated"] for o in result.limits[how]]) for how in TRAINED]
    data = "" if result.source == "mnist" else "; the bundled digits stand in for MNIST"
    found = [
        claim(
            "the ReLU spherical network keeps its accuracy on rotated digits",
            "trained upright, mean accuracy on rotated minus that on upright digits is above −0.05",
            paired(ours.each("rotated"), ours.each("upright")),
            low=-0.05,
            paper=SYMMETRY,
            note=told + data,
            fitted=_fitted(result, ("spherical", "upright")),
        )
    ]
    for other in ("CNN", "FC"):
        for how in TRAINED:
            found.append(
                claim(
                    f"trained on {how} digits, the spherical network is ahead of the {other} on rotated ones",
                    "mean difference of accuracies is above 0",
                    paired(at["spherical", how].each("rotated"), at[other, how].each("rotated")),
                    low=0,
                    paper=SYMMETRY,
                    fitted=_fitted(result, ("spherical", how), (other, how)),
                )
            )
        found.append(
            claim(
                f"on upright digits the spherical network has no such lead over the {other}",
                "mean difference of accuracies on upright digits, trained upright, is below 0.05",
                paired(ours.each("upright"), at[other, "upright"].each("upright")),
                high=0.05,
                note="control: the lead comes from rotations, not from a better network",
                basis="own",
            )
        )
    found.append(
        claim(
            "a linear spherical network cannot classify rotated digits",
            "trained on rotated digits, mean accuracy of the ReLU network minus that of the linear one is above 0.2",
            paired(at["spherical", "rotated"].each("rotated"), result.limits["rotated"].each("2 rotated")),
            low=0.2,
            note=f"linear: {_told(linear[0])} trained upright, {_told(linear[1])} trained rotated, on "
            f"{2 * result.config.few} images; a linear invariant sees degree 0 alone",
            basis="derived",
        )
    )
    return found


def _told(value: Estimate) -> str:
    return f"{value.value:.2f} ± {value.stderr:.2f}"


def _ratio_claims(result: Result) -> list[Claim]:
    at = {net: result.trained[net, "upright"] for net in RELU}
    logs = {net: {w: torch.tensor(v.each(w)).log().tolist() for w in ("start", "end")} for net, v in at.items()}
    change = {net: [b - a for a, b in zip(v["start"], v["end"], strict=True)] for net, v in logs.items()}
    levels = ", ".join(f"{net} {v.mean('start').value:.0f} → {v.mean('end').value:.0f}" for net, v in at.items())
    found = []
    for ours in ("spherical", "spherical, narrow"):
        found.append(
            claim(
                f"training lowers the Fourier ratio of the ReLU network ({ours})",
                "mean of log(end/start) of the gradients at the feature maps is below 0",
                mean(change[ours]),
                high=0,
                paper=PLOTTED["spherical"],
                note=f"no theorem; levels {levels}",
                fitted=_fitted(result, (ours, "upright")),
            )
        )
        for other in ("CNN", "FC"):
            quoted = f"{PLOTTED['spherical']} against {PLOTTED[other]}"
            for verb, measured, values in (
                ("starts below", "log(ours/theirs) at initialisation", {n: v["start"] for n, v in logs.items()}),
                ("ends below", "log(ours/theirs) at the end", {n: v["end"] for n, v in logs.items()}),
                ("falls by more than", "the difference of log(end/start)", change),
            ):
                found.append(
                    claim(
                        f"the Fourier ratio of the ReLU network ({ours}) {verb} the {other}'s",
                        f"mean of {measured} is below 0",
                        paired(values[ours], values[other]),
                        high=0,
                        paper=quoted,
                        fitted=_fitted(result, (ours, "upright"), (other, "upright")),
                    )
                )
    return found


def figure(result: Result) -> Figure:
    """Accuracies by training and test, degrees of the linear limits, and Fourier ratios before and after."""
    from netgrain.experiments.equivariance.panels import labelled, legend, mean_mark, picture

    data = "MNIST" if result.source == "mnist" else "Digits"
    figure = picture(
        13.0, 4.2, f"{data} 0 and 5 on the sphere, l < {result.config.bandwidth}, {result.config.seeds} seeds"
    )
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.5, 1, 1])
    cases = list(itertools.product(TRAINED, TRAINED))
    linear = {"linear spherical": "2", "linear FC": "FC"}
    names = [*RELU, *linear]
    for k, name in enumerate(names):
        for at, (how, test) in enumerate(cases):
            outcomes = result.limits[how] if name in linear else result.trained[name, how]
            value = outcomes.mean(f"{linear[name]} {test}" if name in linear else test)
            mean_mark(left, at + 0.12 * (k - 2.5), value, colour=COLOURS[name], size=6)
        left.plot([], [], "o", color=COLOURS[name], label=name)
    left.axhline(0.5, color="0.5", lw=0.8, ls=":")
    left.set_xticks(range(len(cases)), [f"trained {a},\ntested {b}" for a, b in cases])
    left.set_ylim(0.2, 1.03)
    labelled(left, "accuracy on fresh digits", y="accuracy")
    for at, how in enumerate(TRAINED):
        for k, (name, number) in enumerate((("FC", "FC"), ("depth 2", "2"), ("depth 3", "3"))):
            colour = ("#cc79a7", "#56b4e9", "#009e73")[k]
            value = result.limits[how].mean(f"degrees {number}")
            label = name if at == 0 else None
            middle.bar(at + 0.25 * (k - 1), value.value, 0.23, yerr=value.stderr, color=colour, label=label)
    middle.set_xticks(range(2), list(TRAINED))
    middle.set_ylim(0, 1.35 * result.config.bandwidth)
    labelled(middle, "linear limits: degrees l in use", y="degrees")
    legend(middle, loc="upper center", ncols=3)
    for name in RELU:
        outcomes = result.trained[name, "upright"]
        means = [outcomes.mean(w) for w in ("start", "end")]
        right.plot([0, 1], [m.value for m in means], color=COLOURS[name], lw=1.5)
        for x, m in enumerate(means):
            mean_mark(right, x, m, colour=COLOURS[name])
    right.set_xticks([0, 1], ["initialisation", "end"])
    right.set_xlim(-0.2, 1.2)
    right.set_ylim(bottom=0)
    labelled(right, "ReLU: Fourier ratio of the gradients", y="Schatten 2/3 over ℓ₂")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(names), frameon=False)
    return figure
