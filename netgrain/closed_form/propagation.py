"""One pass: channels forward through the recorded steps, second moments of gradients back to the input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from netgrain.closed_form.activations import with_moments
from netgrain.closed_form.channels import (
    Channel,
    ConstantChannel,
    GaussianChannel,
    NeedsMembers,
    ObservedChannel,
    Points,
    sum_or_none,
)
from netgrain.closed_form.feature_maps import (
    CHANNEL,
    ChannelBlock,
    Choice,
    Factor,
    FeatureMap,
    Gain,
    Slope,
    StepKind,
    Term,
)
from netgrain.closed_form.moments import Full, Moment, check_room, identity, one_pass, ones
from netgrain.closed_form.rules import KNOW_LAYOUTS, RULES, Pass
from netgrain.closed_form.rules.affine import live_refs, nothing
from netgrain.closed_form.rules.attention import Scores, on_scores
from netgrain.closed_form.rules.pointwise import elementwise
from netgrain.closed_form.rules.rearranging import inside_layout
from netgrain.families.activations import recorded_activation
from netgrain.families.initialisation import CannotRead, Initialisation, TensorLaw
from netgrain.families.outputs import Output
from netgrain.families.trace import Ref, Step, Trace, Unsupported, Weight, others_in, refs_in, weights_in
from netgrain.runtime.errors import NetgrainError

CHOICES_AT_ONCE = 2**20  # entries of channels × out² when winners are sent back


class Propagation:
    """The second moment of the input gradient of a traced module, at the origin or at some points.

    seen: a trace of a real member at these points, whose channels then stand for the channels of the formulas.
    """

    def __init__(
        self,
        trace: Trace,
        laws: Initialisation,
        output: Output,
        *,
        points: Tensor | None = None,  # (points, *input_shape); None: the origin
        directions: Tensor | None = None,  # (directions, *input_shape) to multiply G with, at one point
        seen: Trace | None = None,
        tensors: dict[str, Tensor] | None = None,  # parameters and buffers of that member
        data_statistics: bool = False,
        entry: str = "",  # the layer through which x enters, if gradients at its output are enough
        dry: bool = False,  # find out what the pass would do, without numbers that depend on the points
        samples: bool = False,  # points are (1, *input_shape, samples): moments between samples, for kernels
    ) -> None:
        self.trace, self.laws, self.output = trace, laws, output
        self.points, self.seen, self.directions = points, seen, directions
        self.tracking = directions is not None
        self.tensors = tensors or {}
        self.observing = seen is not None
        self.data_statistics = data_statistics
        self.entry, self.dry = entry, dry
        self.samples = samples
        self.collecting = False
        self.collected: dict[str, Tensor] = {}  # products of gradients by each parameter, (samples, samples)
        self.at_entry = False  # whether the pass ended there
        self.kinds: dict[int, StepKind] = {}  # of steps that are not followed exactly
        self.weights: Moment | None = None
        self.smallest_norm = 2**31  # channels whose statistics were taken to be those of infinitely many
        self.narrowest = 2**31  # of the layers whose pre-activations were taken to be Gaussian
        self.errors: dict[str, float] = {}  # relative standard errors of variances that were drawn, not read
        self.used: dict[str, str] = {}
        self.left_out: list[str] = []  # dependences between slopes and gradients that are not followed
        self.positions = 1  # most positions of an activation whose slopes are random, or of a product
        self.fan_in: int | None = None  # of the first layer, where its weights are not normal

    def run(self) -> Moment:
        """E[∇f ∇fᵀ] over input positions, summed over the chosen outputs.

        Where an entry was named and the moment at its output is a whole matrix, over that layer's positions instead
        (then `at_entry`), summed over its channels and multiplied with the variance of its weights.
        """
        with one_pass():
            return self._run()

    def feature_products(self, step: Step) -> Tensor:
        """E[φ(x)·φ(z)] between samples, φ what this step gets, (samples, samples)."""
        assert self.samples
        with one_pass():
            values, _ = self._forward()
            (ref,) = refs_in((step.args, step.kwargs))
            value = values[ref]
            visible = [k for axis in value.axes for k in axis if k != CHANNEL]
            parts = [b.channel.traced(visible)[0].scaled(float(b.channels)) for b in value.blocks]
            return reduce(Moment.plus, parts).full().spelled_out().matrices()[0]

    def tangent_products(self) -> Tensor:
        """Σ over parameters and outputs of E[∂f(x) ∂f(z)] between samples, (samples, samples)."""
        assert self.samples
        self.collecting = True
        self.run()
        return sum(self.collected.values(), torch.zeros(1, 1, dtype=torch.float64))

    def collect(self, weight: Weight, gradients: Moment, inputs: Moment | None, channels: int) -> None:
        found = (gradients if inputs is None else gradients.times(inputs)).full().spelled_out()
        visible = len(found.sizes) - 1
        over = [*range(1, 1 + visible), *range(2 + visible, 2 + 2 * visible)]
        total = (found.values.sum(over) if over else found.values)[0] * channels
        name = self.laws.tied.get(weight.name, weight.name)
        self.collected[name] = self.collected[name] + total if name in self.collected else total

    def _run(self) -> Moment:
        values, order = self._forward()
        x = values[Ref(-1)]
        self._seed(values[self.trace.output])
        for value in reversed(order):
            if (moment := self._at_entry(value)) is not None:
                return moment
            for block, terms in enumerate(value.terms):
                for term in terms:
                    value.send(block, term)
            value.terms = []
        found = [self.average(term) for term in x.terms[0]]
        if not found:
            raise Unsupported("the output does not depend on the input")
        self.weights = reduce(sum_or_none, (term.weights for term in found))
        return reduce(Moment.plus, (term.moment for term in found))

    def _forward(self) -> tuple[dict[Ref, FeatureMap], list[FeatureMap]]:
        """All values, and those that steps made in order."""
        needed = self._needed()
        sizes = self.trace.input_shape
        axes = tuple((k,) for k in range(len(sizes)))
        start: Channel = ConstantChannel(0.0, sizes)
        if self.points is not None:
            start = Points(self.points.double(), self.directions, self.dry)
            sizes = start.sizes
        x = FeatureMap(axes, sizes, (ChannelBlock(1, start, frozenset([-1])),), holds=True)
        values: dict[Ref, FeatureMap] = {Ref(-1): x}
        order: list[FeatureMap] = []
        for step in self.trace.steps:
            if step.index not in needed:
                continue
            inputs = [values.get(ref) or self._unseen(ref) for ref in refs_in((step.args, step.kwargs))]
            made = _apply(step, inputs, self)
            for item, value in enumerate(made):
                if not value.fits(step.shapes[item]):
                    raise Unsupported(f"{step.where} has a shape that was not understood")
                # several names for one value: each place collects its own gradients
                value = replace(value, step=step, holds=True)
                if self.seen is not None:
                    self._observe(value, self.seen.steps[step.index].outputs[item])
                values[Ref(step.index, item)] = value
                order.append(value)
        return values, order

    def _at_entry(self, value: FeatureMap) -> Moment | None:
        """The moment where x enters, if this is the output of that layer and no structure makes the moment small."""
        if not self.entry or value.step is None or value.step.module != self.entry:
            return None
        value.terms = [[self.average(term) for term in terms] for terms in value.terms]
        (found,) = value.terms
        moment = reduce(Moment.plus, (term.moment for term in found)) if found else None
        if (self.observing or self.points is not None) and moment is not None:
            moment = moment.full()  # in another member, or at other points, it may be a whole matrix
        if not isinstance(moment, Full):
            return None
        weight = next(w for w in weights_in((value.step.args, value.step.kwargs)) if len(self.shape(w)) > 1)
        self.at_entry = True
        return moment.scaled(value.channels * self.law(weight, value.step).variance)

    def products(self) -> Tensor:
        """G v at the point for every direction v, (directions, inputs): all terms of the wide limit."""
        assert self.points is not None
        assert self.directions is not None
        moment = self.run()
        total = times_vectors(moment, self.directions)
        if self.weights is not None:  # ∂ₓ of the input's own moment x_p z_p' is z_p'
            total += times_vectors(self.weights, self.points.double())
        return total

    def _observe(self, value: FeatureMap, tensor: Tensor) -> None:
        pairs = zip(value.blocks, value.observed(tensor), strict=True)
        value.blocks = tuple(replace(block, channel=seen) for block, seen in pairs)

    def _seed(self, y: FeatureMap) -> None:
        """The gradient of the chosen outputs at the output itself, per channel."""
        if self.output == "all":
            start = identity(y.sizes)
            if self.samples:  # one function of all samples: each gradient meets those of the others
                start = identity(y.sizes[:-1]).with_samples(y.sizes[-1])
            for i in range(len(y.blocks)):
                y.receive(i, Term(start))
            return
        if callable(self.output):
            raise Unsupported("a function of the outputs was asked for")
        if len(y.blocks) != 1 or not y.blocks[0].fresh:
            raise Unsupported(f"output {self.output!r} of a model whose last layer has no random weights")
        count = y.channels
        if self.output == "mean":
            y.receive(0, Term(ones(y.sizes).scaled(1 / (count * math.prod(y.sizes)) ** 2)))
            return
        if y.sizes and max(y.sizes) > 1:
            raise Unsupported(f"output {self.output!r} of a model whose outputs have positions")
        squares = 1.0 if isinstance(self.output, int) else 2.0
        y.receive(0, Term(ones(y.sizes).scaled(squares / count)))

    @property
    def exact(self) -> bool:
        """Whether every step is followed exactly at any width."""
        return not self.kinds

    def steps(self) -> list[tuple[StepKind, str]]:
        """How well each step is followed, and where it is."""
        needed = self._needed()
        return [(self.kinds.get(s.index, "exact"), s.where) for s in self.trace.steps if s.index in needed]

    def _needed(self) -> set[int]:
        """Steps that the output depends on, without those that a known zero multiplies."""
        needed = {self.trace.output.step}
        for step in reversed(self.trace.steps):
            if step.index == self.trace.output.step:  # a last layer at zero is refused by its rule
                needed |= {ref.step for ref in refs_in((step.args, step.kwargs))}
            elif step.index in needed:
                needed |= {ref.step for ref in live_refs(step, self)}
        return needed

    def _unseen(self, ref: Ref) -> FeatureMap:
        return nothing(self.trace.steps[ref.step].shapes[ref.item][1:])

    # --- what rules ask ---------------------------------------------------------------------------------------

    def law(self, weight: Weight, step: Step) -> TensorLaw:
        try:
            return self.laws.of(weight.name)
        except CannotRead as e:
            raise Unsupported(f"{step.where}: {e}") from e

    def use_weight(self, weight: Weight, step: Step) -> TensorLaw:
        law = self.law(weight, step)
        if law.variance > 0:
            name = self.laws.tied.get(weight.name, weight.name)
            if name in self.used:
                raise Unsupported(f"{step.where} uses '{name}' again (it is used by {self.used[name]} too)")
            self.used[name] = step.where
            if law.error:
                self.errors[name] = law.error
        return law

    def shape(self, weight: Weight) -> tuple[int, ...]:
        return self.laws.shape(weight.name)

    def tensor(self, ref: Ref) -> Tensor:
        assert self.seen is not None
        if ref.step < 0:
            assert self.points is not None
            return self.points
        return self.seen.steps[ref.step].outputs[ref.item]

    def real(self, value: Any, step: Step) -> Tensor:
        if isinstance(value, Weight):
            return self.tensors[value.name]
        assert self.seen is not None
        theirs = self.seen.steps[step.index]
        pairs = zip(others_in((step.args, step.kwargs)), others_in((theirs.args, theirs.kwargs)), strict=True)
        numbers = next((b.numbers for a, b in pairs if a is value), None)
        if numbers is None:
            raise Unsupported(f"{step.where} uses a tensor whose numbers are not known")
        return numbers

    def note(self, step: Step, kind: StepKind) -> None:
        if self.kinds.get(step.index) != "local":  # nothing is worse than that
            self.kinds[step.index] = kind

    def normalises(self, channels: int) -> None:
        self.smallest_norm = min(self.smallest_norm, channels)

    def leaves_out(self, what: str) -> None:
        self.left_out.append(what)

    def varies_over(self, positions: int) -> None:
        self.positions = max(self.positions, positions)

    def first_layer(self, law: TensorLaw, fan_in: int) -> None:
        if law.kind != "normal":
            self.fan_in = fan_in if self.fan_in is None else min(fan_in, self.fan_in)

    def average(self, term: Term) -> Term:
        """Average over the random factors of a term; independent weights above make this legitimate."""
        random = []
        for f in term.factors:
            if isinstance(f, Slope) and isinstance(f.of, ConstantChannel):
                term = term.times(f.of.slope_kernel(f.activation))
            elif isinstance(f, Slope) and f.activation.name == "identity":
                continue
            else:
                random.append(f)
        moment = term.moment
        if not random:
            return replace(term, factors=())
        if self.observing:
            for f in random:
                self.note(f.step, "observed")
            self.leaves_out("slopes are observed on members")
            seen = [f.of.values.shape[1] for f in random if isinstance(f, Slope) and isinstance(f.of, ObservedChannel)]
            self.narrowest = min(self.narrowest, *seen) if seen else self.narrowest
            return Term(_observed_average(moment, random), (), True)
        if len(random) > 1:
            raise NeedsMembers("two activations without weights between them")
        slope = random[0]
        assert isinstance(slope, Slope)
        weights = term.weights
        if isinstance(slope.of, GaussianChannel):
            self.note(slope.step, "wide limit")
            self.narrowest = min(self.narrowest, slope.of.width)
            self.varies_over(math.prod(slope.of.sizes))
            if (tied := slope.of.dependence(slope.activation)) is not None:
                weights = tied.sent_back(moment.full(), None if weights is None else weights.full())
        elif weights is not None:
            weights = weights.times(slope.of.slope_kernel(slope.activation))
        return Term(moment.times(slope.of.slope_kernel(slope.activation)), (), True, weights)


def _apply(step: Step, values: list[FeatureMap], run: Pass) -> list[FeatureMap]:
    """The values that a step makes of others."""
    activation = recorded_activation(step)
    moved = any(v.layout is not None for v in values)
    if activation is not None and len(values) == 1:
        phi = with_moments(activation)
        if moved:
            return [inside_layout(step, values, lambda v: elementwise(step, v[0], phi, run), run, entrywise=True)]
        return [elementwise(step, values[0], phi, run)]
    found = RULES.get(step.name)
    if found is None:
        raise Unsupported(f"{step.where} has no closed form")
    try:
        if any(isinstance(v, Scores) for v in values):
            out: FeatureMap | list[FeatureMap] = on_scores(step, values, run)
        elif moved and step.name not in KNOW_LAYOUTS:
            out = inside_layout(step, values, lambda v: found(step, v, run), run)
        else:
            out = found(step, values, run)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError) as e:
        if isinstance(e, NetgrainError):
            raise
        # a way to call the function that its rule does not know: sampling can still answer
        raise Unsupported(f"{step.where} is called in a way that has no rule ({type(e).__name__}: {e})") from e
    return out if isinstance(out, list) else [out]


def _along_the_way(factors: Sequence[Factor]) -> tuple[Tensor | None, Tensor | None, tuple[int, ...] | None]:
    """Observed slopes (points, channels, positions at the top), winners of maxima, and the positions at the bottom."""
    weights: Tensor | None = None  # (points, channels, positions at the top)
    winners: Tensor | None = None
    sizes: tuple[int, ...] | None = None
    for f in factors:
        if isinstance(f, Choice):
            winners = f.winners if winners is None else f.winners.gather(2, winners)
            sizes = f.sizes
            continue
        if isinstance(f, Gain):
            here = f.values
            if winners is not None and here.shape[2] > 1:
                here = here.expand(len(winners), -1, -1).gather(2, winners)
        else:
            assert isinstance(f.of, ObservedChannel)
            here = f.activation.derivative(f.of.values)
            if winners is not None:
                here = here.gather(2, winners)
        weights = here if weights is None else weights * here
    return weights, winners, sizes


def _observed_average(moment: Moment, factors: Sequence[Factor]) -> Moment:
    """Mean over observed channels of D B D, D the slopes and choices along the way down."""
    weights, winners, below = _along_the_way(factors)
    if winners is not None and below is not None:
        return _scattered_choices(moment, weights, winners, below)
    assert weights is not None
    flat = weights.flatten()
    if bool((flat == flat[0]).all()):
        return moment.scaled(float(flat[0]) ** 2)
    check_room(weights.shape[2], len(weights))
    gram = torch.einsum("ncp,ncq->npq", weights, weights).div_(weights.shape[1])
    if gram.shape[1] == 1:
        return moment.scaled(gram.flatten())
    return moment.times(Full(moment.sizes, gram.reshape(len(gram), *moment.sizes, *moment.sizes)))


def _scattered_choices(moment: Moment, weights: Tensor | None, winners: Tensor, sizes: tuple[int, ...]) -> Moment:
    """Send each output position's gradient to the input position that won there, channel by channel."""
    B = moment.full().spelled_out().matrices()  # (points or 1, out, out)
    n, channels, out = winners.shape
    positions = math.prod(sizes)
    check_room(positions, n)
    total = torch.zeros(n, positions * positions, dtype=torch.float64)
    some = max(1, CHOICES_AT_ONCE // out**2)  # channels × out² would outgrow everything else
    for i in range(n):
        for start in range(0, channels, some):
            chosen = winners[i, start : start + some]
            values = B[i if len(B) > 1 else 0].expand(len(chosen), out, out)
            if weights is not None:
                w = weights[i if len(weights) > 1 else 0].expand(channels, out)[start : start + some]
                values = values * w[:, :, None] * w[:, None, :]
            places = chosen[:, :, None] * positions + chosen[:, None, :]
            total[i].index_add_(0, places.flatten(), values.flatten())
    return Full(sizes, total.div_(channels).reshape(n, *sizes, *sizes))


def times_vectors(moment: Moment, vectors: Tensor) -> Tensor:
    """M v, with one matrix for all vectors, one vector for all matrices, or one each; (count, inputs)."""
    M = moment.full()
    n, hidden = len(vectors), sorted(M.eye)
    order = [*hidden, *M.written]
    sizes = [M.sizes[k] for k in order]
    v = vectors.double().permute(0, *(1 + k for k in order)).reshape(n, -1, M.positions)
    product = v @ M.matrices().mT  # (count, copies, positions)
    back = [order.index(k) for k in range(len(order))]
    return product.reshape(-1, *sizes).permute(0, *(1 + k for k in back)).flatten(1)
