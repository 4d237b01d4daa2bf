"""Conjectures 1 and 2 on four architectures: what Δ looks like at the start, and where G moves during training."""

from __future__ import annotations

import math
import warnings
from functools import partial

import torch
from torch import Tensor

from netgrain.experiments.claims import verdict
from netgrain.experiments.theory import courses, pooled, statements
from netgrain.experiments.theory.courses import Course, course, training_images
from netgrain.experiments.theory.inclusion import Inside, inside_and_whole, leading, pooled_share
from netgrain.experiments.theory.material import Images
from netgrain.experiments.theory.networks import NETWORKS, PROBES, family, geometry
from netgrain.experiments.theory.statements import Job, Statement, compared
from netgrain.families.probes import Gaussian
from netgrain.geometry.covariance import data_covariance
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.symmetric import SymmetricMatrix, corr
from netgrain.geometry.value import Geometry
from netgrain.training.delta import Evolution
from netgrain.training.evolution import average_evolution

SHARES = (0.5, 0.9, 0.99)
WIDTHS = (0.25, 1.0, 4.0, 16.0)  # of the MLP, whose hidden layers have 100 units at width 1


def _short(value: Estimate) -> str:
    return f"{value.value:.2f} ± {value.stderr:.2f}"


# --- Conjecture 1 -----------------------------------------------------------------------------------------------------

CONJECTURE_1 = "Δ is highly correlated with G S G (Δ ∝ GSG)"


def conjecture_1(job: Job) -> list[Statement]:
    """Corr(Δ, GSG), Corr(Δ, S), Corr(Δ, I) with their signs at initialisation, also over widths of the MLP."""
    laptop = {"MLP": 300, "LeNet": 600, "ResNet18": 100, "ViT": 40}
    counts = job.pick({"MLP": 12, "LeNet": 8}, laptop, {"MLP": 1000, "LeNet": 1000, "ResNet18": 100, "ViT": 100})
    data = training_images(job)
    losses = ("sse", "cross-entropy") if job.laptop else ("sse",)
    found = []
    for name, members in counts.items():
        for loss in losses:
            E = _evolution(job, data, name, loss, members)
            found.append(_alignment(E, data, geometry(name, job), f"{name}, {loss}"))
            if loss == "sse":
                found.append(_against_other_pixels(job, E, data, geometry(name, job), name))
    return found + _over_widths(job, data)


def _evolution(job: Job, data: Images, name: str, loss: str, members: int, width: float = 1.0) -> Evolution:
    return average_evolution(
        family(name, job, width=width),
        data.X,
        None if loss == "sse" else data.y,
        loss=loss,
        members=members,
        probe=Gaussian(),
        probes=PROBES,
        seed=job.seed,
        progress=False,
    )


def _alignment(E: Evolution, data: Images, G: Geometry, which: str) -> Statement:
    S = data_covariance(data.X)
    with_S, with_I, with_P = (_quiet(E.delta, B) for B in (S, torch.eye(E.d), G.project(S)))
    return compared(
        f"Corr(Δ, GSG), {which}",
        with_P,
        claim=CONJECTURE_1,
        assumptions=f"{data.name}, {len(data.X)} images, {E.members} members, x ~ N(0, I), ReLU, no normalisation",
        printed="near ±1",
        paper=verdict(statements.size(with_P), 0.9, None),
        corrected=verdict(with_P, None, 0.0),
        note=f"Corr(Δ, S) {_short(with_S)}, Corr(Δ, I) {_short(with_I)}; "
        f"plug-in {with_P.plug_in or math.nan:.3f}; corrected: the sign is negative",
    )


def _against_other_pixels(job: Job, E: Evolution, data: Images, G: Geometry, name: str) -> Statement:
    """The control: the covariance of the same images with their pixels in another order, put in the place of S."""
    order = torch.randperm(E.d, generator=job.generator("pixels"))
    other = data_covariance(data.X.flatten(1)[:, order].reshape(data.X.shape))
    with_P, with_other = (statements.size(_quiet(E.delta, G.project(S))) for S in (data_covariance(data.X), other))
    gap = Estimate(with_P.value - with_other.value, math.hypot(with_P.stderr, with_other.stderr), with_P.n)
    return compared(
        f"|Corr(Δ, GSG)| minus that with the pixels of S in another order, {name}, sse",
        gap,
        claim=CONJECTURE_1,
        assumptions=f"{data.name}, {len(data.X)} images; G as it is, S of the same images with shuffled pixels",
        printed="> 0",
        paper=verdict(gap, 0.0, None),
        note=f"|Corr| {_short(with_P)} against {_short(with_other)}: whether these data matter, or any would do",
    )


def _over_widths(job: Job, data: Images) -> list[Statement]:
    """Corr(Δ, GSG) of the MLP from narrow to wide, and how it moves with the width."""
    S, found, values = data_covariance(data.X), [], []
    G = geometry("MLP", job)  # a multiple of I at every width
    widths = WIDTHS if job.laptop else WIDTHS[:2]
    for width in widths:
        E = _evolution(job, data, "MLP", "sse", job.pick(12, 200, 500), width)
        found.append(_alignment(E, data, G, f"MLP with {round(100 * width)} units, sse"))
        values.append(statements.size(_quiet(E.delta, G.project(S))))
    last, first = values[-1], values[0]
    gap = Estimate(last.value - first.value, math.hypot(last.stderr, first.stderr), last.n)
    units = f"{round(100 * widths[0])} to {round(100 * widths[-1])} units"
    return [
        *found,
        compared(
            f"rise of |Corr(Δ, GSG)| of the MLP from {units}",
            gap,
            claim="Δ approaches S up to a constant as the width grows (Theorem 3.1)",
            assumptions="two hidden layers, D = " + str(E.d),
            printed="> 0",
            paper=verdict(gap, 0.0, None),
            note=", ".join(f"{round(100 * w)} units {_short(v)}" for w, v in zip(widths, values, strict=True)),
        ),
    ]


def _quiet(delta: SymmetricMatrix, other: SymmetricMatrix | Tensor) -> Estimate:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NaN says that there were too few members, and the verdict says it again
        return corr(delta, other)


# --- the sign of Conjecture 1 -----------------------------------------------------------------------------------------


def _when(step: int | None) -> str:
    return "never" if step is None else f"first at step {step}"


def sign(job: Job) -> list[Statement]:
    """The first-order change of Corr(Gᵗ, GSG), and the step at which it passes its start."""
    laptop = {"MLP": 500, "LeNet": 120, "ResNet18": 12}  # pairs behind the change at first order
    counts = job.pick({"MLP": 8}, laptop, dict.fromkeys(NETWORKS, 200))
    return [*pooled.sign(job), *(_first_change(job, name, course(job, name), count) for name, count in counts.items())]


def _first_change(job: Job, name: str, c: Course, count: int) -> Statement:
    slope, rise = courses.first_change(job, name, count), courses.rises(c)
    low_at, high_at = (pick(rise, key=lambda t: rise[t].value) for pick in (min, max))
    below = next((t for t, v in rise.items() if v < -2 * v.stderr), None)
    above = next((t for t, v in rise.items() if v > 2 * v.stderr), None)
    end = max(rise)
    return compared(
        f"dCorr(Gᵗ, GSG)/dt at 0 per step, {name}",
        slope,
        claim="Gᵗ approaches G S G for t close to 0: an increasing correlation",
        assumptions=f"{c.data.name}, {len(c.data.X)} images, {slope.n} pairs of members with opposite heads, logistic "
        f"loss, rate {courses.RATE:g}; finite difference on the same members",
        printed="> 0",
        paper=verdict(slope, 0.0, None),
        corrected=verdict(slope, None, 0.0),
        note=f"Corr {_short(statements.corrected(c.corr(0)))} at the start; against it lowest {_short(rise[low_at])} "
        f"at step {low_at}, highest {_short(rise[high_at])} at step {high_at}, {_short(rise[end])} at step {end}; two "
        f"standard errors below its start {_when(below)}, above it {_when(above)}; {courses.mean_loss_note([c])}",
    )


# --- Conjecture 2 -----------------------------------------------------------------------------------------------------


def conjecture_2(job: Job) -> list[Statement]:
    """Share of the change of Gᵗ inside the leading eigenspaces of GSG and of G, against random subspaces.

    A change that lies inside Eig(GSG) as the conjecture wants has the share 1: inclusion, not a correlation.
    """
    repeats = job.pick(2, 4, 5)
    found = []
    for name in NETWORKS if job.laptop else ("MLP", "LeNet"):
        ways = [course(job, name, r) for r in range(repeats)]
        spectra = {"GSG": [_axes(c.P) for c in ways]}
        if name != "MLP":  # whose G is a multiple of I and has no leading eigenspace
            spectra["G"] = [_axes(ways[0].G)] * repeats
        row = partial(_share_inside, ways, name)
        for letter, axes in spectra.items():
            for share in SHARES:
                chosen = [vectors[:, : leading(values, share)] for values, vectors in axes]
                found.append(row(chosen, f"{share:.0%} of the trace of {letter}", whole=False))
                if share == 0.9:
                    found.append(row(chosen, f"{share:.0%} of the trace of {letter}", whole=True))
    return found


def _axes(H: Geometry) -> tuple[Tensor, Tensor]:
    values, vectors = torch.linalg.eigh(H.matrix())
    return values.flip(0), vectors.flip(1)


def _share_inside(ways: list[Course], name: str, chosen: list[Tensor], where: str, *, whole: bool) -> Statement:
    """A row: the change from the first to the last snapshot (whole), or those between neighbouring ones."""
    sums, shapes = [], []
    for c, V in zip(ways, chosen, strict=True):
        among = [0, len(c.steps) - 1] if whole else range(len(c.steps))
        above, below, trace = (float(p.whole) for p in inside_and_whole(c.rows, among, V))
        sums.append((above, below, trace))
        shapes.append((V.shape[0], V.shape[1]))
    found: Inside = pooled_share(sums, shapes)
    end, dimensions = ways[0].steps[-1], sorted({k for _, k in shapes})
    what = f"of Gᵗ − G at step {end}" if whole else f"of the changes of Gᵗ over {end} steps"
    between = "–".join(str(k) for k in dict.fromkeys((dimensions[0], dimensions[-1])))
    low, high = found.share.interval()
    c, least = ways[0], min(len(way.rows) for way in ways)
    return compared(
        f"share {what} inside {where}, {name}",
        found.share,
        claim="the geometry changes only inside the leading eigenspace of G S G (of G)",
        assumptions=f"{c.data.name}, {len(ways)} training sets of {len(c.data.X)} images with {least} pairs of "
        f"members or more each, logistic loss, rate {courses.RATE:g} falling to 0, momentum 0.9, clip {courses.CLIP:g}",
        printed=1.0,
        paper=verdict(found.share, 0.9, None),
        corrected=verdict(found.excess, 0.0, None),
        note=f"95% interval {low:.2f} to {high:.2f}; a random subspace of as many dimensions ({between} of "
        f"{shapes[0][0]}) holds {found.chance:.3f}; corrected: more than chance; {courses.mean_loss_note(ways)}",
    )
