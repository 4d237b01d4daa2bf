"""The geometry of models while they train: correlations, velocity, trace and effective rank over the steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.failures import check_not_lazy
from netgrain.families.members import forward, frozen
from netgrain.families.outputs import Output, checked_output, describe_output, select
from netgrain.families.probes import Data, Probe
from netgrain.geometry.correlation import correlation
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Factored
from netgrain.geometry.of_models import geometry_of, listed_models, shape_for
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.storage import check_layout
from netgrain.geometry.symmetric import corr
from netgrain.geometry.value import Geometry
from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.packed import read_packed, write_packed
from netgrain.runtime.randomness import seeded
from netgrain.training.checks import evaluating
from netgrain.training.evolution import velocity
from netgrain.training.projection import Projection, factor
from netgrain.training.tracking import LAYOUT, NOTHING, Line, Panel, Row, Tracker, architecture, digest, steady

ROWS = 64 * 2**20  # bytes of gradient rows in one geometry
POINTS, DATA_POINTS = 8, 128  # per model
NAMES = {
    "trace": "trace",
    "effective_rank": "effective rank",
    "velocity": "velocity",
    "corr_G0": "Corr with G₀",
    "corr_S": "Corr with S",
    "corr_GSG": "Corr with G₀SG₀",
}


class GeometryTracker(Tracker):
    """Geometry of models in any training loop; call it with the step.

    Measures trace, effective rank, velocity 1 − Corr(Gᵗ, Gᵗ⁻¹) and the correlation with the first geometry G₀; with S
    also the correlations with S and G₀SG₀. Correlations are bias-corrected and have error bars over models: those with
    G₀ of the same models, and the velocity, compare different models only; ``.plug_in`` is the naive value. At least
    three models are needed for this, six for G₀SG₀ (all its factors come from different models); below that the value
    is the naive one.

    Memory is bounded: a geometry is kept as float32 gradient rows of at most 64 MiB (the points per model are thinned
    to fit; they are the same at every step), and only G₀, the last one and at most `keep` between them are kept, of
    steps further and further apart. Models are measured in eval mode; modes, gradients, buffers and random states are
    left as found.

    Parameters
    ----------
    models : torch.nn.Module or sequence of torch.nn.Module
        The networks, of one architecture, that your loop trains; one is enough, but has no error bars.
    probe : Probe
        Where x comes from.
    every : int, default 10
        Measure at the first call, which gives G₀, and whenever a multiple of it is reached.
    S : Geometry or Tensor of shape (d, d), optional
        The data covariance, ``ng.data_covariance(X)``.
    G0 : Geometry, optional
        A better known geometry at initialisation, such as ``ng.average_geometry(make, …)``; it is treated as
        independent of the models.
    output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
        Outputs whose gradients count.
    probes : int, optional
        Points per model; by default 128 samples of a ``Data`` probe, 8 points of another.
    input_shape : sequence of int, optional
        Shape of one input; a ``Data`` probe knows its own.
    seed : int, default 0
        Seed of everything random.
    keep : int, default 8
        Geometries kept between the first and the last.

    See Also
    --------
    netgrain.ComplexityTracker : The trace alone, of one model, with margins and accuracy.

    Examples
    --------
    G = wwᵀ has the trace ‖w‖²; (1, 0) and (1, 1) have Corr ½.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> tracker = GeometryTracker(net, Data(torch.eye(2)), every=1)
    >>> for step, w in enumerate([[1.0, 0.0], [1.0, 1.0]]):
    ...     _ = net.weight.data.copy_(torch.tensor([w]))
    ...     _ = tracker(step)
    >>> [t.value for t in tracker.history["trace"]], round(tracker.history["velocity"][1], 3)
    ([1.0, 2.0], 0.5)
    """

    labels, made_of = NAMES, "models, probe, G0 and output"

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
        super().__init__(every)
        self.models = listed_models(models)
        self.probe, self.output, self.seed, self.G0 = probe, checked_output(output), whole("seed", seed), G0
        self.keep = whole("keep", keep, 0)
        self.input_shape = shape_for(probe, input_shape)
        self.d = math.prod(self.input_shape)
        self._check_models()
        self.points = self._thinned(probes)
        form = None if S is None else (S if isinstance(S, Geometry) else Geometry.from_matrix(S)).form
        for name, size in (("S", form.size if form else self.d), ("G0", G0.d if G0 else self.d)):
            if size != self.d:
                raise NetgrainError(f"{name} is {size}-dimensional, the models' inputs are {self.d}-dimensional.")
        self._S = None if form is None else factor(form)
        self._values = {name: [] for name in self._names()}
        self.geometries: dict[int, Geometry] = {}  # G₀, the last one, and some between
        self._latest: Geometry | None = None
        self._projection: Projection | None = None

    # --- measuring --------------------------------------------------------------------------------------------

    def __call__(self, step: int, *, force: bool = False) -> dict[str, Estimate] | None:
        """Measure if it is time to, and return what was found; force: measure at this step in any case.

        A step that was measured already (by a run that this one resumes) is not measured again.
        """
        found, new = self._step(step, force)
        if new:
            assert self._latest is not None
            self.geometries[self.steps[-1]] = self._latest
            self._thin_out()
        return found

    def measure(self) -> Geometry:
        """The geometry of the models as they are now; it is not stored."""
        with steady(self.models, self.seed):
            return geometry_of(
                self.models,
                self.probe,
                input_shape=self.input_shape,
                output=self.output,
                probes=self.points,
                seed=self.seed,
                progress=False,
            )

    def _measured(self) -> Row:
        self._latest = G = self.measure()
        return {name: self._value(name, G) for name in self._values}

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
            return NOTHING
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

    def _names(self) -> list[str]:
        with_data = ["corr_S", "corr_GSG"] if self._S is not None else []
        return ["trace", "effective_rank", "velocity", "corr_G0", *with_data]

    def panels(self) -> list[Panel]:
        """Correlations; velocity; trace and effective rank relative to their start."""
        correlations = [name for name in ("corr_GSG", "corr_S", "corr_G0") if name in self._values]
        sizes = [Line("trace", NAMES["trace"], 0), Line("effective_rank", NAMES["effective_rank"], 1, naive=False)]
        return [
            Panel(
                "Correlation of the geometry",
                [Line(name, NAMES[name], i) for i, name in enumerate(correlations)],
                dotted="naive (plug-in)",
            ),
            Panel("Velocity: 1 − Corr with the step before", [Line("velocity", NAMES["velocity"], 0)]),
            Panel("Size, relative to the start", sizes, relative=True, log=True),
        ]

    def __repr__(self) -> str:
        count = len(self.models)
        facts = [f"{count} model{'s' * (count != 1)}", f"d={self.d}", f"{self.points} points each"]
        facts += self._facts([name for name in self._values if name.startswith("corr")])
        return f"GeometryTracker({', '.join(facts)})"

    # --- files ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write everything but models and probe to one safetensors file.

        Parameters
        ----------
        path : str or Path
            The file; `load` resumes from it.

        Returns
        -------
        Path
            The file.
        """
        tensors = {} if self._S is None else {"S": self._S}
        forms = {}
        for step, G in self.geometries.items():
            assert isinstance(G.form, Factored)
            tensors[f"rows {step}"] = G.form.rows
            forms[str(step)] = [G.form.scale, list(G.form.rows_per_part), asdict(G.about)]
        header = {"keep": self.keep, "points": self.points, "seed": self.seed, "geometries": forms}
        return write_packed(path, "tracker", self._state() | header, tensors)

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
        """Resume from the history in a file, with the models as trained so far.

        Parameters
        ----------
        path : str or Path
            A file that `save` wrote.
        models : torch.nn.Module or sequence of torch.nn.Module
            The same models.
        probe : Probe
            The same probe.
        G0 : Geometry, optional
            The same as before.
        output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
            The same as before.

        Returns
        -------
        GeometryTracker
            A tracker with the history of the file.

        Raises
        ------
        NetgrainError
            If the file belongs to other models, another probe, G0 or output.
        """
        header, tensors = read_packed(path, "tracker")
        theirs = header["identity"]
        check_layout(theirs, path, [LAYOUT], "use a matching version")
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
        tracker._resume(header, path)
        for step, (scale, rows_per_part, about) in header["geometries"].items():
            counts = torch.ones(len(rows_per_part), dtype=torch.int64)
            form = Factored(tensors[f"rows {step}"], scale, counts, tuple(rows_per_part))
            tracker.geometries[int(step)] = Geometry(form, tracker.input_shape, Provenance.from_dict(about))
        tracker.geometries = dict(sorted(tracker.geometries.items()))
        return tracker

    def _identity(self) -> dict[str, Any]:
        return {
            "layout": LAYOUT,
            "models": len(self.models),
            "input_shape": list(self.input_shape),
            "output": describe_output(self.output),
            "probe": f"{self.probe.describe()} {digest(self.probe.points(self.input_shape, self.points, 0))}",
            "architecture": architecture(self.models[0]),
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
        with seeded(self.seed), torch.no_grad(), evaluating(model):
            p = next(model.parameters())
            point = self.probe.points(self.input_shape, 1, 0)[:1].to(p.device, p.dtype)
            outputs = select(forward(frozen(model), point), self.output).shape[1]
        asked = probes if probes is not None else DATA_POINTS if isinstance(self.probe, Data) else POINTS
        whole("probes", asked, 1)
        available = len(self.probe.points(self.input_shape, asked, 0))
        fit = ROWS // (len(self.models) * outputs * self.d * 4)
        return max(1, min(asked, available, fit))


_GIVEN = Provenance("given", exact=True)
