"""What the experiments on geometry during training share: one member followed on its way, and numbers over members.

A unit trains one member and gives ∇ₓ of the difference of its two logits at the same standard normal points for every
snapshot. Every member has points of its own, so that members are independent; all products below are over different
members (or over all, for the plug-in values of the paper's curves) and errors are those of the jackknife over members.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from netgrain.experiments.grain.grains import device_named, make_of, shape_of
from netgrain.experiments.theory.networks import symmetrised
from netgrain.experiments.theory.statements import cosine
from netgrain.families.gradients import gradients
from netgrain.families.members import Family, member
from netgrain.families.probes import Gaussian
from netgrain.geometry.average import average_geometry
from netgrain.geometry.correlation import Deletions, distinct_pairs, jackknife_one
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Factored, Form
from netgrain.geometry.value import Geometry
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome
from netgrain.training.loop import accuracy
from netgrain.training.settings import Settings, distance
from netgrain.training.trained_members import train_member

DIFFERENCE = ("diff", 0, 1)
TINY = 0.1  # of the first update: slopes are taken from this far behind the start to as far before it


# --- G at the start -----------------------------------------------------------------------------------------------


def geometry_at_start(m: Mapping[str, Any], *, method: str, members: int, seed: int = 0) -> Geometry:
    """G over x ~ N(0, I): the closed form where there is one (averaged over so many points x), else (or with
    method="sampled") so many members.

    ViT has none; its patches are exchangeable and so are the entries inside one, which leaves two numbers to estimate.
    """
    make, shape = make_of(m), shape_of(m)
    sampled = method == "sampled" or m["network"] == "ViT"
    options: dict[str, Any] = {"members": members, "workers": 1} if sampled else {"probes": members}
    how: Literal["sampled", "closed-form"] = "sampled" if sampled else "closed-form"
    G = average_geometry(make, shape, probe=Gaussian(1.0), progress=False, method=how, seed=seed, **options)
    if m["network"] != "ViT":
        return G
    return symmetrised(G, shape)


def starts(
    runner: Runner, models: Mapping[str, Mapping[str, Any]], *, method: str, members: int
) -> dict[str, Geometry]:
    """G of each family at the start."""
    units = [
        {"part": "G at the start", "model": dict(m), "method": method, "members": members} for m in models.values()
    ]
    found = runner.map(_start, units, "geometries")
    shapes = [shape_of(m) for m in models.values()]
    return {name: Geometry.from_matrix(o.arrays["G"], s) for name, o, s in zip(models, found, shapes, strict=True)}


def _start(unit: Mapping[str, Any]) -> Outcome:
    G = geometry_at_start(unit["model"], method=unit["method"], members=unit["members"])
    return Outcome({}, {"G": G.matrix()})


# --- one member on its way ----------------------------------------------------------------------------------------


@one_thread()
def followed(
    m: Mapping[str, Any],
    X: Tensor,
    y: Tensor,
    settings: Settings,
    *,
    seed: int,
    i: int,
    probes: int,
    device: str,
    tests: tuple[Tensor, Tensor] | None = None,
) -> Outcome:
    """Train member i; rows (snapshots, probes, d) float32; at every snapshot accuracy in per cent and ‖θ_t − θ_0‖."""
    make, place = make_of(m), device_named(device)
    trained = train_member(make, X, y, settings, seed=seed, i=i, device=place)
    model = member(make, 0, 0, place)
    points = _points(m, probes, seed, i).to(place)
    rows, train, test, far = [], [], [], []
    for step in () if trained.diverged else settings.snapshots:
        trained.load_into(model, step=step)
        rows.append(_rows(model, points))
        train.append(100 * accuracy(model, X, y))
        far.append(distance(trained.snapshots[0], trained.snapshots[step]))
        if tests is not None:
            test.append(100 * accuracy(model, *tests))
    if trained.diverged or not all(bool(torch.isfinite(r).all()) for r in rows):
        return Outcome({"diverged": True, "train": [], "test": [], "distance": []}, {"rows": torch.zeros(0)})
    numbers = {"diverged": False, "train": train, "test": test, "distance": far}
    return Outcome(numbers, {"rows": torch.stack(rows)})


def _points(m: Mapping[str, Any], probes: int, seed: int, i: int) -> Tensor:
    return Gaussian(1.0).points(shape_of(m), probes, derived_seed(seed, "probe", i))


def _rows(model: nn.Module, points: Tensor) -> Tensor:
    return gradients(model, points, DIFFERENCE).flatten(1).float().cpu()


@one_thread()
def slopes(
    m: Mapping[str, Any],
    X: Tensor,
    y: Tensor,
    settings: Settings,
    *,
    G: Tensor,
    P: Tensor,
    seed: int,
    members: Sequence[int],
    probes: int,
    device: str,
    tiny: float = TINY,
) -> list[float | None]:
    """dCorr(Gᵗ, P)/dt at 0 per step, one number a member (None: it diverged at once): its own share of

        [⟨Δ, P⟩/‖P‖ − Corr(G, P)⟨Δ, G⟩/‖G‖]/‖G‖,

    with Δ the change of g gᵀ along the first update, a central difference over `tiny` of it to either side (a one-sided
    one would count half of the second order as well). It is linear in Δ, so members are simply
    averaged. Every member is taken beside its twin with the opposite last layer, which has the same law: labels then
    drop out at first order in each pair, and not only on average.
    """
    place = device_named(device)
    size_G, size_P = float(G.norm()), float(P.norm())
    falls = P / size_P - float((G * P).sum()) / (size_G * size_P) * G / size_G
    found: list[float | None] = []
    for i in members:
        points, total = _points(m, probes, seed, i).to(place), 0.0
        for make in (make_of(m), _twin(m)):
            trained = train_member(make, X, y, settings, seed=seed, i=i, device=place)
            if trained.diverged:
                total = math.nan
                break
            model = member(make, 0, 0, place)
            before, after = trained.snapshots[0], trained.snapshots[1]
            values = []
            for weight in (-tiny, tiny):
                with torch.no_grad():
                    for name, p in model.named_parameters():
                        p.copy_(torch.lerp(before[name].double(), after[name].double(), weight))
                g = _rows(model, points).double()
                values.append(float(((g @ falls) * g).sum()) / len(g))
            total += (values[1] - values[0]) / (2 * tiny) / size_G
        found.append(total / 2 if math.isfinite(total) else None)
    return found


def _twin(m: Mapping[str, Any]) -> Family:
    make = make_of(m)

    def turned() -> nn.Module:
        model = make()
        last = [part for part in model.modules() if isinstance(part, nn.Linear)][-1]
        with torch.no_grad():
            for p in last.parameters():
                p.neg_()
        return model

    return turned


def snapshots_by_epoch(samples: int, batch: int, epochs: int, every: int = 1) -> tuple[int, ...]:
    """Numbers of updates at the ends of epochs (of every so many); an epoch is samples // batch of them.

    >>> snapshots_by_epoch(100, 30, 4, every=2)
    (0, 6, 12)
    """
    return tuple(e * max(samples // batch, 1) for e in range(0, epochs + 1, every))


# --- numbers over members -----------------------------------------------------------------------------------------


def form_at(rows: Tensor, t: int) -> Factored:
    """Gᵗ from rows (members, snapshots, probes, d); every member is a part."""
    return Factored.of_members(rows[:, t], 1 / rows.shape[2])


def combined(function: Callable[..., Tensor], *statistics: Deletions) -> Deletions:
    """A function of statistics of the same members, with all deletions."""
    names = ("whole", "one", "two")
    return Deletions(*(function(*(getattr(s, name) for s in statistics)) for name in names))


def estimate(statistic: Deletions, plug_in: float | None = None) -> Estimate:
    """Bias-corrected value with its error; NaN where there are too few members."""
    value, stderr = jackknife_one(statistic)
    return Estimate(value, stderr, len(statistic.one), plug_in)


def as_it_stands(statistic: Deletions) -> Estimate:
    """The value without any correction, with the error of the jackknife: for plug-in numbers."""
    n = len(statistic.one)
    spread = float((statistic.one - statistic.one.mean()).square().sum())
    return Estimate(float(statistic.whole), math.sqrt((n - 1) / n * spread), n)


def all_pairs(P: Tensor, n: Tensor) -> Deletions:
    """Mean of ⟨A_i, B_j⟩ over all pairs, own ones too, from P_ij; the plug-in beside `distinct_pairs`."""
    touched, total = P.sum(0) + P.sum(1), P.sum()
    one = total - touched + P.diagonal()
    two = one[:, None] + one - total + P + P.T
    m = n.sum()
    return Deletions(total / m**2, one / (m - 1) ** 2, two / (m - 2) ** 2)


@dataclass(frozen=True, eq=False)
class Products:
    """Everything that correlations of Gᵗ with known matrices need, computed once: (snapshots, members, members) of
    ⟨A_i, A_j⟩ and for each target (snapshots, members) of ⟨A_i, B⟩."""

    own: Tensor
    along: dict[str, Tensor]
    norms2: dict[str, float]

    @classmethod
    def of(cls, rows: Tensor, targets: Mapping[str, Form]) -> Products:
        forms = [form_at(rows, t) for t in range(rows.shape[1])]
        along = {name: torch.stack([f.part_inner(B) for f in forms]) for name, B in targets.items()}
        return cls(torch.stack([f.pairwise(f) for f in forms]), along, {n: B.norm2() for n, B in targets.items()})

    def some(self, members: slice) -> Products:
        along = {name: a[:, members] for name, a in self.along.items()}
        return Products(self.own[:, members, members], along, self.norms2)

    def corr(self, t: int, name: str) -> Deletions:
        """Corr(Gᵗ, B) over different members."""
        return cosine(self.own[t], self.along[name][t], self.norms2[name])

    def estimate(self, t: int, name: str) -> Estimate:
        sizes = math.sqrt(float(self.own[t].mean()) * self.norms2[name])
        plug_in = float(self.along[name][t].mean()) / sizes if sizes > 0 else math.nan
        return estimate(self.corr(t, name), plug_in)

    def between(self, t: int, name: str, other: str) -> Deletions:
        """Corr(Gᵗ, B) − Corr(Gᵗ, C)."""
        return combined(torch.sub, self.corr(t, name), self.corr(t, other))

    def since(self, t: int, name: str) -> Estimate:
        """Corr(Gᵗ, B) − Corr(G⁰, B) on the same members."""
        return estimate(combined(torch.sub, self.corr(t, name), self.corr(0, name)))


def velocity_of(rows: Tensor, *, own: bool) -> list[Deletions]:
    """1 − Corr(Gᵗ, Gᵗ⁻¹) for every t ≥ 1, over different members or (own=True) plug-in."""
    mean_over = all_pairs if own else distinct_pairs
    n = torch.ones(len(rows), dtype=torch.float64)
    forms = [form_at(rows, t) for t in range(rows.shape[1])]
    norms = [mean_over(f.pairwise(f), n) for f in forms]
    found = []
    for t in range(1, len(forms)):
        across = mean_over(forms[t].pairwise(forms[t - 1]), n)
        found.append(combined(lambda ab, aa, bb: 1 - ab / (aa * bb).sqrt(), across, norms[t], norms[t - 1]))
    return found


def average(statistics: Sequence[Deletions]) -> Deletions:
    return combined(lambda *values: torch.div(torch.stack(values).sum(0), len(values)), *statistics)


@dataclass(frozen=True)
class Rise:
    """How far a curve rises above its start at its highest point, which other members have chosen."""

    rise: Estimate
    above: Estimate  # Corr with the first target minus Corr with the second, at the same points
    chosen: tuple[int, int]  # snapshots, one by each half


def highest(products: Products, among: Sequence[int], name: str, other: str) -> Rise:
    """The maximum over snapshots of Corr(Gᵗ, B) − Corr(G⁰, B), free of the luck of being a maximum.

    Members are split in two halves (every other one). Either half chooses the snapshot, the other half is judged there;
    the mean of both is given, with the error of two independent halves.
    """
    halves = products.some(slice(0, None, 2)), products.some(slice(1, None, 2))
    rises, aboves, chosen = [], [], []
    for mine, others in (halves, halves[::-1]):
        curve = {t: mine.since(t, name).value for t in among}
        t = max(curve, key=lambda t: -math.inf if math.isnan(curve[t]) else curve[t])
        rises.append(others.since(t, name))
        aboves.append(estimate(others.between(t, name, other)))
        chosen.append(t)
    return Rise(_of_halves(rises), _of_halves(aboves), (chosen[0], chosen[1]))


def _of_halves(values: Sequence[Estimate]) -> Estimate:
    a, b = values
    return Estimate((a.value + b.value) / 2, math.hypot(a.stderr, b.stderr) / 2, a.n + b.n - 1)
