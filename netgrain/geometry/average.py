"""The front door: the average geometry of a family, by the best method that applies."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from netgrain.families.failures import SHAPE_ADVICE
from netgrain.families.gradients import check_differentiable, gradients
from netgrain.families.members import Family, family_name
from netgrain.families.outputs import Output, describe_output
from netgrain.families.prepared import At, prepared
from netgrain.families.probes import Probe
from netgrain.families.reading import Reading, read
from netgrain.families.reasons import Reason
from netgrain.families.switched_off import SwitchedOff, switches_of
from netgrain.families.switched_on import SwitchedOn
from netgrain.families.trace import Unsupported
from netgrain.families.wrapped import Call
from netgrain.geometry.closed import closed_form_geometry
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.first_layer import entry_of
from netgrain.geometry.forms import Factored
from netgrain.geometry.gradient_rows import random_inputs
from netgrain.geometry.moment_forms import scaled_with_parts
from netgrain.geometry.options import DEFAULT_TOLERANCE, EndLayer, Method, Options
from netgrain.geometry.pilot import Pilot, decisive, not_shown
from netgrain.geometry.provenance import ProbeUsed, Provenance
from netgrain.geometry.sampled import sampled
from netgrain.geometry.spectrum import FULL_LIMIT
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.memory import MemoryShortage, shortage, within
from netgrain.runtime.units import Engine

NOT_COMPARED = "not compared with sampled networks: its scale and some directions may be off (method='auto' compares)"
NARROW = 4  # channels below which a wide limit is not taken without being asked for


def average_geometry(
    make: Family,
    input_shape: Sequence[int],
    *,
    method: Method = "auto",
    probe: Probe | None = None,
    output: Output = "all",
    members: int | None = None,
    tolerance: float | None = None,
    probes: int | None = None,
    first_layer: EndLayer = "auto",
    call: Call | None = None,
    at: At | None = None,
    switched_on: bool = False,
    seed: int = 0,
    keep: int | None = None,
    engine: Engine | str | None = None,
    workers: int | None = None,
    chunk: int | None = None,
    device: torch.device | str | None = None,
    vmapped: bool | None = None,
    progress: bool | None = None,
    memory: int | str | None = None,
) -> Geometry:
    """Average input geometry of a family of networks.

    Computes G = E_θ E_x[J(x)ᵀ J(x)], where J = ∂f/∂x is the input Jacobian, θ is drawn from the
    initialisation of the family and x from `probe`. Large eigenvalues belong to patterns that the
    architecture reacts to; the null space is what it cannot see.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call, for example
        ``partial(ResNet18, channels=1)``; ``fresh(model)`` makes one from a model.
    input_shape : sequence of int
        Shape of one input without the batch axis, for example ``(1, 32, 32)``.
    method : {"auto", "closed-form", "sampled"}, default "auto"
        ``"closed-form"`` propagates second moments through the layers; ``"sampled"`` averages over random networks;
        ``"auto"`` uses the closed form if every layer has a rule and no term is left out (or a few dozen networks show
        that those terms are below the tolerance), and samples otherwise. Passing `members`, `keep` or a `first_layer`
        other than ``"auto"`` selects sampling.
    probe : Probe, optional
        Where x comes from: ``Origin()``, ``Gaussian(sigma)`` or ``Data(X)``. By default the origin,
        or its limit σ → 0 if the network has a kink there.
    output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
        Outputs whose gradients count; ``"all"`` sums over outputs.
    members : int, optional
        Number of networks to sample. Mutually exclusive with `tolerance`.
    tolerance : float, optional
        Stop sampling once the expected correlation with the true G reaches ``1 - tolerance``;
        0.01 unless `members` is given.
    probes : int, optional
        Points per network (sampled), or points in total (closed form away from the origin).
    first_layer : {"auto", "never", "always"}, default "auto"
        When to average over the first layer by a formula instead of sampling it: only where the formula is exact,
        never, or also where it is nearly exact.
    call : callable, optional
        How a model is called, as a function of the model and a batch x, for models with keywords or
        several inputs: ``lambda model, x: model(pixel_values=x).logits``.
    at : {"embeddings"}, optional
        For models of tokens: take the output of the token embedding as the input space, with
        `input_shape` ``(tokens, width)``.
    switched_on : bool, default False
        Whether to switch on parts that start at zero: weights of norms, gains and layer scales that start at (or near)
        zero become one, and a last layer of zeros is drawn from a normal distribution with mean 0 and variance
        1/fan-in. ``G.about.off`` lists them either way.
    seed : int, default 0
        Network i depends on ``(seed, i)`` only.

    Returns
    -------
    Geometry
        G over d = prod(input_shape) coordinates, held in the cheapest form that fits; never formed
        as a (d, d) matrix unless asked for. ``G.about`` records how it was obtained.

    Other Parameters
    ----------------
    keep : int, optional
        Leading directions to keep when the input is too large for anything but a sketch; 64 unless
        given. With ``method="closed-form"`` and a probe away from the origin, the number of leading
        directions to compute by products with vectors, for inputs of any size.
    engine : Engine or str, optional
        Where networks are computed: ``"local"``, ``"processes"``, ``"ray"`` or ``"slurm"``. The
        result does not depend on it, nor on `workers` or `chunk`.
    workers : int, optional
        Number of workers of the engine.
    chunk : int, optional
        Networks per unit of work.
    device : torch.device or str, optional
        Device for sampling. The closed form always runs on the CPU.
    vmapped : bool, optional
        Compute the networks of a chunk in one pass; the default on a GPU. The result is the same
        up to rounding.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.
    memory : int or str, optional
        Memory that the computation may use, in bytes or as in ``"4 GB"``, which is the default. The method may depend
        on this limit, but never on how much memory is free; if less is free, netgrain raises an error.

    Raises
    ------
    NetgrainError
        If `method` is ``"closed-form"`` and a layer has no rule (the message names the layer) or the
        closed form does not fit into `memory` (it says how much it needs).

    Warns
    -----
    GrainWarning
        If the tolerance was not reached, if G = 0, or if a few networks make up the mean.

    See Also
    --------
    fresh : A family from one model.
    geometry_of : The geometry of given, trained networks.
    check : Compare the closed form with sampled networks.

    Notes
    -----
    ``G.exact`` tells whether a closed form is exact at any width or the limit of wide layers. The
    trace of G over data is the geometric complexity.

    References
    ----------
    .. [1] Movahedi, Orvieto, Moosavi-Dezfooli, "Geometric Inductive Biases of Deep Networks: the
       Role of Data and Architecture".

    Examples
    --------
    A two-tap filter followed by the mean of two neighbours, with weights of variance 1:
    f(x) = (w₁x₁ + (w₁ + w₂)x₂ + w₂x₃) / 2, so 4G = [[1, 1, 0], [1, 2, 1], [0, 1, 1]].

    >>> from torch import nn
    >>> def make():
    ...     net = nn.Sequential(nn.Conv1d(1, 1, 2, bias=False), nn.AvgPool1d(2), nn.Flatten())
    ...     nn.init.normal_(net[0].weight)
    ...     return net
    >>> G = average_geometry(make, (1, 3))
    >>> G.method, G.exact
    ('closed-form', True)
    >>> (4 * G.matrix()).tolist()
    [[1.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0]]
    """
    asked = Options(
        input_shape,
        probe=probe,
        output=output,
        members=members,
        tolerance=tolerance,
        probes=probes,
        first_layer=first_layer,
        seed=seed,
        keep=keep,
        engine=engine,
        workers=workers,
        chunk=chunk,
        device=device,
        vmapped=vmapped,
        progress=progress,
        memory=memory,
        switched_on=switched_on,
    )
    return geometry_by(method, prepared(make, asked.shape, call=call, at=at, seed=asked.seed), asked)


def geometry_by(method: Method, make: Family, asked: Options) -> Geometry:
    """The same with options that were checked."""
    if method not in ("auto", "closed-form", "sampled"):
        raise NetgrainError(f"method expects 'auto', 'closed-form' or 'sampled', found {method!r}.")
    with within(asked.memory):
        reading = read(make, asked.shape, asked.seed)
        switches = switches_of(reading)
        if asked.switched_on and switches.off is not None:
            reading = read(SwitchedOn.of(make, switches), asked.shape, asked.seed)
        elif switches.off is not None and switches.off.zero and method != "sampled" and not asked.asks_for_sampling:
            return _zero(reading, asked, switches.off)
        G = _obtained(method, reading, asked)
    tails = G.tails if G.method == "sampled" else None
    if tails is not None and tails.heavy:
        warnings.warn(f"{G.about.model}: {tails}.", GrainWarning, stacklevel=3)
    seen = tails if tails is not None and tails.heavy else None
    G = replace(G, about=replace(G.about, off=switches.off, switched_on=asked.switched_on, tails=seen))
    return _remarked(G, reading.remark) if reading.remark else G


def _zero(reading: Reading, asked: Options, off: SwitchedOff) -> Geometry:
    """The geometry of networks whose outputs do not depend on x."""
    about = Provenance(
        "closed-form",
        model=family_name(reading.make, reading.model),
        probe=ProbeUsed.of(reading.probe_used(asked.probe, asked.output)),
        output=describe_output(asked.output),
        seed=asked.seed,
        exact=True,
        off=off,
    )
    warnings.warn(f"{about.model}: the input gradient is exactly zero; {off.sentence()}.", GrainWarning, stacklevel=4)
    return Geometry(Factored(torch.zeros(1, math.prod(asked.shape))), asked.shape, about)


def _obtained(method: Method, reading: Reading, asked: Options) -> Geometry:
    if method == "sampled" or (method == "auto" and asked.asks_for_sampling):
        return sampled(reading, asked)
    if method == "closed-form":
        if of_sampling := asked.of_sampling:
            raise NetgrainError(f"{of_sampling[0]}= belongs to sampling; leave it out, or use method='sampled'.")
        return closed_form(reading, asked)
    return _best(reading, asked)


def _best(reading: Reading, asked: Options) -> Geometry:
    """The closed form where it has all terms, or what it leaves out is within the tolerance; else sampled."""
    if _sampled_at_once(reading, asked):
        return _remarked(
            sampled(reading, asked),
            f"sampled because away from the origin a closed form over {math.prod(asked.shape)} inputs leaves terms out",
        )
    try:
        G = _propagated(reading, asked, narrowest=NARROW)
    except Unsupported as e:
        why = str(e)
    except MemoryShortage as e:
        why = f"in the closed form {e.reason}"
    else:
        if not G.about.leaves_out:
            return G
        tolerance = DEFAULT_TOLERANCE if asked.tolerance is None else asked.tolerance
        local = any(step.kind == "local" for step in G.about.steps)
        pilot = Pilot.of(reading.make, asked)
        seen = decisive(pilot.agreements(lambda _: G.form, leading=not local), tolerance, free_scale=local)
        if seen.within(tolerance):
            return _remarked(
                G, f"within the tolerance {tolerance:g}, as {seen.members} sampled members show{seen.remarks}"
            )
        if local and seen.shape_within(tolerance):
            return _scaled(G, seen.corr, pilot.trace(seen, tolerance))
        left = "; ".join(G.about.leaves_out)
        why = f"the closed form leaves something out ({left}) and {not_shown(seen, tolerance)}"
    return _remarked(sampled(reading, asked), f"sampled because {why}")


def _scaled(G: Geometry, corr: Estimate, trace: Estimate) -> Geometry:
    """A closed form whose shape members show to be right, with the trace that they have themselves."""
    ratio = trace.value / G.trace.value
    error = math.hypot(G.scale_error, trace.stderr / trace.value)
    return _remarked(
        replace(G, form=scaled_with_parts(G.form, ratio), scale_error=error),
        f"its scale, {ratio:.3g} times that of the closed form, is measured on {trace.n} sampled members; "
        f"the shape agrees with theirs (Corr {corr.value:.4f} ± {corr.stderr:.4f})",
    )


def _sampled_at_once(reading: Reading, asked: Options) -> bool:
    """A large input, away from the origin, of a network whose stem can be integrated: then sampling costs less."""
    if math.prod(asked.shape) <= FULL_LIMIT or reading.probe_used(asked.probe, asked.output).at_origin:
        return False
    return not isinstance(entry_of(reading), Reason)


def _remarked(G: Geometry, remark: str) -> Geometry:
    return replace(G, about=replace(G.about, remarks=(*G.about.remarks, remark)))


def closed_form(reading: Reading, asked: Options) -> Geometry:
    """The closed form, or one sentence that names the layer without one and the way out."""
    try:
        G = _propagated(reading, asked)
    except Unsupported as e:
        # what is wrong with the model itself comes first
        _check_member(reading.member, asked)
        raise NetgrainError(f"there is no closed form: {e}; use method='sampled' (or 'auto').") from e
    return _remarked(G, NOT_COMPARED) if G.about.leaves_out else G


def _propagated(reading: Reading, asked: Options, narrowest: int = 0) -> Geometry:
    """The closed form; memory that runs out in a rule is told as that, not as a missing rule, and NaN as NaN."""
    try:
        G = closed_form_geometry(
            reading,
            probe=asked.probe,
            output=asked.output,
            probes=asked.probes,
            tolerance=asked.tolerance,
            progress=asked.progress,
            narrowest=narrowest,
            keep=asked.keep,
        )
    except (Unsupported, RuntimeError, MemoryError) as e:
        cause: BaseException | None = e
        while cause is not None:
            if short := shortage(cause):
                raise NetgrainError(short) from e
            cause = cause.__cause__
        raise
    # float32 ends at 3e38: beyond a part of it the networks themselves may overflow
    if not G.trace.value < 1e30:
        _check_member(reading.member, asked)
        raise Unsupported(f"its second moments reach {G.trace.value:g}")
    return G


def _check_member(model: nn.Module, asked: Options) -> None:
    """One member as sampling would have it: it runs, its outputs depend on x and are finite."""
    x = random_inputs(model, asked.shape, 2)
    check_differentiable(model, x, asked.output, advice=SHAPE_ADVICE)
    gradients(model, x, asked.output)
