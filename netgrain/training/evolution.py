"""How the average geometry moves when training begins: Δ = dG/dt under gradient flow, for any module, data and loss."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from netgrain.families.failures import ADVICE, check_finite_outputs
from netgrain.families.members import Family, family_name, forward, member, model_dtype
from netgrain.families.origin import probe_used
from netgrain.families.outputs import Output
from netgrain.families.prepared import prepared
from netgrain.families.probes import Data, Probe
from netgrain.families.reading import read
from netgrain.families.reasons import Reason
from netgrain.families.wrapped import Call
from netgrain.geometry import correlation
from netgrain.geometry.collecting import CHUNK, about_sample, collect, kept_as, schedule
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.gradient_rows import MembersAtPoints, check_rows
from netgrain.geometry.of_models import GivenModels, listed_models
from netgrain.geometry.options import Options, points_per_member
from netgrain.geometry.provenance import Integration, Provenance
from netgrain.geometry.sampled import check_member
from netgrain.geometry.symmetric import corr
from netgrain.geometry.value import Geometry
from netgrain.runtime.engines import engine_for
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.progress import Bar
from netgrain.runtime.samples import checked_samples
from netgrain.runtime.streams import MemberStream
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Engine, Outcome
from netgrain.training.checks import trainable_member
from netgrain.training.delta import Delta, Evolution
from netgrain.training.gradient_flow import Rates, forward_rates, rates_for, weight_velocity
from netgrain.training.last_layer import Head, head_or_reason
from netgrain.training.losses import Loss, LossLike, check_loss, checked_targets, loss_of
from netgrain.training.one_hidden_layer import Shallow, find_shallow
from netgrain.training.pairs import PairRows

DEFAULT_MEMBERS = 1000
ZERO_AFTER = 8  # members without any motion before the rest are not tried


@one_thread()
def average_evolution(
    make: Family,
    X: Tensor,
    y: Tensor | None = None,
    *,
    loss: LossLike = "sse",
    probe: Probe | None = None,
    output: Output = "all",
    members: int | None = None,
    tolerance: float | None = None,
    probes: int | None = None,
    antithetic: bool | None = None,
    integrate: bool = True,
    call: Call | None = None,
    seed: int = 0,
    engine: Engine | str | None = None,
    workers: int | None = None,
    chunk: int | None = None,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Evolution:
    """How the average geometry of a family moves when training begins.

    Computes Δ = M + Mᵀ, M = E_θ E_x[(∇²_{x,θ} f(x) · θ̇) ∇ₓf(x)ᵀ], for the gradient flow θ̇ = −∇_θ L of
    a loss on the data, over random networks in eval mode.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call.
    X : Tensor of shape (samples, *input_shape)
        The training set, which θ̇ sees as a whole.
    y : Tensor, optional
        Labels: real numbers, or classes. Not needed where they drop out of the formula (see Notes).
    loss : {"sse", "cross-entropy"} or callable, default "sse"
        ``"sse"`` is ½Σ‖f − y‖², with classes made one-hot; ``"cross-entropy"`` is summed over samples
        (the logistic loss of labels 0 and 1 if there is one output); a callable maps
        ``(outputs, y)`` to a scalar.
    probe : Probe, optional
        Where x comes from: ``Origin()``, ``Gaussian(sigma)`` or ``Data(X)``. By default the origin,
        or its limit σ → 0 if the network has a kink there.
    output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
        Outputs whose gradients count; ``"all"`` sums over outputs.
    members : int, optional
        Number of networks to sample; 1000 unless `tolerance` is given.
    tolerance : float, optional
        Stop once the expected correlation with the true Δ reaches ``1 - tolerance``, after at most
        10,000 networks.
    probes : int, optional
        Points per network.
    antithetic : bool, optional
        Whether to average over the weights ω and −ω of a last linear layer, at no extra cost. By default only if
        netgrain finds their distribution symmetric; True if you know that it is; False never.
    integrate : bool, default True
        Whether to average exactly over all ω, for networks with one hidden layer (ReLU or linear)
        under ``"sse"``.
    call : callable, optional
        How a model is called, as in ``lambda model, x: model(pixel_values=x).logits``.
    seed : int, default 0
        Network i depends on ``(seed, i)`` only.

    Returns
    -------
    Evolution
        Δ, the geometry of the same networks, and how they were obtained.

    Other Parameters
    ----------------
    engine : Engine or str, optional
        Where networks are computed; the result does not depend on it, nor on `workers` or `chunk`.
    workers : int, optional
        Number of workers of the engine.
    chunk : int, optional
        Networks per unit of work.
    device : torch.device or str, optional
        A GPU by default, where there is one.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Raises
    ------
    NetgrainError
        If labels are needed and missing, or if no weight moves.

    Warns
    -----
    GrainWarning
        If the tolerance was not reached, or if every input gradient is zero.

    See Also
    --------
    evolution_of : The same for given networks.
    average_geometry : The geometry G itself.

    Notes
    -----
    With ω and −ω together, the labels drop out under ``"sse"``. In many dimensions this makes Δ measurable: without it,
    the noise of sampled output weights is √d times as large as Δ in every member.

    For ReLU networks Δ is the mean of the derivative, as the paper defines it. Units that switch on
    or off at x add a term to dG/dt of the ensemble that no single member shows; Δ does not contain it.

    Contributions are products of four weights. Those of narrow networks are heavy-tailed, and error
    bars of a few hundred members are too short (a hidden layer of three units, 500 members: up to 6.7
    of them off; of twelve units: 2).

    References
    ----------
    .. [1] Movahedi, Orvieto, Moosavi-Dezfooli, "Geometric Inductive Biases of Deep Networks: the
       Role of Data and Architecture", Proposition A.1 and Conjecture 1.

    Examples
    --------
    Linear regression f = wᵀx, w ~ N(0, σ²I): ẇ = −Σ_μ x_μ (wᵀx_μ − y_μ), so Δ = E[ẇwᵀ + wẇᵀ] = −2σ²S.

    >>> from torch import nn
    >>> def make():
    ...     net = nn.Linear(2, 1, bias=False)
    ...     nn.init.normal_(net.weight)
    ...     return net
    >>> X = torch.tensor([[1.0, 0.0], [0.0, 2.0]])  # S = diag(1, 4), tr Δ = −10
    >>> E = average_evolution(make, X, members=200)
    >>> abs(E.trace + 10) < 2 * E.trace.stderr, round(E.corr(X.T @ X), 2), E.labels_used
    (True, -1.0, False)
    """
    X = checked_samples(X)
    asked = Options(
        tuple(X.shape[1:]),
        probe=probe,
        output=output,
        members=members,
        tolerance=tolerance,
        probes=probes,
        seed=seed,
        engine=engine,
        workers=workers,
        chunk=chunk,
        device=device,
        progress=progress,
    )
    kind, shape = loss_of(loss), asked.shape
    via = engine_for(asked.engine, asked.workers, asked.place)
    make = prepared(make, shape, call=call)
    model, moving = trainable_member(make, asked.seed, 0)
    few, _ = check_member(make, model, asked, ADVICE)
    with torch.no_grad():
        outputs = forward(model, few).shape[1]
        check_finite_outputs(forward(model, X[:3].to(few)), model, X[:3].to(few))
    reading = read(make, shape, asked.seed)
    head = head_or_reason(reading, asked.output, antithetic)
    targets = _targets(y, len(X), outputs, kind, model_dtype(model), head)
    resolved = probe_used(asked.probe, model, shape, asked.output)
    known_head = head if isinstance(head, Head) else None
    labels_used = known_head is None or kind.name != "sse"
    shallow = None
    if known_head is not None and integrate and not labels_used:
        shallow = find_shallow(reading, known_head, asked.output)
    rates, how = (forward_rates, "by hand") if shallow else rates_for(model, moving, few[:2], asked.output)
    count = points_per_member(resolved.probe, asked.probes)
    about = about_sample(family_name(make, model), asked, resolved, len(resolved.probe.points(shape, count, 0)))
    exactly = shallow is not None
    averaged = head if isinstance(head, Reason) else Integration("output weights", head.name, head.law, exactly)
    at = (make, asked.seed, shape, resolved.probe, count, asked.output)
    task = RateRows(*at, asked.place, rates, X, targets, kind, moving, known_head, shallow)
    units = {"evolution": kept_as(about, asked, resolved) | {"loss": kind.name, "samples": len(X)}}
    stream = MemberStream(task.one_by_one, via, CHUNK if asked.chunk is None else asked.chunk, units)
    rows = PairRows(few[0].numel(), 1 / about.points)
    about = _collected(stream, rows, replace(about, integration=averaged), asked)
    return _result(rows, shape, about, kind, len(X), how, labels_used=labels_used)


@one_thread()
def evolution_of(
    models: nn.Module | Sequence[nn.Module],
    X: Tensor,
    y: Tensor,
    probe: Probe | None = None,
    *,
    loss: LossLike = "sse",
    output: Output = "all",
    probes: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Evolution:
    """How the geometry of given networks moves under gradient flow.

    Computes Δ, the mean of b aᵀ + a bᵀ with a = ∇ₓf and b = d/dt ∇ₓf, over the models and the points of
    the probe.

    Parameters
    ----------
    models : Module or sequence of Module
        Networks in eval mode. They are not changed. Parameters with ``requires_grad=False`` do not move (unless none
        has it).
    X : Tensor of shape (samples, *input_shape)
        The training set, which moves the weights.
    y : Tensor of shape (samples,) or (samples, outputs)
        Its labels.
    probe : Probe, optional
        Where gradients are taken; ``Data(X)`` by default.
    loss : {"sse", "cross-entropy"} or callable, default "sse"
        As in `average_evolution`.
    output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
        Outputs whose gradients count.
    probes : int, optional
        Points per network; all samples of a data set, 8 points of a Gaussian.
    seed : int, default 0
        Seed of the points.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    Evolution
        With one part per model.

    See Also
    --------
    average_evolution : The same for a family at initialisation.

    Examples
    --------
    f = wᵀx with w = (1, 0) at one sample: f − y = −2 and ẇ = 2x, so Δ = ẇwᵀ + wẇᵀ.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 0.0]]))
    >>> X, y = torch.tensor([[1.0, 1.0]]), torch.tensor([3.0])
    >>> evolution_of(net, X, y).matrix().tolist()
    [[4.0, 2.0], [2.0, 0.0]]
    """
    listed = listed_models(models)
    X = checked_samples(X)
    shape = tuple(X.shape[1:])
    asked = Options(shape, probe=probe, output=output, probes=probes, seed=seed, progress=progress)
    kind, how = loss_of(loss), ""
    given = GivenModels("evolution", listed, Data(X) if probe is None else probe, asked)
    rows = PairRows(X[0].numel(), 1 / given.points)
    for one in given:
        model = one.model
        with torch.no_grad():
            outputs = forward(one.call, one.points[:1]).shape[1]
        targets = _targets(y, len(X), outputs, kind, model_dtype(model), Reason("given models"))
        named = list(model.named_parameters())
        moving = [n for n, p in named if p.requires_grad] or [n for n, _ in named]
        rates, how = rates_for(model, moving, one.points[:2], asked.output)
        speed = weight_velocity(model, X, targets, kind, moving, who=one.name)
        a, b = _rows(rates, model, speed, one.points, asked.output, one.name)
        if rows.members == 0:
            rows.expect(len(listed), a)
        rows.add(a, b)
        one.reacts = bool(a.any())
    return _result(rows, shape, given.about(), kind, len(X), how, labels_used=True)


def velocity(G_now: Geometry, G_before: Geometry, *, paired: bool = True) -> Estimate:
    """How far a geometry turned between two moments, 1 − Corr(Gᵗ, Gᵗ⁻¹).

    Parameters
    ----------
    G_now, G_before : Geometry
        Two geometries over the same inputs.
    paired : bool, default True
        Whether both are made of the same members. Corr is then taken over different members only
        and its bias removed. False for geometries of independent members.

    Returns
    -------
    Estimate
        0 if only the size changed; ``plug_in`` is the naive value of the paper's curves.

    See Also
    --------
    corr : The correlation itself.

    Examples
    --------
    Corr of diag(1, 0) and the identity is 1/√2.

    >>> a, b = (Geometry.from_matrix(torch.diag(torch.tensor(v))) for v in ([1.0, 0.0], [1.0, 1.0]))
    >>> round(velocity(a, b), 4), velocity(a, a).value
    (0.2929, 0.0)
    """
    both = bool(G_now.form.parts and G_before.form.parts)
    found = corr(G_now, G_before, paired=paired and both)
    plug_in = None if found.plug_in is None else 1 - found.plug_in
    return Estimate(1 - found.value, found.stderr, found.n, plug_in)


@dataclass(frozen=True, eq=False)
class RateRows(MembersAtPoints):
    """Rows a = ∇ₓf and b = d/dt ∇ₓf of each member, and whether any of its weights moves."""

    device: torch.device
    rates: Rates
    X: Tensor
    targets: Tensor | None
    loss: Loss
    moving: list[str]
    head: Head | None
    shallow: Shallow | None

    def one(self, i: int) -> Outcome:
        model = member(self.make, self.seed, i, self.device)
        dtype, who = model_dtype(model), f"member {i}"
        points = self.points(i).to(self.device, dtype)
        if self.shallow is not None:
            a, b = (r.cpu() for r in self.shallow.rows(model, self.X.to(self.device), points, self.output, self.moving))
            check_rows(b, who)
            return Outcome({"moves": bool(b.any())}, {"a": a, "b": b})
        offset = None if self.head is None else self.head.offset(model, self.X[:1].to(self.device, dtype))
        speed = weight_velocity(model, self.X, self.targets, self.loss, self.moving, offset=offset, who=who)
        a, b = _rows(self.rates, model, speed, points, self.output, who)
        return Outcome({"moves": any(bool(t.any()) for t in speed.values())}, {"a": a, "b": b})


# --- inside -------------------------------------------------------------------------------------------------------


def _collected(stream: MemberStream, rows: PairRows, about: Provenance, asked: Options) -> Provenance:
    """Fill the rows with as many members as it takes; what they amount to."""
    members = DEFAULT_MEMBERS if asked.members is None and asked.tolerance is None else asked.members
    reacted = moved = changed = False

    def take(sample: Outcome) -> bool:
        nonlocal reacted, moved, changed
        a, b = sample.arrays["a"], sample.arrays["b"]
        if rows.members == 0:
            rows.expect(members or schedule(members)[0], a)
        rows.add(a, b)
        zero = not bool(a.any())
        reacted, moved, changed = reacted or not zero, moved or sample.numbers["moves"], changed or bool(b.any())
        if rows.members == min(ZERO_AFTER, members or ZERO_AFTER) and not changed:
            raise NetgrainError(_why_nothing_changes(moved, not reacted, rows.members))
        return zero

    def reached(_: int) -> float:
        return correlation.fidelity(rows.forms()[1])

    bar = Bar(f"evolution of {about.model}", members, asked.progress)
    about = collect(stream, about, take, reached, stops=schedule(members), tolerance=asked.tolerance, bar=bar)
    if about.reached is False:
        warnings.warn(f"{about.model}: {about.notes[-1]}.", GrainWarning, stacklevel=4)
    if about.zero_share == 1:
        blind = "every member has a zero input gradient, so Δ = 0 at first order"
        warnings.warn(f"{about.model}: {blind}; look at a trained checkpoint.", GrainWarning, stacklevel=4)
        return replace(about, remarks=(blind,))
    return about


def _rows(
    rates: Rates, model: nn.Module, speed: dict[str, Tensor], points: Tensor, output: Output, who: str
) -> tuple[Tensor, Tensor]:
    """Rows in the model's own precision, at least float32."""
    found = []
    for rows in rates(model, speed, points, output):
        rows = rows.cpu() if rows.dtype in (torch.float32, torch.float64) else rows.float().cpu()
        check_rows(rows, who)
        found.append(rows)
    return found[0], found[1]


def _targets(
    y: Tensor | None, samples: int, outputs: int, loss: Loss, dtype: torch.dtype, head: Head | Reason
) -> Tensor | None:
    """Labels as the loss wants them; None where they drop out."""
    if y is None:
        if isinstance(head, Head) and loss.name == "sse":
            return None
        why = "they matter under this loss" if isinstance(head, Head) else f"they do not drop out here ({head})"
        raise NetgrainError(f"labels y are needed: {why}; pass them.")
    targets = checked_targets(y, samples, outputs, loss, dtype)
    if not loss.additive:
        check_loss(loss, targets, outputs, dtype)
    return targets


def _why_nothing_changes(moved: bool, blind: bool, members: int) -> str:
    if not moved:
        return f"the loss moves no weight of the first {members} members (θ̇ = 0), so Δ = 0; look at the data."
    if blind:
        return f"the model does not react to its input: ∇ₓf and its change are zero for {members} members, so Δ = 0."
    return (
        f"∇ₓf does not depend on the weights that move (zero change for {members} members), so Δ = 0; "
        "expected a model whose input gradient training can change."
    )


def _result(
    rows: PairRows,
    shape: tuple[int, ...],
    about: Provenance,
    loss: Loss,
    samples: int,
    how: str,
    *,
    labels_used: bool,
) -> Evolution:
    G, delta, M = rows.forms()
    return Evolution(
        Delta(delta, shape, about),
        Geometry(G, shape, about),
        loss=loss.name,
        samples=samples,
        differentiation=how,
        labels_used=labels_used,
        dense_M=M,
    )
