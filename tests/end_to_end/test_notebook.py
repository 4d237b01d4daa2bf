"""Results and pictures in a real Jupyter kernel: what a cell shows, and that it shows it once."""

from __future__ import annotations

from typing import Any

import pytest

SETUP = """
import torch
from torch import nn
import netgrain as ng

G = ng.Geometry.from_matrix(torch.diag(torch.tensor([3.0, 1.0, 0.5, 0.25])), (1, 2, 2))
X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
y = (X[:, 0] > 0).long()

def make():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
"""
AUDIT = "ng.audit(make, X, y, name='{}', trial=False, advice=False, quick=True, progress=False)"
# a cell, and the words that its table holds
TABLES = {
    "G": ("Geometry", "1 × 2 × 2, d = 4", "effective rank"),
    "ng.Estimate(3.0, stderr=0.5, n=25)": ("<b>3.0</b> ± 0.5", "n = 25"),
    "ng.kernel(make, X, kind='last', members=2)": ("Kernel", "last layer", "60 × 60", "2 members"),
    "ng.learnability(make, X, y, kinds=['layers'], trial=False)": ("expected accuracy", "label noise"),
    f"one = {AUDIT.format('one')}; one": ("one on data", "<table"),
    f"ng.compare([one, {AUDIT.format('two')}])": ("Comparison", "two"),
}
# a cell, and how many pictures it shows; in this order, since the first ones run before anything imports pyplot
PICTURES = {
    "G.plot_spectrum()": 1,
    "G.plot_directions(2)": 1,
    "kept = G.plot_directions(2); 1 + 1": 1,
    "kept": 1,
    "G.plot_matrix(); G.plot_spectrum()": 2,
    "from netgrain.geometry.plots import png, overview; len(png(overview({'mine': G})))": 0,
    "import matplotlib.pyplot as plt; from matplotlib.figure import Figure": 0,
    "figure, (left, right) = plt.subplots(1, 2); G.plot_matrix(left); G.plot_spectrum(ax=right)": 1,
    "ax = G.plot_spectrum(Figure().add_subplot())": 0,
}


@pytest.fixture(scope="module")
def shown() -> dict[str, list[dict[str, Any]]]:
    """The outputs of each cell, all run in one kernel."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel", reason="needs the extra docs: make .venv/.docs-installed")
    cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, *PICTURES, *TABLES)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
    return {cell.source: cell.outputs for cell in notebook.cells}


@pytest.mark.parametrize("cell", PICTURES)
def test_a_picture_is_shown_once(shown: dict[str, list[dict[str, Any]]], cell: str) -> None:
    pictures = [output.data["image/png"] for output in shown[cell] if "image/png" in output.get("data", {})]
    assert len(pictures) == PICTURES[cell]
    assert all(len(picture) > 5000 for picture in pictures)


@pytest.mark.parametrize("cell", TABLES)
def test_a_result_is_a_table(shown: dict[str, list[dict[str, Any]]], cell: str) -> None:
    (html,) = [output.data["text/html"] for output in shown[cell] if "text/html" in output.get("data", {})]
    for words in TABLES[cell]:
        assert words in html


def test_nothing_is_warned_about(shown: dict[str, list[dict[str, Any]]]) -> None:
    assert [output.text for outputs in shown.values() for output in outputs if output.output_type == "stream"] == []
