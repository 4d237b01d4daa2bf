"""Images as functions on a group, four networks trained on them, and what is claimed of their curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from netgrain.data.images import load_split
from netgrain.equivariant.schatten_norms import real_ratio, schatten_ratio
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.fourier_descent import Pace, descend, records
from netgrain.experiments.equivariance.studies import Seeds, paired
from netgrain.geometry.estimate import mean
from netgrain.groups.constructors import cyclic, dihedral, direct, p4m
from netgrain.groups.group import Group
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.units import Outcome

DEPTH = 3
PAIR = (1, 5)  # the two digits; the first is −1, the second +1
MNIST_MOMENTS = (0.1307, 0.3081)
NETS = {"G-CNN, direct": "direct", "G-CNN, semidirect": "semidirect", "CNN": "circular", "FC": "fully-connected"}

PLOTTED = {  # what the authors' plot of MNIST shows
    "change": "289k → 273k",
    "level FC": "273k below 334k",
    "level CNN": "273k below 335k",
    "change FC": "−6 % against −13 %",
    "change CNN": "−6 % against −17 %",
    "real": "5304 above 4182",
}


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
    images, y, pixels = digit_images(source, PAIR, count, seed, part=part)
    if source == "mnist":
        centre, spread = MNIST_MOMENTS
    else:
        centre, spread = float(pixels.mean()), float(pixels.std())
    X = (images - centre) / spread
    if X.shape[-1] != size:
        X = torch.nn.functional.interpolate(X, size=(size, size), mode="bilinear", align_corners=False)
    return lifted(X[:, 0]), y


def digit_images(
    source: str, pair: tuple[int, int], count: int, seed: int, *, part: str = "train"
) -> tuple[Tensor, Tensor, Tensor]:
    """`count` images (2·count, 1, m, m) of each of two digits, chosen by the seed; labels ∓1; all training images."""
    if source == "mnist":
        split = load_split("mnist", standardise=False, limit=(max(16 * count, 1000), max(16 * count, 1000)), seed=seed)
    else:
        split = load_split("digits", standardise=False)
    data = split.train if part == "train" else split.test
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    chosen = []
    for digit in pair:
        mine = order[data.labels[order] == digit][:count]
        if len(mine) < count:
            raise NetgrainError(f"{source} has {len(mine)} images of the digit {digit} here, {count} were asked for.")
        chosen.append(mine)
    y = torch.tensor([-1.0] * count + [1.0] * count, dtype=torch.float64)
    return data.X[torch.cat(chosen)].double(), y, split.train.X


def mnist_is_here() -> bool:
    try:
        load_split("mnist", limit=1, standardise=False)
    except NetgrainError:
        return False
    return True


def log_change(curves: Tensor) -> list[float]:
    """log(last/first) of each row (seeds, records)."""
    return [float(v) for v in (curves[:, -1] / curves[:, 0]).log()]


def levels(curves: Mapping[str, Tensor], form: str, between: str = ", ") -> str:
    """The means over seeds before and after, as people write them: FC 313 → 321."""
    ends = {net: (float(v[:, 0].mean()), float(v[:, -1].mean())) for net, v in curves.items()}
    return between.join(f"{net} {first:{form}} → {last:{form}}" for net, (first, last) in ends.items())


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
            seed=unit["seed"],
            noted=noted,
            width=unit["width"],
            pace=Pace(lr, unit["batches"]),
        )
        betas = descent.betas[:, 0]
        for space, group in over.items():
            arrays[f"{name}/{space}"] = schatten_ratio(group, betas, DEPTH)
        arrays[f"{name}/real"] = real_ratio(betas, DEPTH)
        arrays[f"{name}/margin"] = descent.margins[:, 0]
        arrays[f"{name}/accuracy"] = (torch.sign(betas @ fresh.T) == fresh_y).double().mean(-1)
    return Outcome({}, arrays)


@dataclass(frozen=True, eq=False)
class ImageCurves:
    """ "network/measure" → (seeds, records); steps: (records,)."""

    steps: Tensor
    values: dict[str, Tensor]

    @classmethod
    def of(cls, outcomes: Seeds) -> ImageCurves:
        measures = ("direct", "semidirect", "real", "margin", "accuracy")
        every = [f"{net}/{measure}" for net in NETS for measure in measures]  # a folder does not keep their order
        names = [n for n in every if n in outcomes[0].arrays]
        return cls(outcomes[0].arrays["steps"], {n: outcomes.stacked(n) for n in names})

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
        quoted = papers if kind == "direct" else {}
        found.append(
            claim(
                f"training lowers the Fourier ratio of the G-CNN, {kind}{how}",
                "mean over seeds of log(end/start) is below 0",
                mean(curves.change(mine)),
                high=0,
                paper=quoted.get("change", ""),
                note=note,
            )
        )
        early = "the level alone is no evidence: the G-CNN is lower before training"
        for other in ("CNN", "FC"):
            for number, verb, measured, values, remark in (
                ("level", "ends below", "log(G-CNN/other) at the end", curves.end, ""),
                ("change", "falls by more than", "the difference of log(end/start)", curves.change, early),
            ):
                if f"{other}/{kind}" in curves.values:
                    found.append(
                        claim(
                            f"G-CNN, {kind}, {verb} {other} in Fourier space{how}",
                            f"mean over seeds of {measured} is below 0",
                            paired(values(mine), values(f"{other}/{kind}")),
                            high=0,
                            paper=quoted.get(f"{number} {other}", ""),
                            note=remark,
                        )
                    )
        found.append(
            claim(
                f"G-CNN, {kind}, is wider than FC in real space{how}",
                "mean over seeds of log(G-CNN/FC) of the real ratio at the end is above 0",
                paired(curves.end(f"G-CNN, {kind}/real"), curves.end("FC/real")),
                low=0,
                paper=quoted.get("real", ""),
            )
        )
    return found
