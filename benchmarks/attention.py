"""Attention: the default call against plain sampling of other members, at Gaussian points.

Tokens of these networks are exchangeable, so G = (aI + b·11ᵀ) ⊗ I over tokens. Corr hardly sees the small eigenvalue a;
the ratio b/a does. The table has the processor seconds of a default call, its method, Corr with the reference
(corrected for noise) and b/a of both: of the default call as mean and standard error over some seeds, of the reference
over its members. "standard errors" is the difference of the two ratios.

    python benchmarks/attention.py [--seeds 4] [--budget 120] [--only NAME ...] [--out out/bench]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from measure import machine
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.logits import logits_of
from netgrain.families.prepared import prepared
from netgrain.geometry.forms import Form
from netgrain.models.timm_models import import_timm
from netgrain.models.vit import ViT

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.judging import corr_with, kind_of, references

SIGMA = 1.0
LARGE = 4096  # inputs above which the reference keeps rows
MOST = 8192  # members of it
WORDS, LENGTH, WIDTH = 100, 12, 64  # of the text models
Make = Callable[[], nn.Module]


@dataclass(frozen=True)
class Case:
    """A family of networks over exchangeable tokens."""

    make: Callable[[], Make]  # imports what it needs
    shape: tuple[int, ...]
    patch: int = 0  # side of the patches of an image; 0: the first axis of the input is that of tokens
    at: Literal["embeddings"] | None = None


class TextTransformer(nn.Module):
    """Words and positions embedded, two layers of nn.TransformerEncoder, the mean over tokens, a linear head."""

    def __init__(self, *, norm_first: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Parameter(torch.randn(1, LENGTH, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True, norm_first=norm_first)
        # layers of nn.TransformerEncoder start as copies of one; members of a family start independently
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        for module in self.layers.modules():
            if isinstance(module, nn.MultiheadAttention):
                module._reset_parameters()
            elif isinstance(module, nn.Linear):
                module.reset_parameters()
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        y: Tensor = self.head(self.layers(self.words(tokens) + self.positions).mean(1))
        return y


def _timm(name: str, size: int) -> Make:
    return partial(import_timm(f"timm:{name}").create_model, name, num_classes=10, img_size=size)


def _bert() -> Make:
    import_timm("timm")  # mends torchvision, which transformers imports
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=LENGTH,
        num_labels=10,
    )
    return partial(BertForSequenceClassification, config)


CASES: dict[str, Case] = {
    "ViT of netgrain, ReLU": Case(lambda: partial(ViT, channels=1), (1, 32, 32), patch=8),
    "ViT of netgrain, layer norm": Case(
        lambda: partial(ViT, channels=1, norm="layer", activation="gelu"), (1, 32, 32), patch=8
    ),
    "vit_tiny_patch16_224 at 64 x 64": Case(lambda: _timm("vit_tiny_patch16_224", 64), (3, 64, 64), patch=16),
    "text, norm first": Case(lambda: partial(TextTransformer, norm_first=True), (LENGTH, WIDTH), at="embeddings"),
    "text, norm last": Case(lambda: partial(TextTransformer, norm_first=False), (LENGTH, WIDTH), at="embeddings"),
    "BERT": Case(_bert, (LENGTH, WIDTH), at="embeddings"),
}


def token_means(case: Case, shape: tuple[int, ...]) -> tuple[Tensor, int]:
    """Unit vectors that are the same at every token, (entries of a token, d), and the number of tokens."""
    if case.patch:
        channels, rows, columns = shape
        p = case.patch
        tokens, entries = (rows // p) * (columns // p), channels * p * p
        spread = torch.eye(entries, dtype=torch.float64).reshape(entries, channels, 1, p, 1, p)
        vectors = spread.expand(-1, -1, rows // p, -1, columns // p, -1).reshape(entries, -1)
    else:
        tokens, entries = shape[0], math.prod(shape[1:])
        vectors = torch.eye(entries, dtype=torch.float64)[:, None].expand(-1, tokens, -1).reshape(entries, -1)
    return vectors / math.sqrt(tokens), tokens


def ratio(trace: float, along: float, tokens: int) -> float:
    """b/a from tr G = nD(a + b) and the trace over token means, D(a + nb)."""
    total, top = trace / tokens, along
    b = (top - total) / (tokens - 1)
    return b / (total - b)


def ratio_of(G: ng.Geometry, means: Tensor, tokens: int) -> float:
    return ratio(G.trace.value, float((means * G.matvec(means)).sum()), tokens)


def ratio_over_parts(form: Form, means: Tensor, tokens: int) -> tuple[float, float]:
    """b/a with its standard error, by leaving out one part after the other."""
    form = form.batched(32)
    parts = [form.part(i) for i in range(form.parts)]
    numbers = torch.tensor([[p.trace(), float((means * p.matvec(means)).sum())] for p in parts], dtype=torch.float64)
    whole = ratio(*numbers.mean(0).tolist(), tokens)
    without = (numbers.sum(0) - numbers) / (len(numbers) - 1)
    left = torch.tensor([ratio(*row.tolist(), tokens) for row in without], dtype=torch.float64)
    return whole, math.sqrt((len(left) - 1) * float(left.var(correction=0)))


class Logits(nn.Module):
    """A model's logits, found where it returns more."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = logits_of(self.model(x), x)
        return y


def measured_case(case: Case, seeds: int, budget: float) -> dict[str, Any]:
    make = case.make()
    shape = case.shape
    found, seconds = [], []
    for seed in range(seeds):
        started = time.process_time()
        found.append(ng.average_geometry(make, shape, probe=ng.Gaussian(SIGMA), at=case.at, seed=seed))
        seconds.append(time.process_time() - started)
    G = found[0]
    means, tokens = token_means(case, G.input_shape)
    ratios = [ratio_of(g, means, tokens) for g in found]
    error = statistics.stdev(ratios) / math.sqrt(seeds)
    family = prepared(make, shape, at=case.at)
    *_, R = references(
        lambda: Logits(family()), G.input_shape, f"gaussian:{SIGMA}", most=MOST, budget=budget, large=G.d > LARGE
    )
    corr = corr_with(G, R)
    theirs, their_error = ratio_over_parts(R.form, means, tokens)
    return {
        "seconds": statistics.median(seconds),
        "method": kind_of(G),
        "members": G.members,
        "corr": [corr.value, corr.stderr],
        "ratio": [statistics.mean(ratios), error],
        "reference_ratio": [theirs, their_error],
        "standard_errors": (statistics.mean(ratios) - theirs) / math.hypot(error, their_error),
        "trace": [G.trace.value / R.trace.value, math.hypot(*(t.stderr / t.value for t in (G.trace, R.trace)))],
        "reference": R.members,
        "remarks": list(G.about.notes),
    }


HEADER = (
    f"{'network':32} {'CPU s':>6} {'method':34} {'Corr':>17} {'b/a':>16} {'b/a, plain':>16} {'s.e.':>5} {'trace':>13}"
)


def line(name: str, row: dict[str, Any]) -> str:
    def pair(key: str, digits: int) -> str:
        if abs(row[key][0]) < 0.01:
            return f"{row[key][0]:.2e} ± {row[key][1]:.0e}"
        return f"{row[key][0]:.{digits}f} ± {row[key][1]:.{digits}f}"

    return (
        f"{name:32} {row['seconds']:6.1f} {row['method']:34} {pair('corr', 4):>17} {pair('ratio', 3):>16} "
        f"{pair('reference_ratio', 3):>16} {row['standard_errors']:5.1f} {pair('trace', 3):>13}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4, help="default calls of each network (default: 4)")
    parser.add_argument("--budget", type=float, default=120, help="seconds of each reference (default: 120)")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="these networks alone")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(HEADER)
    rows = {}
    for name, case in CASES.items():
        if args.only and name not in args.only:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they say is in the remarks
            try:
                rows[name] = measured_case(case, args.seeds, args.budget)
            except (ImportError, ng.NetgrainError) as e:
                print(f"{name:32} not measured: {e}")
                continue
        print(line(name, rows[name]), flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "attention.json").write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
