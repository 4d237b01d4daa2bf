"""The house in one picture, drawn from the import graph: docs/images/house.png. Run it with `make house`.

Rooms stand in the order of the layers in pyproject.toml. A circle in the row of a room and the column of another says
how often the first imports the second. Everybody may import `runtime`, which has no column. With --numbers, the
script counts instead what stands in a package (by default ours):

    python docs/house.py --numbers
    python docs/house.py --numbers ../netgrain-old/netgrain
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "netgrain"
SAYS = {
    "cli": "the door: thin commands",
    "experiments": "one file or row per figure or table",
    "auditing": "what a geometry means for your data",
    "learning": "kernels over data",
    "complexity": "geometric complexity and bounds",
    "training": "what happens when networks learn",
    "geometry": "G as a value, and ways to obtain it",
    "closed_form": "second moments through a trace",
    "families": "one reading of any module",
    "equivariant": "networks over groups, their limits",
    "models": "built-in networks, models as text",
    "data": "labelled samples as values",
    "groups": "finite groups, Fourier transforms",
    "runtime": "engines, run folders, files, seeds: nothing about networks; every room may use it",
}


# --- the picture ----------------------------------------------------------------------------------------------------


def layers() -> list[list[str]]:
    """The rooms from the top to the bottom, as import-linter checks them."""
    contracts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    listed = next(c["layers"] for c in contracts if c["type"] == "layers")
    return [[room.strip() for room in layer.split("|")] for layer in listed if "(" not in layer]


def imports_between_rooms() -> Counter[tuple[str, str]]:
    """How many modules of one room import modules of another."""
    import grimp

    graph = grimp.build_graph("netgrain", exclude_type_checking_imports=True)
    found: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            pair = module.split(".")[1:2], other.split(".")[1:2]
            if all(pair) and pair[0] != pair[1]:
                found[pair[0][0], pair[1][0]] += 1
    return found


def draw(path: Path) -> None:
    """A staircase: a room imports the rooms below the circles in its row, so every circle is above the diagonal."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyBboxPatch

    rooms = [room for layer in layers() for room in layer if room != "runtime"]
    counts = {pair: n for pair, n in imports_between_rooms().items() if "runtime" not in pair}
    figure, ax = plt.subplots(figsize=(14, 8.6))
    ax.set(xlim=(-50, len(rooms) * STEP_X + 2), ylim=(-(len(rooms) + 0.9) * STEP_Y, 0.75 * STEP_Y))
    ax.axis("off")
    x = {room: i * STEP_X for i, room in enumerate(rooms)}
    y = {room: -i * STEP_Y for i, room in enumerate(rooms)}

    def box(left: float, bottom: float, wide: float, colour: str) -> None:
        style = "round,pad=0,rounding_size=1.1"
        ax.add_patch(
            FancyBboxPatch((left, bottom), wide, HIGH, boxstyle=style, fc="white", ec=colour, lw=1.7, zorder=4)
        )

    for below in rooms:
        importers = [above for above, other in counts if other == below]
        if importers:
            top = max(y[room] for room in importers)
            ends = {"xy": (x[below], y[below] + HIGH / 2), "xytext": (x[below], top)}
            arrow = {"arrowstyle": "-|>", "color": COLOURS[below], "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", **ends, arrowprops=arrow, zorder=1)
    for above in rooms:
        reached = [x[below] for other, below in counts if other == above]
        if reached:
            ax.plot([x[above], max(reached)], [y[above]] * 2, color="#c9ced6", lw=1.2, zorder=0)
    for (above, below), count in counts.items():
        ax.scatter(x[below], y[above], s=130 + 3.5 * count, color=COLOURS[below], edgecolor="white", lw=1, zorder=3)
        ax.text(x[below], y[above] - 0.1, count, ha="center", va="center", fontsize=7.5, color="white", zorder=5)
    for room in rooms:
        box(x[room] - WIDE / 2, y[room] - HIGH / 2, WIDE, COLOURS[room])
        ax.text(x[room], y[room] - 0.1, room, ha="center", va="center", fontsize=10.2, weight="bold", zorder=5)
        ax.text(x[room] - WIDE / 2 - 1.5, y[room] + 1, SAYS[room], ha="right", va="center", fontsize=9.5)
        size = f"{len(list((PACKAGE / room).rglob('*.py')))} files"
        ax.text(x[room] - WIDE / 2 - 1.5, y[room] - 1.4, size, ha="right", va="center", fontsize=8, color="#6b7280")
    ax.text(-49, -9.4 * STEP_Y, NOTE, va="top", fontsize=9, color="#6b7280", linespacing=1.6)
    left, bottom = -49, -(len(rooms) + 0.35) * STEP_Y - HIGH / 2
    box(left, bottom, (len(rooms) - 1) * STEP_X + WIDE / 2 - left, COLOURS["runtime"])
    text = f"{SAYS['runtime']} · {len(list((PACKAGE / 'runtime').rglob('*.py')))} files"
    ax.text(left + 3, bottom + HIGH / 2 - 0.1, "runtime", va="center", fontsize=11.5, weight="bold", zorder=5)
    ax.text(left + 24, bottom + HIGH / 2 - 0.1, text, va="center", fontsize=9.5, zorder=5)
    figure.savefig(path, dpi=120, bbox_inches="tight", facecolor="white")
    plt.close(figure)


NOTE = """A circle counts how often files of the room
in its row import files of the room in its column.
Every arrow points down."""
STEP_X, STEP_Y, WIDE, HIGH = 14.0, 8.0, 22.0, 5.2
COLOURS = {
    "cli": "#6b7280",
    "experiments": "#b45309",
    "auditing": "#be185d",
    "complexity": "#7c3aed",
    "training": "#4338ca",
    "geometry": "#0369a1",
    "closed_form": "#0f766e",
    "families": "#15803d",
    "equivariant": "#92400e",
    "models": "#4d7c0f",
    "data": "#475569",
    "groups": "#a16207",
    "runtime": "#374151",
}


# --- the numbers ----------------------------------------------------------------------------------------------------

NEWLINES = {tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER}
LAYOUT = NEWLINES | {tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT}  # tokens that are not code


def numbers(package: Path) -> dict[str, object]:
    """What stands in a package, for a comparison before and after."""
    files = [f for f in package.rglob("*.py") if f.stem != "__init__"]
    trees = {f: ast.parse(f.read_text()) for f in package.rglob("*.py")}
    lengths = sorted((len(f.read_text().splitlines()), f) for f in files)
    functions = [(own_lines(n), f, n.name) for f, tree in trees.items() for n in definitions(tree)]
    long, where, name = max(functions, key=lambda found: found[0])
    documented = [d for tree in trees.values() for d in public_docstrings(tree)]
    sections = [d for d in documented if re.search(r"^\s*-{4,}\s*$", d, re.MULTILINE)]
    cycles = import_cycles(package)
    return {
        "entries at the top": len([p for p in package.iterdir() if p.name not in ("__pycache__", "py.typed")]),
        "files (without __init__)": len(files),
        "lines": sum(len(f.read_text().splitlines()) for f in trees),
        "of them in docstrings": sum(docstring_lines(tree) for tree in trees.values()),
        "of them code (no docstrings, comments, blank lines)": sum(code_lines(f.read_text()) for f in trees),
        "statements": sum(isinstance(n, ast.stmt) for tree in trees.values() for n in ast.walk(tree)),
        "median file": statistics.median(n for n, _ in lengths),
        "longest file": f"{lengths[-1][0]} ({lengths[-1][1].relative_to(package)})",
        "files over 400 lines": sum(n > 400 for n, _ in lengths),
        "longest function, without signature and docstring": f"{long} ({where.relative_to(package)}: {name})",
        "functions over 80 lines": sum(n > 80 for n, _, _ in functions),
        "imports of another file's underscore names": sum(private_imports(tree) for tree in trees.values()),
        "cycles of imports": f"{len(cycles)} ({sum(map(len, cycles))} files)",
        "docstrings of public names with sections": f"{len(sections)} of {len(documented)}",
        "public functions with **options": sum(catch_alls(tree) for tree in trees.values()),
    }


def definitions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    yield from (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))


def own_lines(function: ast.FunctionDef) -> int:
    body = function.body[ast.get_docstring(function) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def docstring_lines(tree: ast.Module) -> int:
    owners = (n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef))
    return sum(len(doc.splitlines()) for n in owners if (doc := ast.get_docstring(n, clean=False)) is not None)


def code_lines(source: str) -> int:
    """Lines that hold a token other than a comment or a docstring."""
    owners = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef))
    docstrings = (n.body[0] for n in owners if ast.get_docstring(n, clean=False) is not None)
    told = {line for d in docstrings for line in range(d.lineno, (d.end_lineno or d.lineno) + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found = (t for t in tokens if t.type not in LAYOUT)
    return len({line for t in found for line in range(t.start[0], t.end[0] + 1)} - told)


def public_docstrings(tree: ast.Module) -> Iterator[str]:
    """Of functions and classes without an underscore, and of their methods."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            inner = node.body if isinstance(node, ast.ClassDef) else []
            for owner in (node, *inner):
                public = isinstance(owner, ast.ClassDef | ast.FunctionDef) and not owner.name.startswith("_")
                if public and (doc := ast.get_docstring(owner)):
                    yield doc


def private_imports(tree: ast.Module) -> int:
    found = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("netgrain"))
    return sum(alias.name.startswith("_") and not alias.name.startswith("__") for n in found for alias in n.names)


def catch_alls(tree: ast.Module) -> int:
    """Public functions and methods that end in **something."""
    owners = [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))]
    inner = (n for owner in owners for n in owner.body if isinstance(n, ast.FunctionDef))
    return sum(n.args.kwarg is not None and not n.name.startswith("_") for n in inner)


def import_cycles(package: Path) -> list[list[str]]:
    """Groups of files that import each other, imports inside functions included."""
    import grimp
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    sys.path.insert(0, str(package.parent))
    graph = grimp.build_graph(package.name, exclude_type_checking_imports=True, cache_dir=None)
    sys.path.pop(0)
    names = sorted(graph.modules)
    place = {name: i for i, name in enumerate(names)}
    edges = [(place[m], place[o]) for m in names for o in graph.find_modules_directly_imported_by(m)]
    rows, columns = zip(*edges, strict=True)
    shape = (len(names), len(names))
    _, group = connected_components(csr_array((np.ones(len(edges)), (rows, columns)), shape), connection="strong")
    members = [[names[i] for i in np.flatnonzero(group == g)] for g in np.unique(group)]
    return [found for found in members if len(found) > 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", nargs="?", type=Path, const=PACKAGE, metavar="PACKAGE", help="count, draw nothing")
    asked = parser.parse_args()
    if asked.numbers is None:
        draw(DOCS / "images" / "house.png")
        return
    for what, found in numbers(asked.numbers.resolve()).items():
        print(f"{what:52}{found}")


if __name__ == "__main__":
    main()
