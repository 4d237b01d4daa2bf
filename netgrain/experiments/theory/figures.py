"""Figures 7 and 15: curves of Theorems 3.1 and 3.2 against width, and the three eigenvectors of App. A.10.

Computing never draws, drawing never computes: `curves` gives the numbers, `figure_7` and `figure_15` the pictures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netgrain.experiments.theory import pooled, relu
from netgrain.experiments.theory.material import images
from netgrain.experiments.theory.statements import Job
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.value import Geometry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, RED, ORANGE = "#1f5fa8", "#c0392b", "#d98218"


@dataclass(frozen=True, eq=False)
class WidthCurve:
    """|Corr| against width on one data set: sampled (debiased, plug-in beside it) and exact."""

    panel: str  # "a" (Theorem 3.1) or "b" (Theorem 3.2)
    data: str
    widths: list[int]
    measured: list[Estimate]
    exact: list[float]


def curves(job: Job) -> list[WidthCurve]:
    """Both panels on synthetic images and, at laptop scale, on CIFAR-2 where it is found."""
    found = []
    size, samples = job.pick(8, 16, 32), job.pick(60, 200, 1000)
    for real in (False, True) if job.laptop else (False,):
        data = images(job, samples, channels=3, size=size, real=real)
        if real and not data.real:
            continue
        X = data.X.flatten(1)
        D, rank = X.shape[1], relu.effective_rank(X)
        widths = [16, 64, 256] if not job.laptop else [16, 64, 256, 1024, 4096]
        measured = [relu.sample(X, n, job.pick(12, 20), job.generator("figure-7a", n)).corr(1.0) for n in widths]
        exact = [relu.exact_corr(n, D, 1.0, rank, relu.UNIFORM) for n in widths]
        found.append(WidthCurve("a", data.name, widths, measured, exact))
        net = pooled.pooled(data)
        narrow = [1, 2, 4, 8, 16, 32, 64, 128]
        measured = [pooled.sampled_corr(net, n, job.pick(1500, 6000), job.generator("figure-7b", n)) for n in narrow]
        found.append(WidthCurve("b", data.name, narrow, measured, [abs(net.corr(n)) for n in narrow]))
    return found


def figure_7(found: list[WidthCurve]) -> Figure:
    """|Corr(Δ, S)| of the ReLU network (a) and |Corr(Δ, GSG)| of the pooled one (b) against width."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.1), layout="constrained")
    figure.suptitle("Widths are ours: the paper names none", fontsize=8, color="0.4")
    titles = {
        "a": ("(a) one hidden ReLU layer, equal variances", "|Corr(Δ, S)|"),
        "b": ("(b) linear convolution with pooling", "|Corr(Δ, GSG)|"),
    }
    for ax, (panel, (title, label)) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        lowest = 1.0
        for curve, colour in zip([c for c in found if c.panel == panel], (BLUE, ORANGE), strict=False):
            values = [abs(v.value) for v in curve.measured]
            plug_in = [abs(v.plug_in or math.nan) for v in curve.measured]
            errors = [2 * v.stderr for v in curve.measured]
            ax.plot(curve.widths, curve.exact, color=colour, linewidth=1.6, label=f"{curve.data}: exact")
            ax.errorbar(
                curve.widths, values, errors, color=colour, linestyle="none", marker="o", markersize=5, capsize=2.5,
                label="debiased, ± 2 standard errors",
            )  # fmt: skip
            ax.plot(
                curve.widths, plug_in, color=colour, linestyle=":", marker="s", markersize=4, markerfacecolor="white",
                linewidth=1.2, label="plug-in",
            )  # fmt: skip
            lowest = min([lowest, *plug_in, *values])
        ax.axhline(1, color="0.6", linewidth=0.8, zorder=0)
        ax.set_xscale("log", base=2)
        ax.set_xticks(sorted({n for c in found if c.panel == panel for n in c.widths}))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.minorticks_off()
        room = 1 - lowest
        ax.set_ylim(max(0.0, lowest - 0.45 * room), 1 + 0.2 * room)  # the legend stands below the curves
        ax.set_xlabel("hidden units" if panel == "a" else "channels", fontsize=9)
        ax.set_ylabel(label, fontsize=9)
        ax.set_title(title, fontsize=10.5)
        ax.tick_params(labelsize=8)
        ax.grid(color="0.92", linewidth=0.6)
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.legend(fontsize=7.5, frameon=False, loc="lower right")
    return figure


def figure_15(G: Geometry) -> Figure:
    """The eigenvectors of G in three dimensions: blue where G sees, red where it is zero."""
    from matplotlib.figure import Figure

    values, vectors = torch.linalg.eigh(G.matrix())
    figure = Figure(figsize=(5.4, 5.0), layout="constrained")
    ax = figure.add_subplot(projection="3d")
    names = {0: "λ ∝ 3", 1: "λ ∝ 1", 2: "λ = 0"}
    plane = [vectors[:, 2], vectors[:, 1]]
    grid = torch.linspace(-1, 1, 2, dtype=torch.float64)
    corners = [[s * plane[0] + t * plane[1] for t in grid] for s in grid]
    surface = torch.stack([torch.stack(row) for row in corners]).numpy()
    ax.plot_surface(surface[..., 0], surface[..., 1], surface[..., 2], color=BLUE, alpha=0.12, linewidth=0)
    for rank, index in enumerate((2, 1, 0)):
        v = _pointing(vectors[:, index])
        colour = RED if float(values[index]) < 1e-6 * float(values[-1]) else BLUE
        x, y, z = v.tolist()
        ax.quiver(0, 0, 0, x, y, z, color=colour, linewidth=2.2, arrow_length_ratio=0.12)
        whole = (v / v.abs()[v.abs() > 1e-6].min()).round().int().tolist()
        text = f"({', '.join(str(i).replace('-', '−') for i in whole)})\n{names[rank]}"
        ax.text(1.15 * x, 1.15 * y, 1.15 * z + 0.06, text, color=colour, fontsize=9, ha="center")
    for axis, name in zip((ax.xaxis, ax.yaxis, ax.zaxis), ("x₁", "x₂", "x₃"), strict=True):
        axis.set_label_text(name)
        axis.set_ticks([-1, 0, 1])
        axis.set_pane_color((1, 1, 1, 0))
    ax.set_xlim(-1, 1)
    ax.set_ylim(-1, 1)
    ax.set_zlim(-1, 1)
    ax.set_box_aspect((1, 1, 1), zoom=0.92)
    ax.view_init(elev=14, azim=4)  # all three arrows at about the same angle to the eye
    ax.set_title(
        "Eigenvectors of G (App. A.10): blue spans what the\nnetwork reacts to, red is what it is blind to",
        fontsize=9,
        y=0.98,
    )
    return figure


def _pointing(v: Tensor) -> Tensor:
    """The sign that the paper prints: the last entry positive."""
    return v if float(v[-1]) > 0 else -v
