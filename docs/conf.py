"""The documentation site: `make docs` builds it into out/site, with warnings as errors.

Pages are Markdown (MyST), tutorials are Python files with cells that are run while the site is built, and the reference
is made from the NumPy docstrings of every name that a room exports.
"""

import importlib
from pathlib import Path

import netgrain

HERE = Path(__file__).parent
ROOMS = (
    "geometry", "closed_form", "families", "training", "complexity", "learning", "auditing", "data", "models", "groups",
    "equivariant", "experiments", "runtime",
)  # fmt: skip

project, author, copyright = "netgrain", "the netgrain developers", "the netgrain developers"
version = release = netgrain.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx_copybutton"]
html_theme, html_title = "furo", "netgrain"
html_static_path: list[str] = []
exclude_patterns = ["images", "conf.py", "coverage.py", "settings.py", "house.py", "*.toml"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]  # links to files of the repository
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
nb_execution_mode, nb_execution_timeout, nb_execution_raise_on_error = "cache", 300, True
nb_execution_cache_path = str(HERE.parent / "out" / "notebooks")

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say types as a person would
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True


def _reference() -> None:
    """One page for netgrain itself and one for each room, from what they export."""
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    pages = {"netgrain": "netgrain", **{f"netgrain.{room}": room for room in ROOMS}}
    for module, page in pages.items():
        found = importlib.import_module(module)
        names = [n for n in found.__all__ if not n.startswith("__") and n not in ROOMS and n != "regularizers"]
        about = (found.__doc__ or "").strip()
        lines = [f"# `{module}`", "", about, "", "```{eval-rst}", f".. currentmodule:: {module}", ""]
        lines += [
            ".. autosummary::",
            "   :toctree: made",
            "   :nosignatures:",
            "",
            *(f"   {n}" for n in names),
            "```",
            "",
        ]
        _write(folder / f"{page}.md", "\n".join(lines))
    listed = "\n".join(pages.values())
    _write(
        folder / "index.md",
        f"# Reference\n\nEvery public name, by room.\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n",
    )


def _write(file: Path, text: str) -> None:
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


_reference()
