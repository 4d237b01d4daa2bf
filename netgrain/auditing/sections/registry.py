"""The sections that there are: every file in this folder that defines SECTION, in their order."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from netgrain.auditing import sections as folder
from netgrain.auditing.sections.contract import Section

SLOW = frozenset({"advice", "changes", "complexity", "layers"})  # files that a quick audit leaves out


@cache
def sections() -> dict[str, Section]:
    """Sections by key (the name of the file), in the order of the report."""
    files = (m.name for m in pkgutil.iter_modules(folder.__path__))
    modules = {name: importlib.import_module(f"{folder.__name__}.{name}") for name in files}
    found = {name: module.SECTION for name, module in modules.items() if hasattr(module, "SECTION")}
    return dict(sorted(found.items(), key=lambda item: item[1].order))
