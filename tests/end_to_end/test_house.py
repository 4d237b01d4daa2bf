"""The house keeps its order: what stands at the top, how long functions are, who imports whose private names.

The arrows between rooms are import-linter's (`make imports`).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.end_to_end.test_docstrings import PACKAGE, exported, stubs

ROOMS = {
    *("runtime", "data", "models", "families", "closed_form", "geometry", "training", "complexity", "groups"),
    *("equivariant", "learning", "auditing", "experiments", "cli"),
}
FOLDERS = {  # where a contract repeats; rooms are flat otherwise
    "closed_form/rules",
    "training/regularizers",
    "auditing/sections",
    "auditing/templates",
    "experiments/grain",
    "experiments/heuristics",
    "experiments/equivariance",
    "experiments/theory",
    "experiments/learnability",
    "data/digits",
}
LONGEST_FUNCTION = 80  # lines, without signature and docstring
QUICK_ROOMS = {"families", "closed_form", "geometry", "training", "groups"}  # each file has a test in `make quick`
TESTED_ELSEWHERE = {
    "auditing/sections/contract.py": "tests/auditing/sections/test_registry.py",
    "complexity/lightning_callback.py": "tests/complexity/test_callbacks.py",
    "complexity/transformers_callback.py": "tests/complexity/test_callbacks.py",
    "experiments/grain/fig8.py": "tests/experiments/grain/test_fig2.py",
}  # what is only a contract, or shares all its code
WORDLESS = {"utils", "core", "helpers", "misc", "common", "base_utils"}

# not done yet; must shrink
TOO_LONG: set[str] = set()
STILL_PRIVATE: set[str] = set()


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def module_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def own_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its signature and docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


@cache
def nodes(file: Path) -> list[ast.AST]:
    """All functions and imports of a file, which is parsed once."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ImportFrom)
    return [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)]


def functions(file: Path) -> Iterator[tuple[str, int]]:
    for node in nodes(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{module_of(file)}.{node.name}", own_lines(node)


def private_imports(file: Path) -> Iterator[str]:
    """Names with an underscore that a file takes from another one."""
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("netgrain"):
            path = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from (f"{module_of(file)} → {name}" for name in path if name.startswith("_") and name[:2] != "__")


def test_only_rooms_stand_at_the_top() -> None:
    found = {p.name for p in PACKAGE.iterdir() if p.name != "__pycache__"}
    assert found == ROOMS | {"__init__.py", "__init__.pyi", "py.typed"}


def test_rooms_are_flat_except_where_a_contract_repeats() -> None:
    folders = {str(p.parent.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py")} - ROOMS - {"."}
    assert folders <= FOLDERS, f"not in the design: {', '.join(sorted(folders - FOLDERS))}"
    assert not WORDLESS & {p.stem for p in sources()}


def test_functions_fit_on_a_screen() -> None:
    long = {name: lines for file in sources() for name, lines in functions(file) if lines > LONGEST_FUNCTION}
    assert set(long) == TOO_LONG, f"split by meaning (or remove from TOO_LONG): {long}"


def test_the_test_of_a_file_is_found_by_its_name() -> None:
    for file in sources():
        place = file.relative_to(PACKAGE)
        if file.stem == "__init__":
            continue
        tests = PACKAGE.parent / TESTED_ELSEWHERE.get(str(place), f"tests/{place.parent}/test_{place.name}")
        assert tests.exists(), f"{place} has no test: write {tests}"
        if place.parts[0] in QUICK_ROOMS:
            assert "@pytest.mark.quick" in tests.read_text(), (
                f"{place} has no test in `make quick`: mark one of {tests}"
            )


def test_underscore_names_stay_in_their_file() -> None:
    found = {found for file in sources() for found in private_imports(file)}
    assert found == STILL_PRIVATE, f"new: {found - STILL_PRIVATE}; gone: {STILL_PRIVATE - found}"


def test_no_file_has_the_name_of_a_function_its_room_exports() -> None:
    """`netgrain.equivariant.limit` is one thing, not a function or a module according to what was imported first."""
    shadowed = set()
    for stub in stubs():
        modules = {p.stem for p in stub.parent.glob("*.py")} | {p.parent.name for p in stub.parent.glob("*/*.py")}
        for module, name in exported(stub):
            if name in modules and not inspect.ismodule(getattr(importlib.import_module(module), name)):
                shadowed.add(f"{module_of(stub.with_suffix('.py'))}.{name}")
    assert not shadowed


def test_the_page_about_the_house_names_what_is_there() -> None:
    """Every `room/file` of docs/architecture.md exists, in capitals where it is a placeholder."""
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    named = {word for word in re.findall(r"`([a-z_]+/[\w./]+)`", text) if word.split("/")[0] in ROOMS}
    assert len(named) > 30
    real = {word for word in named if not re.search(r"[A-Z]", word)}
    missing = {w for w in real if not any((PACKAGE / f"{w}{end}").exists() for end in ("", ".py"))}
    assert not missing
    assert all((PACKAGE / word).parent.exists() for word in named - real if "STUDY" not in word)


def test_the_judges_find_what_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.end_to_end.test_house.PACKAGE", tmp_path / "netgrain")
    file = tmp_path / "netgrain" / "room" / "thing.py"
    file.parent.mkdir(parents=True)
    body = "\n".join(f"    x{i} = {i}" for i in range(81))
    file.write_text(
        f'from netgrain.other.file import _hidden, shown\n\ndef long(\n    x,\n):\n    """Doc."""\n{body}\n'
    )
    assert list(functions(file)) == [("netgrain.room.thing.long", 81)]
    assert list(private_imports(file)) == ["netgrain.room.thing → _hidden"]
