"""How the average geometry moves when training begins: Δ = dG/dt under gradient flow, for any module, data and loss."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from netgrain.families.failures import check_finite_outputs
from netgrain.families.gradients import check_deterministic, check_differentiable
from netgrain.families.members import Family, built, check_family, family_name, forward, frozen, member, model_dtype
from netgrain.families.origin import probe_used
from netgrain.families.outputs import Output, checked_output, describe_output
from netgrain.families.probes import Data, Origin, Probe, checked_probe
from netgrain.families.reading import read
from netgrain.families.reasons import Reason
from netgrain.geometry import correlation
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.gradient_rows import check_rows
from netgrain.geometry.of_models import check_given_model, frozen_copy, listed_models
from netgrain.geometry.options import check_counts, check_places, points_per_member
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.sampled import CHUNK, _schedule
from netgrain.geometry.symmetric import corr
from netgrain.geometry.value import Geometry
from netgrain.runtime.devices import best_device, checked_device
from netgrain.runtime.engines import engine_for
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.samples import checked_samples
from netgrain.runtime.streams import MemberStream
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Engine, Outcome
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
    members: int | None = None,
    tolerance: float | None = None,
    probe: Probe | None = None,
    seed: int = 0,
    output: Output = "all",
    antithetic: bool | None = None,
    integrate: bool = True,
    probes: int | None = None,
    engine: Engine | str | None = None,
    workers: int | None = None,
    chunk: int = CHUNK,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Evolution:
    """Δ = M + Mᵀ, M = E_θ E_x[(∇²_{x,θ} f(x) · θ̇) ∇ₓf(x)ᵀ], θ̇ = −∇_θ L, over fresh members of a family.

    X (samples, *input_shape) and y are the training set that θ̇ sees as a whole. probe (where x comes from), output
    (summed over outputs by default), probes and seed are those of average_geometry. Members are in eval mode.

    loss: "sse" (½Σ‖f − y‖²; y real, or classes that become one-hot), "cross-entropy" (Σ over samples; with one output
    the logistic loss of labels 0 and 1), or your own function (outputs, y) → scalar. members: 1000 by default; or
    tolerance: stop when the expected Corr with the true Δ reaches 1 − tolerance, after at most 10,000.

    antithetic: a last linear layer with a symmetric law counts with its weights ω and with −ω, at no cost
    (training.last_layer). None: where the law is found to allow it; True: you vouch for it; False: never. Under SSE the
    labels then drop out, and y may be left away; and for a network with one hidden layer (ReLU or linear) the mean
    over all ω is taken exactly, unless integrate=False (training.one_hidden_layer). In many dimensions this makes Δ
    known: the noise of sampled output weights is √d times as large as Δ in every member.

    For ReLU networks Δ is the mean of the derivative, as the paper defines it. Units that switch on or off at x add a
    term to dG/dt of the ensemble that no single member shows; Δ does not contain it.

    Contributions are products of four weights: of narrow networks they are heavy-tailed, and error bars of a few
    hundred members too short (a hidden layer of three units, 500 members: up to 6.7 of them off; of twelve units: 2).

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
    shape = tuple(X.shape[1:])
    members, seed = check_counts(members, tolerance, probes, "auto", seed)
    output = checked_output(output)
    check_places(engine, workers, chunk, None, progress)
    checked_probe(probe, shape)
    kind = loss_of(loss)
    dev = best_device() if device is None else checked_device(device)
    via = engine_for(engine, workers, dev)
    model, moving = _first(make, seed)
    name = family_name(make, model)
    check_family(make, model, seed)
    few = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0)).to(model_dtype(model))
    check_differentiable(model, few, output)
    with torch.no_grad():
        outputs = forward(model, few)
        check_finite_outputs(forward(model, X[:3].to(few)), model, X[:3].to(few))
    check_deterministic(model, few)
    reading = read(make, shape, seed)
    head_found = head_or_reason(reading, output, antithetic)
    head, reason = (None if isinstance(head_found, Reason) else head_found), str(head_found)
    targets = _targets(y, len(X), outputs.shape[1], kind, model_dtype(model), head, reason)
    resolved = probe_used(probe, model, shape, output)
    shallow = None
    if head is not None and integrate and kind.name == "sse":
        shallow = find_shallow(reading, head, output)
    rates, how = (forward_rates, "by hand") if shallow else rates_for(model, moving, few[:2], output)
    count = points_per_member(resolved.probe, probes)
    data = Driver(X, targets, kind, moving, head, shallow)
    where = Places(shape, resolved.probe, count, output)
    kept_as = {"model": name, "seed": seed, "shape": shape, "probe": resolved.text, "output": describe_output(output)}
    task = partial(_members, partial(_one_member, make, seed, where, data, rates, dev))
    stream_of = MemberStream(task, via, chunk, {"evolution": {**kept_as, "loss": kind.name, "samples": len(X)}})
    rows = PairRows(few[0].numel(), 1 / len(resolved.probe.points(shape, count, 0)))
    most = members if members is not None else DEFAULT_MEMBERS if tolerance is None else None
    total, zero, moved, changed = 0, 0, False, False
    notes = [resolved.note] if resolved.note else []
    with Bar(f"evolution of {name}", most, progress) as bar:
        for target in _schedule(most):
            for found in stream_of.map(range(total, target), remaining=(most or 0) - total):
                a, b, moves = found.arrays["a"], found.arrays["b"], found.numbers["moves"]
                if total == 0:
                    rows.expect(most or target, a)
                rows.add(a, b)
                total += 1
                zero += not bool(a.any())
                moved, changed = moved or moves, changed or bool(b.any())
                if total == min(ZERO_AFTER, most or ZERO_AFTER) and not changed:
                    raise NetgrainError(_why_nothing_changes(moved, zero == total, total))
                bar.advance()
            if tolerance is not None:
                reached = correlation.fidelity(rows.forms()[1])
                bar.advance(0, note=f"Corr with the truth about {reached:.3f}")
                if reached >= 1 - tolerance:
                    break
        else:
            if tolerance is not None:
                notes.append(f"the tolerance {tolerance:g} was not reached with {total} members")
                warnings.warn(f"{name}: {notes[-1]}.", GrainWarning, stacklevel=3)
    if zero == total:
        notes.append("every member has a zero input gradient, so Δ = 0 at first order")
        warnings.warn(f"{name}: {notes[-1]}; look at a trained checkpoint.", GrainWarning, stacklevel=3)
    about = Provenance(
        "sampled",
        model=name,
        probe=resolved.text,
        output=describe_output(output),
        seed=seed,
        members=total,
        integration=f"plain sampling: {reason}"
        if head is None
        else f"{'antithetic heads' if shallow is None else 'integrated heads'} ({reason})",
        zero_share=zero / total,
        notes=tuple(notes),
    )
    return _result(rows, shape, about, kind, len(X), how, labels_used=not (head is not None and kind.name == "sse"))


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
    """Δ of given (trained) members: the mean of b aᵀ + a bᵀ over the models and the probe's points (default: Data(X)).

    The models are left as they are found and must be in eval mode; parameters with requires_grad=False do not move
    (unless none has it).

    >>> net = nn.Linear(2, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 0.0]]))
    >>> X, y = torch.tensor([[1.0, 1.0]]), torch.tensor([3.0])  # f − y = −2, ẇ = 2x
    >>> evolution_of(net, X, y).matrix().tolist()
    [[4.0, 2.0], [2.0, 0.0]]
    """
    listed = listed_models(models)
    X = checked_samples(X)
    shape = tuple(X.shape[1:])
    seed = check_counts(None, None, probes, "auto", seed)[1]
    output = checked_output(output)
    checked_probe(probe, shape)
    kind, place = loss_of(loss), Data(X) if probe is None else probe
    count = probes or (len(place.X) if isinstance(place, Data) else points_per_member(place, None))
    rows = PairRows(X[0].numel(), 1 / len(place.points(shape, count, 0)))
    zero, how = 0, ""
    with Bar("evolution of models", len(listed), progress) as bar:
        for i, model in enumerate(listed):
            check_given_model(model, i)
            where = place
            if isinstance(place, Origin):
                where = probe_used(place, frozen_copy(model), shape, output).probe
            points = where.points(shape, count, derived_seed(seed, "probe", i)).to(
                next(model.parameters()).device, model_dtype(model)
            )
            call = frozen(model)
            check_differentiable(call, points[:1], output)
            check_deterministic(call, points[:3])
            with torch.no_grad():
                outputs = forward(call, points[:1]).shape[1]
            targets = _targets(y, len(X), outputs, kind, model_dtype(model), None, "")
            named = list(model.named_parameters())
            moving = [n for n, p in named if p.requires_grad] or [n for n, _ in named]
            rates, how = rates_for(model, moving, points[:2], output)
            speed = weight_velocity(model, X, targets, kind, moving, who=f"model {i}")
            a, b = _rows(rates, model, speed, points, output, f"model {i}")
            if i == 0:
                rows.expect(len(listed), a)
            rows.add(a, b)
            zero += not bool(a.any())
            bar.advance()
    about = Provenance(
        "sampled",
        model=", ".join(sorted({type(m).__name__ for m in listed})),
        probe=place.describe(),
        output=describe_output(output),
        seed=seed,
        members=len(listed),
        integration="given members",
        zero_share=zero / len(listed),
    )
    return _result(rows, shape, about, kind, len(X), how, labels_used=True)


def velocity(G_now: Geometry, G_before: Geometry, *, paired: bool = True) -> Estimate:
    """1 − Corr(Gᵗ, Gᵗ⁻¹): how far the geometry turned between two moments of one training.

    Both are made of the same members, so Corr is taken over different members only (i ≠ j) and its bias removed;
    `.plug_in` is the naive value of the paper's curves. paired=False for geometries of independent members.

    >>> a, b = (Geometry.from_matrix(torch.diag(torch.tensor(v))) for v in ([1.0, 0.0], [1.0, 1.0]))
    >>> round(velocity(a, b), 4), velocity(a, a).value
    (0.2929, 0.0)
    """
    both = bool(G_now.form.parts and G_before.form.parts)
    found = corr(G_now, G_before, paired=paired and both)
    plug_in = None if found.plug_in is None else 1 - found.plug_in
    return Estimate(1 - found.value, found.stderr, found.n, plug_in)


@dataclass(frozen=True, eq=False)
class Places:
    """Where ∇ₓf is taken, and of which outputs."""

    shape: tuple[int, ...]
    probe: Probe
    count: int
    output: Output


@dataclass(frozen=True, eq=False)
class Driver:
    """What moves the weights of every member, and what is known of their last layer."""

    X: Tensor
    targets: Tensor | None
    loss: Loss
    moving: list[str]
    head: Head | None
    shallow: Shallow | None


# --- inside -------------------------------------------------------------------------------------------------------


def _members(one: Callable[[int], Outcome], members: range) -> list[Outcome]:
    return [one(i) for i in members]


def _one_member(
    make: Family, seed: int, where: Places, data: Driver, rates: Rates, device: torch.device, i: int
) -> Outcome:
    """Rows a and b of one member, and whether any of its weights moves."""
    model = member(make, seed, i, device)
    dtype, who = model_dtype(model), f"member {i}"
    points = where.probe.points(where.shape, where.count, derived_seed(seed, "probe", i)).to(device, dtype)
    if data.shallow is not None:
        a, b = (r.cpu() for r in data.shallow.rows(model, data.X.to(device), points, where.output, data.moving))
        check_rows(b, who)
        return Outcome({"moves": bool(b.any())}, {"a": a, "b": b})
    offset = None if data.head is None else data.head.offset(model, data.X[:1].to(device, dtype))
    speed = weight_velocity(model, data.X, data.targets, data.loss, data.moving, offset=offset, who=who)
    a, b = _rows(rates, model, speed, points, where.output, who)
    return Outcome({"moves": any(bool(t.any()) for t in speed.values())}, {"a": a, "b": b})


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


def _first(make: Family, seed: int) -> tuple[nn.Module, list[str]]:
    """Member 0 and the names of the parameters that the family itself leaves trainable."""
    fixed: set[str] = set()

    def made() -> nn.Module:
        model = built(make)
        fixed.update(name for name, p in model.named_parameters() if not p.requires_grad)
        return model

    model = member(made, seed, 0)
    moving = [name for name, _ in model.named_parameters() if name not in fixed]
    if not moving:
        raise NetgrainError(
            f"every parameter of {type(model).__name__} is frozen, so nothing moves; "
            "set requires_grad=True on those that should."
        )
    return model, moving


def _targets(
    y: Tensor | None, samples: int, outputs: int, loss: Loss, dtype: torch.dtype, head: Head | None, reason: str
) -> Tensor | None:
    if y is None:
        if head is not None and loss.name == "sse":
            return None
        why = "they matter under this loss" if head is not None else f"they do not drop out here ({reason})"
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
