"""Shared by the image experiments over groups: lifted images, training in Fourier space, epoch 0 in closed form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from netgrain.data.images import load_split
from netgrain.equivariant.descent import RECORDS
from netgrain.equivariant.limits import make_network
from netgrain.equivariant.penalties import BlockTransform, group_transform
from netgrain.equivariant.schatten_norms import real_ratio, schatten_ratio
from netgrain.experiments.claims import Claim, claim
from netgrain.geometry.estimate import Estimate, mean
from netgrain.groups.constructors import cyclic, dihedral, direct, p4m
from netgrain.groups.fourier import Fourier
from netgrain.groups.group import Group
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROWTH, TURN = 1.0, 0.02  # a step: the soft margin grows by at most this much, w moves by at most this share of |w|
PAIR = (1, 5)  # the two digits; the first is −1, the second +1
MNIST_MOMENTS = (0.1307, 0.3081)
COLOURS = {
    "G-CNN, direct": "#0072b2",
    "G-CNN, semidirect": "#009e73",
    "G-CNN": "#0072b2",
    "CNN": "#e69f00",
    "FC": "#999999",
}


# --- images -----------------------------------------------------------------------------------------------------------


def image_groups(size: int) -> dict[str, Group]:
    """C_m × C_m × D8, which forgets that turns move translations, and (C_m × C_m) ⋊ D8, which does not.

    Both list (row, column, turn) with the turn fastest: index 8·(m·row + column) + h, h = 2a + b for r^a s^b.
    """
    return {"direct": direct(cyclic(size), cyclic(size), dihedral(order=8)), "semidirect": p4m(size)}


def lifted(images: Tensor) -> Tensor:
    """Images (count, m, m) as functions on the group, (count, 8 m²): f(t, h) = (h·x)(t), h fastest.

    h = r^a s^b: mirrored b times (left and right change places), then turned a quarter a times; |f| = √8 |x|.

    >>> lifted(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])).reshape(4, 8)[0].tolist()  # what comes to the upper left
    [1.0, 2.0, 2.0, 1.0, 4.0, 3.0, 3.0, 4.0]
    """
    turned = [torch.rot90(images.flip(-1) if b else images, a, (-2, -1)) for a in range(4) for b in range(2)]
    return torch.stack(turned, -1).flatten(1)


def two_digits(source: str, size: int, count: int, seed: int, *, part: str = "train") -> tuple[Tensor, Tensor]:
    """`count` images of each of the two digits, chosen by the seed, lifted (2·count, 8·size²); labels ∓1.

    `source` is "mnist" (28 × 28, normalised as the authors do) or "digits" (8 × 8, enlarged if `size` is larger).
    """
    if source == "mnist":
        split = load_split("mnist", standardise=False, limit=(max(16 * count, 1000), max(16 * count, 1000)), seed=seed)
        centre, spread = MNIST_MOMENTS
    else:
        split = load_split("digits", standardise=False)
        centre, spread = float(split.train.X.mean()), float(split.train.X.std())
    data = split.train if part == "train" else split.test
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    chosen = []
    for digit in PAIR:
        mine = order[data.y[order] == digit][:count]
        if len(mine) < count:
            raise NetgrainError(f"{source} has {len(mine)} images of the digit {digit} here, {count} were asked for.")
        chosen.append(mine)
    X = (data.X[torch.cat(chosen)].double() - centre) / spread
    if X.shape[-1] != size:
        X = torch.nn.functional.interpolate(X, size=(size, size), mode="bilinear", align_corners=False)
    y = torch.tensor([-1.0] * count + [1.0] * count, dtype=torch.float64)
    return lifted(X[:, 0]), y


def mnist_is_here() -> bool:
    try:
        load_split("mnist", limit=1, standardise=False)
    except NetgrainError:
        return False
    return True


# --- training ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PredictorPath:
    """Predictors along normalised gradient descent; record 0 is the initialisation."""

    steps: Tensor  # (records,)
    betas: Tensor  # (records, members, n)
    margins: Tensor  # (records, members): min_i y_i <x_i, β>


def records(steps: int, count: int) -> list[int]:
    """About `count` steps from 0 to the last, denser at the start."""
    return sorted({0, *np.unique(np.geomspace(1, max(steps, 1), count - 1).round().astype(int)).tolist(), steps})


@dataclass(frozen=True)
class Pace:
    """How steps are made: normalised full-batch ones, or with `lr` plain ones on the mean exponential loss.

    Plain steps take the batches in turn (point i is in batch i modulo their number), and the learning rate grows by a
    tenth every 100 epochs as in the authors' code.
    """

    lr: float | None = None
    batches: int = 1

    def pull(self, margins: Tensor, Z: Tensor, step: int) -> Tensor:
        """z = Σ q_i Z_i, (members, n): the direction in which β is asked to move."""
        if self.lr is None:
            return torch.softmax(-margins, -1) @ Z
        mine = slice(step % self.batches, None, self.batches)
        losses = (-margins[..., mine]).exp()
        return losses @ Z[mine] / losses.shape[-1]

    def rate(self, squared_gradient: Tensor, squared_norm: Tensor, step: int) -> Tensor:
        if self.lr is None:
            turn = TURN * (squared_norm / squared_gradient).sqrt()
            return torch.minimum(GROWTH / squared_gradient, turn)
        return torch.full_like(squared_norm, self.lr * 1.1 ** (step // self.batches // 100))


NORMALISED = Pace()


def recorded_steps(epochs: int) -> Tensor:
    """The steps at which `netgrain.equivariant.exponential_descent` records, when it runs to the end."""
    return torch.from_numpy(np.unique(np.geomspace(1, epochs + 1, RECORDS).astype(int) - 1))


@one_thread()
def descend_in_fourier(
    group: Group, layers: Tensor, Z: Tensor, *, steps: int, noted: Sequence[int], pace: Pace = NORMALISED
) -> PredictorPath:
    """Gradient descent of linear group CNNs on the exponential loss, entirely in Fourier space.

    layers: (L, members, n), w_1 first; Z: (points, n), y_i x_i. With P = w_L * … * w_{l+1} and S = w_{l-1} * … * w_1
    the gradient is ĝ_l = P̂⁺ ẑ Ŝ⁺, z = Σ q_i Z_i, and a step in ŵ is the step in w because the transform is linear. Two
    transforms a step, of z and of β; each member takes the steps it would take alone.
    """
    hats = [list(group.fourier(w).stacks) for w in layers]  # [layer][size of block]: (members, count, d, d)
    depth, sizes = len(hats), range(len(hats[0]))
    found, margins_found = [], []
    for step in range(steps + 1):
        befores: list[list[Tensor]] = [hats[0]]  # w_l … w_1
        for w in hats[1:]:
            befores.append([w[k] @ befores[-1][k] for k in sizes])
        beta = Fourier(group, tuple(befores[-1]), real=True).inverse()
        margins = beta @ Z.T
        if step in noted:
            found.append(beta)
            margins_found.append(margins.amin(-1))
        if step == steps:
            break
        z = list(group.fourier(pace.pull(margins, Z, step)).stacks)
        grads: list[list[Tensor]] = [[] for _ in hats]
        left = z  # P̂⁺ ẑ
        for l in reversed(range(depth)):
            grads[l] = [left[k] @ befores[l - 1][k].mH for k in sizes] if l else left
            left = [hats[l][k].mH @ left[k] for k in sizes]
        size, norm = (_squared_norm(group, parts) for parts in (grads, hats))
        rate = pace.rate(size, norm, step)[:, None, None, None]
        for l in range(depth):
            hats[l] = [w + rate * g for w, g in zip(hats[l], grads[l], strict=True)]
    return PredictorPath(torch.tensor(list(noted)), torch.stack(found), torch.stack(margins_found))


def _squared_norm(group: Group, layers: list[list[Tensor]]) -> Tensor:
    """Σ_l |w_l|², (members,), by Plancherel."""
    sums = [s.shape[-1] * torch.view_as_real(s).square().flatten(1).sum(1) for stacks in layers for s in stacks]
    return torch.stack(sums).sum(0) / group.order


@one_thread()
def descend_dense(
    weights: Sequence[Tensor], Z: Tensor, *, steps: int, noted: Sequence[int], pace: Pace = NORMALISED
) -> PredictorPath:
    """The same steps for a fully connected network w_L W_{L-1} … W_1; weights as (out, in), one member."""
    Ws = [w.detach().clone() for w in weights]
    found, margins_found = [], []
    for step in range(steps + 1):
        afters = [Ws[-1]]  # w_L … W_l, rows; last layer first
        for W in reversed(Ws[:-1]):
            afters.append(afters[-1] @ W)
        beta = afters[-1][0]
        margins = Z @ beta
        if step in noted:
            found.append(beta[None].clone())
            margins_found.append(margins.amin()[None])
        if step == steps:
            break
        h = pace.pull(margins, Z, step)
        sides = []  # the gradient of layer l is the outer product of its two sides
        for l, W in enumerate(Ws):
            back = afters[len(Ws) - 2 - l][0] if l < len(Ws) - 1 else torch.ones(1, dtype=h.dtype)
            sides.append((back, h))
            h = W @ h
        size = torch.stack([a.square().sum() * b.square().sum() for a, b in sides]).sum()
        rate = float(pace.rate(size, torch.stack([W.square().sum() for W in Ws]).sum(), step))
        for W, (a, b) in zip(Ws, sides, strict=True):
            W.addr_(a, b, alpha=rate)
    return PredictorPath(torch.tensor(list(noted)), torch.stack(found), torch.stack(margins_found))


def descend(
    net: str,
    group: Group,
    Z: Tensor,
    *,
    seeds: Sequence[int],
    steps: int,
    noted: Sequence[int],
    width: int | None = None,
    pace: Pace = NORMALISED,
) -> PredictorPath:
    """Train the three-layer "group-cnn", "circular" or "fully-connected" network from netgrain's initial weights."""
    if net == "fully-connected":
        starts = [list(make_network(group, net, 3, width=width, seed=s).weights) for s in seeds]
        each = [descend_dense(w, Z, steps=steps, noted=noted, pace=pace) for w in starts]
        return PredictorPath(
            each[0].steps, *(torch.cat([getattr(d, f) for d in each], 1) for f in ("betas", "margins"))
        )
    over = group if net == "group-cnn" else cyclic(group.order)
    layers = initial_layers(group.order, 3, seeds)
    return descend_in_fourier(over, layers, Z, steps=steps, noted=noted, pace=pace)


def initial_layers(n: int, depth: int, seeds: Sequence[int]) -> Tensor:
    """The initial filters of a one-channel group CNN or circular CNN on n elements, (depth, members, n)."""
    members = [list(make_network(cyclic(n), "circular", depth, seed=s).weights) for s in seeds]
    return torch.stack([torch.stack([m[l].detach().reshape(n) for m in members]) for l in range(depth)])


# --- epoch 0 ----------------------------------------------------------------------------------------------------------


def product_moment(d: int, factors: int, s: float) -> float:
    """E Σ_k σ_k^{2s} of a product of d × d complex Gaussian matrices with E|entry|² = 1.

    The squared singular values are a biorthogonal ensemble of λ^i and Meijer functions w_j with ∫ λ^s w_j =
    Γ(1+s)^{M−1} Γ(1+s+j) (Akemann, Kieburg and Wei 2013), so the moment is tr(A(0)⁻¹ A(s)), A_ij(s) = ∫ λ^{i+s} w_j.

    >>> product_moment(1, 3, 1.0), round(product_moment(3, 2, 1.0), 9)  # E|AB|² = d³
    (1.0, 27.0)
    """

    def table(shift: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        rows = range(d)
        return np.array(
            [[math.gamma(1 + i + shift) ** (factors - 1) * math.gamma(1 + i + j + shift) for j in rows] for i in rows]
        )

    return float(np.trace(np.linalg.solve(table(0.0), table(s))))


def sampled_moment(d: int, factors: int, s: float, *, kind: int, draws: int = 4000) -> float:
    """The same for real (kind 1) and quaternionic (−1) Gaussian matrices, by a mean over draws."""
    rng = np.random.default_rng(d)
    product = np.broadcast_to(np.eye(d), (draws, d, d)).astype(complex)
    for _ in range(factors):
        if kind == 1:
            G = rng.standard_normal((draws, d, d)).astype(complex)
        else:
            half = (draws, d // 2, d // 2)
            A, B = ((rng.standard_normal(half) + 1j * rng.standard_normal(half)) / math.sqrt(2) for _ in range(2))
            G = np.concatenate([np.concatenate([A, B], 2), np.concatenate([-B.conj(), A.conj()], 2)], 1)
        product = product @ G
    return float((np.linalg.svd(product, compute_uv=False) ** (2 * s)).sum(1).mean())


def expected_ratio(group: Group, factors: int, depth: int = 3) -> float:
    """|β̂|_{2/L}/|β|₂ of β = a convolution of `factors` independent white noises, for a large group.

    The blocks of white noise of variance 1/n are Gaussian matrices with E|entry|² = 1/d, real, complex or quaternionic
    as ρ is, and then E|β|² = 1. Sums over many blocks are near their means; factors = 1 is the fully connected network.
    """
    p = 2 / depth
    kinds: dict[tuple[int, int], int] = {}
    for rho in group.irreps:
        key = (rho.dimension, rho.frobenius_schur)
        kinds[key] = kinds.get(key, 0) + 1
    total = 0.0
    for (d, kind), count in kinds.items():
        moment = product_moment(d, factors, p / 2) if kind == 0 else sampled_moment(d, factors, p / 2, kind=kind)
        total += count * d * moment * d ** (-factors * p / 2)
    return float(total ** (1 / p))


# --- what is measured -------------------------------------------------------------------------------------------------


def ratios(spectrum: Group | BlockTransform, betas: Tensor, depth: int = 3) -> Tensor:
    """|β̂|_{2/L}/|β|₂ of every predictor."""
    return schatten_ratio(spectrum, betas, depth)


def real_ratios(betas: Tensor, depth: int = 3) -> Tensor:
    return real_ratio(betas, depth)


def log_change(curves: Tensor) -> list[float]:
    """log(last/first) of each row (seeds, records)."""
    return [float(v) for v in (curves[:, -1] / curves[:, 0]).log()]


def paired(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Mean of a − b over the same seeds."""
    return mean([x - y for x, y in zip(a, b, strict=True)])


NETS = {"G-CNN, direct": "direct", "G-CNN, semidirect": "semidirect", "CNN": "circular", "FC": "fully-connected"}


def image_unit(unit: Mapping[str, Any]) -> Outcome:
    """The four networks on one draw of images and initial weights: ratios along the way, margins, accuracy.

    Arrays are called "network/measure"; the G-CNNs are measured over their own group, the others over both.
    """
    groups = image_groups(unit["size"])
    X, y = two_digits(unit["source"], unit["size"], unit["count"], unit["seed"])
    fresh, fresh_y = two_digits(unit["source"], unit["size"], unit["fresh"], unit["seed"], part="test")
    noted = records(unit["steps"], unit["records"])
    arrays: dict[str, Tensor] = {"steps": torch.tensor(noted)}
    mixed = torch.arange(len(y)).reshape(2, -1).T.flatten()  # classes in turn, so that every batch has both
    Z = (y[:, None] * X)[mixed]
    for name in unit["nets"]:
        net = NETS[name]
        over = {net: groups[net]} if net in groups else groups
        lr = unit["lr_dense" if name == "FC" else "lr"]
        descent = descend(
            "group-cnn" if net in groups else net,
            next(iter(over.values())),
            Z,
            seeds=[unit["seed"]],
            steps=unit["steps"],
            noted=noted,
            width=unit["width"],
            pace=Pace(lr, unit["batches"]),
        )
        betas = descent.betas[:, 0]
        for space, group in over.items():
            arrays[f"{name}/{space}"] = ratios(group, betas)
        arrays[f"{name}/real"] = real_ratios(betas)
        arrays[f"{name}/margin"] = descent.margins[:, 0]
        arrays[f"{name}/accuracy"] = (torch.sign(betas @ fresh.T) == fresh_y).double().mean(-1)
    return Outcome({}, arrays)


@dataclass(frozen=True, eq=False)
class ImageCurves:
    """ "network/measure" → (seeds, records); steps: (records,)."""

    steps: Tensor
    values: dict[str, Tensor]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> ImageCurves:
        measures = ("direct", "semidirect", "real", "margin", "accuracy")
        every = [f"{net}/{measure}" for net in NETS for measure in measures]  # a folder does not keep their order
        names = [n for n in every if n in outcomes[0].arrays]
        return cls(outcomes[0].arrays["steps"], {n: torch.stack([o.arrays[n] for o in outcomes]) for n in names})

    def change(self, name: str) -> list[float]:
        """log(end/start), seed by seed."""
        return log_change(self.values[name])

    def end(self, name: str) -> list[float]:
        """log of the last value, seed by seed."""
        return [float(v) for v in self.values[name][:, -1].log()]

    def measures(self) -> dict[str, dict[str, Tensor]]:
        """What `levels_and_changes` draws: the two Fourier spaces and the real one."""
        titles = {
            "direct": "Fourier ratio (Schatten 2/3 over ℓ₂), direct product",
            "semidirect": "Fourier ratio, semidirect product",
            "real": "real ratio (ℓ 2/3 over ℓ₂)",
        }
        return {
            title: {n.split("/")[0]: v for n, v in self.values.items() if n.endswith("/" + space)}
            for space, title in titles.items()
        }


def ordering_claims(
    curves: ImageCurves,
    how: str,
    note: str,
    papers: Mapping[str, str],
    kinds: Sequence[str] = ("direct", "semidirect"),
) -> list[Claim]:
    """Fourier below and real above the other networks after training, and whether training made it so."""
    found = []
    for kind in kinds:
        mine = f"G-CNN, {kind}/{kind}"
        others = [n for n in ("CNN", "FC") if f"{n}/{kind}" in curves.values]
        found.append(
            claim(
                f"training lowers the Fourier ratio of the G-CNN, {kind}{how}",
                "mean over seeds of log(end/start) is below 0",
                mean(curves.change(mine)),
                high=0,
                paper=papers.get("change", "") if kind == "direct" else "",
                note=note,
            )
        )
        for other in others:
            theirs = f"{other}/{kind}"
            found.append(
                claim(
                    f"G-CNN, {kind}, ends below {other} in Fourier space{how}",
                    "mean over seeds of log(G-CNN/other) at the end is below 0",
                    paired(curves.end(mine), curves.end(theirs)),
                    high=0,
                    paper=papers.get(f"level {other}", "") if kind == "direct" else "",
                )
            )
            found.append(
                claim(
                    f"G-CNN, {kind}, falls by more than {other} in Fourier space{how}",
                    "mean over seeds of the difference of log(end/start) is below 0",
                    paired(curves.change(mine), curves.change(theirs)),
                    high=0,
                    paper=papers.get(f"change {other}", "") if kind == "direct" else "",
                    note="the level alone is no evidence: the G-CNN is lower before training",
                )
            )
        found.append(
            claim(
                f"G-CNN, {kind}, is wider than FC in real space{how}",
                "mean over seeds of log(G-CNN/FC) of the real ratio at the end is above 0",
                paired(curves.end(f"G-CNN, {kind}/real"), curves.end("FC/real")),
                low=0,
                paper=papers.get("real", "") if kind == "direct" else "",
            )
        )
    return found


# --- drawing ----------------------------------------------------------------------------------------------------------


def band(ax: Axes, x: Tensor, curves: Tensor, label: str, *, colour: str | None = None, dashed: bool = False) -> None:
    """The mean over seeds of curves (seeds, records), with a band of one standard error."""
    there = (~curves.isnan()).sum(0).clamp(min=1)
    centre = (curves.nansum(0) / there).numpy()
    spread = ((curves - torch.from_numpy(centre)).square().nansum(0) / (there - 1).clamp(min=1)).sqrt()
    error = (spread / there.sqrt()).numpy()
    colour = colour or COLOURS.get(label, "#cc79a7")
    at = x.numpy()
    ax.plot(at, centre, color=colour, lw=1.6, ls="--" if dashed else "-", label=label)
    ax.fill_between(at, centre - error, centre + error, color=colour, alpha=0.2, lw=0)


def tidy(ax: Axes, title: str, x: str, y: str) -> None:
    ax.set_title(title, fontsize=9.5, loc="left")
    ax.set_xlabel(x, fontsize=8.5)
    ax.set_ylabel(y, fontsize=8.5)
    ax.tick_params(labelsize=8)
    ax.grid(color="0.92", lw=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def levels_and_changes(
    rows: Mapping[str, Mapping[str, Tensor]],  # title of the measure → network → (seeds, records)
    steps: Tensor,
    title: str,
    *,
    x: str = "step of normalised gradient descent",
    lines: Mapping[str, Mapping[str, float]] | None = None,  # title of the measure → label → a level known beforehand
) -> Figure:
    """For each measure a row: its level, and its change from initialisation in per cent."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 2.55 * len(rows) + 0.5), layout="constrained")
    axes: Any = figure.subplots(len(rows), 2, squeeze=False)
    for (measure, curves), (level, change) in zip(rows.items(), axes, strict=True):
        for net, values in curves.items():
            band(level, steps, values, net)
            band(change, steps, 100 * (values / values[:, :1] - 1), net)
        for label, value in (lines or {}).get(measure, {}).items():
            level.axhline(value, color="0.25", lw=0.9, ls=":")
            level.annotate(
                label,
                (1, value),
                xycoords=("axes fraction", "data"),
                fontsize=7.5,
                ha="right",
                va="bottom",
                color="0.25",
            )
        change.axhline(0, color="0.4", lw=0.8)
        tidy(level, measure, x, "level")
        tidy(change, "change from initialisation", x, "per cent")
        for ax in (level, change):
            ax.set_xscale("symlog", linthresh=10)
            ax.set_xlim(0, float(steps[-1]))
            ticks = [t for t in (0, 10, 100, 1000, 10000) if 2 * t <= float(steps[-1])] + [int(steps[-1])]
            ax.set_xticks(ticks, [str(t) for t in ticks])
            ax.minorticks_off()
        level.legend(fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=10.5)
    return figure


def stacked(outcomes: Sequence[Any], name: str) -> Tensor:
    """One array of every outcome, (seeds, …)."""
    return torch.stack([o.arrays[name].double() for o in outcomes])


def group_spectra(size: int) -> dict[str, BlockTransform]:
    return {name: group_transform(group) for name, group in image_groups(size).items()}
