"""Is the closed form right for this module? Compare it with sampled members: band by band of its own spectrum, along
the points themselves, along their mean, and along the leading directions of the sample.

For a band U of eigenvectors of the closed form with eigenvalues λ, the sampled energy tr(Uᵀ G_sampled U) is an unbiased
estimate of Σλ whatever the sampling noise does to eigenvectors, so every band from the largest eigenvalue down to a
millionth of it can be judged in standard errors. These come from means over batches of members: members of narrow
networks are heavy-tailed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from netgrain.families.failures import SHAPE_ADVICE
from netgrain.families.gradients import check_differentiable, gradients
from netgrain.families.members import Family, member, model_dtype
from netgrain.families.origin import probe_used
from netgrain.families.outputs import Output
from netgrain.families.prepared import At, prepared
from netgrain.families.probes import Data, Probe
from netgrain.families.reading import Reading, read
from netgrain.families.wrapped import Call
from netgrain.geometry.average import closed_form
from netgrain.geometry.closed import energies_along_points
from netgrain.geometry.energy_ratios import energy, leading_ratio, ratio_along, ratio_of
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.geometry.forms import Form
from netgrain.geometry.gradient_rows import random_inputs
from netgrain.geometry.options import Options, points_per_member
from netgrain.geometry.reduction import most_members
from netgrain.geometry.sampled import sampled
from netgrain.geometry.symmetric import corr
from netgrain.geometry.value import Geometry
from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.units import Engine

FLOOR = 1e-6  # bands below this share of the largest eigenvalue are not judged
PER_DECADE = 2
STANDARD_ERRORS = 4.0
BATCHES = 32
ALONG_MEMBERS, ALONG_POINTS = 512, 32  # behind the comparison along the points themselves


@dataclass(frozen=True)
class Band:
    """Eigenvalues start … stop−1: sampled over predicted energy."""

    start: int
    stop: int
    largest: float  # as a share of the top eigenvalue
    smallest: float
    ratio: Estimate

    @property
    def z(self) -> float:
        return standard_errors(self.ratio)

    @property
    def name(self) -> str:
        return f"the band of eigenvalues {self.start + 1} to {self.stop}"


@dataclass(frozen=True)
class Along:
    """Some directions that the closed form did not choose: sampled over predicted energy."""

    name: str
    ratio: Estimate

    @property
    def z(self) -> float:
        return standard_errors(self.ratio)


def standard_errors(ratio: Estimate) -> float:
    """Deviation from one in standard errors; as these come from few batches, Student's t made a normal deviate."""
    from scipy.special import ndtri, stdtr

    if not ratio.stderr > 0:  # every network has the same gradient
        return 0.0 if abs(ratio.value - 1) < 1e-6 else math.inf
    t = (ratio.value - 1) / ratio.stderr
    return float(-math.copysign(1, t) * ndtri(stdtr(ratio.n - 1, -abs(t))))


@dataclass(frozen=True, eq=False)
class Agreement:
    """How well a closed form and sampled networks agree; the outcome of `check`.

    Parameters
    ----------
    closed : Geometry
        The closed form.
    sampled : Geometry
        The geometry of sampled networks.
    bands : tuple of Band
        Groups of adjacent eigenvalues of the closed form, each with the ratio of sampled to predicted energy.
    corr : Estimate
        Correlation of the two.
    along : tuple of Along, default ()
        The same ratio along directions that the closed form did not choose.
    """

    closed: Geometry
    sampled: Geometry
    bands: tuple[Band, ...]
    corr: Estimate
    along: tuple[Along, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether every band and other direction is within four standard errors."""
        return all(abs(a.z) <= STANDARD_ERRORS for a in self._compared)

    @property
    def deviation(self) -> float:
        """Largest |sampled / closed − 1| over bands and other directions."""
        return max(abs(a.ratio.value - 1) for a in self._compared)

    @property
    def _compared(self) -> tuple[Band | Along, ...]:
        return (*self.bands, *self.along)

    @property
    def verdict(self) -> str:
        """The verdict as a sentence, with the largest deviation."""
        worst = max(self._compared, key=lambda a: abs(a.z))
        if self.agrees:
            others = f" and {', '.join(a.name for a in self.along)}" if self.along else ""
            bands = "one band" if len(self.bands) == 1 else f"all {len(self.bands)} bands"
            return (
                f"agrees: {bands} of the spectrum{others} within {STANDARD_ERRORS:g} standard errors "
                f"of {self.sampled.members} sampled members (largest deviation {abs(worst.z):.1f})"
            )
        kind = (
            "the closed form is exact here, so this is a bug"
            if self.closed.exact
            else "the closed form is the wide limit"
        )
        return (
            f"differs: {worst.name} is off by {worst.ratio.value - 1:+.1%}, {abs(worst.z):.1f} standard errors; {kind}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        Returns
        -------
        dict
            The verdict and every ratio.
        """
        return {
            "agrees": self.agrees,
            "verdict": self.verdict,
            "deviation": self.deviation,
            "members": self.sampled.members,
            "exact": self.closed.exact,
            "corr": self.corr.as_dict(),
            "bands": [
                {
                    "from": b.start + 1,
                    "to": b.stop,
                    "largest": b.largest,
                    "smallest": b.smallest,
                    "ratio": b.ratio.as_dict(),
                    "standard_errors": b.z,
                }
                for b in self.bands
            ],
            "along": [{"name": a.name, "ratio": a.ratio.as_dict(), "standard_errors": a.z} for a in self.along],
        }

    def __str__(self) -> str:
        lines = ["  eigenvalues         share of the largest    sampled / closed    standard errors"]
        for b in self.bands:
            share = f"{b.largest:.1e} – {b.smallest:.1e}"
            ratio = f"{b.ratio.value:.4f} ± {b.ratio.stderr:.4f}"
            lines.append(f"  {b.start + 1:>6} to {b.stop:<8} {share:>22} {ratio:>20} {b.z:>15.1f}")
        for a in self.along:
            ratio = f"{a.ratio.value:.4f} ± {a.ratio.stderr:.4f}"
            lines.append(f"  {a.name:<41} {ratio:>20} {a.z:>15.1f}")
        lines.append(f"  Corr(closed, sampled) = {self.corr}")
        lines.append(f"  {self.verdict}")
        return "\n".join(lines)

    __repr__ = __str__


def check(
    make: Family,
    input_shape: Sequence[int],
    *,
    members: int = 2000,
    probe: Probe | None = None,
    output: Output = "all",
    call: Call | None = None,
    at: At | None = None,
    seed: int = 0,
    probes: int | None = None,
    closed: Geometry | None = None,
    engine: Engine | str | None = None,
    workers: int | None = None,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Agreement:
    """Compare the closed form of a family with sampled networks.

    The sampled energy in every band of eigenvalues of the closed form, along the points themselves
    and along the leading directions of the sample is an unbiased estimate of what the closed form
    predicts; it is judged in standard errors.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call.
    input_shape : sequence of int
        Shape of one input without the batch axis.
    members : int, default 2000
        Number of networks to sample, without averaging any layer by a formula.
    probe : Probe, optional
        Where x comes from; the origin by default, or its limit if the network has a kink there.
    output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
        Outputs whose gradients count.
    call : callable, optional
        How a model is called, as in ``lambda model, x: model(pixel_values=x).logits``.
    at : {"embeddings"}, optional
        For models of tokens: take the output of the token embedding as the input space, with
        `input_shape` ``(tokens, width)``.
    seed : int, default 0
        The networks are drawn with ``seed + 1``, so they differ from those that a closed form may have used.
    probes : int, optional
        Points per network.
    closed : Geometry, optional
        A geometry to check instead of netgrain's own closed form.

    Returns
    -------
    Agreement
        Print it for a table; ``agrees`` is the verdict.

    Other Parameters
    ----------------
    engine : Engine or str, optional
        Where networks are computed.
    workers : int, optional
        Number of workers of the engine.
    device : torch.device or str, optional
        A GPU by default, where there is one.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Raises
    ------
    NetgrainError
        If there is no closed form, or there are too few members for error bars.

    See Also
    --------
    average_geometry : Computes either of the two.

    Examples
    --------
    >>> from torch import nn
    >>> def make():
    ...     return nn.Sequential(nn.Conv1d(1, 2, 2, bias=False), nn.AvgPool1d(2), nn.Flatten())
    >>> check(make, (1, 3), members=500).agrees
    True
    """
    if (members := whole("members", members)) < 2 * BATCHES:
        raise NetgrainError(f"expected at least {2 * BATCHES} members to make error bars from, found {members}.")
    asked = Options(
        input_shape,
        probe=probe,
        output=output,
        members=members,
        probes=probes,
        seed=seed,
        engine=engine,
        workers=workers,
        device=device,
        progress=progress,
    )
    make = prepared(make, asked.shape, call=call, at=at, seed=asked.seed)
    check_error_bars(make, asked)
    along, reading = [], read(make, asked.shape, asked.seed)
    if closed is None:
        closed = closed_form(reading, replace(asked, probes=None))
        along += _along_points(reading, asked)
    # other members than those that a wide-limit pass may have looked at
    plain = replace(asked, seed=asked.seed + 1, first_layer="never", last_layer="never")
    G = sampled(read(make, plain.shape, plain.seed), plain)
    along += _along_sample(closed.form, G.form, probe)
    return Agreement(closed, G, tuple(_bands(closed, G.form)), corr(closed, G), tuple(along))


def _along_points(reading: Reading, asked: Options) -> list[Along]:
    """Each gradient along its own point: there slopes and gradients depend on each other most."""
    energies = energies_along_points(reading, probe=asked.probe, output=asked.output, count=ALONG_POINTS)
    if energies is None:
        return []
    known, seed = mean_of(energies, alone=0.0), asked.seed + 1
    place = probe_used(asked.probe, member(reading.make, seed, 0), asked.shape, asked.output).probe
    if isinstance(place, Data) and len(energies) >= len(place.X):
        known = Estimate(known.value, 0.0, known.n)  # all the points there are
    assert asked.members is not None
    found: list[Tensor] = []
    for i in range(min(asked.members, ALONG_MEMBERS)):
        model = member(reading.make, seed, i)
        points = place.points(asked.shape, 8, derived_seed(seed, "along", i)).to(model_dtype(model))
        unit = points.flatten(1) / points.flatten(1).norm(dim=1, keepdim=True).clamp(min=1e-30)
        rows = gradients(model, points, asked.output).flatten(1).reshape(len(points), -1, unit.shape[1])
        found.append((rows @ unit[:, :, None]).double().square().sum((1, 2)).mean())
    batches = torch.stack([torch.stack(found[i::BATCHES]).mean() for i in range(BATCHES)])
    return [Along("each point itself", ratio_of(mean_of(batches), known))]


def _along_sample(closed: Form, sampled: Form, probe: Probe | None) -> list[Along]:
    batches = sampled.batched(BATCHES)
    found = []
    if isinstance(probe, Data) and float((centre := probe.X.double().mean(0).flatten()).norm()) > 0:
        found.append(Along("the mean of the data", ratio_along(closed, batches, (centre / centre.norm())[None])))
    if batches.parts >= 4:
        found.append(Along("leading directions of the sample", leading_ratio(closed, batches)))
    return found


def check_error_bars(make: Family, asked: Options) -> None:
    """Refuse members that sampling could only keep as a sketch, which has no parts to make error bars from."""
    shape, d = asked.shape, math.prod(asked.shape)
    if most_members(d, 1) is None:
        return  # of any number of rows
    model = member(make, asked.seed + 1, 0)
    outputs = check_differentiable(model, random_inputs(model, shape, 2), asked.output, advice=SHAPE_ADVICE).shape[1]
    place = probe_used(asked.probe, model, shape, asked.output).probe
    points = len(place.points(shape, points_per_member(place, asked.probes), 0))
    most = most_members(d, points * outputs)
    if asked.members is None or most is None or asked.members <= most:
        return
    way_out = f"use at most {most}" if most >= 2 * BATCHES else "use a smaller input, fewer outputs or fewer probes"
    raise NetgrainError(
        f"members={asked.members} of {points} × {outputs} gradients of {d} numbers are too many to keep for "
        f"error bars; {way_out}."
    )


def _bands(closed: Geometry, form: Form) -> list[Band]:
    sampled = form.batched(BATCHES)
    if sampled.parts < 2:
        raise NetgrainError("the sampled geometry has no parts to make error bars from; use a smaller input.")
    judge, expected = closed, None
    if closed.form.parts >= 4:
        # an average over points is noisy too: its bands come from one half of the points, its values from the other
        judge = replace(closed, form=closed.form.subset(range(0, closed.form.parts, 2)))
        expected = closed.form.subset(range(1, closed.form.parts, 2))
    values, copies = judge.spectrum.values, judge.spectrum.copies
    top = float(values[0])
    if top <= 0:
        raise NetgrainError("the closed form is zero: there is nothing to compare.")
    found = []
    for start, stop in _edges(values / top):
        basis = judge.directions(stop * copies)[start * copies :].reshape((stop - start) * copies, -1)
        known = Estimate(float(values[start:stop].sum()) * copies)
        if expected is not None:
            known = energy(expected, basis, BATCHES)
        ends = float(values[start]) / top, float(values[stop - 1]) / top
        found.append(Band(start * copies, stop * copies, *ends, ratio_of(energy(sampled, basis, BATCHES), known)))
    return found


def _edges(shares: Tensor) -> list[tuple[int, int]]:
    """Runs of descending eigenvalues between powers of ten^(1/PER_DECADE), down to FLOOR."""
    steps = (-shares.clamp(min=1e-300).log10() * PER_DECADE + 1e-9).floor().long()
    last = int((shares > FLOOR).sum())
    edges = [0, *(i for i in range(1, last) if steps[i] != steps[i - 1]), last]
    return list(itertools.pairwise(edges))
