"""The geometry of models while they train: correlations, velocity, trace and effective rank over the steps."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from netgrain.families.failures import check_not_lazy
from netgrain.families.members import forward, frozen
from netgrain.families.outputs import Output, checked_output, describe_output, select
from netgrain.families.probes import Data, Probe, checked_probe
from netgrain.geometry.correlation import correlation
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Factored
from netgrain.geometry.of_models import geometry_of, listed_models
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.symmetric import corr
from netgrain.geometry.value import Geometry
from netgrain.runtime.arguments import checked_shape, whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.packed import read_packed, write_packed
from netgrain.runtime.randomness import seeded
from netgrain.training.evolution import velocity
from netgrain.training.projection import Projection, factor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = 64 * 2**20  # bytes of gradient rows in one geometry
POINTS, DATA_POINTS = 8, 128  # per model
LAYOUT = 1  # of the file; another one is refused, not guessed at
NAMES = {
    "corr_S": "Corr with S",
    "corr_GSG": "Corr with G₀SG₀",
    "corr_G0": "Corr with G₀",
    "velocity": "velocity",
    "trace": "trace",
    "effective_rank": "effective rank",
}


class GeometryTracker:
    """Measures the geometry of models in any training loop; call it with the step.

    models: the members, of one architecture, that your loop trains (one is enough, but has no error bars). probe: where
    x comes from. every: measured at multiples of it, and at the first call, which gives G₀. S: the data covariance
    (`ng.data_covariance(X)`); without it there are no correlations with S and G₀SG₀. G0: a better known geometry at
    initialisation, such as `ng.average_geometry(make, …)`; it counts as independent of the models.

    Correlations are bias-corrected and have error bars over models: those with G₀ of the same models, and the velocity
    1 − Corr(Gᵗ, Gᵗ⁻¹), compare different models only; `.plug_in` is the naive value. At least three models are needed
    for this, six for G₀SG₀ (all its factors come from different models); below that the value is the naive one.

    Memory is bounded: a geometry is kept as float32 gradient rows of at most 64 MiB (the points per model are thinned
    to fit; they are the same at every step), and only G₀, the last one and at most `keep` between them are kept (of
    steps further and further apart). Models may be in train or eval mode: they are measured in eval mode, and
    modes, gradients, buffers and random states are left as found.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> tracker = GeometryTracker(net, Data(torch.eye(2)), every=1)
    >>> for step, w in enumerate([[1.0, 0.0], [1.0, 1.0]]):
    ...     _ = net.weight.data.copy_(torch.tensor([w]))
    ...     _ = tracker(step)
    >>> [t.value for t in tracker.history["trace"]], round(tracker.history["velocity"][1], 3)
    ([1.0, 2.0], 0.5)
    """

    labels = NAMES

    def __init__(
        self,
        models: nn.Module | Sequence[nn.Module],
        probe: Probe,
        *,
        every: int = 10,
        S: Geometry | Tensor | None = None,
        G0: Geometry | None = None,
        output: Output = "all",
        probes: int | None = None,
        input_shape: Sequence[int] | None = None,
        seed: int = 0,
        keep: int = 8,
    ) -> None:
        self.models = listed_models(models)
        checked_probe(probe)
        self.probe, self.output, self.seed, self.G0 = probe, checked_output(output), whole("seed", seed), G0
        self.every, self.keep = whole("every", every, 1), whole("keep", keep, 0)
        self.input_shape = _shape(probe, input_shape)
        self.d = math.prod(self.input_shape)
        self._check_models()
        self.points = self._thinned(probes)
        form = None if S is None else (S if isinstance(S, Geometry) else Geometry.from_matrix(S)).form
        for name, size in (("S", form.size if form else self.d), ("G0", G0.d if G0 else self.d)):
            if size != self.d:
                raise NetgrainError(f"{name} is {size}-dimensional, the models' inputs are {self.d}-dimensional.")
        self._S = None if form is None else factor(form)
        self.steps: list[int] = []
        self._values: dict[str, list[Estimate]] = {name: [] for name in self._names()}
        self.geometries: dict[int, Geometry] = {}  # G₀, the last one, and some between
        self._projection: Projection | None = None

    # --- measuring --------------------------------------------------------------------------------------------

    def __call__(self, step: int, *, force: bool = False) -> dict[str, Estimate] | None:
        """Measure if it is time to, and return what was found; force: measure at this step in any case.

        A step that was measured already (by a run that this one resumes) is not measured again.
        """
        step = whole("step", step, 0)
        if step in self.steps:
            return self._row(self.steps.index(step))
        if self.steps and not force and step % self.every:
            return None
        if self.steps and step < self.steps[-1]:
            raise NetgrainError(
                f"step {step} comes after step {self.steps[-1]} was measured; expected steps in order. "
                "Start a new tracker for a new training."
            )
        G = self.measure()
        found = {name: self._value(name, G) for name in self._values}
        for name, value in found.items():
            self._values[name].append(value)
        self.steps.append(step)
        self.geometries[step] = G
        self._thin_out()
        return found

    def measure(self) -> Geometry:
        """The geometry of the models as they are now."""
        if torch.is_inference_mode_enabled():
            raise NetgrainError("gradients cannot be taken in torch.inference_mode(); call the tracker outside of it.")
        device = next(self.models[0].parameters()).device.type
        with seeded(self.seed), torch.autocast(device, enabled=False), _evaluating(self.models):
            return geometry_of(
                self.models,
                self.probe,
                input_shape=self.input_shape,
                output=self.output,
                probes=self.points,
                seed=self.seed,
                progress=False,
            )

    def _value(self, name: str, G: Geometry) -> Estimate:
        if name == "trace":
            return G.trace
        if name == "effective_rank":
            return G.effective_rank
        if name == "corr_S":
            assert self._S is not None
            return correlation(G.form, Factored(self._S))
        first = G if not self.steps else self.geometries[self.steps[0]]
        if name == "corr_GSG":
            return self._corr_projected(G, first)
        if name == "corr_G0":
            return corr(G, self.G0) if self.G0 is not None else corr(G, first, paired=True)
        if not self.steps:
            return Estimate(math.nan, math.nan, 0)
        return velocity(G, self.geometries[self.steps[-1]])

    def _corr_projected(self, G: Geometry, first: Geometry) -> Estimate:
        assert self._S is not None
        if self._projection is None:
            self._projection = Projection(first.form if self.G0 is None else self.G0.form, self._S)
        if self.G0 is not None:
            return correlation(G.form, self._projection.plain)
        return self._projection.corr(G.form)

    def _thin_out(self) -> None:
        """Keep the first, the last, and at most `keep` between: when there are more, every second one goes."""
        while len(self.geometries) > self.keep + 2:
            kept = list(self.geometries)
            for step in kept[1:-1:2]:
                del self.geometries[step]

    # --- what was found ---------------------------------------------------------------------------------------

    @property
    def history(self) -> dict[str, list[Estimate]]:
        """One Estimate per measured step (`steps`) for each of the names in `NAMES`."""
        return {name: list(values) for name, values in self._values.items()}

    def as_dict(self) -> dict[str, list[Any]]:
        """The same as plain values for JSON, the steps under "step"."""
        return {"step": list(self.steps)} | {n: [v.as_dict() for v in values] for n, values in self._values.items()}

    def _row(self, i: int) -> dict[str, Estimate]:
        return {name: values[i] for name, values in self._values.items()}

    def _names(self) -> list[str]:
        with_data = ["corr_S", "corr_GSG"] if self._S is not None else []
        return ["trace", "effective_rank", "velocity", "corr_G0", *with_data]

    def plot(self, *, log_steps: bool = False) -> Figure:
        """Correlations, velocity, and trace and effective rank relative to their start; bands are 95 % intervals."""
        from netgrain.training.tracker_plots import draw

        return draw(self, log_steps=log_steps)

    def __repr__(self) -> str:
        count = len(self.models)
        facts = [f"{count} model{'s' * (count != 1)}", f"d={self.d}", f"{self.points} points each"]
        facts.append(f"every {self.every} steps")
        if self.steps:
            facts.append(f"{len(self.steps)} measured up to step {self.steps[-1]}")
            facts += [f"{NAMES[n]} {v[-1]!r}" for n, v in self._values.items() if n.startswith("corr")]
        return f"GeometryTracker({', '.join(facts)})"

    # --- files ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Everything but the models and the probe, in one safetensors file; `load` goes on from it."""
        tensors = {} if self._S is None else {"S": self._S}
        forms = {}
        for step, G in self.geometries.items():
            assert isinstance(G.form, Factored)
            tensors[f"rows {step}"] = G.form.rows
            forms[str(step)] = [G.form.scale, list(G.form.rows_per_part), asdict(G.about)]
        values = {n: [[v.value, v.stderr, v.n, v.plug_in] for v in vs] for n, vs in self._values.items()}
        header = {
            "identity": self._identity(),
            "every": self.every,
            "keep": self.keep,
            "points": self.points,
            "seed": self.seed,
            "steps": self.steps,
            "values": values,
            "geometries": forms,
        }
        return write_packed(path, "tracker", header, tensors)

    @classmethod
    def load(
        cls,
        path: str | Path,
        models: nn.Module | Sequence[nn.Module],
        probe: Probe,
        *,
        G0: Geometry | None = None,
        output: Output = "all",
    ) -> GeometryTracker:
        """Go on with the history of a file, with the same models (as trained so far), probe, G0 and output."""
        header, tensors = read_packed(path, "tracker")
        theirs = header["identity"]
        if theirs.get("layout") != LAYOUT:
            raise NetgrainError(f"{path} has file layout {theirs.get('layout')}, this netgrain reads {LAYOUT}.")
        tracker = cls(
            models,
            probe,
            every=header["every"],
            S=None if "S" not in tensors else Geometry(Factored(tensors["S"]), tuple(theirs["input_shape"]), _GIVEN),
            G0=G0,
            output=output,
            probes=header["points"],
            input_shape=theirs["input_shape"],
            seed=header["seed"],
            keep=header["keep"],
        )
        for key, ours in tracker._identity().items():
            if theirs.get(key) != ours:
                raise NetgrainError(
                    f"{path} belongs to another tracker: expected {key} {ours}, found {theirs.get(key)}; "
                    "pass the models, probe, G0 and output it was made with."
                )
        tracker.steps = header["steps"]
        tracker._values = {name: [Estimate(*row) for row in rows] for name, rows in header["values"].items()}
        for step, (scale, rows_per_part, about) in header["geometries"].items():
            counts = torch.ones(len(rows_per_part), dtype=torch.int64)
            form = Factored(tensors[f"rows {step}"], scale, counts, tuple(rows_per_part))
            tracker.geometries[int(step)] = Geometry(form, tracker.input_shape, Provenance.from_dict(about))
        tracker.geometries = dict(sorted(tracker.geometries.items()))
        return tracker

    def _identity(self) -> dict[str, Any]:
        shapes = repr([(n, tuple(p.shape)) for n, p in self.models[0].named_parameters()])
        points = self.probe.points(self.input_shape, self.points, 0).double().contiguous()
        return {
            "layout": LAYOUT,
            "models": len(self.models),
            "input_shape": list(self.input_shape),
            "output": describe_output(self.output),
            "probe": f"{self.probe.describe()} {hashlib.sha256(points.numpy().tobytes()).hexdigest()[:8]}",
            "architecture": hashlib.sha256(shapes.encode()).hexdigest()[:16],
            "G0": None if self.G0 is None else f"{self.G0.trace.value:.6g}",
        }

    # --- checks -----------------------------------------------------------------------------------------------

    def _check_models(self) -> None:
        for i, model in enumerate(self.models):
            check_not_lazy(model, f"model {i}")
            if next(model.parameters(), None) is None:
                raise NetgrainError(f"model {i} ({type(model).__name__}) has no parameters, so nothing will change.")
        if len({id(model) for model in self.models}) < len(self.models):
            raise NetgrainError("the same model was given twice; expected different members, trained independently.")

    def _thinned(self, probes: int | None) -> int:
        """Points per model such that one geometry stays within ROWS bytes."""
        model = self.models[0]
        with seeded(self.seed), torch.no_grad(), _evaluating([model]):
            p = next(model.parameters())
            point = self.probe.points(self.input_shape, 1, 0)[:1].to(p.device, p.dtype)
            outputs = select(forward(frozen(model), point), self.output).shape[1]
        asked = probes if probes is not None else DATA_POINTS if isinstance(self.probe, Data) else POINTS
        whole("probes", asked, 1)
        available = len(self.probe.points(self.input_shape, asked, 0))
        fit = ROWS // (len(self.models) * outputs * self.d * 4)
        return max(1, min(asked, available, fit))


_GIVEN = Provenance("given", exact=True)


@contextmanager
def _evaluating(models: Sequence[nn.Module]) -> Iterator[None]:
    modes = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _shape(probe: Probe, shape: Sequence[int] | None) -> tuple[int, ...]:
    if shape is None and not isinstance(probe, Data):
        raise NetgrainError("expected input_shape=, as in (3, 32, 32): only a Data probe knows its own.")
    return tuple(probe.X.shape[1:]) if shape is None and isinstance(probe, Data) else checked_shape(shape)
