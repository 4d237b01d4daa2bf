"""A geometry against plain sampling of other members: Corr and trace with their errors, and what is wrong with them.

The reference shares nothing with the library but the way errors are computed (`ng.corr`). Its members are made in
double precision, one backward pass is taken for every output of every point, and the origin is approached (σ = 10⁻⁴)
rather than taken, so that a kink which was not noticed shows. Where inputs are large (`large`), members are in single
precision and one random combination of their outputs is taken at every point.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.probes import probe_named
from netgrain.geometry.forms import Dense, Factored, Form
from netgrain.geometry.provenance import Integration, Provenance
from netgrain.runtime.errors import NetgrainError
from tests.random_modules import random_module

SEED = 1_000_003  # of the reference; members of the library have seed 0
NEAR = 1e-4  # σ that stands for the origin
BATCHES = 32  # of members, behind the errors of the reference
POINTS = 4  # of each member, away from the origin
CORR, TRACE, ERRORS = 0.99, 0.10, 4  # below, off by more than: violations, beyond so many standard errors
NORM_VECTORS = 512  # behind the norm of a large geometry
CORR_ERROR, TRACE_ERROR = 0.0025, 0.02  # standard errors (of Corr, of the reference's trace) at which it stops


@dataclass(frozen=True)
class Verdict:
    """What the default call gave, and how it compares with the reference."""

    name: str
    kind: str  # of the method, or "refused" or "crashed"
    parts: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()  # in the library's words: why sampled, why refused, how it failed
    probe: str = ""
    members: int = 0
    fidelity: float = math.nan
    corr: tuple[float, float] = (math.nan, math.nan)  # with its standard error
    trace: tuple[float, float] = (math.nan, math.nan)  # over that of the reference, with its standard error
    reference: int = 0  # members of it
    seconds: float = 0.0  # of the processor, default call alone
    violations: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def judge(number: int, *, most: int = 4096) -> Verdict:
    """The default call for one random module against at most so many members."""
    make, shape = random_module(number)
    return judged(f"random module {number}", make, shape, most=most, parts=make().parts)  # type: ignore[arg-type]


def judged(
    name: str,
    make: Callable[[], nn.Module],
    shape: tuple[int, ...],
    *,
    most: int,
    budget: float = math.inf,
    large: bool = False,
    parts: tuple[str, ...] = (),
    default: Callable[..., ng.Geometry] = ng.average_geometry,
) -> Verdict:
    """`default(make, shape)` against a reference (see `references`)."""
    started = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a tolerance that is not reached; `reasons` say so
            G = default(make, shape)
    except NetgrainError as e:
        return Verdict(name, "refused", parts, (str(e),))
    except Exception as e:
        sentence = f"{type(e).__name__}: {e}"
        return Verdict(name, "crashed", parts, (sentence,), violations=(f"crashed with {sentence}",))
    seconds = time.process_time() - started
    facts = {"probe": G.about.probe.used, "members": G.members, "fidelity": G.fidelity, "seconds": seconds}
    about = Verdict(name, kind_of(G), parts, tuple(filter(None, (*G.about.notes, G.about.averaged))), **facts)
    if G.trace.value == 0:
        return replace(about, kind="zero", violations=reacts(make, shape, G.about.probe.used))
    corr, ratio, members = compared(
        G, references(make, shape, G.about.probe.used, most=most, budget=budget, large=large)
    )
    found = {"corr": (corr.value, corr.stderr), "trace": (ratio.value, ratio.stderr), "reference": members}
    return replace(about, **found, violations=violations(corr, ratio))


def compared(G: ng.Geometry, samples: Iterator[ng.Geometry]) -> tuple[ng.Estimate, ng.Estimate, int]:
    """Corr and trace ratio with the first reference that has small errors, or the last one, and its members."""
    for R in samples:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Corr with zero, or that cannot be corrected, is NaN and a violation
            corr = corr_with(G, R)
        ratio = G.trace.value / R.trace.value if R.trace.value else math.nan
        error = math.hypot(*(t.stderr / t.value if t.value else math.nan for t in (G.trace, R.trace)))
        if corr.stderr < CORR_ERROR and R.trace.stderr < TRACE_ERROR * R.trace.value:
            break
    return corr, ng.Estimate(ratio, abs(ratio) * error, R.members), R.members


def corr_with(G: ng.Geometry, R: ng.Geometry) -> ng.Estimate:
    """Debiased Corr; of large geometries by products with the reference's rows, whatever form G is held in."""
    if isinstance(R.form, Dense):
        return ng.corr(G, R)
    known = 1.0 if math.isnan(G.fidelity) else G.fidelity
    found = ng.corr(R, ng.Geometry(ByProducts(G, known), G.input_shape, G.about))
    # the noise of G is taken off its norm; how much that is, so many members know
    return ng.Estimate(found.value, math.hypot(found.stderr, (1 - known) * math.sqrt(2 / max(G.members, 2))), found.n)


@dataclass(frozen=True, eq=False)
class ByProducts(Form):
    """A geometry as a form that is known by its products with vectors, with the noise taken off its norm."""

    G: ng.Geometry
    fidelity: float

    @property
    def size(self) -> int:
        return self.G.d

    def matvec(self, V: Tensor) -> Tensor:
        return self.G.matvec(V).reshape(len(V), -1)

    def trace(self) -> float:
        return self.G.trace.value

    def norm2(self) -> float:
        """By vectors of its own: the library's few of a large matrix are precise in ratios alone."""
        signs = torch.Generator().manual_seed(SEED)
        squares = [
            self.matvec((torch.randint(2, (32, self.size), generator=signs) * 2 - 1).float()).double().square().sum()
            for _ in range(NORM_VECTORS // 32)
        ]
        return self.fidelity**2 * float(sum(squares)) / NORM_VECTORS

    def inner(self, other: Form) -> float:
        return float(self.matvec(other.matrix).trace()) if isinstance(other, Dense) else other.inner(self)

    def _dense(self) -> Tensor:
        raise NotImplementedError("a large matrix is not written out")


def violations(corr: ng.Estimate, ratio: ng.Estimate) -> tuple[str, ...]:
    """What is wrong, in words; nothing where the errors are too large to tell."""
    found = []
    if not (math.isfinite(corr.value) and math.isfinite(ratio.value)):
        found.append(f"Corr {corr.value:.3f}, trace ratio {ratio.value:.3f}: not defined")
    if corr.value < CORR - ERRORS * corr.stderr:
        found.append(f"Corr {corr.value:.4f} ± {corr.stderr:.2g}")
    if abs(ratio.value - 1) > max(TRACE, ERRORS * ratio.stderr):
        found.append(f"trace {ratio.value:.3f} ± {ratio.stderr:.2g} of the reference")
    return tuple(found)


def reacts(make: Callable[[], nn.Module], shape: tuple[int, ...], probe: str) -> tuple[str, ...]:
    """Violations of G = 0: some of 16 members react more than a product of two zeros would so near to the origin."""
    traces = [
        max(float(member_rows(make, shape, where, i).square().sum()) for i in range(16))
        for where in (probe, "gaussian:1")
    ]
    most = NEAR * traces[1] if probe == "origin" else 0.0
    return (f"G = 0, and members react: trace {traces[0]:.2g}",) if traces[0] > most else ()


def kind_of(G: ng.Geometry) -> str:
    """The way a geometry was obtained, for a table of shares."""
    about = G.about
    if about.method == "closed-form":
        kinds = {step.kind for step in about.steps}
        names = {"local": "closed form with local steps", "observed": "closed form with observed slopes"}
        found = next((name for kind, name in names.items() if kind in kinds), "closed form, wide limit")
        return "closed form, exact" if about.exact else found
    first = isinstance(about.integration, Integration) and about.integration.part == "first layer"
    ends = {(True, True): "both ends", (True, False): "first layer", (False, True): "last layer"}
    found = ends.get((first, about.last_layer is not None))
    return f"{about.method}, {'plain' if found is None else found + ' integrated'}"


# --- the reference ----------------------------------------------------------------------------------------------------


def references(
    make: Callable[[], nn.Module],
    shape: tuple[int, ...],
    probe: str,
    *,
    most: int,
    budget: float = math.inf,
    large: bool = False,
) -> Iterator[ng.Geometry]:
    """Plain samples of more and more members, up to `most` or what `budget` seconds of the processor allow.

    large: rows are kept instead of matrices, in single precision, and outputs are combined at random (see
    `member_rows`); the first sample has 32 members instead of 256.
    """
    d, started, total = math.prod(shape), time.process_time(), 0
    sums = torch.zeros(0 if large else BATCHES, d, d, dtype=torch.float64)
    kept: list[Tensor] = []
    while total < most:
        stop = min(most, max(32 if large else 256, 2 * total))
        for i in range(total, stop):
            if total and time.process_time() - started > budget:
                return
            rows = member_rows(make, shape, probe, i, combined=large)
            if large:
                kept.append(rows)
            else:
                sums[i % BATCHES].addmm_(rows.T, rows)
        total = stop
        form = Factored.of_members(torch.stack(kept)) if large else Dense.from_sums(sums, total)
        yield ng.Geometry(form, shape, Provenance("sampled", members=total))


def member_rows(
    make: Callable[[], nn.Module], shape: tuple[int, ...], probe: str, i: int, *, combined: bool = False
) -> Tensor:
    """Gradients of all outputs at all points of one member, (rows, d), over √points.

    combined: of one Gaussian combination z·f a point instead, E[zzᵀ] = I: the same mean, one backward pass, and single
    precision.
    """
    torch.manual_seed(SEED + i)
    model = make().eval().requires_grad_(False)
    model = model if combined else model.double()
    where = ng.Gaussian(NEAR) if probe == "origin" else probe_named(probe)
    assert where is not None
    points = where.points(shape, 1 if probe == "origin" else POINTS, SEED - 1 - i)
    if combined:
        x = points.requires_grad_(True)
        y = model(x)
        along = torch.randn(y.shape, generator=torch.Generator().manual_seed(2 * SEED + i))
        (rows,) = torch.autograd.grad((y * along).sum(), x)
    else:
        outputs = model(points.double()).shape[1]
        x = points.double().repeat_interleave(outputs, 0).requires_grad_(True)
        which = torch.arange(outputs).repeat(len(points))
        (rows,) = torch.autograd.grad(model(x)[torch.arange(len(x)), which].sum(), x)
    return rows.flatten(1) / math.sqrt(len(points))
