"""Attention given its map: against autograd to rounding, against itself in other words, and sampled members."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from netgrain.closed_form.rules.attention import sent_back
from tests.closed_form.networks import closed
from tests.random_layers import Attention, PatchEmbedding, Tokens

HEADS, WIDTH = 2, 16


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


@pytest.mark.quick
def test_second_moments_at_values_queries_and_keys_are_those_of_real_gradients() -> None:
    """Gradients with moment B over queries and none between channels, sent back by autograd one after the other."""
    heads, windows, n, m, d = 2, 2, 3, 4, 3
    q, k = random(1, heads, windows, n, d).requires_grad_(), random(1, heads, windows, m, d).requires_grad_()
    v = random(1, heads, windows, m, d + 1)[..., :d].clone().requires_grad_()
    scales = torch.tensor([0.7, 1.3], dtype=torch.float64)
    A = (q @ k.mT * scales.reshape(1, heads, 1, 1, 1)).softmax(-1)
    o = A @ v
    roots = random(windows * n, windows * n)
    expected = [torch.zeros(windows * x.shape[3], windows * x.shape[3], dtype=torch.float64) for x in (v, q, k)]
    for h in range(heads):
        for f in range(d):
            for root in roots:
                g = torch.zeros_like(o)
                g[0, h, :, :, f] = root.reshape(windows, n)
                for total, back in zip(expected, torch.autograd.grad(o, (v, q, k), g, retain_graph=True), strict=True):
                    rows = back[0].permute(0, 3, 1, 2).flatten(2).flatten(0, 1)  # (channels, positions)
                    total += rows.T @ rows / (heads * d)
    B = (roots.T @ roots).reshape(1, windows, n, windows, n)
    found = sent_back(B, *(x.detach() for x in (q, k, v, A)), scales)
    for total, one in zip(expected, found, strict=True):
        torch.testing.assert_close(one.reshape(total.shape), total)


class Module(nn.Module):
    """nn.MultiheadAttention with the weights of an `Attention`, which it is made from."""

    def __init__(self, of: Attention) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        with torch.no_grad():
            self.inner.in_proj_weight.copy_(of.qkv.weight)
            self.inner.in_proj_bias.copy_(of.qkv.bias)
            self.inner.out_proj.weight.copy_(of.proj.weight)
            self.inner.out_proj.bias.copy_(of.proj.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x, x, x, need_weights=False)[0]
        return y


class Residual(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.body(x)
        return y


def spelled(way: str, norm: bool = True) -> nn.Module:
    embed, attention = PatchEmbedding(1, WIDTH, 8, 4, True, True), Attention(WIDTH, HEADS, way == "fused")
    nn.init.normal_(attention.qkv.weight, std=0.5)
    body: nn.Module = attention
    head = nn.Linear(WIDTH, 2)
    if way == "module":
        body = Module(attention)
    branch = nn.Sequential(nn.LayerNorm(WIDTH), body) if norm else body
    return nn.Sequential(embed, Residual(branch), Tokens("mean"), head)


def test_three_spellings_of_one_network_are_one_geometry() -> None:
    """The same members, the same numbers: fused, written out, and PyTorch's module."""
    found = [closed(partial(spelled, way), (1, 8, 8), probe=ng.Gaussian(1.0), probes=3) for way in SPELLINGS]
    for G in found:
        assert "local" in {step.kind for step in G.about.steps}
        assert any("followed at the values of members" in text for text in G.about.leaves_out)
        torch.testing.assert_close(G.matrix(), found[0].matrix(), rtol=1e-4, atol=1e-7 * G.trace.value)


SPELLINGS = ("fused", "written out", "module")


class Windows(nn.Module):
    """Attention inside windows that were moved into the batch, with a bias of scores and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Conv2d(1, WIDTH, 2, 2), nn.Linear(WIDTH, 2)
        self.attention = Attention(WIDTH, HEADS, False)

    def forward(self, x: Tensor) -> Tensor:
        t = self.embed(x).permute(0, 2, 3, 1)
        b, side = len(t), t.shape[1] // 2
        w = t.view(b, 2, side, 2, side, WIDTH).permute(0, 1, 3, 2, 4, 5).reshape(-1, side * side, WIDTH)
        w = self.attention(w)
        t = t + w.view(b, 2, 2, side, side, WIDTH).permute(0, 1, 3, 2, 4, 5).reshape(t.shape)
        y: Tensor = self.head(t.mean((1, 2)))
        return y


class Whole(nn.Module):
    """The same with a mask in the place of windows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Conv2d(1, WIDTH, 2, 2), nn.Linear(WIDTH, 2)
        self.attention = Attention(WIDTH, HEADS, False)

    def forward(self, x: Tensor) -> Tensor:
        t = self.embed(x).permute(0, 2, 3, 1).flatten(1, 2)  # (batch, 16, channels)
        b, n, width = t.shape
        q, k, v = self.attention.qkv(t).reshape(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        window = torch.arange(4).reshape(2, 2).repeat_interleave(2, 0).repeat_interleave(2, 1).flatten()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=window[:, None] == window)
        t = t + self.attention.proj(y.transpose(1, 2).reshape(b, n, width))
        out: Tensor = self.head(t.mean(1))
        return out


def test_attention_in_windows_is_attention_with_a_mask() -> None:
    a, b = (closed(make, (1, 8, 8), probe=ng.Gaussian(1.0), probes=2).matrix() for make in (Windows, Whole))
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7 * float(b.trace()))


def test_attention_against_sampled_networks() -> None:
    """Without norms, whose own gradients count at this width: trace, and what differs between tokens."""
    make = partial(spelled, "fused", norm=False)
    G = closed(make, (1, 8, 8), probe=ng.Gaussian(1.0), probes=24)
    plain = ng.average_geometry(make, (1, 8, 8), probe=ng.Gaussian(1.0), members=400, first_layer="never", seed=1)
    same = ng.corr(G, plain)
    assert abs(same.value - 1) < 4 * same.stderr + 0.002
    ratio = G.trace.value / plain.trace.value
    assert abs(ratio - 1) < 4 * plain.trace.stderr / plain.trace.value + 4 * G.trace.stderr / G.trace.value


REFUSED: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], str]] = {
    "linear attention": (lambda q, k, v: q @ (k.mT @ v), "multiplies two things|no rule|something else"),
    "scores as features": (lambda q, k, v: (q @ k.mT) @ v, "no rule|something else"),
    "scores turned": (lambda q, k, v: (q @ k.mT).mT.softmax(-1) @ v, "no rule"),
    "softmax over queries": (lambda q, k, v: (q @ k.mT).softmax(-2) @ v, "no rule"),
    "squared scores": (lambda q, k, v: (q @ k.mT).square().softmax(-1) @ v, "."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_uses_of_scores_are_refused(name: str) -> None:
    call, reason = REFUSED[name]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.qkv, self.head = nn.Conv1d(1, 8, 2, 2), nn.Linear(8, 24), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            b = len(x)
            qkv = self.qkv(self.embed(x).transpose(1, 2)).reshape(b, 4, 3, 2, 4).permute(2, 0, 3, 1, 4)
            y: Tensor = self.head(call(*qkv.unbind(0)).transpose(1, 2).reshape(b, 4, 8).mean(1))
            return y

    with pytest.raises(ng.NetgrainError, match=reason):
        closed(Net, (1, 8), probe=ng.Gaussian(1.0))


def test_the_front_door_samples_networks_that_attend() -> None:
    G = ng.average_geometry(partial(spelled, "fused"), (1, 8, 8), probe=ng.Gaussian(1.0), tolerance=0.2)
    assert G.method == "sampled"
    assert "followed at the maps of members only" in G.about.notes[0]
