"""Self-attention, given its map: softmax(s Q Kᵀ) V at the values of real members.

Let A be the map of a head, o = A v its output, and B the second moment of gradients at a channel of the output, over
tokens. Channels of a head have uncorrelated gradients (independent weights follow), so values, queries and keys get

    B_v = Aᵀ B A,
    B_q = s²/d · B ∘ Σ_de U(·, d, e) U(·, d, e)ᵀ,      U(p, d, e) = Σ_m A(p, m) (v(m, d) − o(p, d)) k(m, e),
    B_k = s²/d · Σ_pp' A(p, m) A(p', m') B(p, p') (q_p · q_p') ((v_m − o_p) · (v_m' − o_p')),

averaged over heads. What A and B have in common through the weights of queries and keys is left out.
Fused attention, nn.MultiheadAttention and products that are written out are all this.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from netgrain.closed_form.channels import NeedsMembers, ObservedChannel
from netgrain.closed_form.feature_maps import CHANNEL, ChannelBlock, FeatureMap, Term, cut_channels
from netgrain.closed_form.layouts import BATCH, Layout, is_channel, piece
from netgrain.closed_form.moments import Full, Moment, check_room
from netgrain.closed_form.rules import Pass, arguments, rule
from netgrain.closed_form.rules.rearranging import EACH_ENTRY, PRODUCTS, SUMS, bare, laid_out
from netgrain.closed_form.rules.tokens import times_weight
from netgrain.closed_form.rules.weighted import linear_map
from netgrain.families.trace import Other, Ref, Step, Trace, Unsupported, Weight

NOTHING_LEFT = -1e4  # what is filled in with less is not attended to
FUSED = {"scaled_dot_product_attention", "multi_head_attention_forward"}
VIEWS = {"view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten"}


def first_attention(trace: Trace) -> Step | None:
    """Where a network attends for the first time."""
    return next((step for step in trace.steps if step.name in FUSED or _is_map(step)), None)


def _is_map(step: Step) -> bool:
    """Whether a softmax goes over the last axis, as over the keys of an attention map."""
    return step.name == "softmax" and arguments(step, "dim")[0] in (-1, len(step.shapes[0]) - 1)


# --- real tensors by heads --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Heads:
    """One of queries, keys and values: the value itself, and its numbers by heads."""

    value: FeatureMap
    numbers: Tensor  # (points, heads, windows, tokens, features)
    order: list[int]  # position atoms: windows, then tokens
    before: tuple[tuple[int, ...], ...]  # atoms of the axes before tokens and features

    @property
    def features(self) -> int:
        return self.numbers.shape[-1]

    def moment(self, values: Tensor) -> Moment:
        """A second moment (points, windows, tokens, windows, tokens) over the positions of the value."""
        sizes = [self.value.sizes[k] for k in self.order]
        back = [self.order.index(k) for k in range(len(self.order))]
        return Full(tuple(sizes), values.reshape(len(values), *sizes, *sizes)).permuted(back)

    def matrices(self, m: Moment) -> Tensor:
        """The other way round."""
        full = m.permuted(self.order).full().spelled_out().matrices()
        windows, tokens = self.numbers.shape[2:4]
        return full.reshape(len(full), windows, tokens, windows, tokens)


def _heads(step: Step, x: FeatureMap, tensor: Tensor, tokens: int = -2, features: int = -1) -> Heads:
    """tokens, features: their axes; all others are the batch, heads and windows."""
    layout = x.whole()
    if len(x.blocks) > 1 or len(layout.axes) < 3:
        raise Unsupported(f"{step.where} attends to channels of different kinds, or has no batch")
    along, inner = list(layout.axes[tokens]), list(layout.axes[features])
    before = layout.axes[:-2]
    others = [a for axis in before for a in axis]
    if not inner or not all(is_channel(a) for a in inner) or not all(a >= 0 for a in along):
        raise Unsupported(f"{step.where} attends along something else than positions")
    heads, windows = [a for a in others if is_channel(a)], [a for a in others if a >= 0]
    atoms = layout.atoms
    batch = tensor.numel() // math.prod((x.channels, *x.sizes))
    size = {a: layout.size(a, batch, x.channels, x.sizes) for a in atoms}
    split = tensor.double().reshape([size[a] for a in atoms])
    order = [BATCH, *heads, *windows, *along, *inner]
    shape = [math.prod(size[a] for a in group) for group in ([BATCH], heads, windows, along, inner)]
    numbers = split.permute([atoms.index(a) for a in order]).reshape(shape)
    return Heads(x, numbers, [*windows, *along], before)


def _map(A: Tensor, q: Heads) -> Tensor:
    """A real attention map (…, tokens of queries, tokens of keys) as (points, heads, windows, tokens, tokens)."""
    x, layout = q.value, q.value.whole()
    points, heads, windows, tokens, _ = q.numbers.shape
    others = [a for axis in q.before for a in axis]
    sizes = [layout.size(a, points, x.channels, x.sizes) for a in others]
    kinds = [0 if a == BATCH else 1 if is_channel(a) else 2 for a in others]
    order = sorted(range(len(others)), key=lambda i: kinds[i])
    split = A.double().reshape(*sizes, tokens, -1)
    return split.permute(*order, -2, -1).reshape(points, heads, windows, tokens, -1)


# --- the step ---------------------------------------------------------------------------------------------------------


def attended(step: Step, q: Heads, k: Heads, v: Heads, A: Tensor, scales: Tensor, run: Pass) -> FeatureMap:
    """o = A v with A the softmax of s q kᵀ; scales: s of every head."""
    if q.numbers.shape[:3] != k.numbers.shape[:3] or k.numbers.shape[:4] != v.numbers.shape[:4]:
        raise Unsupported(f"{step.where} attends between tensors of different layouts")
    run.note(step, "local")
    block = v.value.blocks[0]
    base = q.value

    def send(_block: int, term: Term) -> None:
        term = run.average(term)
        B = q.matrices(term.moment)
        check_room(math.prod(base.sizes), len(B))
        for heads, moment in zip((v, q, k), sent_back(B, q.numbers, k.numbers, v.numbers, A, scales), strict=True):
            heads.value.receive(0, replace(term, moment=heads.moment(moment), averaged=True, weights=None))

    channel = ObservedChannel(torch.zeros(0), base.sizes)
    made = ChannelBlock(block.channels, channel, block.sources, block.fresh)
    out = FeatureMap(bare(base).axes, base.sizes, (made,), step, send)
    layout = base.whole()
    if layout.pieces:
        layout = Layout(layout.axes, v.value.whole().pieces)
    return laid_out(out, layout, step, run)


def sent_back(B: Tensor, q: Tensor, k: Tensor, v: Tensor, A: Tensor, scales: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """B at the output → second moments at values, queries and keys, means over heads."""
    points, heads = q.shape[:2]
    found = [[torch.zeros(()) for _ in range(points)] for _ in range(3)]
    for i in range(points):
        b = B[i if len(B) > 1 else 0]
        for h in range(heads):
            s = float(scales[h]) ** 2 / q.shape[-1]
            back = (_to_values(b, A[i, h]), *(s * m for m in _to_scores(b, q[i, h], k[i, h], v[i, h], A[i, h])))
            for total, part in zip(found, back, strict=True):
                total[i] = total[i] + part / heads
    values, queries, keys = (torch.stack(total) for total in found)
    return values, queries, keys


def _to_values(B: Tensor, A: Tensor) -> Tensor:
    """AᵀBA; A (windows, tokens, tokens), B over pairs of windows and tokens."""
    once = torch.einsum("wpm,wpvq->wmvq", A, B)
    return torch.einsum("wmvq,vqn->wmvn", once, A)


def _to_scores(B: Tensor, q: Tensor, k: Tensor, v: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
    """What queries and keys get, up to the factor s²/d."""
    o = A @ v  # (windows, tokens, features)
    U = torch.einsum("wpm,wmd,wme->wpde", A, v, k) - torch.einsum("wpd,wpe->wpde", o, A @ k)
    flat = U.flatten(0, 1).flatten(1)
    queries = B * (flat @ flat.T).reshape(B.shape)

    def between(a: Tensor, b: Tensor) -> Tensor:
        return torch.einsum("wpd,vqd->wpvq", a, b)

    C = B * between(q, q)
    once = torch.einsum("wpm,wpvq->wmvq", A, C)
    cross = torch.einsum("wmvq,vqn->wmvn", once * between(v, o), A)
    keys = torch.einsum("wmvq,vqn->wmvn", once, A) * between(v, v)
    keys = keys - cross - cross.permute(2, 3, 0, 1) + _to_values(C * between(o, o), A)
    return queries, keys


def _needs_members(step: Step, run: Pass) -> None:
    if not run.observing:
        raise NeedsMembers(f"{step.where} attends")


# --- fused ------------------------------------------------------------------------------------------------------------


@rule("scaled_dot_product_attention", layouts=True)
def _fused(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    _needs_members(step, run)
    names = ("key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    key, value, mask, dropout, causal, scale, grouped = arguments(step, *names)
    if len(values) != 3 or dropout or grouped or isinstance(mask, Ref):
        raise Unsupported(f"{step.where} attends with a mask that depends on the input, dropout or grouped queries")
    query = step.args[0] if step.args else step.kwargs["query"]
    tq, tk, tv = (run.tensor(ref).double() for ref in (query, key, value))
    s = tq.shape[-1] ** -0.5 if scale is None else float(scale)
    A = _softmax(tq @ tk.transpose(-2, -1) * s, None if mask is None else run.real(mask, step), causal)
    q, k, v = (_heads(step, x, t) for x, t in zip(values, (tq, tk, tv), strict=True))
    return attended(step, q, k, v, _map(A, q), torch.full((q.numbers.shape[1],), s), run)


def _softmax(scores: Tensor, mask: Tensor | None, causal: bool | None = None) -> Tensor:
    """The map of real scores, with a mask of booleans (False: not attended to) or numbers that are added."""
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.double()
    return scores.softmax(-1)


@rule("multi_head_attention_forward", layouts=True)
def _module(step: Step, values: list[FeatureMap], run: Pass) -> list[FeatureMap]:
    """nn.MultiheadAttention: (tokens, batch, channels) → the same, and the map."""
    _needs_members(step, run)
    names = ("query", "key", "value", "width", "heads", "weight", "bias", "bias_k", "bias_v", "zero", "dropout")
    given = dict(zip((*names, "out", "out_bias", "training", "padding"), step.args, strict=False)) | step.kwargs
    x = values[0]
    plain = given["query"] == given["key"] == given["value"] and isinstance(given["weight"], Weight)
    plain = plain and not any(given.get(name) is not None for name in ("bias_k", "bias_v", "padding"))
    plain = plain and given.get("key_padding_mask") is None and not given.get("use_separate_proj_weight")
    layout = x.whole()
    if not plain or given["zero"] or given.get("training") or isinstance(given.get("attn_mask"), Ref):
        raise Unsupported(f"{step.where} is called in a way that has no rule")
    if layout.pieces or len(layout.axes) != 3 or layout.axes[1] != (BATCH,) or layout.axes[2] != (CHANNEL,):
        raise Unsupported(f"{step.where} attends to a rearranged tensor")
    width, heads = given["width"], given["heads"]
    seen = replace(x, layout=None, holds=False, send=x.receive)  # (tokens, channels), without the batch
    joint = linear_map(step, seen, given["weight"], given["bias"], 3 * width, run)
    real = run.tensor(given["query"]).double()
    bias = None if given["bias"] is None else run.real(given["bias"], step).double()
    tensors = F.linear(real, run.real(given["weight"], step).double(), bias).chunk(3, -1)  # (tokens, batch, width)
    split = Layout(((BATCH,), (piece(0),), joint.axes[0], (piece(1),)), (heads, width // heads))
    found = []
    for i, t in enumerate(tensors):
        part = cut_channels(joint, i * width, (i + 1) * width, joint.axes, step, run.average)
        by_heads = t.reshape(*t.shape[:2], heads, -1).permute(1, 2, 0, 3)
        found.append(_heads(step, laid_out(part, split, step, run), by_heads))
    q, k, v = found
    s = (width // heads) ** -0.5
    scores = torch.einsum("nbhd,mbhd->bhnm", *(t.reshape(*t.shape[:2], heads, -1) for t in tensors[:2])) * s
    A = _softmax(scores, _allowed(step, given.get("attn_mask"), run))
    mixed = attended(step, q, k, v, _map(A, q), torch.full((heads,), s), run)  # (batch, heads, tokens, features)
    together = Layout((mixed.whole().axes[2], (CHANNEL,)))
    flat = FeatureMap(together.axes, mixed.sizes, mixed.blocks, step, mixed.receive)
    out = linear_map(step, flat, given["out"], given["out_bias"], width, run)
    made: list[FeatureMap] = [laid_out(out, Layout((out.axes[0], (BATCH,), (CHANNEL,))), step, run)]
    return [*made, *(Scores.unknown(step) for _ in step.shapes[1:])]


def _allowed(step: Step, mask: Any, run: Pass) -> Tensor | None:
    """The mask of nn.MultiheadAttention, turned: there True is what is not attended to."""
    if mask is None:
        return None
    real = run.real(mask, step)
    if real.dim() > 2:
        raise Unsupported(f"{step.where} has a mask for each sample")
    return ~real if real.dtype == torch.bool else real


# --- written out ------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Scores(FeatureMap):
    """q kᵀ, scaled, masked, and in the end the map itself: nothing but a product with values may follow."""

    queries: tuple[FeatureMap, Ref] | None = None
    keys: tuple[FeatureMap, Ref] | None = None
    gain: Tensor | None = None  # what q kᵀ was multiplied with, beside it
    viewed: bool = False  # the axes are no longer those of q kᵀ
    is_map: bool = False  # the softmax was taken

    @classmethod
    def unknown(cls, step: Step) -> Scores:
        """A map that is not followed."""
        return cls((), (), (), step)

    def fits(self, shape: tuple[int, ...]) -> bool:
        return True

    def observed(self, tensor: Tensor) -> list[ObservedChannel]:
        return []


@rule("matmul", "bmm", "rmatmul", layouts=True)
def _matmul(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    if len(values) == 1:
        return times_weight(step, values[0], run)
    _needs_members(step, run)
    first, second = step.args[:2] if step.name != "rmatmul" else reversed(step.args[:2])
    a, b = values if step.name != "rmatmul" else reversed(values)
    left, right = a.whole().axes, b.whole().axes
    mixes = len(left) == len(right) >= 3 and all(is_channel(k) for k in (*left[-1], *right[-2])) and left[-1]
    if not mixes:
        raise Unsupported(f"{step.where} multiplies two things that both depend on the input")
    return Scores((), (), (), step, queries=(a, first), keys=(b, second), gain=torch.ones(()).double())


@rule("masked_fill")
def _of_no_scores(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    raise Unsupported(f"{step.where} has no closed form")


def on_scores(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """A step of attention that is written out."""
    scores = values[0]
    if not isinstance(scores, Scores) or scores.queries is None or scores.gain is None:
        raise Unsupported(f"{step.where} uses an attention map that is not followed")
    if step.name in ("matmul", "bmm") and len(values) == 2 and scores.is_map:
        return _values_mixed(step, scores, values[1], run)
    if len(values) > 1:
        raise Unsupported(f"{step.where} combines attention scores with something else that depends on the input")
    if step.name in EACH_ENTRY - {"neg"}:
        return replace(scores)
    if step.name in VIEWS:
        return replace(scores, viewed=True)
    if step.name == "softmax" and not scores.is_map:
        dim = arguments(step, "dim")[0]
        if dim in (-1, len(step.shapes[0]) - 1):
            return replace(scores, is_map=True)
    if not scores.is_map and isinstance(step.args[0], Ref):
        if step.name in SUMS:
            return replace(scores)
        if step.name == "masked_fill" and float(arguments(step, "mask", "value")[1]) <= NOTHING_LEFT:
            return replace(scores)
        if step.name in PRODUCTS:
            return replace(scores, gain=_gained(step, scores, run))
    raise Unsupported(f"{step.where} changes attention scores in a way that has no rule")


def _gained(step: Step, scores: Scores, run: Pass) -> Tensor:
    """The factor of the scores, after a product with numbers of the member."""
    assert scores.gain is not None
    value = step.args[1]
    factor = (
        run.real(value, step).double() if isinstance(value, Weight | Other) else torch.tensor(float(value)).double()
    )
    if factor.numel() > 1 and (scores.viewed or factor.shape[-2:] != (1, 1)):
        raise Unsupported(f"{step.where} multiplies attention scores by numbers that differ")
    return scores.gain * (1 / factor if "div" in step.name else factor)


def _values_mixed(step: Step, scores: Scores, value: FeatureMap, run: Pass) -> FeatureMap:
    assert scores.queries is not None
    assert scores.keys is not None
    assert scores.gain is not None
    (q_map, q_ref), (k_map, k_ref) = scores.queries, scores.keys
    q = _heads(step, q_map, run.tensor(q_ref))
    k = _heads(step, k_map, run.tensor(k_ref), -1, -2)
    v = _heads(step, value, run.tensor(step.args[1]))
    A = _map(run.tensor(step.args[0]), q)
    heads = q.numbers.shape[1]
    shape = run.tensor(q_ref).shape[:-2]
    gains = _map(scores.gain.expand(*shape, 1, 1).expand(*shape, q.numbers.shape[3], 1), q)
    per_head = gains[0, :, 0, 0, 0]
    if not bool((gains == per_head.reshape(1, heads, 1, 1, 1)).all()):
        raise Unsupported(f"{step.where} multiplies attention scores by numbers that differ")
    return attended(step, q, k, v, A, per_head, run)
