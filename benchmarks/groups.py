"""Groups: times of irreps, of a Fourier training step at order 6272, and of Wigner matrices against e3nn.

    OMP_NUM_THREADS=1 python benchmarks/groups.py [--quick]

The training step: batch 50 of functions on a group of order 6272, three filters, exponential loss, gradient of the
filters. Reference, written out below as the paper's code does it: unfold x(uv) into (batch, n, n), multiply by the
filter, layer after layer. At order 6272 the unfolded tensor of one layer alone does not fit; the reference is timed on
a smaller group of the same kind (order 288) and extrapolated by n². Memory is the growth of the resident size of a
process that builds the group and the data and makes five steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from measure import machine, measured
from torch import Tensor

from netgrain.groups import Group, cyclic, dihedral, direct, from_cayley, p4m, parse, wigner

BATCH, LAYERS = 50, 3


def milliseconds(function: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Least and median time of a call."""
    function()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(1e3 * (time.perf_counter() - started))
    return min(times), statistics.median(times)


def data(G: Group, dtype: torch.dtype) -> tuple[Tensor, Tensor, list[Tensor]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, G.order, generator=generator).to(dtype)
    y = torch.where(torch.arange(BATCH) % 2 == 0, 1.0, -1.0).to(dtype)
    scale = (3 / G.order) ** 0.5
    filters = [(scale * (2 * torch.rand(G.order, generator=generator) - 1)).to(dtype) for _ in range(LAYERS)]
    return x, y, [w.requires_grad_() for w in filters]


def loss(outputs: Tensor, y: Tensor) -> Tensor:
    return torch.exp(-y * outputs).mean()


def predictor_first(G: Group, x: Tensor, y: Tensor, filters: list[Tensor]) -> tuple[Tensor, ...]:
    """Transform of the batch, β̂ = ŵ₃ ŵ₂ ŵ₁, ⟨x, β⟩ by Plancherel, gradient."""
    X = G.fourier(x)
    first, second, third = (G.fourier(w) for w in filters)
    return torch.autograd.grad(loss(X.inner(third @ second @ first), y), filters)


def layer_by_layer(G: Group, x: Tensor, y: Tensor, filters: list[Tensor]) -> tuple[Tensor, ...]:
    """Transform of the batch, every block times ŵ₁⁺ and ŵ₂⁺, ⟨·, w₃⟩, gradient: as a network with more inside would."""
    X = G.fourier(x)
    for w in filters[:-1]:
        X = X @ G.fourier(w).adjoint()
    return torch.autograd.grad(loss(X.inner(G.fourier(filters[-1])), y), filters)


def unfolded(G: Group, x: Tensor, y: Tensor, filters: list[Tensor]) -> tuple[Tensor, ...]:
    """The reference: x(uv) as a tensor (batch, n, n)."""
    for w in filters[:-1]:
        x = x[:, G.cayley] @ w
    return torch.autograd.grad(loss(x @ filters[-1], y), filters)


KINDS: dict[str, Callable[[int], Group]] = {
    "direct": lambda m: direct(cyclic(m), cyclic(m), dihedral(order=8)),
    "semidirect": p4m,
}
STEPS: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "predictor first": predictor_first,
    "layer by layer": layer_by_layer,
}


def five_steps(kind: str, step: str, dtype: torch.dtype) -> None:
    """For a process of its own: the memory of building the group, the data and training."""
    torch.set_num_threads(1)
    G = KINDS[kind](28)
    x, y, filters = data(G, dtype)
    for _ in range(5):
        STEPS[step](G, x, y, filters)


def training(quick: bool) -> list[dict[str, Any]]:
    rows = []
    for kind, make in KINDS.items():
        started = time.perf_counter()
        G = make(28)
        G.fourier(torch.zeros(G.order))
        setup = time.perf_counter() - started
        small = make(6)
        x, y, filters = data(small, torch.float64)
        for mine, theirs in zip(predictor_first(small, x, y, filters), unfolded(small, x, y, filters), strict=True):
            torch.testing.assert_close(mine, theirs)
        for dtype in (torch.float64, torch.float32):
            x, y, filters = data(small, dtype)
            slow = milliseconds(partial(unfolded, small, x, y, filters), 3)[0] * (G.order / small.order) ** 2
            x, y, filters = data(G, dtype)
            for name, step in STEPS.items():
                least, median = milliseconds(partial(step, G, x, y, filters), 5 if quick else 30)
                extra = measured(five_steps, kind, name, dtype)["extra_mib"]
                tensor = BATCH * G.order**2 * x.element_size() / 2**20
                rows.append(
                    {
                        "group": G.name,
                        "type": str(dtype).removeprefix("torch."),
                        "step": name,
                        "setup ms": 1e3 * setup,
                        "least ms": least,
                        "median ms": median,
                        "unfolded ms (~)": slow,
                        "ratio": slow / median,
                        "MiB, all": extra,
                        "unfolded MiB": tensor,
                        "ratio of memory": tensor / extra,
                    }
                )
    return rows


def from_tables(quick: bool) -> list[dict[str, Any]]:
    """From a bare Cayley table, validated, to all irreps."""
    rows = []
    for name in ("D60", "S5", "C5xC5:Q8", "C10xC10xC2", "C8xC8:D8", "S6", *(() if quick else ("p4m14",))):
        table = parse(name).cayley

        def build(table: Tensor = table) -> Group:
            G = from_cayley(table)
            assert len(G.irreps) == len(G.dimensions)
            return G

        least, median = milliseconds(build, 3 if len(table) > 600 else 7)
        rows.append({"group": name, "order": len(table), "least_ms": least, "median_ms": median})
    return rows


def rotations() -> list[dict[str, Any]]:
    """D^l of 1000 rotations, ours against e3nn, if it is installed; errors of the homomorphism D(2α) = D(α)²."""
    import warnings

    warnings.simplefilter("ignore")
    try:
        from e3nn import o3  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        o3 = None
    torch.set_default_dtype(torch.float64)
    a, b, c = 6 * torch.rand(3, 1000, generator=torch.Generator().manual_seed(0))
    rows = []
    for l in (1, 5, 11):
        theirs = (lambda l=l: o3.wigner_D(l, a, b, c)) if o3 is not None else None
        row: dict[str, Any] = {"l": l, "ours_ms": milliseconds(lambda l=l: wigner(l, a, b, c, real=True), 7)[0]}

        def error(D: Callable[..., Tensor]) -> float:
            zero = torch.zeros(1000)
            unitary = D(a, b, c) @ D(a, b, c).mT - torch.eye(D(a, b, c).shape[-1])
            squared = D(zero, b, zero) @ D(zero, b, zero) - D(zero, 2 * b, zero)
            return float(max(unitary.abs().max(), squared.abs().max()))

        row["ours_error"] = error(lambda *x, l=l: wigner(l, *x, real=True))
        if theirs is not None:
            row["e3nn_ms"] = milliseconds(theirs, 7)[0]
            row["e3nn_error"] = error(lambda *x, l=l: o3.wigner_D(l, *x))
        rows.append(row)
    return rows


def show(title: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{title}")
    texts = [{k: f"{v:.3g}" if isinstance(v, float) else str(v) for k, v in row.items()} for row in rows]
    widths = {k: max(len(k), *(len(t.get(k, "")) for t in texts)) for k in rows[0]}
    print("  ".join(k.rjust(w) for k, w in widths.items()))
    for text in texts:
        print("  ".join(text.get(k, "").rjust(w) for k, w in widths.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer repeats, no large tables")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = {
        "a training step at order 6272, batch 50, one thread": training(arguments.quick),
        "from a bare Cayley table to all irreps": from_tables(arguments.quick),
        "D^l of 1000 rotations, float64": rotations(),
    }
    if arguments.json:
        print(json.dumps({"machine": machine(), **results}, indent=2))
        return
    print(machine())
    for title, rows in results.items():
        show(title, rows)


if __name__ == "__main__":
    main()
