"""The commands about finite groups: `group` shows one, `limit` shows where training over it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from netgrain.cli.options import Seed, argument, option, out_folder
from netgrain.cli.output import Answer, console, plain_table
from netgrain.cli.writing import json_file, write_all
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from rich.table import Table
    from torch import Tensor

    from netgrain.equivariant.solution import Limit
    from netgrain.groups.group import Group

SHOWN = 20  # classes and irreps printed; a file has all of them
SHOWN_IRREPS = 24  # in the table of a limit
WRITTEN = 256  # irreps up to which the character table is part of the JSON
MOST_POINTS = 100_000
LIMIT_FIELDS = (
    "group", "net", "depth", "method", "points", "seed", "objective", "margin", "kkt_residual", "parameter_residual",
    "lower", "upper", "dual_gap", "dual_level", "balancedness", "ratio", "real_ratio", "weighted_rank", "seconds",
)  # fmt: skip
KINDS = {1: "real", 0: "complex", -1: "quaternionic"}

GROUP_EXAMPLES = """  netgrain group D60
  netgrain group C5xC5:Q8 --out out/ccq
  netgrain group p4m8 --json

\b
NAME is built from
  C12, D60 (60 elements), Q8, Dic12, S4, A5, p4m8 (symmetries of an 8 x 8 image on a torus);
  direct products C8xC8xD8; semidirect products CnxCn:D8 = p4mn, CpxCp:Q8, Cn:C2"""
LIMIT_EXAMPLES = """  netgrain limit --group D8 --depth 2
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


# --- a group ---------------------------------------------------------------------------------------------------------


def group(
    name: Annotated[str, argument("NAME", "The group, see below.")],
    out: Annotated[Path | None, out_folder("Write cayley.png and group.json there.", ".png", ".json")] = None,
) -> Answer:
    """Show a finite group: classes, character table, irreps and their types, and its Cayley table as a picture."""
    from netgrain.groups.parsing import parse

    G = parse(name)
    report = _group_report(G)
    return Answer(report, _shown_group(G), written=write_all(out, partial(_group_files, G, report)))


def _group_report(G: Group) -> dict[str, Any]:
    """Everything about the group as plain values."""
    few = len(G.irreps) <= WRITTEN
    table = [[[z.real, z.imag] for z in row] for row in G.character_table.tolist()] if few else None
    return {
        "name": G.name,
        "order": G.order,
        "abelian": G.abelian,
        "generators": [G.names[g] for g in G.generators],
        "classes": [
            {"representative": G.names[int(c[0])], "size": len(c), "element_order": order}
            for c, order in zip(G.classes, G.class_orders, strict=True)
        ],
        "irreps": [{"dimension": r.dimension, "type": KINDS[r.frobenius_schur]} for r in G.irreps],
        "character_table": table,
        "note": "entries are [real, imaginary], rows irreps, columns classes"
        if few
        else f"the character table of more than {WRITTEN} irreps is left out; Group.character_table has it",
    }


def _group_files(G: Group, report: dict[str, Any]) -> dict[str, bytes]:
    from matplotlib.figure import Figure

    from netgrain.geometry.plots import png
    from netgrain.groups.quilt import quilt

    figure = quilt(G).figure
    assert isinstance(figure, Figure)
    return {"cayley.png": png(figure), "group.json": json_file(report)}


def _shown_group(G: Group) -> Iterator[str | list[tuple[str, str]] | Table]:
    involutions = sum(r.frobenius_schur * r.dimension for r in G.irreps) - 1
    dimensions = sorted(Counter(G.dimensions).items())
    types = Counter(KINDS[r.frobenius_schur] for r in G.irreps)
    yield [
        ("group", f"{G.name}, order {G.order}, {'' if G.abelian else 'not '}abelian"),
        ("generators", ", ".join(G.names[g] for g in G.generators) or "none"),
        ("classes", str(len(G.classes))),
        ("irreps", " + ".join(f"{count}×{d}" for d, count in dimensions) + "  (how many × dimension)"),
        ("types", ", ".join(f"{types[kind]} {kind}" for kind in KINDS.values() if types[kind])),
        ("involutions", f"{involutions}  (elements of order 2, from the types)"),
    ]
    yield ""
    yield _class_table(G)
    yield ""
    yield from _character_table(G)


def _class_table(G: Group) -> Table:
    rows = [
        (f"C{i}", G.names[int(members[0])], str(len(members)), str(order))
        for i, (members, order) in enumerate(zip(G.classes[:SHOWN], G.class_orders, strict=False))
    ]
    if len(G.classes) > SHOWN:
        rows.append(("…", f"{len(G.classes) - SHOWN} more, all with --json", "", ""))
    return plain_table(("class", "representative", "elements", "of order"), rows, right=("elements", "of order"))


def _character_table(G: Group) -> Iterator[str | Table]:
    """The characters, as many classes as fit beside each other, and what explains the letters."""
    from netgrain.groups.characters import character_text

    columns = min(len(G.classes), SHOWN)
    first = [int(members[0]) for members in G.classes[:columns]]
    rows = [
        [
            character_text(complex(z), order)
            for z, order in zip(
                irrep.at(first).diagonal(dim1=1, dim2=2).sum(-1).tolist(), G.class_orders, strict=False
            )
        ]
        for irrep in G.irreps[:SHOWN]
    ]  # fmt: skip
    widths = [max(len(f"C{i}"), *(len(row[i]) for row in rows)) + 2 for i in range(columns)]
    room = console().width - 22
    while sum(widths[:columns]) > room and columns > 1:
        columns -= 1
    titles = ("irrep", "type", *(f"C{i}" for i in range(columns)))
    cells = [
        (f"ρ{i}", KINDS[irrep.frobenius_schur], *row[:columns])
        for i, (irrep, row) in enumerate(zip(G.irreps, rows, strict=False))
    ]
    yield plain_table(titles, cells, no_wrap=titles, right=titles[2:])
    text = " ".join(entry for row in rows for entry in row[:columns])
    if columns < len(G.classes) or len(rows) < len(G.irreps):
        yield f"{len(rows)} of {len(G.irreps)} irreps and {columns} of {len(G.classes)} classes are shown"
    if "ω" in text:
        yield "ωₘ = e^(2πi/m)"
    if "φ" in text:
        yield "φ = (1 + √5)/2"


# --- the limit of training over it -----------------------------------------------------------------------------------


def limit(
    group: Annotated[str, option("GROUP", "A group as in `netgrain group`: D60, C12, Q8, S5, A5.")],
    depth: Annotated[int, option("L", "Layers of the network.")] = 2,
    points: Annotated[int, option("N", "Random Gaussian points, labelled by a random teacher.")] = 10,
    net: Annotated[str, option("NET", "The network, see below.")] = "group-cnn",
    method: Annotated[str, option("METHOD", "How to get there, see below.")] = "flow",
    channels: Annotated[int, option("C", "Hidden channels of a convolutional network.")] = 1,
    cap: Annotated[float, option("CAP", "Sharpness of the flow; the result is good to 1/CAP.")] = 1e5,
    seed: Seed = 0,
    data: Annotated[
        Path | None,
        option("FILE.npz", "Use these points instead: arrays X (points, order) and y (-1 or +1)."),
    ] = None,
    out: Annotated[Path | None, out_folder("Write limit.json and limit.png there.", ".json", ".png")] = None,
) -> Answer:
    """Compute where training of a linear network over a group ends, which norm that minimises, and how well.

    The table shows the limit of training beside that of a fully connected network (the support vector machine).
    """
    from netgrain.data.arrays import read_tensors
    from netgrain.equivariant.limits import limit as limit_of
    from netgrain.groups.parsing import parse

    G = parse(group)
    X, y = _points(G, points, seed) if data is None else read_tensors(data, "X", "y")
    found = limit_of(G, X, y, depth=depth, net=net, method=method, channels=channels, cap=cap, seed=seed)
    report = _limit_report(G, found, X, y)
    written = write_all(out, partial(_limit_files, G, found, report))
    return Answer(report, [_limit_rows(G, found, report)], written=written)


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


def _limit_report(G: Group, found: Limit, X: Tensor, y: Tensor) -> dict[str, Any]:
    import torch

    from netgrain.equivariant.schatten_norms import schatten_objective, schatten_ratio, weighted_rank
    from netgrain.equivariant.separable import support_vector

    svm = support_vector(X, y)
    cosine = torch.nn.functional.cosine_similarity(svm, found.beta, dim=0)
    return {
        **{name: getattr(found, name) for name in LIMIT_FIELDS},
        "order": G.order,
        "ratio_at_initialisation": float(found.trajectory.ratios[0]),
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
    }


def _limit_files(G: Group, found: Limit, report: dict[str, Any]) -> dict[str, bytes]:
    from netgrain.equivariant.penalties import group_transform
    from netgrain.equivariant.pictures import limit_figure
    from netgrain.geometry.plots import png

    path = found.trajectory
    separated = [None if not m > 0 else float(v) for m, v in zip(path.margins, path.objectives, strict=True)]
    along = {
        "log_norms": path.log_norms.tolist(),
        "margins": path.margins.tolist(),
        "ratios": path.ratios.tolist(),
        "objectives": separated,
    }
    return {
        "limit.json": json_file(report | {"trajectory": along}),
        "limit.png": png(limit_figure(found, group_transform(G))),
    }


def _limit_rows(G: Group, found: Limit, report: dict[str, Any]) -> list[tuple[str, str]]:
    svm = report["fully_connected"]
    p = f"2/{found.depth}"
    if found.dual_gap is None:
        bracket = f"{found.lower:.7g} ≤ optimum ≤ {found.upper:.7g}; not convex, so stationary need not be optimal"
    else:
        bracket = f"{found.lower:.7g} ≤ optimum ≤ {found.upper:.7g}, gap {found.dual_gap:.1e}"
    alive = [(i, d, r) for i, (d, r) in enumerate(zip(report["dimensions"], found.ranks, strict=True)) if r > 0]
    return [
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
            for i, d, r in alive[:SHOWN_IRREPS]
        ),
        *([("  …", f"{len(alive) - SHOWN_IRREPS} more irreps")] if len(alive) > SHOWN_IRREPS else []),
        (
            "fully connected",
            f"the same norm |β̂|_{p} is {svm['group_objective']:.6g} (here {report['group_objective']:.6g}), "
            f"Fourier ratio {svm['ratio']:.4g}, rank {svm['weighted_rank']}, cosine {svm['cosine']:.6f}",
        ),
        ("seconds", f"{found.seconds:.2f}"),
    ]


def _numbers(values: list[float]) -> str:
    shown = ", ".join(f"{v:.4g}" for v in values[:6])
    return shown + (", …" if len(values) > 6 else "")
