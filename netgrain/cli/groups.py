"""The command `netgrain group`: a finite group, its classes, characters and irreps."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netgrain.cli.parsing import as_text, check_folder, one_sentence_errors, print_rows

if TYPE_CHECKING:
    from netgrain.groups.group import Group

SHOWN = 20  # classes and irreps printed; a file has all of them
WRITTEN = 256  # irreps up to which the character table is part of the JSON
FILE_WIDTH = 170  # columns where the output is not a terminal
KINDS = {1: "real", 0: "complex", -1: "quaternionic"}

EXAMPLES = """  netgrain group D60
  netgrain group C5xC5:Q8 --out out/ccq
  netgrain group p4m8 --json

\b
NAME is built from
  C12, D60 (60 elements), Q8, Dic12, S4, A5, p4m8 (symmetries of an 8 x 8 image on a torus);
  direct products C8xC8xD8; semidirect products CnxCn:D8 = p4mn, CpxCp:Q8, Cn:C2"""


def group(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The group, see below.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write cayley.png and group.json there.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Show a finite group: classes, character table, irreps and their types, and its Cayley table as a quilt."""
    with one_sentence_errors(), redirect_stdout(sys.stderr) if as_json else nullcontext():
        from netgrain.groups.parsing import parse

        if out is not None:
            check_folder(out)
        G = parse(name)
        report = _report(G)
        written = [] if out is None else _write(G, report, out)
    if as_json:
        typer.echo(as_text(report))
        return
    _print(G)
    for path in written:
        typer.echo(f"written: {path}")


def _report(G: Group) -> dict[str, Any]:
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


def _write(G: Group, report: dict[str, Any], out: Path) -> list[Path]:
    """Everything is made first and written last."""
    from matplotlib.figure import Figure

    from netgrain.geometry.plots import png
    from netgrain.groups.quilt import quilt
    from netgrain.runtime.files import write_whole

    figure = quilt(G).figure
    assert isinstance(figure, Figure)
    contents = {"cayley.png": png(figure), "group.json": (as_text(report) + "\n").encode()}
    return [write_whole(out / file, content) for file, content in contents.items()]


def _print(G: Group) -> None:
    from rich.console import Console

    involutions = sum(r.frobenius_schur * r.dimension for r in G.irreps) - 1
    dimensions = ((d, G.dimensions.count(d)) for d in sorted(set(G.dimensions)))
    print_rows(
        [
            ("group", f"{G.name}, order {G.order}, {'' if G.abelian else 'not '}abelian"),
            ("generators", ", ".join(G.names[g] for g in G.generators) or "none"),
            ("classes", str(len(G.classes))),
            ("irreps", " + ".join(f"{count}×{d}" for d, count in dimensions) + "  (how many × dimension)"),
            ("types", ", ".join(f"{count} {kind}" for kind, count in _types(G) if count)),
            ("involutions", f"{involutions}  (elements of order 2, from the types)"),
        ]
    )
    console = Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)
    console.print()
    console.print(_class_table(G))
    console.print()
    legend = _character_table(G, console)
    for line in legend:
        typer.echo(line)


def _types(G: Group) -> list[tuple[str, int]]:
    found = [r.frobenius_schur for r in G.irreps]
    return [(kind, found.count(indicator)) for indicator, kind in KINDS.items()]


def _class_table(G: Group) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("class")
    for title in ("representative", "elements", "of order"):
        table.add_column(title, justify="left" if title == "representative" else "right")
    for i, (members, order) in enumerate(zip(G.classes[:SHOWN], G.class_orders, strict=False)):
        table.add_row(Text(f"C{i}"), Text(G.names[int(members[0])]), str(len(members)), str(order))
    if len(G.classes) > SHOWN:
        table.add_row(Text("…"), Text(f"{len(G.classes) - SHOWN} more, all with --json"), "", "")
    return table


def _character_table(G: Group, console: Any) -> list[str]:
    """Prints the characters, as many classes as fit beside each other; returns what explains the letters."""
    from rich.table import Table
    from rich.text import Text

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
    room = console.width - 22
    while sum(widths[:columns]) > room and columns > 1:
        columns -= 1
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("irrep", "type"):
        table.add_column(title, no_wrap=True)
    for i in range(columns):
        table.add_column(f"C{i}", justify="right", no_wrap=True)
    for i, (irrep, row) in enumerate(zip(G.irreps, rows, strict=False)):
        table.add_row(Text(f"ρ{i}"), Text(KINDS[irrep.frobenius_schur]), *(Text(entry) for entry in row[:columns]))
    console.print(table)
    text = " ".join(entry for row in rows for entry in row[:columns])
    legend = []
    if columns < len(G.classes) or len(rows) < len(G.irreps):
        legend.append(f"{len(rows)} of {len(G.irreps)} irreps and {columns} of {len(G.classes)} classes are shown")
    if "ω" in text:
        legend.append("ωₘ = e^(2πi/m)")
    if "φ" in text:
        legend.append("φ = (1 + √5)/2")
    return legend
