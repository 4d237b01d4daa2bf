"""Every public name explains itself: what stands in the stubs has a signature and a NumPy docstring.

To see what is missing in a room:  python -m tests.end_to_end.test_docstrings geometry
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import validate

PACKAGE = Path(__file__).parents[2] / "netgrain"
LONGEST_SUMMARY = 80
CODES = {
    "GL06": "unknown section",
    "GL07": "sections in another order",
    "GL08": "no docstring",
    "SS01": "no summary",
    "SS02": "summary without a capital letter",
    "SS03": "summary without a period",
    "SS04": "summary with leading spaces",
    "SS06": "summary of several lines",
    "PR01": "parameters not documented",
    "PR02": "unknown parameters",
    "PR10": "no space before the colon of a parameter",
    "RT01": "no Returns section",
    "YD01": "no Yields section",
}


def stubs() -> list[Path]:
    return sorted(PACKAGE.rglob("__init__.pyi"))


def exported(stub: Path) -> Iterator[tuple[str, str]]:
    """Module and name of everything that a stub exports; modules themselves are left out."""
    room = ".".join(stub.parent.relative_to(PACKAGE.parent).parts)
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            module = ".".join(filter(None, [room, node.module]))
            yield from ((module, alias.name) for alias in node.names)


@cache
def public() -> dict[str, Any]:
    """Functions, classes and methods that users may call, by the place where they are defined."""
    found: dict[str, Any] = {}
    for module, name in sorted({pair for stub in stubs() for pair in exported(stub)}):
        value = getattr(importlib.import_module(module), name)
        if not (inspect.isfunction(value) or inspect.isclass(value)) or not value.__module__.startswith("netgrain"):
            continue  # a constant, a type or a room
        place = f"{value.__module__}.{value.__qualname__}"
        found[place] = value
        if inspect.isclass(value):
            found |= {f"{place}.{method}": inspect.getattr_static(value, method) for method in methods(value)}
    return found


def methods(owner: type) -> Iterator[str]:
    """Public methods and properties of its own; those that a library's base class asks for belong to the library."""
    theirs = {name for base in owner.__mro__ if not base.__module__.startswith("netgrain") for name in vars(base)}
    for name, value in vars(owner).items():
        kinds = property | staticmethod | classmethod
        if not name.startswith("_") and name not in theirs and (inspect.isfunction(value) or isinstance(value, kinds)):
            yield name


def problems(place: str) -> list[str]:
    """What numpydoc and our own rules find wrong with one name."""
    value = public()[place]
    found = validate(place)
    wrong = [f"{code} {text}" for code, text in found["errors"] if code in CODES and not excused(code, value)]
    summary = inspect.getdoc(value) or ""
    if len(summary.splitlines()[0] if summary else "") > LONGEST_SUMMARY:
        wrong.append(f"summary of more than {LONGEST_SUMMARY} characters")
    if dataclasses.is_dataclass(value) and (missing := undocumented_fields(value)):
        wrong.append(f"fields neither in Parameters nor in Attributes: {', '.join(missing)}")
    if options := catch_all(value):
        wrong.append(f"takes **{options}: write the options out")
    return wrong


def excused(code: str, value: Any) -> bool:
    """A result may list its fields as Attributes; an exception takes a sentence; `value.thing()` is its summary."""
    if code == "RT01":
        return inspect.isfunction(value) and list(inspect.signature(value).parameters) == ["self"]
    if code == "YD01":
        return not inspect.isgeneratorfunction(value)  # a context manager
    if code not in ("PR01", "PR02"):
        return False
    return inspect.isclass(value) and (
        dataclasses.is_dataclass(value) or issubclass(value, Exception | Warning) or is_protocol(value)
    )


def is_protocol(owner: type) -> bool:
    return Protocol in owner.__bases__


def undocumented_fields(owner: type) -> list[str]:
    doc = get_doc_object(owner)
    named = {part for section in ("Parameters", "Attributes") for row in doc[section] for part in row.name.split(", ")}
    return [f.name for f in dataclasses.fields(owner) if f.init and not f.name.startswith("_") and f.name not in named]


def catch_all(value: Any) -> str | None:
    value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    if isinstance(value, property):
        return None
    if inspect.isclass(value):
        value = len if is_protocol(value) else vars(value).get("__init__", len)  # if inherited it belongs to its base
    parameters = inspect.signature(value).parameters.values()
    return next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)


@pytest.mark.parametrize("room", ["netgrain", *sorted(p.parent.name for p in PACKAGE.glob("*/__init__.pyi"))])
def test_every_public_name_explains_itself(room: str) -> None:
    """By room: names that are defined there (the top level exports what rooms define)."""
    own = [place for place in public() if place.split(".")[1] == room]
    wrong = {place: found for place in own if (found := problems(place))}
    assert not wrong, "\n".join(f"{place}: {'; '.join(found)}" for place, found in wrong.items())


def test_a_bad_docstring_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge itself: a stranger's function with every fault it should find."""

    def bad(x: int, **options: int) -> int:
        """no capital, no period and much too long to be a summary that anybody reads with pleasure, is it not

        Parameters
        ----------
        y : int
            Not there.
        """
        return x

    module = sys.modules[__name__]
    bad.__qualname__ = "bad"
    monkeypatch.setattr(module, "bad", bad, raising=False)
    monkeypatch.setitem(public(), f"{__name__}.bad", bad)
    text = "; ".join(problems(f"{__name__}.bad"))
    for expected in ("SS02", "SS03", "PR01", "PR02", "RT01", "80 characters", "**options"):
        assert expected in text


def test_a_result_documents_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass
    class Found:
        """A result.

        Attributes
        ----------
        value : float
            The number.
        """

        value: float
        error: float

    Found.__qualname__ = "Found"
    monkeypatch.setattr(sys.modules[__name__], "Found", Found, raising=False)
    monkeypatch.setitem(public(), f"{__name__}.Found", Found)
    assert problems(f"{__name__}.Found") == ["fields neither in Parameters nor in Attributes: error"]


if __name__ == "__main__":
    asked = sys.argv[1:]
    for place in sorted(public()):
        if (not asked or place.split(".")[1] in asked) and (wrong := problems(place)):
            print(f"{place}: {'; '.join(wrong)}")
