"""The documentation site: `make docs` builds it into out/site, with warnings as errors.

Pages are Markdown (MyST), tutorials are Python files with cells that are run while the site is built, and the reference
is made from the NumPy docstrings of every name that a room exports.
"""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import netgrain

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for docs/notebooks.py
ROOMS = (
    "geometry", "closed_form", "families", "training", "complexity", "learning", "auditing", "data", "models", "groups",
    "equivariant", "experiments", "runtime",
)  # fmt: skip

project, author, copyright = "netgrain", "the netgrain developers", "the netgrain developers"
version = release = netgrain.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx_copybutton"]
html_theme, html_title = "furo", "netgrain"
html_static_path, html_css_files = ["static"], ["site.css"]
html_show_sourcelink = html_copy_source = False
templates_path = ["templates"]
exclude_patterns = ["images", "runs", "static", "templates", "*.py", "*.toml"]

myst_heading_anchors = 3
# References of a docstring are a list of sources, not footnotes. Examples of output need no colours. Cards of the
# gallery are small. Letters in the type of a parameter, as in "shape (d, d)", are no links.
suppress_warnings = ["ref.footnote", "misc.highlighting_failure", "myst.header", "ref.python"]
nb_custom_formats = {".py": ["notebooks.executed", {}]}
nb_execution_mode = "off"  # notebooks.executed has done it
nb_merge_streams = True

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say types as a person would
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_use_ivar = True


def _reference() -> None:
    """A page for netgrain itself and one for each room, from what they export; a name is described once."""
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    pages = {"netgrain": "netgrain", "netgrain.training.regularizers": "regularizers"}
    pages |= {f"netgrain.{room}": room for room in ROOMS}
    described: dict[int, str] = {}  # the object and the page that has it
    for module, page in pages.items():
        found = importlib.import_module(module)
        names = [n for n in found.__all__ if not n.startswith("__") and n not in ROOMS and n != "regularizers"]
        own = [n for n in names if id(getattr(found, n)) not in described]
        elsewhere = sorted(set(names) - set(own))
        described |= {id(getattr(found, n)): n for n in own}
        lines = [f"# `{module}`", "", (found.__doc__ or "").strip(), ""]
        if elsewhere:
            links = ", ".join(f"[`ng.{described[id(getattr(found, n))]}`](netgrain.md)" for n in elsewhere)
            lines += [f"Also in this room, and described under [netgrain](netgrain.md): {links}.", ""]
        lines += ["```{eval-rst}", f".. currentmodule:: {module}", ""]
        lines += [
            ".. autosummary::",
            "   :toctree: made",
            "   :nosignatures:",
            "",
            *(f"   {n}" for n in own),
            "```",
            "",
        ]
        _write(folder / f"{page}.md", "\n".join(lines))
    listed = "\n".join(pages.values())
    _write(
        folder / "index.md",
        "# Reference\n\nEvery public name. `import netgrain as ng` gives you those of the first page; the others are "
        f"in the room (subpackage) that names the page.\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n",
    )


def _write(file: Path, text: str) -> None:
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def _escape(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings write (n, *input_shape) and |G| as they are: to reStructuredText that would be markup."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", line)
            lines[i] = "".join(part if part.startswith("``") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    text = re.sub(r"(?<![\w*\\])\*(?=\w)(?![^*]*\w\*(?!\w))", r"\\*", text)  # a star that no other closes
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _escape, priority=100)  # before napoleon


_reference()
