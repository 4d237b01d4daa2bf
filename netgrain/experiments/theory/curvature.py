"""App. A.3 in training: what equation 6 leaves out, how near the curvature is to Gᵗ, and its rate to Δᵗ.

With one output (or the difference of two logits) ∇²ₓℓ = ℓ''∇f∇fᵀ + ℓ'∇²f. Equation 6 drops the second term, since
ℓ' → 0 where the training data are fitted. Under a squared error ℓ'' stays 1 and it does drop out. Under the logistic
loss |ℓ'| = 1 − p and ℓ'' = p(1 − p), p the probability of the right label, so |ℓ'|/ℓ'' = 1/p ≥ 1: both vanish together,
and what is left of the second term depends on ∇²f against ∇f∇fᵀ alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.experiments.claims import verdict
from netgrain.experiments.theory import statements
from netgrain.experiments.theory.material import Images, images
from netgrain.experiments.theory.statements import Job, Statement, compared, holds_if, same
from netgrain.families.gradients import gradients
from netgrain.families.members import Family, member
from netgrain.families.outputs import Output
from netgrain.families.probes import Data
from netgrain.geometry.correlation import Deletions, applied, distinct_pairs
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.models.lenet import LeNet
from netgrain.models.mlp import MLP
from netgrain.runtime.errors import NetgrainError
from netgrain.training.curvature import LossCurvature, loss_curvature
from netgrain.training.evolution import evolution_of
from netgrain.training.settings import Settings, Trained
from netgrain.training.trained_members import train_member

Row = Callable[..., Statement]
LOSSES = {"sse": "mse", "cross-entropy": "cross-entropy"}  # of the statement → as it is trained, a mean over samples
RATE = 0.1
POINTS = 24  # samples at which the curvature is taken
SMALL = 0.1  # below which a neglected term is called small, above 1 − SMALL a correlation high: our choice
NAMES = {"start": "at the start", "middle": "early in training", "end": "at the end"}


@dataclass(frozen=True, eq=False)
class Moment:
    """Products with the columns of V of every member at one moment, (members, d, k) each, and shares by member."""

    loss: Tensor  # mean over samples of ∇²ₓℓ
    G: Tensor  # ∇ₓf∇ₓfᵀ
    rate: Tensor  # d∇²ₓℓ/dt
    delta: Tensor
    residual: Tensor  # ‖ℓ'∇²f‖/‖∇²ₓℓ‖ at single samples, (members,)
    third: Tensor  # ‖the third-derivative term‖/‖d/dt of equation 6‖, (members,)
    odds: Tensor  # √E ℓ'² / √E ℓ''², (members,)
    right: Tensor  # share of training samples


@dataclass(frozen=True, eq=False)
class Study:
    """One network under one loss."""

    name: str
    data: Images
    members: int
    steps: dict[str, int]
    moments: dict[str, Moment] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Trainings:
    """Members of one network on grey images, trained in full batches with momentum 0.9."""

    model: nn.Module
    data: Images
    y: Tensor
    trained: list[Trained]
    steps: dict[str, int]

    def at(self, i: int, moment: str) -> nn.Module:
        """Member i at a moment, in double precision."""
        self.trained[i].load_into(self.model.float(), step=self.steps[moment])
        return self.model.double()


def trainings(job: Job, name: str, loss: str, activation: str = "gelu") -> Trainings:
    size = 16 if name == "LeNet" else job.pick(4, 8)
    data = images(job, job.pick(24, 128), channels=1, size=size)
    kind = LeNet if name == "LeNet" else MLP
    outputs = 1 if loss == "sse" else 2
    make: Family = partial(kind, channels=1, image_size=size, outputs=outputs, activation=activation)
    end = job.pick(20, 300)
    steps = {"start": 0, "middle": end // 10, "end": end}
    y = 2.0 * data.y.double() - 1 if loss == "sse" else data.y
    settings = Settings(loss=LOSSES[loss], lr=RATE, batch=None, steps=end, snapshots=tuple(steps.values()))
    members = job.pick(3, 8 if name == "LeNet" else 12)
    trained = [train_member(make, data.X, y, settings, seed=job.seed, i=i) for i in range(members)]
    if any(t.diverged for t in trained):
        raise NetgrainError(f"a training of {name} under {loss} diverged; try another seed.")
    return Trainings(member(make, 0, 0), data, y, trained, steps)


def study(job: Job, name: str, loss: str) -> Study:
    """Everything that is measured of a network under a loss, at three moments."""
    t = trainings(job, name, loss)
    X, V = t.data.X.double(), _columns(t.data.X[0].numel(), job)
    found = Study(name, t.data, len(t.trained), t.steps)
    for moment in t.steps:
        looks = [_look(t.at(i, moment), X, t.y, loss, V, points=job.pick(4, POINTS)) for i in range(len(t.trained))]
        found.moments[moment] = Moment(*(torch.stack(each) for each in zip(*looks, strict=True)))
    return found


def _columns(d: int, job: Job) -> Tensor:
    """All coordinates where there are few, else random signs, which keep inner products of matrices on average."""
    if job.laptop and d <= 64:
        return torch.eye(d, dtype=torch.float64)
    k = job.pick(6, 48)
    signs = torch.randint(0, 2, (d, k), generator=job.generator("columns", d)).double()
    return (2 * signs - 1) / math.sqrt(k)


def _look(model: nn.Module, X: Tensor, y: Tensor, loss: str, V: Tensor, *, points: int) -> tuple[Tensor, ...]:
    output: Output = "all" if loss == "sse" else ("diff", 0, 1)
    x, labels = X[:points], y[:points]
    whole: LossCurvature = loss_curvature(model, x, labels, loss=loss, train=(X, y))
    rows = V.T
    g = gradients(model, x, output).flatten(1)
    delta = evolution_of(model, X, y, Data(x), loss=loss, output=output, progress=False).matvec(rows)
    with torch.no_grad():
        f = model(X)
    if loss == "sse":
        slope, bend, right = f[:, 0] - y, torch.ones_like(f[:, 0]), (f[:, 0] * y > 0).double().mean()
    else:
        p = f.softmax(1).gather(1, y[:, None])[:, 0]
        slope, bend, right = 1 - p, p * (1 - p), (f.argmax(1) == y).double().mean()
    bent, rate = whole.products(rows), whole.products(rows, rates=True)
    of_eq_6 = rate["second"] + rate["third"]
    return (
        (bent["gauss_newton"] + bent["residual"]).T,
        (g.T @ (g @ V)) / len(g),
        (of_eq_6 + rate["residual_rate"]).T,
        delta.T,
        torch.tensor(whole.pointwise_gap.value, dtype=torch.float64),
        rate["third"].norm() / of_eq_6.norm(),
        slope.square().mean().sqrt() / bend.square().mean().sqrt(),
        right,
    )


def across(A: Tensor, B: Tensor) -> Deletions:
    """Mean of ⟨A_i, B_j⟩ over different members."""
    flat = A.flatten(1), B.flatten(1)
    return distinct_pairs(flat[0] @ flat[1].T, torch.ones(len(A), dtype=torch.float64))


def correlation(A: Tensor, B: Tensor) -> Deletions:
    """Corr of the means of A_i and of B_i over members, from products of different members only."""
    return applied(lambda ab, aa, bb: ab / (aa * bb).sqrt(), across(A, B), across(A, A), across(B, B))


def curvature(job: Job) -> list[Statement]:
    """Every approximation of App. A.3 under both losses, for networks with a curvature of their own (GELU)."""
    found: list[Statement] = []
    for name in ("MLP", "LeNet") if job.laptop else ("MLP",):
        for loss in LOSSES:
            ways = study(job, name, loss)
            found += [*_residual(ways, loss), *_geometry(ways, loss), *_rate(ways, loss)]
    return [*found, _without_curvature(job), _third_derivative()]


def _about(ways: Study, loss: str) -> dict[str, Any]:
    right = float(ways.moments["end"].right.mean())
    setting = f"{ways.data.name}, {len(ways.data.X)} images, {ways.members} members, GELU, {loss}, gradient descent"
    steps = f"{ways.steps['end']} steps, {right:.0%} of the training samples right at the end"
    return {"assumptions": f"{setting}; x from the training set", "note": steps}


def _residual(ways: Study, loss: str) -> list[Statement]:
    """Whether ℓ'∇²f dies."""
    about = _about(ways, loss)
    row: Callable[..., Statement] = partial(
        compared, claim="ℓ' reaches near 0 in training, so that ∇²ₓℓ ≈ ℓ''∇f∇fᵀ (eq. 6)", **about
    )
    rows = []
    for moment in ("start", "end"):
        share = mean_of(ways.moments[moment].residual)
        judged = verdict(share, None, SMALL) if moment == "end" else ""
        quantity = f"‖ℓ'∇²f‖/‖∇²ₓℓ‖ {NAMES[moment]}, {ways.name}, {loss}"
        rows.append(row(quantity, share, printed="≈ 0" if judged else "", paper=judged))
    odds = mean_of(ways.moments["end"].odds)
    quantity = f"√E ℓ'²/√E ℓ''² at the end, {ways.name}, {loss}"
    if loss == "sse":
        return [*rows, row(quantity, odds, printed="≈ 0", paper=verdict(odds, None, SMALL))]
    note = f"|ℓ'|/ℓ'' = 1/p ≥ 1: both vanish together; {about['note']}"
    at_least = verdict(odds, 1.0, None)
    judged = verdict(odds, None, SMALL)
    return [*rows, row(quantity, odds, printed="≈ 0", paper=judged, corrected=at_least, note=note)]


def _geometry(ways: Study, loss: str) -> list[Statement]:
    """E∇²ₓℓ against Gᵗ, and against G of the start as a control."""
    row: Row = partial(compared, claim="E∇²ₓℓ ∝ Gᵗ, increasingly accurately", **_about(ways, loss))
    values = {m: correlation(look.loss, look.G) for m, look in ways.moments.items()}
    end, start = ways.moments["end"], ways.moments["start"]
    rows = []
    for moment in ("start", "end"):
        found = statements.corrected(values[moment])
        judged = verdict(found, 1 - SMALL, None) if moment == "end" else ""
        quantity = f"Corr(E∇²ₓℓ, Gᵗ) {NAMES[moment]}, {ways.name}, {loss}"
        rows.append(row(quantity, found, printed="near 1" if judged else "", paper=judged))
    rise = statements.difference(values["end"], values["start"])
    own = statements.difference(values["end"], correlation(end.loss, start.G))
    return [
        *rows,
        row(f"rise of it from start to end, {ways.name}, {loss}", rise, printed="> 0", paper=verdict(rise, 0.0, None)),
        row(
            f"Corr(E∇²ₓℓ, Gᵗ) minus Corr(E∇²ₓℓ, G) at the end, {ways.name}, {loss}",
            own,
            printed="> 0",
            paper=verdict(own, 0.0, None),
            note="the control: G of the start in the place of Gᵗ",
        ),
    ]


def _rate(ways: Study, loss: str) -> list[Statement]:
    """E d∇²ₓℓ/dt against Δᵗ, and the third-derivative term."""
    about = _about(ways, loss)
    row: Callable[..., Statement] = partial(compared, claim="E d∇²ₓℓ/dt ∝ Δᵗ, as ℓ''' is close to zero", **about)
    rows = []
    for moment, look in ways.moments.items():
        found = statements.corrected(correlation(look.rate, look.delta))
        quantity = f"Corr(E d∇²ₓℓ/dt, Δᵗ) {NAMES[moment]}, {ways.name}, {loss}"
        rows.append(row(quantity, found, printed="near 1", paper=verdict(found, 1 - SMALL, None)))
        if loss == "cross-entropy":
            share = mean_of(look.third)
            quantity = f"third-derivative term over d/dt of eq. 6 {NAMES[moment]}, {ways.name}"
            rows.append(row(quantity, share, printed="≈ 0", paper=verdict(share, None, SMALL)))
    return rows


def _without_curvature(job: Job) -> Statement:
    """ReLU networks are piecewise linear: there is no second term at all."""
    t = trainings(job, "MLP", "cross-entropy", "relu")
    x, y = t.data.X[:POINTS].double(), t.y[:POINTS]
    shares = [loss_curvature(t.at(i, "end"), x, y).pointwise_gap.value for i in range(len(t.trained))]
    share = mean_of(torch.tensor(shares, dtype=torch.float64))
    return compared(
        "‖ℓ'∇²f‖/‖∇²ₓℓ‖ at the end, MLP with ReLU",
        share,
        claim="∇²ₓℓ ≈ ℓ''∇f∇fᵀ (eq. 6)",
        assumptions="piecewise linear: ∇²f = 0 almost everywhere",
        predicted=0.0,
        tolerance=1e-9,
        basis="identity",
        note="eq. 6 is exact for the networks of figures 2, 3 and 8, whatever ℓ' is",
    )


def _third_derivative() -> Statement:
    """max |ℓ'''| of the logistic loss, p(1 − p)(1 − 2p), on a grid of logits."""
    p = torch.linspace(-20, 20, 400_001, dtype=torch.float64).sigmoid()
    largest = Estimate(float((p * (1 - p) * (1 - 2 * p)).abs().max()))
    truth = 1 / (6 * math.sqrt(3))
    return compared(
        "largest |ℓ'''| of the logistic loss",
        largest,
        claim="the third derivative is bounded by 1/8 (footnote 10)",
        assumptions="one logit",
        predicted=truth,
        printed="≤ 0.125",
        paper=holds_if(largest.value <= 1 / 8),
        corrected=same(largest, truth, tolerance=1e-6),
        note="1/(6√3), at p = 1/2 ± 1/(2√3); ℓ'' is at most 1/4, so the bound alone does not make the term small",
    )
