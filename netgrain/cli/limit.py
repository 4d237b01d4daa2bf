"""The command `netgrain limit`: where the training of a linear network over a group ends, with certificates."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netgrain.cli.parsing import as_text, check_folder, one_sentence_errors, print_rows
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from torch import Tensor

    from netgrain.equivariant.solution import Limit
    from netgrain.groups.group import Group

SHOWN = 24  # irreps in the table
MOST_POINTS = 100_000

EXAMPLES = """  netgrain limit --group D8 --depth 2
  netgrain limit --group D60 --depth 3 --points 10 --out out/limit
  netgrain limit --group D8 --net diagonal --data my.npz --json

\b
NET is one of
  group-cnn         convolutions over the group: the Schatten norm of the Fourier coefficients
  circular          convolutions over the cyclic group of the same order: the norm of the DFT
  diagonal          one weight an entry and layer: the norm of the entries
  fully-connected   matrices: the Euclidean norm at any depth
METHOD is one of
  flow              gradient flow in log-norm time, to its end
  ngd               normalised gradient descent
  sgd               gradient descent with a growing step, as in the paper's code"""


def limit(
    group: Annotated[str, typer.Option(metavar="GROUP", help="A group as in `netgrain group`: D60, C12, Q8, S5, A5.")],
    depth: Annotated[int, typer.Option(metavar="L", help="Layers of the network.")] = 2,
    points: Annotated[
        int, typer.Option(metavar="N", help="Random Gaussian points, labelled by a random teacher.")
    ] = 10,
    net: Annotated[str, typer.Option(metavar="NET", help="The network, see below.")] = "group-cnn",
    method: Annotated[str, typer.Option(metavar="METHOD", help="How to get there, see below.")] = "flow",
    channels: Annotated[int, typer.Option(metavar="C", help="Hidden channels of a convolutional network.")] = 1,
    cap: Annotated[
        float, typer.Option(metavar="CAP", help="Sharpness of the flow; the result is good to 1/CAP.")
    ] = 1e5,
    seed: Annotated[int, typer.Option(metavar="SEED", help="The same seed gives the same result.")] = 0,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="X (points, order) and y (-1 or +1) instead.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write limit.json and limit.png there.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Train a linear network over a group to the end, and say what it has minimised and how well.

    The table shows the limit of training beside that of a fully connected network (the support vector machine).
    """
    with one_sentence_errors(), redirect_stdout(sys.stderr) if as_json else nullcontext():
        from netgrain import groups
        from netgrain.equivariant.limits import limit as limit_of

        if out is not None:
            check_folder(out)
        G = groups.parse(group)
        X, y = _points(G, points, seed) if data is None else _read(data)
        found = limit_of(G, X, y, depth=depth, net=net, method=method, channels=channels, cap=cap, seed=seed)
        report = _report(G, found, X, y)
        written = [] if out is None else _write(G, found, report, out)
    if as_json:
        typer.echo(as_text(report))
        return
    _print(G, found, report)
    for path in written:
        typer.echo(f"written: {path}")


def _points(G: Group, points: int, seed: int) -> tuple[Tensor, Tensor]:
    """Gaussian points and the signs of a Gaussian teacher, so that they are separable."""
    import numpy as np
    import torch

    if not 1 <= points <= MOST_POINTS:
        raise NetgrainError(f"--points expects a number between 1 and {MOST_POINTS}, found {points}.")
    if seed < 0:
        raise NetgrainError(f"--seed expects a number from 0 on, found {seed}.")
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((points, G.order))
    y = np.sign(X @ rng.standard_normal(G.order))
    return torch.from_numpy(X), torch.from_numpy(y)


def _read(path: Path) -> tuple[Tensor, Tensor]:
    from netgrain.data.arrays import read_tensors

    X, y = read_tensors(path, "X", "y")
    return X, y


def _report(G: Group, found: Limit, X: Tensor, y: Tensor) -> dict[str, Any]:
    import torch

    from netgrain.equivariant.schatten_norms import schatten_objective, schatten_ratio, weighted_rank
    from netgrain.equivariant.separable import support_vector

    svm = support_vector(X, y)
    cosine = torch.nn.functional.cosine_similarity(svm, found.beta, dim=0)
    path = found.trajectory
    return {
        "group": found.group,
        "order": G.order,
        "net": found.net,
        "depth": found.depth,
        "method": found.method,
        "points": found.points,
        "seed": found.seed,
        "objective": found.objective,
        "margin": found.margin,
        "kkt_residual": found.kkt_residual,
        "parameter_residual": found.parameter_residual,
        "lower": found.lower,
        "upper": found.upper,
        "dual_gap": found.dual_gap,
        "dual_level": found.dual_level,
        "balancedness": found.balancedness,
        "ratio": found.ratio,
        "ratio_at_initialisation": float(path.ratios[0]),
        "real_ratio": found.real_ratio,
        "weighted_rank": found.weighted_rank,
        "dimensions": [irrep.dimension for irrep in G.irreps],
        "ranks": list(found.ranks),
        "singular_values": [values.tolist() for values in found.singular_values],
        "group_objective": float(schatten_objective(G, found.beta, X, y, found.depth)),
        "fully_connected": {
            "margin": float(1 / svm.norm()),
            "group_objective": float(schatten_objective(G, svm, X, y, found.depth)),
            "ratio": float(schatten_ratio(G, svm, found.depth)),
            "weighted_rank": weighted_rank(G, svm),
            "cosine": float(cosine),
        },
        "beta": found.beta.tolist(),
        "seconds": found.seconds,
    }


def _write(G: Group, found: Limit, report: dict[str, Any], out: Path) -> list[Path]:
    """Everything is made first and written last."""
    from netgrain.equivariant.penalties import group_transform
    from netgrain.equivariant.pictures import limit_figure
    from netgrain.geometry.plots import png
    from netgrain.runtime.files import write_whole

    path = found.trajectory
    separated = [None if not m > 0 else float(v) for m, v in zip(path.margins, path.objectives, strict=True)]
    along = {
        "log_norms": path.log_norms.tolist(),
        "margins": path.margins.tolist(),
        "ratios": path.ratios.tolist(),
        "objectives": separated,
    }
    contents = {
        "limit.json": (as_text(report | {"trajectory": along}) + "\n").encode(),
        "limit.png": png(limit_figure(found, group_transform(G))),
    }
    return [write_whole(out / name, content) for name, content in contents.items()]


def _print(G: Group, found: Limit, report: dict[str, Any]) -> None:
    svm = report["fully_connected"]
    p = f"2/{found.depth}"
    if found.dual_gap is None:
        bracket = f"{found.lower:.7g} ≤ optimum ≤ {found.upper:.7g}; not convex, so stationary need not be optimal"
    else:
        bracket = f"{found.lower:.7g} ≤ optimum ≤ {found.upper:.7g}, gap {found.dual_gap:.1e}"
    alive = [(i, d, r) for i, (d, r) in enumerate(zip(report["dimensions"], found.ranks, strict=True)) if r > 0]
    rows = [
        ("limit", f"{found.net} on {G!r}, depth {found.depth}, {found.points} points, by {found.method}"),
        ("objective", f"{found.objective:.7g}, what this network minimises (p = {p}) at margin one"),
        ("bracket", bracket),
        ("KKT residual", f"{found.kkt_residual:.1e} of the predictor, {found.parameter_residual:.1e} of the weights"),
        ("margin", f"{found.margin:.5g}; of the support vector machine {svm['margin']:.5g}"),
        ("balancedness", f"1 {found.balancedness - 1:+.1e}"),
        ("Fourier ratio", f"{report['ratio_at_initialisation']:.4g} at initialisation, {found.ratio:.4g} at the limit"),
        ("rank", f"{found.weighted_rank} of {G.order}, irreps weighted by dimension"),
        *(
            (f"  ρ{i}", f"rank {r} of {d}, singular values {_numbers(found.singular_values[i][:r].tolist())}")
            for i, d, r in alive[:SHOWN]
        ),
        *([("  …", f"{len(alive) - SHOWN} more irreps")] if len(alive) > SHOWN else []),
        (
            "fully connected",
            f"the same norm |β̂|_{p} is {svm['group_objective']:.6g} (here {report['group_objective']:.6g}), "
            f"Fourier ratio {svm['ratio']:.4g}, rank {svm['weighted_rank']}, cosine {svm['cosine']:.6f}",
        ),
        ("seconds", f"{found.seconds:.2f}"),
    ]
    print_rows(rows)


def _numbers(values: list[float]) -> str:
    shown = ", ".join(f"{v:.4g}" for v in values[:6])
    return shown + (", …" if len(values) > 6 else "")
