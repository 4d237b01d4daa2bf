"""The front door to kernels over data: all layers, the last layer (NNGP) or the weights (NTK) of a family."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from netgrain.families.batch_statistics import DataStatistics, tracking_norms
from netgrain.families.failures import ADVICE, unwrapped_model
from netgrain.families.members import Family, check_family, family_name, forward, model_dtype, without_gradients
from netgrain.families.prepared import At, prepared, prepared_model
from netgrain.families.reading import Reading, read
from netgrain.families.trace import Trace, Unsupported
from netgrain.families.wrapped import Call, name_of
from netgrain.geometry.of_models import check_given_model
from netgrain.geometry.options import Options
from netgrain.learning.closed_kernels import closed_kernel
from netgrain.learning.kernel_costs import (
    batch_for,
    calibration_samples,
    check_kernel_fits,
    members_for,
    worth_forking,
)
from netgrain.learning.kernel_value import Kernel, KernelAbout, KernelKind
from netgrain.learning.member_kernels import MemberKernels, Plan, plan_for
from netgrain.learning.tangent_products import TangentPlan
from netgrain.runtime.arguments import found, switch
from netgrain.runtime.engines import engine_for
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.memory import MemoryShortage, within
from netgrain.runtime.processes import Processes, most_workers
from netgrain.runtime.progress import Bar
from netgrain.runtime.samples import checked_samples
from netgrain.runtime.streams import MemberStream
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Engine

AHEAD = 2  # units per worker that may be finished before their turn: a unit holds a whole matrix


@one_thread()
def kernel(
    make: Family | nn.Module,
    X: Tensor,
    Z: Tensor | None = None,
    *,
    kind: KernelKind = "layers",
    members: int | None = None,
    method: Literal["auto", "closed-form", "sampled"] = "auto",
    normalise: bool = True,
    call: Call | None = None,
    at: At | None = None,
    seed: int = 0,
    engine: Engine | str | None = None,
    workers: int | None = None,
    chunk: int | None = None,
    device: torch.device | str | None = None,
    progress: bool | None = None,
    memory: int | str | None = None,
) -> Kernel:
    """Kernel over samples, averaged over the members of a family.

    ``"layers"`` sums φ(x)·φ(z)/c over the features φ of every layer, centred over X, with c the mean
    of ‖φ(x)‖² over X. ``"last"`` takes the features below the last linear layer as they are (NNGP).
    ``"tangent"`` takes the gradients of r·f by all weights, with one random vector r ~ N(0, I) over
    the outputs of each member, so that the mean is the trace over outputs (NTK).

    Parameters
    ----------
    make : callable or Module
        Returns a fresh ``torch.nn.Module`` on every call. A module instead is one given network,
        trained or not: its kernel has no member error.
    X : Tensor of shape (n, *input_shape)
        Samples.
    Z : Tensor of shape (m, *input_shape), optional
        Other samples for the columns; X by default. Centre and scale are those of X.
    kind : {"layers", "last", "tangent"}, default "layers"
        What is compared: features of every layer, of the last one, or gradients by the weights.
    members : int, optional
        Number of networks to sample; by default 8 (layers), 16 (last) or 4 (tangent), and fewer, at
        least 2, for large networks or many samples.
    method : {"auto", "closed-form", "sampled"}, default "auto"
        ``"closed-form"`` takes the limit of wide layers for ``"last"`` and ``"tangent"``; ``"auto"``
        takes it where every step has a rule and it is cheap, and samples otherwise. Passing `members`
        selects sampling.
    normalise : bool, default True
        Divide the kernel of every member by its mean diagonal over X.
    call : callable, optional
        How a model is called, as a function of the model and a batch x.
    at : {"embeddings"}, optional
        For models of tokens: X holds embeddings, of shape (n, tokens, width).
    seed : int, default 0
        Network i depends on ``(seed, i)`` only.

    Returns
    -------
    Kernel
        With ``matrix`` (n, m), ``parts`` (members, n, m) and ``stderr`` (n, m).

    Other Parameters
    ----------------
    engine : Engine or str, optional
        Where networks are computed: ``"local"``, ``"processes"``, ``"ray"`` or ``"slurm"``. The
        result does not depend on it, nor on `workers` or `chunk`.
    workers : int, optional
        Number of workers of the engine.
    chunk : int, optional
        Number of networks per unit of work, 1 by default.
    device : torch.device or str, optional
        Device for sampling. The closed form always runs on the CPU.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.
    memory : int or str, optional
        Memory that the kernel may use, in bytes or as in ``"4 GB"``, which is the default.

    Raises
    ------
    NetgrainError
        If X or Z is unsuitable, the kernel does not fit into `memory`, or `method` is ``"closed-form"`` and a step has
        no rule.

    Warns
    -----
    GrainWarning
        If no feature differs between samples.

    See Also
    --------
    average_geometry : The mixed derivative of the NNGP kernel at z = x.

    Notes
    -----
    Batch norms of sampled networks are calibrated on X first; those of a given module are left as they are. For layers
    of over 4,096 weights, the tangent kernel multiplies gradients by random signs and sums them in 2,048 bins
    (``about.binned``), which keeps its mean.

    Examples
    --------
    A linear layer f = w·x + b has ∂f/∂w = x and ∂f/∂b = 1, so Θ(x, z) = x·z + 1 times r².

    >>> from torch import nn
    >>> X = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    >>> K = kernel(nn.Linear(2, 1), X, kind="tangent", normalise=False)
    >>> (K.matrix / K.matrix[0, 1]).tolist()
    [[1.0, 1.0], [1.0, 1.5]]
    """
    rows, columns = _samples(X, Z)
    if kind not in ("layers", "last", "tangent"):
        raise NetgrainError(f"kind expects 'layers', 'last' or 'tangent', found {found(kind)}.")
    if method not in ("auto", "closed-form", "sampled"):
        raise NetgrainError(f"method expects 'auto', 'closed-form' or 'sampled', found {method!r}.")
    switch("normalise", normalise)
    asked = Options(
        tuple(rows.shape[1:]),
        members=members,
        seed=seed,
        engine=engine,
        workers=workers,
        chunk=chunk,
        device=device,
        progress=progress,
        memory=memory,
    )
    job = _Job(rows, columns, kind, normalise, asked)
    with within(asked.memory):
        if isinstance(make, nn.Module):
            if members is not None or method == "closed-form":
                other = "members=" if members is not None else "method='closed-form'"
                raise NetgrainError(f"{other} belongs to families, and make is one given module; leave it out.")
            return job.of_given(prepared_model(unwrapped_model(make), asked.shape, call=call, at=at))
        family = prepared(make, asked.shape, call=call, at=at, seed=asked.seed)
        return job.of_family(read(family, asked.shape, asked.seed), method)


def _samples(X: Any, Z: Any) -> tuple[Tensor, Tensor | None]:
    rows = checked_samples(X)
    if Z is None:
        return rows.cpu(), None
    columns = checked_samples(Z, "Z")
    if columns.shape[1:] != rows.shape[1:]:
        raise NetgrainError(
            f"Z holds samples of shape {tuple(columns.shape[1:])}, expected {tuple(rows.shape[1:])} as in X."
        )
    return rows.cpu(), columns.cpu().to(rows)


@dataclass(frozen=True, eq=False)
class _Job:
    """What was asked for, checked."""

    X: Tensor
    Z: Tensor | None
    kind: KernelKind
    normalise: bool
    asked: Options

    @property
    def samples(self) -> Tensor:
        return self.X if self.Z is None else torch.cat([self.X, self.Z])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.X), len(self.X) if self.Z is None else len(self.Z)

    def of_given(self, model: nn.Module) -> Kernel:
        """The kernel of one network, which is left as it is found."""
        check_given_model(model, 0)
        check_kernel_fits(*self.shape, 1)
        own = without_gradients(copy.deepcopy(model)).eval().to(self.asked.place)
        forward(own, self._first(own), advice=ADVICE)
        reading = read(lambda: copy.deepcopy(own), self.asked.shape, self.asked.seed)
        plan = plan_for(self.kind, own, self.X, traced=isinstance(reading.trace, Trace))
        K = self._kernels(reading, plan, None).of(own, 0)
        about = self._about(plan, method="given", model=name_of(model), members=1, seed=self.asked.seed)
        return self._finished(K[None], about)

    def of_family(self, reading: Reading, method: str) -> Kernel:
        asked = self.asked
        why: tuple[str, ...] = ()
        plain = not isinstance(reading.make, DataStatistics)
        forward(reading.member, self._first(reading.member), advice=ADVICE)
        if method == "closed-form" or (method == "auto" and self.kind != "layers" and asked.members is None and plain):
            try:
                return self._closed(reading, cheap=method == "auto")
            except (Unsupported, MemoryShortage) as e:
                reason = e.reason if isinstance(e, MemoryShortage) else str(e)
                if method == "closed-form":
                    raise NetgrainError(f"there is no closed form: {reason}; use method='sampled' (or 'auto').") from e
                why = (f"sampled because {reason}",)
        members = asked.members or members_for(self.kind, reading, len(self.samples))
        check_kernel_fits(*self.shape, members)
        check_family(reading.make, reading.member, asked.seed)
        plan = plan_for(self.kind, reading.member, self.X, traced=isinstance(reading.trace, Trace))
        calibration = None
        if plain and tracking_norms(reading.member) and len(self.X) > 1:
            calibration = calibration_samples(reading, self.X)
        kernels = self._kernels(reading, plan, calibration)
        via = engine_for(asked.engine, asked.workers, asked.place)
        if via is None and members > 1 and most_workers() > 1:
            via = Processes() if worth_forking(self.kind, reading, len(self.samples), members) else None
        name = family_name(reading.make, reading.model)
        about = self._about(
            plan,
            method="sampled",
            model=name,
            members=members,
            seed=asked.seed,
            calibrated=0 if calibration is None else len(calibration),
            remarks=why,
        )
        settings = {"kind": self.kind, "model": name, "seed": asked.seed, "samples": list(self.samples.shape)}
        stream = MemberStream(kernels.one_by_one, via, asked.chunk or 1, {"kernel": settings}, AHEAD)
        parts = torch.empty(members, *self.shape, dtype=torch.float64)
        with Bar(f"kernels of {name}", members, asked.progress) as bar:
            for i, outcome in enumerate(stream.map(range(members), remaining=members)):
                parts[i] = outcome.arrays["kernel"]
                bar.advance()
        return self._finished(parts, about)

    def _closed(self, reading: Reading, *, cheap: bool) -> Kernel:
        made = closed_kernel(reading, self.X, self.Z, self.kind, cheap=cheap)
        about = KernelAbout(
            "closed-form",
            model=family_name(reading.make, reading.model),
            seed=self.asked.seed,
            normalise=self.normalise,
            exact=made.exact,
        )
        matrix = made.matrix / made.mean_diagonal if self.normalise and made.mean_diagonal else made.matrix
        return Kernel(self.kind, matrix, None, about)

    def _first(self, model: nn.Module) -> Tensor:
        return self.X[:1].to(next(model.parameters()).device, model_dtype(model))

    def _kernels(self, reading: Reading, plan: Plan, calibration: Tensor | None) -> MemberKernels:
        return MemberKernels(
            reading.make,
            self.asked.seed,
            self.kind,
            self.samples,
            len(self.X),
            plan,
            batch_for(self.kind, reading),
            self.normalise,
            self.asked.place,
            calibration,
        )

    def _about(self, plan: Plan, **facts: Any) -> KernelAbout:
        names = plan.names if plan is not None else ()
        binned = plan.binned if isinstance(plan, TangentPlan) else ()
        return KernelAbout(**facts, normalise=self.normalise, features=names, binned=binned)

    def _finished(self, parts: Tensor, about: KernelAbout) -> Kernel:
        K = Kernel(self.kind, parts.mean(0), parts, about)
        if not bool(K.matrix.any()):
            warnings.warn(
                f"{about.model}: no feature differs between samples, so the kernel is zero; look for a layer that "
                "starts at zero or samples that are all equal.",
                GrainWarning,
                stacklevel=5,
            )
        return K
