"""Any supported nn.Module → Geometry without sampling networks.

At the origin one pass gives the answer. Elsewhere the pass is averaged over probe points, and where a channel's law has
no formula (a maximum, an activation after a residual sum) over members whose forward pass is really computed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from netgrain.closed_form.laws import CannotRead, Laws
from netgrain.closed_form.moments import Full, Moment, Separable
from netgrain.closed_form.processes import AtKink, NeedsMembers, NormalisesNothing
from netgrain.closed_form.propagate import Propagation
from netgrain.closed_form.rules import recorded_activation
from netgrain.closed_form.trace import Ref, Trace, Unsupported, outputs_of, record, refs_in, weights_in
from netgrain.correlation import fidelity
from netgrain.ensemble import Make, Output, checked_output, describe_output, member, model_dtype, stream
from netgrain.errors import NetgrainError
from netgrain.forms import Dense, Form, Kronecker
from netgrain.geometry import Geometry
from netgrain.origin import SMALL
from netgrain.probes import Data, Gaussian, Origin, Probe
from netgrain.progress import Bar
from netgrain.provenance import Provenance
from netgrain.sampling import family_name
from netgrain.statistics import DataStatistics
from netgrain.threads import one_thread

DEFAULT_TOLERANCE = 0.01
MOST_POINTS = 512
PARTS = 32  # of which error bars are made
AT_ONCE = 2**22  # entries of one batch of moments over positions


@dataclass(frozen=True)
class _Place:
    """Where gradients are taken: the origin (probe None) or points of a probe."""

    probe: Probe | None
    text: str
    note: str = ""


@one_thread()
def closed_form_geometry(
    make: Make,
    input_shape: Sequence[int],
    *,
    probe: Probe | None = None,
    output: Output = "all",
    seed: int = 0,
    probes: int | None = None,
    tolerance: float | None = None,
    progress: bool | None = None,
    narrowest: int = 0,
) -> Geometry:
    """G = E[JᵀJ] by propagating second moments through the traced module.

    probes: points to average over away from the origin; without it, as many as the tolerance asks for (expected Corr
    with the average over infinitely many points of 1 − tolerance, default 0.01). narrowest: refuse a wide limit of
    layers with fewer channels. Raises Unsupported, which names the layer that has no closed form.
    """
    shape = tuple(int(n) for n in input_shape)
    try:
        laws = Laws(make, seed=seed)
    except CannotRead as e:
        raise Unsupported(str(e)) from e
    if not any(True for _ in laws.model.parameters()):
        name = type(laws.model).__name__
        raise NetgrainError(f"the model ({name}) has no parameters, so there is no family to average over.")
    trace = record(laws.model, torch.zeros(2, *shape, dtype=torch.float32 if laws.on_meta else model_dtype(laws.model)))
    output = checked_output(output, outputs_of(trace))
    job = _Job(make, laws, trace, shape, output, seed, narrowest)
    place = _Place(None, "origin") if probe is None or isinstance(probe, Origin) else _Place(probe, probe.describe())
    if place.probe is None:
        try:
            return job.at_origin(place)
        except AtKink:
            place = job.limit()
        except NormalisesNothing as e:
            if probe is not None:
                raise NetgrainError(
                    f"the origin has no limit for this model: '{e}' normalises a constant there; "
                    "use the probe Gaussian(1)."
                ) from e
            note = f"the origin is not defined here ('{e}' normalises a constant), so the probe is Gaussian(1)"
            place = _Place(Gaussian(1.0), "gaussian:1", note)
    try:
        return job.over_points(place, probes, tolerance, progress)
    except NormalisesNothing as e:
        raise Unsupported(f"'{e}' normalises a constant at a probe point") from e
    except AtKink as e:
        raise Unsupported("an activation sits on a kink at a probe point") from e


@dataclass(frozen=True, eq=False)
class _Job:
    make: Make
    laws: Laws
    trace: Trace
    shape: tuple[int, ...]
    output: Output
    seed: int
    narrowest: int

    @property
    def data_statistics(self) -> bool:
        return isinstance(self.make, DataStatistics)

    def _pass(self, points: Tensor | None, index: int | None = None) -> Propagation:
        """index: which member to observe; None: Gaussian formulas only."""
        common: dict[str, Any] = {"points": points, "data_statistics": self.data_statistics}
        if index is None:
            return Propagation(self.trace, self.laws, self.output, **common)
        model = member(self.make, self.seed, index)
        real = torch.zeros(1, *self.shape) if points is None else points
        seen = record(model, real.to(model_dtype(model)))
        if [s.name for s in seen.steps] != [s.name for s in self.trace.steps]:
            raise Unsupported("its members do not all take the same steps")
        buffers = dict(model.named_buffers())
        return Propagation(self.trace, self.laws, self.output, seen=seen, buffers=buffers, **common)

    def at_origin(self, place: _Place) -> Geometry:
        run = self._pass(None)
        try:
            moment = run.run()
        except NeedsMembers:
            return self.over_points(place, None, None, None)
        return self._geometry(self._form([moment], [1]), place, run, 0, ())

    def limit(self) -> _Place:
        """The σ → 0 limit of Gaussian(σ), for a network with a kink at the origin."""
        homogeneous = _positively_homogeneous(self.trace, self.laws)
        sigma = 1.0 if homogeneous else SMALL
        why = "the network is positively homogeneous, so the limit is taken at" if homogeneous else "taken at"
        return _Place(
            Gaussian(sigma),
            f"origin limit (gaussian:{sigma:g})",
            f"the network has a kink at the origin; its limit σ → 0 is used ({why} σ = {sigma:g})",
        )

    # --- away from the origin ---------------------------------------------------------------------------------

    def over_points(
        self, place: _Place, probes: int | None, tolerance: float | None, progress: bool | None
    ) -> Geometry:
        goal = 1 - (DEFAULT_TOLERANCE if tolerance is None else tolerance)
        stops = [probes] if probes is not None else [8, 16, 32, 64, 128, 256, MOST_POINTS]
        available = self._available(place)
        moments: list[Moment] = []
        counts: list[int] = []
        observing, run = False, self._pass(None)
        done = 0
        with Bar("probe points", stops[-1] if probes is not None else None, progress) as bar:
            for stop in stops:
                stop = min(stop, available)
                while done < stop:
                    count = 1 if observing else min(self._batch(), math.ceil(stop / 8), stop - done)
                    points = self._points(place, done, count)
                    run = self._pass(points, done if observing else None)
                    try:
                        moment = run.run()
                    except NeedsMembers:
                        observing = True
                        continue
                    moments.append(_mean_over_points(moment))
                    counts.append(count)
                    done += count
                    bar.advance(count)
                form = self._form(moments, counts)
                if done >= available or (probes is None and fidelity(form) >= goal):
                    break
        notes = [place.note] if place.note else []
        whole = isinstance(place.probe, Data) and done >= len(place.probe.X) and not observing
        if whole:
            form = _without_parts(form)
        if observing:
            notes.append(f"slopes averaged over the channels of {done} members, one probe point each")
        elif place.probe is not None:
            notes.append(f"averaged over {done} probe points")
        return self._geometry(form, place, run, done if observing else 0, tuple(notes))

    def _available(self, place: _Place) -> int:
        return len(place.probe.X) if isinstance(place.probe, Data) else 2**31

    def _points(self, place: _Place, start: int, count: int) -> Tensor | None:
        if place.probe is None:
            return None
        if isinstance(place.probe, Data):
            X = place.probe.points(self.shape, len(place.probe.X), 0)
            order = torch.randperm(len(X), generator=torch.Generator().manual_seed(stream(self.seed, "probe")))
            return X[order[start : start + count]]
        return torch.cat(
            [place.probe.points(self.shape, 1, stream(self.seed, "probe", i)) for i in range(start, start + count)]
        )

    def _batch(self) -> int:
        positions = math.prod(self.shape[1:]) if len(self.shape) > 1 else 1
        return max(1, min(16, AT_ONCE // positions**2))

    # --- the result -------------------------------------------------------------------------------------------

    def _form(self, moments: list[Moment], counts: list[int]) -> Form:
        """Over the input coordinates; several moments become parts."""
        if len(moments) == 1 and isinstance(moments[0], Separable):
            m = moments[0].compressed()
            written = [k for k, f in enumerate(m.factors) if f is not None]
            core: Form = m.separated()
            if len(written) < 2 or core.size <= 64:
                core = Dense(core.dense())
        else:
            fulls = [m.full() for m in moments]
            written = fulls[0].written
            if any(f.written != written for f in fulls):
                fulls = [f._written_out() for f in fulls]
                written = fulls[0].written
            core = _of_parts([f.matrices()[0] for f in fulls], counts)
        hidden = [k for k in range(len(self.shape)) if k not in written]
        if not hidden:
            return core
        order = torch.arange(math.prod(self.shape)).reshape(self.shape).permute(*hidden, *written).flatten()
        return Kronecker(core, math.prod(self.shape[k] for k in hidden), order)

    def _geometry(self, form: Form, place: _Place, run: Propagation, members: int, notes: tuple[str, ...]) -> Geometry:
        if not run.exact and run.narrowest < self.narrowest:
            raise Unsupported(f"a layer sums over {run.narrowest} channels, too few for the wide limit")
        about = Provenance(
            "closed-form",
            model=family_name(self.make, self.laws.model),
            probe=place.text,
            output=describe_output(self.output),
            seed=self.seed,
            members=members,
            exact=run.exact and form.parts == 0,
            integration="all layers",
            notes=notes,
        )
        return Geometry(form, self.shape, about, math.hypot(*run.errors.values()) if run.errors else 0.0)


def _mean_over_points(moment: Moment) -> Moment:
    if isinstance(moment, Full) and len(moment.values) > 1:
        return Full(moment.sizes, moment.values.mean(0, keepdim=True), moment.eye)
    return moment


def _of_parts(matrices: list[Tensor], counts: list[int]) -> Dense:
    """The weighted mean of matrices, kept apart in at most PARTS parts."""
    if len(matrices) == 1:
        return Dense(matrices[0], matrices[0][None], torch.tensor(counts)) if counts[0] > 1 else Dense(matrices[0])
    edges = [round(i * len(matrices) / min(PARTS, len(matrices))) for i in range(min(PARTS, len(matrices)) + 1)]
    pieces, sizes = [], []
    for a, b in itertools.pairwise(edges):
        n = sum(counts[a:b])
        pieces.append(sum((m * (c / n) for m, c in zip(matrices[a:b], counts[a:b], strict=True)), torch.zeros(())))
        sizes.append(n)
    return Dense.from_pieces(torch.stack([torch.as_tensor(p) for p in pieces]), torch.tensor(sizes))


def _without_parts(form: Form) -> Form:
    if isinstance(form, Kronecker):
        return Kronecker(_without_parts(form.core), form.copies, form.order)
    return Dense(form.dense())


def _positively_homogeneous(trace: Trace, laws: Laws) -> bool:
    """f(cx) − f(0) = c·(f(x) − f(0)) for c ≥ 0, read off the steps: no bias below an activation, none that curves."""
    scales = {Ref(-1)}
    for step in trace.steps:
        refs = list(refs_in((step.args, step.kwargs)))
        own = all(r in scales for r in refs)
        weights = list(weights_in((step.args, step.kwargs)))
        activation = recorded_activation(step)
        if activation is not None or "norm" in step.name or "max_pool" in step.name:
            if not own or (activation is not None and not activation.homogeneous):
                return False
            if "norm" in step.name and step.name != "batch_norm":
                return False
        biases = [w for w in weights if w.name.endswith("bias")]
        if any(laws.of(b.name).variance or laws.of(b.name).mean for b in biases):
            own = False
        if own:
            scales |= {Ref(step.index, i) for i in range(len(step.shapes))}
    return True
