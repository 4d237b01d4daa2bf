"""Imports go one way: a room uses only rooms before it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ORDER = [
    "errors",
    "arguments",
    "environment",
    "memory",
    "failures",
    "estimate",
    "threads",
    "provenance",
    "files",
    "packed",
    "arrays",
    "sets",
    "samples",
    "stem",
    "model_names",
    "models",
    "probes",
    "progress",
    "data",
    "ensemble",
    "side_by_side",
    "engine",
    "forms",
    "products",
    "pairs",
    "separated",
    "correlation",
    "projection",
    "spectrum",
    "agreement",
    "geometry",
    "storage",
    "law",
    "sketch",
    "reduction",
    "origin",
    "first_layer",
    "random_head",
    "sampling",
    "statistics",
    "closed_form",
    "average",
    "checking",
    "flow",
    "head",
    "shallow",
    "delta",
    "evolution",
    "tracker",
    "curvature",
    "groups",
    "equivariant",
    "complexity",
    "integrations",
    "scores",
    "relevance",
    "testing",
    "regularizers",
    "claims",
    "runs",
    "training",
    "theory",
    "plots",
    "tracks",
    "sweeps",
    "experiments",
    "reproduction",
    "scorecard",
    "planning",
    "audit",
    "doctor",
    "shell",
    "engine_options",
    "plan_command",
    "theory_command",
    "group_command",
    "limit_command",
    "complexity_command",
    "reproduce_command",
    "audit_command",
    "commands",
    "cli",
]
PACKAGE = Path(__file__).parent.parent / "netgrain"


def rooms() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    """Rooms imported when the module is loaded (imports inside functions are lazy and may point anywhere below)."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module == "netgrain":
            found |= {alias.name for alias in node.names} - {"__version__"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("netgrain."):
            found.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("netgrain.")}
    return found


@pytest.mark.parametrize("path", rooms(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_arrows(path: Path) -> None:
    here = _room(path)
    assert here in ORDER, f"give the new room '{here}' a place in ORDER"
    for other in _imports(path) - {here}:
        assert ORDER.index(other) < ORDER.index(here), f"{here} must not import {other}"


def test_every_room_in_the_order_exists() -> None:
    assert {_room(p) for p in rooms()} == set(ORDER)


def test_import_stays_light() -> None:
    code = "import sys, netgrain; print([m for m in ('matplotlib', 'scipy', 'rich', 'typer') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
