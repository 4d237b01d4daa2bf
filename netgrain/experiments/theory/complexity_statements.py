"""What else the theory of geometric complexity predicts, and the table of all its statements.

Gradient descent against its modified loss, noise against the penalty that it adds, networks at the start against their
expectation, classes with a known Poincaré constant against certificates, and curves in one dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from netgrain.complexity.certificates import gc_error_bound
from netgrain.complexity.collapse import neural_collapse
from netgrain.complexity.estimators import geometric_complexity
from netgrain.experiments.heuristics.descent_paths import SmallNetwork, descent, order, runge_kutta
from netgrain.experiments.heuristics.networks import Perceptron
from netgrain.experiments.heuristics.protocol import material
from netgrain.experiments.heuristics.starts import expected_at_start
from netgrain.experiments.theory import bounds
from netgrain.experiments.theory.bounds import SIZES, bound, subjects
from netgrain.experiments.theory.statements import Job, Statement, StatementCheck, compared, divided
from netgrain.families.members import member
from netgrain.geometry.estimate import Estimate, mean, mean_of

# --- steps ------------------------------------------------------------------------------------------------------------


def implicit_gradient(job: Job) -> list[Statement]:
    """One step of gradient descent is off the flow of L by O(η²), and off that of L + (η/4)‖∇L‖² by O(η³)."""
    net = _tanh_network(job)
    rates = (1 / 8, 1 / 16, 1 / 32, 1 / 64)
    powers: dict[str, list[float]] = {"L": [], "modified": []}
    for i in range(job.pick(3, 10)):
        start = net.start(1.5, job.generator("implicit", i))
        gaps: dict[str, list[float]] = {name: [] for name in powers}
        for rate in rates:
            (_, end) = descent(net.gradient, start, rate, 1)
            for name, strength in (("L", 0.0), ("modified", rate / 4)):
                there = runge_kutta(partial(_velocity, net, strength), start, rate, 4)[-1]
                gaps[name].append(float((end - there).norm()))
        for name, found in gaps.items():
            powers[name].append(order(rates, found))
    assumed = "tanh network on digits, half the squared error, float64, one step"
    words = {"L": ("flow of L", 2.0), "modified": ("flow of L + (η/4)‖∇L‖²", 3.0)}
    return [
        compared(
            f"power of η in the distance to the {words[name][0]}",
            mean(found),
            claim="gradient descent follows L + (η/4)‖∇L‖²",
            assumptions=assumed,
            predicted=words[name][1],
            tolerance=0.15,
        )
        for name, found in powers.items()
    ]


def _velocity(net: SmallNetwork, strength: float, theta: Tensor) -> Tensor:
    return -net.modified_gradient(theta, strength)


def _tanh_network(job: Job) -> SmallNetwork:
    X, y, *_ = material("digits", 40, True)
    return SmallNetwork(X.double(), torch.nn.functional.one_hot(y, 10).double(), job.pick(8, 32))


# --- noise ----------------------------------------------------------------------------------------------------------


def input_noise(job: Job) -> list[Statement]:
    """E L(x + σε) − L = (σ²/2)(GC + mean Σ r Δf) + O(σ⁴); for affine maps the first term is all."""
    net, sigma, draws = _tanh_network(job), 0.05, job.pick(500, 5000)
    theta = net.start(1.5, job.generator("noise"))
    W, b, V, c = net.parts(theta)
    t = torch.tanh(net.X @ W.T + b)
    curved = -2 * t * (1 - t.square()) * W.square().sum(1)  # Δ of every unit
    residual = t @ V.T + c - net.Y
    laplacian = float((residual * (curved @ V.T)).sum(1).mean())
    gc = net.complexity(theta)

    def rise(loss: Callable[[Tensor], Tensor]) -> Estimate:
        """Mean rise of the loss under noise, over antithetic pairs."""
        eps = sigma * job.normal((draws, *net.X.shape), "eps")
        before = loss(net.X)
        found = torch.stack([(loss(net.X + e) + loss(net.X - e)) / 2 - before for e in eps])
        return mean_of(found / (sigma**2 / 2))

    def affine(X: Tensor) -> Tensor:
        return (X @ (V @ W).T - net.Y).square().sum(1).mean() / 2

    def curvy(X: Tensor) -> Tensor:
        return SmallNetwork(X, net.Y, net.hidden).loss(theta)

    exact, rough = rise(affine), rise(curvy)
    own = float((V @ W).square().sum())
    row = partial(compared, claim="input noise adds (σ²/2)·GC to the squared error", predicted=1.0)
    curved_row = f"tanh network, σ = {sigma}; the Laplacian's share is {laplacian / (gc + laplacian):.2f}"
    return [
        row("rise / (σ²/2)GC, affine", divided(exact, own), assumptions="affine map, half the squared error"),
        row("rise / (σ²/2)(GC + Σ r Δf), tanh", divided(rough, gc + laplacian), assumptions=curved_row, tolerance=0.02),
    ]


# --- initialisation ---------------------------------------------------------------------------------------------------


def initialisation(job: Job) -> list[Statement]:
    """E GC = d Π(σ²·width) 2^−(L−1) at any input but zero, and GC of the mean of networks is at most the mean of GC."""
    X = job.normal((2, SIZES[0]), "inputs").float()
    rows = []
    for j, scheme in enumerate(("he", "glorot", "lecun")):
        nets = (member(partial(Perceptron, SIZES, 1.0, scheme), 100 + j, i) for i in range(job.pick(60, 500)))
        found = mean([geometric_complexity(net, X, progress=False).value for net in nets])
        rows.append(
            compared(
                f"GC / expectation, {scheme}",
                divided(found, expected_at_start(scheme, SIZES)),
                claim="common initialisations have low complexity",
                assumptions="ReLU perceptrons 64-32-32-10, Gaussian inputs",
                predicted=1.0,
            )
        )
    there = subjects(job, "trained")
    pairs = list(zip(there.perceptrons, there.perceptrons[1:], strict=False))
    flat = there.X.flatten(1)
    gc = {id(net): geometric_complexity(net, flat, progress=False).value for net in there.perceptrons}
    together = [geometric_complexity(Mean(a, b), flat, progress=False).value for a, b in pairs]
    ratios = [(gc[id(a)] + gc[id(b)]) / 2 / g for (a, b), g in zip(pairs, together, strict=True)]
    rows.append(bound("mean GC / GC of the mean, two networks", ratios, claim="GC is convex", assumptions="trained"))
    return rows


class Mean(nn.Module):
    """The mean of two networks."""

    def __init__(self, a: nn.Module, b: nn.Module) -> None:
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = (self.a(x) + self.b(x)) / 2
        return out


# --- certificates and curves ------------------------------------------------------------------------------------------


def certificates(job: Job) -> list[Statement]:
    """Gaussian classes, where Poincaré's constant is known: error and collapse against their bounds."""
    points, count = job.pick(1500, 10_000), job.pick(3, 10)
    errors, collapses, spreads = [], [], []
    for i in range(count):
        centres = 1.5 * job.normal((3, 6), "centres", i)
        y = torch.arange(3).repeat_interleave(points)
        X = (centres[y] + job.normal((3 * points, 6), "points", i)).float()
        nearest = nn.Linear(6, 3)
        nearest.weight.data.copy_(centres)
        nearest.bias.data.copy_(-centres.square().sum(1) / 2)
        found = gc_error_bound(nearest, X, y, poincare=1.0)
        errors.append(found.bound / max(found.error, 1 / len(y)))
        net = nn.Sequential(member(partial(Perceptron, (6, 16, 4)), job.seed, i))
        collapse = neural_collapse(net, X, y, None, poincare=1.0)
        off = ~torch.eye(3, dtype=torch.bool)
        collapses += (collapse.pairs_geometric[off] / collapse.pairs_cdnv[off]).tolist()
        spreads += (collapse.class_gc / collapse.class_variance).tolist()
    gaussian = "three Gaussian classes in six dimensions with unit covariance, so that the constant is 1"
    row = partial(bound, assumptions=gaussian, sampling=math.sqrt(2 / points))  # of a Gaussian's variance
    return [
        row("GC / Var f", spreads, claim="Var f ≤ c GC (Poincaré)"),
        row("geometric collapse / CDNV", collapses, claim="CDNV ≤ geometric collapse"),
        row("error bound / error", errors, claim="error ≤ g/(1 + g), g = 2c GC/(E m)²"),
    ]


def arc_length(job: Job) -> list[Statement]:
    """One dimension: arc ≤ (b − a)√(1 + GC), and no curve through points has less than Σ Δy²/Δx /(b − a)."""
    grid = torch.linspace(-1, 1, 2001)[:, None]
    arcs, least = [], []
    for i in range(job.pick(5, 50)):
        net = member(partial(Perceptron, (1, 50, 1), 1.5), job.seed, i)
        nn.init.uniform_(net.get_parameter("0.bias"), -1, 1, generator=job.generator("kinks", i))
        y = net(grid).detach().double().squeeze(1)
        slopes = y.diff() / (2 / 2000)
        gc = float(slopes.square().mean())
        arcs.append(2 * math.sqrt(1 + gc) / (2 * float((1 + slopes.square()).sqrt().mean())))
        chosen = y[::200]
        least.append(gc / (float((chosen.diff().square() / 0.2).sum()) / 2))
    row = partial(bound, assumptions="ReLU networks 1-50-1 on [−1, 1]")
    return [
        row("(b − a)√(1 + GC) / arc", arcs, claim="arc ≤ (b − a)√(1 + GC)"),
        row("GC / least GC through 11 of its points", least, claim="straight lines have the least GC"),
    ]


STATEMENTS: dict[str, StatementCheck] = {
    "parameter-norm": bounds.parameter_norm,
    "spectral-norm": bounds.spectral_norm,
    "lipschitz-below": bounds.lipschitz_below,
    "product-bound": bounds.product,
    "transfer-inequality": bounds.transfer,
    "implicit-gradient": implicit_gradient,
    "input-noise": input_noise,
    "initialisation": initialisation,
    "softmax": bounds.softmax,
    "certificates": certificates,
    "arc-length": arc_length,
}
COVERS: dict[str, tuple[int, ...]] = {  # statement → its numbers in docs/coverage.md
    "parameter-norm": (85, 92),
    "spectral-norm": (86, 92),
    "transfer-inequality": (87, 92),
    "implicit-gradient": (88, 92),
    "input-noise": (89, 92),
    "initialisation": (90, 92),
    "certificates": (92, 94),
    "lipschitz-below": (92, 94),
    "product-bound": (92, 94),
    "softmax": (92,),
    "arc-length": (92,),
}
