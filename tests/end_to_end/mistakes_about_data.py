"""Mistakes about data, labels and files, in Python and on the command line."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import netgrain as ng
from netgrain.auditing.audits import audit
from netgrain.auditing.comparisons import compare
from netgrain.auditing.signals import visible
from netgrain.complexity import complexities
from netgrain.training import Settings, accuracy, train
from netgrain.training.regularizers.norms import L2
from tests.end_to_end.mistakes import Mistake


def net(outputs: int = 3, channels: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16, outputs))


class Maps(nn.Module):
    """A segmentation network: one class for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(1, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


X = torch.randn(60, 1, 4, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(60) % 3
WORDS = [("cat", "dog", "owl")[c] for c in Y.tolist()]
HOT = nn.functional.one_hot(Y, 3)
PAIRS = TensorDataset(X, Y)
FEW = Settings(steps=1, batch=None)
audited = partial(audit, trial=False, progress=False, members=4)
VALUES = [0.0, 0.1]


@cache
def good() -> Any:
    return audited(net, X, Y)


def alike(found: object) -> bool:
    """The same numbers as for tensors."""
    return found.report["labels"] == good().report["labels"]  # type: ignore[attr-defined]


def alike_renumbered(found: object) -> bool:
    """The same dependence and accuracy: names of classes do not matter."""
    ours = found.report["labels"]  # type: ignore[attr-defined]
    theirs = audited(partial(net, 4), X, Y).report["labels"]
    return ours["linear"] == theirs["linear"] and ours["reaction"] == theirs["reaction"]


def finite(found: object) -> bool:
    """An audit whose shares are shares."""
    report = found.report  # type: ignore[attr-defined]
    inside = report["leading"]["data_variance"]["value"]
    return inside is not None and 0 <= inside <= 1 and all(s["text"] for s in report["sentences"])


def spoilt(*values: float) -> Tensor:
    bad = X.clone()
    for i, value in enumerate(values):
        bad[7 + i, 0, 2, 3] = value
    return bad


def held(column: int, value: float) -> Tensor:
    same = X.clone()
    same[:, 0, 0, column] = value
    return same


@cache
def identity() -> ng.Geometry:
    return ng.Geometry.from_matrix(torch.eye(16))


def in_labels(name: str, y: object, says: str) -> list[Mistake]:
    """One wrong y at every door that takes one."""
    doors: dict[str, Callable[[], object]] = {
        "audit": lambda: audited(net, X, y),
        "train": lambda: train(net, X, y, FEW, members=1, workers=1),
        "accuracy": lambda: accuracy(net(), X, y),
        "prune": lambda: ng.prune(identity(), X, y),
        "evolution": lambda: ng.average_evolution(net, X, y, members=2, loss="cross-entropy"),
        "tracker": lambda: ng.ComplexityTracker(net(), X, y),
        "complexities": lambda: complexities(net().eval(), X, y),
        "curvature": lambda: ng.loss_curvature(net().eval(), X, y),
        "sweep": lambda: ng.sweep(net, X, y, VALUES, FEW, regularizer=L2, workers=1, seeds=1),
    }
    return [Mistake(f"{name}, {door}", act, says=says) for door, act in doors.items()]


def in_samples(name: str, x: object, says: str, but: str = "") -> list[Mistake]:
    """One wrong X at every door that takes one."""
    doors: dict[str, Callable[[], object]] = {
        "audit": lambda: audited(net, x, Y),
        "train": lambda: train(net, x, Y, FEW, members=1, workers=1),
        "score": lambda: ng.score(identity(), x),
        "covariance": lambda: ng.data_covariance(x),
        "complexity": lambda: ng.geometric_complexity(net().eval(), x),
        "evolution": lambda: ng.average_evolution(net, x, Y, members=2, loss="cross-entropy"),
        "curvature": lambda: ng.loss_curvature(net().eval(), x, Y),
        "tracker": lambda: ng.ComplexityTracker(net(), x, Y),
    }
    return [Mistake(f"{name}, {door}", act, says=says) for door, act in doors.items() if door != but]


LABELS = [
    *in_labels("fractions", Y + 0.37, r"y holds fractions \(label 0 is 0.37\).* regression targets are not supported"),
    *in_labels("words", WORDS, r"y holds words \('cat' is the first\).*return_inverse=True"),
    *in_labels("one-hot", HOT, r"y has shape \(60, 3\), expected \(60,\).*one-hot: pass y.argmax\(1\)"),
    *in_labels("more labels", torch.arange(61) % 3, r"shape \(61,\).*(pass the labels of X)|60 of them"),
    Mistake("(n, 1)", lambda: audited(net, X, Y[:, None]), says=r"shape \(60, 1\), expected \(60,\).*pass y\[:, 0\]"),
    Mistake("(n, 1), train", lambda: train(net, X, Y[:, None], FEW, members=1), says=r"pass y\[:, 0\]"),
    Mistake("from 1", lambda: audited(net, X, Y + 1), says=r"from 1 to 3, .*3 outputs; .*pass y - 1"),
    Mistake("from 1, more outputs", lambda: audited(partial(net, 4), X, Y + 1), says=r"start at 0; pass y - 1"),
    Mistake("from 1, train", lambda: train(net, X, Y + 1, FEW, members=1), says=r"from 1 to 3, .*pass y - 1"),
    Mistake("from 1, tracker", lambda: ng.ComplexityTracker(net(), X, Y + 1), says=r"from 1 to 3, .*pass y - 1"),
    Mistake("negative", lambda: audited(net, X, Y - 1), says=r"labels run from -1 to 1.*numbers them from 0"),
    Mistake("negative, curvature", lambda: ng.loss_curvature(net().eval(), X, Y - 1), says="labels run from -1 to 1"),
    Mistake("whole floats", lambda: audited(net, X, Y.float()), says=r"found torch.float32 in y; convert with y.long"),
    Mistake("complex labels", lambda: audited(net, X, Y.to(torch.complex64)), says="y holds complex numbers"),
    Mistake("truths", lambda: audited(net, X, Y > 0), right=finite),
    Mistake("truths, train", lambda: train(net, X, Y > 0, FEW, members=1, workers=1), right=lambda r: len(r) == 1),
    Mistake(
        "NaN among labels",
        lambda: audited(net, X, torch.where(Y == 1, math.nan, Y.float())),
        says=r"y holds 20 labels that are NaN or Inf, the first at index 1",
    ),
    Mistake("a gap", lambda: audited(partial(net, 4), X, torch.where(Y == 1, 3, Y)), right=alike_renumbered),
    Mistake("one class", lambda: audited(net, X, Y * 0), says=r"all 60 samples have the label 0; .*two classes"),
    Mistake("one class, named", lambda: audited(net, X, Y * 0, classes=("cat", "dog")), says="the class 'cat'"),
    Mistake("no labels, audited", lambda: audited(net, X, None), right=finite),
    Mistake("no labels, train", lambda: train(net, X, None, FEW, members=1), says=r"y is missing \(None was given\)"),
    Mistake("fewer labels", lambda: audited(net, X, Y[:50]), says=r"y has shape \(50,\), expected \(60,\)"),
    Mistake("labels in a list", lambda: audited(net, X, Y.tolist()), right=alike),
    Mistake("labels in numpy", lambda: audited(net, X, Y.numpy()), right=alike),
    Mistake("labels of one byte", lambda: audited(net, X, Y.to(torch.uint8)), right=alike),
    Mistake("labels as tensors in a list", lambda: audited(net, X, list(Y)), right=alike),
    Mistake("words in numpy", lambda: audited(net, X, np.array(WORDS)), says=r"y holds words \('cat' is the first\)"),
    Mistake("words as objects", lambda: audited(net, X, np.array(WORDS, object)), says=r"y holds words"),
    Mistake("words, prune any class", lambda: ng.prune(identity(), X, per_class=False), right=lambda k: len(k) == 42),
    Mistake("labels from 7, prune", lambda: ng.prune(identity(), X, Y + 7, keep=0.5), right=lambda k: len(k) == 30),
    Mistake("too many classes", lambda: audited(net, X, torch.arange(60) % 5), says="0 to 4, .*with 5 outputs"),
    Mistake(
        "three classes, one output",
        lambda: audited(partial(net, 1), X, Y),
        says="0 to 2, but the model has 1 output; expected labels 0 to 1",
    ),
    Mistake("two classes, one output", lambda: audited(partial(net, 1), X, (Y > 0).long()), right=finite),
]

SAMPLES = [
    *in_samples("NaN", spoilt(math.nan, math.inf), r"2 numbers .*1 NaN, 1 Inf.*sample 7 at entry \(0, 2, 3\)"),
    *in_samples("bytes", (X * 9).to(torch.uint8), r"X holds whole numbers \(torch.uint8\).*X.float\(\) / 255", "score"),
    *in_samples("DataLoader", DataLoader(PAIRS), r"X is a DataLoader, .*torch.cat\(\[x for x, _ in loader\]\)"),
    *in_samples("Dataset", PAIRS, r"X is a data set \(TensorDataset\), .*data.load"),
    *in_samples("nothing", X[:0], r"X has shape \(0, 1, 4, 4\), expected at least one sample"),
    *in_samples("a path", "photos/", r"X is 'photos/', a name; .*data.load\(path\)"),
    Mistake("a Path object", lambda: audited(net, Path("my.npz"), Y), says=r"X is 'my.npz', a name"),
    Mistake("no samples given", lambda: audited(net, None, Y), says=r"X is missing \(None was given\)"),
    Mistake("a split", lambda: audited(net, split(), Y), says="X is a Split.*pass its train.X and its train.y"),
    Mistake("a set of netgrain", lambda: audited(net, split().train, Y), says="X is a Dataset.*pass its X and its y"),
    Mistake("one Inf", lambda: audited(net, spoilt(math.inf), Y), says=r"1 number that is not finite \(0 NaN, 1 Inf\)"),
    Mistake("too large for float32", lambda: audited(net, X.double() * 1e300, Y), says=r"\(0 NaN, \d+ Inf\)"),
    Mistake("constant data", lambda: audited(net, torch.ones(60, 1, 4, 4), Y), says="all 60 samples of X are equal"),
    Mistake("a constant feature", lambda: audited(net, held(1, 2.0), Y), right=finite),
    Mistake("a feature of zeros", lambda: audited(net, held(1, 0.0), Y), right=finite),
    Mistake("whole numbers in float", lambda: audited(net, (X * 9).round(), Y), right=finite),
    Mistake("X in a list", lambda: audited(net, X.tolist(), Y), right=alike),
    Mistake("X as tensors in a list", lambda: audited(net, list(X), Y), right=alike),
    Mistake("X in numpy", lambda: audited(net, X.numpy(), Y), right=alike),
    Mistake("X in double precision", lambda: audited(net, X.double(), Y), right=alike),
    Mistake("X that wants a gradient", lambda: audited(net, X.clone().requires_grad_(), Y), right=alike),
    Mistake("X of unequal rows", lambda: audited(net, [[1.0], [1.0, 2.0]], Y), says="which is no array of numbers"),
    Mistake("X of words", lambda: audited(net, [["a", "b"]] * 60, Y), says=r"X holds words \('a' is the first\)"),
    Mistake("X a dict", lambda: audited(net, {"X": X}, Y), says="X is a dict of 1, which is no array of numbers"),
    Mistake("X sparse", lambda: audited(net, X.to_sparse(), Y), says=r"X is sparse .*X.to_dense\(\)"),
    Mistake("X complex", lambda: audited(net, X.to(torch.complex64), Y), says="X holds complex numbers"),
    Mistake("X complex, complexity", lambda: ng.geometric_complexity(net(), X + 0j), says="X holds complex numbers"),
    Mistake("X on another device", lambda: audited(net, X.to("meta"), Y), says="X has no numbers .*meta"),
    Mistake("one sample alone", lambda: ng.data_covariance(X[0, 0, 0]), says=r"X has shape \(4,\).*X\[None\]"),
    Mistake(
        "no channel axis", lambda: audited(net, X[:, 0], Y), says=r"\(4, 4\) .*channel axis: pass X.unsqueeze\(1\)"
    ),
    Mistake(
        "channels last, with data",
        lambda: audited(partial(net, 3, 3), X.permute(0, 2, 3, 1).repeat(1, 1, 1, 3), Y),
        says=r"channels seem to be last: pass X.permute\(0, 3, 1, 2\)",
    ),
    Mistake(
        "channels last, score",
        lambda: ng.score(ng.Geometry.from_matrix(torch.eye(48), input_shape=(3, 4, 4)), torch.randn(2, 4, 4, 3)),
        says=r"samples of shape \(4, 4, 3\), .*channels seem to be last",
    ),
    Mistake(
        "grey into colour",
        lambda: audited(partial(net, 3, 3), X, Y),
        says=r"takes 3 channels, the data have 1: .*X.repeat\(1, 3, 1, 1\)",
    ),
    Mistake(
        "colour into grey", lambda: audited(net, X.repeat(1, 3, 1, 1), Y), says=r"takes 1 channels?, the data have 3"
    ),
    Mistake(
        "wrong size", lambda: audited(net, torch.randn(60, 1, 6, 6), Y), says=r"\(1, 6, 6\) .*bring X into the shape"
    ),
    Mistake(
        "too large", lambda: audited(net, torch.randn(60, 3, 64, 64), Y), says="it takes 1 channel, the data have 3"
    ),
    Mistake("few samples", lambda: audited(net, X[:9], Y[:9]), says="at least 20 samples, found 9"),
    Mistake("one pixel per class", lambda: audited(Maps, X, Y), says=r"output of shape \(3, 4, 4\).*nn.Sequential"),
    Mistake(
        "one pixel per class, train", lambda: train(Maps, X, Y, FEW, members=1), says=r"shape \(3, 4, 4\), expected"
    ),
    Mistake("one pixel per class, accuracy", lambda: accuracy(Maps(), X, Y), says=r"output of shape \(3, 4, 4\)"),
    Mistake("scores of one pixel", lambda: audited(tall, X, Y), right=finite),
]

OPTIONS = [
    Mistake(
        "features, few", lambda: audited(net, X, Y, features=["a", "b"]), says="features= has 2 names, expected 16"
    ),
    Mistake("features, a word", lambda: audited(net, X, Y, features="ab"), says="features= is 'ab', expected a list"),
    Mistake("features, numbers", lambda: audited(net, X, Y, features=list(range(16))), says="expected a list of words"),
    Mistake(
        "classes, few", lambda: audited(net, X, Y, classes=("cat", "dog")), says="classes= has 2 names, expected 3"
    ),
    Mistake(
        "classes, many", lambda: audited(net, X, Y, classes=tuple("abcd")), says="4 names, the model has 3 outputs"
    ),
    Mistake("classes, a word", lambda: audited(net, X, Y, classes="abc"), says="classes= is 'abc', expected a list"),
    Mistake("keep 0", lambda: audited(net, X, Y, keep=0), says="keep expects a share above 0 and at most 1, found 0"),
    Mistake("keep 70", lambda: audited(net, X, Y, keep=70), says="keep expects a share .* found 70"),
    Mistake(
        "keep as text, with data", lambda: audited(net, X, Y, keep="0.7"), says="keep expects a share .* found '0.7'"
    ),
    Mistake("keep 1", lambda: audited(net, X, Y, keep=1), right=lambda a: len(a.kept) == 60),
    Mistake("keep 2, prune", lambda: ng.prune(identity(), X, keep=2), says="keep as a share"),
    Mistake(
        "keep as text, prune", lambda: ng.prune(identity(), X, keep="half"), says="keep as a share .* found 'half'"
    ),
    Mistake("weights of another", lambda: audited(net, X, Y, weights=net(5).state_dict()), says=r"has shape \(5, 16\)"),
    Mistake("weights, a module", lambda: audited(net, X, Y, weights=net()), says=r"weights is Sequential.*state_dict"),
    Mistake("weights, a path", lambda: audited(net, X, Y, weights="net.pt"), says=r"weights is str, .*read_weights"),
    Mistake("weights, some", lambda: audited(net, X, Y, weights={"0.bias": torch.zeros(4)}), says="lack '0.weight'"),
    Mistake("G of another size", lambda: audited(net, X, Y, G=line()), says="G is 9-dimensional, .* 16 entries"),
    Mistake("G a matrix", lambda: audited(net, X, Y, G=torch.eye(16)), says="G is Tensor, expected a Geometry"),
    Mistake("members 0", lambda: audit(net, X, Y, members=0), says="members expects a whole number .* found 0"),
    Mistake(
        "members as text, with data",
        lambda: audit(net, X, Y, members="8"),
        says="members expects a whole number .* found '8'",
    ),
    Mistake("members with a point", lambda: audit(net, X, Y, members=2.5), says="members expects a whole number"),
    Mistake("score, wrong size", lambda: ng.score(line(), X), says=r"\(1, 4, 4\), G is for inputs of shape \(9,\)"),
    Mistake("prune, wrong size", lambda: ng.prune(line(), X), says=r"\(1, 4, 4\), G is for inputs of shape \(9,\)"),
    Mistake(
        "score of bytes", lambda: ng.score(identity(), torch.ones(2, 16).byte()), right=lambda s: s.tolist() == [1, 1]
    ),
    Mistake("prune a zero", lambda: ng.prune(identity(), X * 0), says="sample 0 has no score"),
    Mistake("score one sample", lambda: ng.score(identity(), X[0, 0, 0]), says=r"X\[None\]"),
    Mistake("signal of another shape", lambda: visible(net, torch.ones(1, 9, 9)), says=r"\(1, 9, 9\)"),
    Mistake("signal of words", lambda: visible(net, "defect.npy"), says="the signal is str"),
    Mistake("signal of zeros", lambda: visible(net, torch.zeros(1, 4, 4)), says="the signal is zero everywhere"),
    Mistake("compare nothing", lambda: compare([]), says="two or more audits, found 0"),
    Mistake("compare one", lambda: compare([good()]), says="two or more audits, found 1"),
    Mistake("compare models", lambda: compare([net, net]), says="expects audits, found function at index 0"),
    Mistake(
        "compare other data",
        lambda: compare([good(), audited(net, X[:45], Y[:45])]),
        says="the same data: samples is 60 in audit 0 and 45 in audit 1",
    ),
    Mistake("compare other labels", lambda: compare([good(), audited(net, X, Y.roll(1) * (Y > 1))]), says="per class"),
    Mistake("compare two", lambda: compare([good(), good()]), right=lambda found: len(found.ranking) == 2),
]

AUDIT = ("audit", "mlp", "--data")
LEARN = ("learnability", "mlp", "--no-trial", "--data")
COMMANDS = [
    Mistake("an unknown set", argv=(*AUDIT, "digitz"), says="data set 'digitz' is not known; did you mean 'digits'"),
    Mistake("an unknown set, score", argv=("score", "mlp", "--data", "cifar"), says="did you mean 'cifar"),
    Mistake("an unknown set, prune", argv=("prune", "mlp", "--data", "mnst", "--out", "k.csv"), says="mean 'mnist'"),
    Mistake("an unknown set, complexity", argv=("complexity", "mlp", "--data", "imagenet"), says="expected one of dig"),
    Mistake("an unknown set, compare", argv=("compare", "mlp", "vit", "--data", "digit"), says="did you mean 'digits'"),
    Mistake("a missing file", argv=(*AUDIT, "nowhere.npz"), says="nowhere.npz is not a file; .*np.savez"),
    Mistake("a missing folder", argv=(*AUDIT, "photos/"), says="there is no folder photos"),
    Mistake("an empty folder", argv=(*AUDIT, "empty/"), says="empty holds nothing; expected one folder for each class"),
    Mistake("a folder of texts", argv=(*AUDIT, "texts/"), says="no image .*could be read"),
    Mistake(
        "a table without names", argv=(*AUDIT, "table.csv"), says=r"first line of table.csv holds numbers \(1, 2, 3"
    ),
    Mistake("a good table, score", argv=("score", "mlp", "--data", "good.csv"), right=lambda t: "good.csv" in str(t)),
    Mistake("no such column", argv=(*AUDIT, "good.csv", "--label", "kin"), says="no column 'kin'. Did you mean 'kind'"),
    Mistake("an empty table", argv=(*AUDIT, "empty.csv"), says=r"empty.csv is empty \(it holds nothing\)"),
    Mistake("a table with gaps", argv=(*AUDIT, "gaps.csv"), says=r"1 missing value, in 'a' \(1\), the first in row 2"),
    Mistake(
        "a table of one class", argv=("learnability", "mlp", "--data", "one.csv"), says="60 samples have the label"
    ),
    Mistake("a constant table", argv=("learnability", "mlp", "--data", "same.csv"), says="samples of X are the same"),
    Mistake(
        "a table into lenet", argv=("score", "lenet", "--data", "good.csv"), says="found a table of 2 features. For"
    ),
    Mistake("a column of names", argv=(*AUDIT, "names.csv"), says="column 'who' of names.csv holds 60 different words"),
    Mistake("labels asked for", argv=(*LEARN, "few.csv"), says=r"only 3 different values, .* \(--target\)"),
    Mistake("labels answered", argv=(*LEARN, "few.csv", "--target", "numbers"), right=lambda t: "R²" in str(t)),
    Mistake("labels of no kind", argv=(*LEARN, "few.csv", "--target", "number"), says="did you mean 'numbers'"),
    Mistake(
        "no labels", argv=(*LEARN, "good.csv", "--no-label"), says="learnability needs labels, .* has none; .*--label"
    ),
    Mistake(
        "no labels, score", argv=("score", "mlp", "--data", "without_y.npz"), right=lambda t: "mean score" in str(t)
    ),
    Mistake(
        "a target and none", argv=(*LEARN, "few.csv", "--no-label", "--target", "numbers"), says="cannot be combined"
    ),
    Mistake("a label of images", argv=(*AUDIT, "texts/", "--label", "y"), says="--label.* but texts holds images"),
    Mistake(
        "two channels", argv=(*AUDIT, "digits", "--channels", "2"), says=r"must be 1 \(grey\) or 3 \(colour\), found"
    ),
    Mistake(
        "channels of a table", argv=(*AUDIT, "good.csv", "--channels", "3"), says=r"have shape \(2,\); leave it out"
    ),
    Mistake(
        "grey made colour",
        argv=("score", "nets.py:colour", "--data", "good.npz", "--channels", "3"),
        right=lambda t: True,
    ),
    Mistake("images alone", argv=(*LEARN, "mixed/cat"), says="learnability needs labels, and cat has none"),
    Mistake(
        "mixed sizes", argv=("score", "mlp", "--data", "mixed"), right=lambda t: "1 of 6 images resized to 4" in str(t)
    ),
    Mistake("a damaged parquet", argv=(*AUDIT, "bad.parquet"), says="cannot be read as parquet|needs pyarrow"),
    Mistake("an .npy file", argv=(*AUDIT, "objects.npy"), says=r".npy files are not read: .*np.savez"),
    Mistake("no X", argv=(*AUDIT, "without_x.npz"), says="has no array X .*arrays found: images, y"),
    Mistake("objects", argv=(*AUDIT, "objects.npz"), says="holds Python objects, and nothing is unpickled"),
    Mistake("no archive", argv=(*AUDIT, "text.npz"), says="text.npz cannot be read"),
    Mistake("fractions in a file", argv=(*AUDIT, "fractions.npz"), says="only 3 different values, .*--target"),
    Mistake(
        "fractions in a file, score",
        argv=("score", "mlp", "--data", "fractions.npz"),
        says="only 3 different values, .*--target",
    ),
    Mistake("NaN in a file", argv=(*AUDIT, "nan.npz"), says=r"1 NaN, 0 Inf.*sample 3 at entry \(0, 1, 1\)"),
    Mistake("a signal of objects", argv=("visible", "mlp", "--signal", "objects.npy"), says="cannot be read as arrays"),
    Mistake("a signal that is missing", argv=("visible", "mlp", "--signal", "no.npy"), says="no.npy is not a file"),
    Mistake("size 0", argv=(*AUDIT, "digits", "--size", "0"), says="size expects .* found 0"),
    Mistake("size 0, a file", argv=(*AUDIT, "good.npz", "--size", "0"), says="size expects .* found 0"),
    Mistake(
        "size 0, score",
        argv=("score", "mlp", "--data", "good.npz", "--size", "0"),
        says="size expects .* found 0",
    ),
    Mistake("limit 0", argv=(*AUDIT, "digits", "--limit", "0"), says="limit 0 was asked for|limit.*found 0"),
    Mistake(
        "limit 0, a file",
        argv=(*AUDIT, "good.npz", "--limit", "0"),
        says="limit expects a whole number from 1 upwards, found 0",
    ),
    Mistake("limit as text", argv=(*AUDIT, "digits", "--limit", "few"), says="valid integer"),
    Mistake(
        "an option that is not there, with data",
        argv=(*AUDIT, "digits", "--classes", "3"),
        says="No such option: --classes",
    ),
    Mistake("a data folder that is not there", argv=(*AUDIT, "mnist", "--data-dir", "no"), says="'no' is not a folder"),
    Mistake(
        "data that are not there", argv=(*AUDIT, "mnist", "--data-dir", "empty"), says="MNIST was not found .*fetch"
    ),
    Mistake("out inside a file", argv=(*AUDIT, "digits", "--out", "table.csv/r.html"), says="table.csv is a file"),
    Mistake("out, a folder", argv=(*AUDIT, "digits", "--out", "empty"), says="--out expects a file, empty is a folder"),
    Mistake(
        "out of no kind", argv=(*AUDIT, "digits", "--out", "report.pdf"), says="ends in .html or .json, found 'report"
    ),
    Mistake(
        "out of no kind, compare", argv=("compare", "mlp", "vit", "--data", "digits", "--out", "x"), says="ends in"
    ),
    Mistake(
        "out in a new folder, score",
        argv=("score", "mlp", "--data", "good.npz", "--out", "new/s.csv"),
        right=lambda _: len(Path("new/s.csv").read_text().splitlines()) == 61,
    ),
    Mistake(
        "out inside a file, score",
        argv=("score", "mlp", "--data", "good.npz", "--out", "table.csv/s.csv"),
        says="table.csv is a file|no folder",
    ),
    Mistake("out of no kind, prune", argv=("prune", "mlp", "--data", "digits", "--out", "k.npy"), says="ends in .csv"),
    Mistake("weights that are missing", argv=(*AUDIT, "digits", "--weights", "no.pt"), says="no.pt is not a file"),
    Mistake(
        "weights that are text", argv=(*AUDIT, "digits", "--weights", "table.csv"), says="cannot be read as weights"
    ),
    Mistake(
        "weights that are missing, complexity",
        argv=("complexity", "mlp", "--data", "digits", "--weights", "no.pt"),
        says="no.pt is not a file",
    ),
    Mistake("keep 0 on the line", argv=(*AUDIT, "digits", "--keep", "0"), says=r"--keep expects a share in \(0, 1\]"),
    Mistake(
        "keep 2 on the line", argv=("prune", "mlp", "--data", "digits", "--out", "k.csv", "--keep", "2"), says="share"
    ),
    Mistake("members 0 on the line", argv=(*AUDIT, "good.npz", "--members", "0"), says="members.* 1"),
    Mistake("grey digits into a colour model", argv=("audit", "nets.py:colour", "--data", "digits"), says="3 channels"),
    Mistake(
        "digits of the wrong size", argv=("audit", "nets.py:net", "--data", "digits"), says=r"take samples of.*\(1, 8"
    ),
    Mistake(
        "a map of scores", argv=("audit", "nets.py:maps", "--data", "good.npz"), says=r"output of shape \(3, 4, 4\)"
    ),
    Mistake("too few outputs", argv=("audit", "nets.py:two", "--data", "good.npz"), says="0 to 2, but the model has 2"),
    Mistake(
        "compare one model", argv=("compare", "mlp", "--data", "digits"), says="expects two or more models, found 1"
    ),
    Mistake("an unknown experiment", argv=("run", "fig99"), says="fig9"),
    Mistake("an unknown experiment, reproduce", argv=("reproduce", "--only", "figg4"), says="did you mean 'fig4'"),
    Mistake("an unknown scale", argv=("run", "fig9", "--scale", "big"), says="big.*smoke, laptop"),
    Mistake("an unknown scale, reproduce", argv=("reproduce", "--scale", "big"), says="big.*smoke, laptop"),
    Mistake("plan of nothing known", argv=("plan", "audit"), says="plan expects a command of geometry, run, reproduce"),
    Mistake("plan of an unknown experiment", argv=("plan", "run", "fig99"), says="fig9"),
    Mistake("claims of no run", argv=("claims", "empty"), says="empty"),
    Mistake("an unknown group", argv=("group", "Q9"), says="Q9"),
    Mistake("an unknown group, limit", argv=("limit", "--group", "Q9"), says="Q9"),
    Mistake("an unknown network, limit", argv=("limit", "--group", "D8", "--net", "rnn"), says="rnn|No such option"),
    Mistake(
        "words in a file", argv=(*AUDIT, "words.npz", "--out", "r.json", "--json"), right=lambda t: '"owl"' in str(t)
    ),
    Mistake(
        "from 1 in a file", argv=(*AUDIT, "from_1.npz", "--out", "r.json", "--json"), right=lambda t: '"3"' in str(t)
    ),
    Mistake(
        "(n, 1) in a file", argv=(*AUDIT, "column.npz", "--out", "r.json", "--json"), right=lambda t: '"2"' in str(t)
    ),
]


class Tall(nn.Module):
    """(batch, classes, 1, 1), as of a convolution in place of the last linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Conv2d(4, 3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def tall() -> nn.Module:
    return Tall()


def line() -> ng.Geometry:
    return ng.Geometry.from_matrix(torch.eye(9))


def split() -> Any:
    from netgrain.data import digits

    return digits()


MISTAKES: tuple[Mistake, ...] = (*LABELS, *SAMPLES, *OPTIONS, *COMMANDS)


NETS = """
from functools import partial
from tests.end_to_end.mistakes_about_data import Maps as maps, net as plain

def net(): return plain()
def colour(): return plain(3, 3)
def two(): return plain(2)
"""


def prepare(folder: Path) -> None:
    (folder / "nets.py").write_text(NETS)
    x, y = X.numpy(), Y.numpy()
    np.savez(folder / "good.npz", X=x, y=y)
    np.savez(folder / "words.npz", X=x, y=np.array(WORDS))
    np.savez(folder / "from_1.npz", X=x, y=y + 1)
    np.savez(folder / "column.npz", X=x, y=y[:, None])
    np.savez(folder / "fractions.npz", X=x, y=y + 0.37)
    np.savez(folder / "without_x.npz", images=x, y=y)
    np.savez(folder / "without_y.npz", X=x)
    np.savez(folder / "objects.npz", X=np.array([{"a": 1}, None], object), y=y[:2])
    np.save(folder / "objects.npy", np.array([{"a": 1}, None], object))
    nan = x.copy()
    nan[3, 0, 1, 1] = math.nan
    np.savez(folder / "nan.npz", X=nan, y=y)
    (folder / "text.npz").write_text("no archive")
    (folder / "table.csv").write_text("1,2,3\n")
    (folder / "empty.csv").touch()
    rows = [(f"{v:.3f}", f"{w:.3f}", word) for v, w, word in zip(x[:, 0, 0, 0], x[:, 0, 1, 1], WORDS, strict=True)]
    tables: dict[str, list[tuple[object, ...]]] = {
        "good": [("a", "b", "kind"), *rows],
        "gaps": [("a", "b", "kind"), rows[0], ("", *rows[1][1:]), *rows[2:]],
        "one": [("a", "b", "kind"), *((a, b, 7) for a, b, _ in rows)],
        "same": [("a", "b", "kind"), *((1, 2, c) for c in y.tolist())],
        "names": [("who", "a", "kind"), *((f"name {i}", a, c) for i, (a, _, c) in enumerate(rows))],
        "few": [("a", "b", "kind"), *((a, b, c + 0.5) for (a, b, _), c in zip(rows, y.tolist(), strict=True))],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    (folder / "bad.parquet").write_bytes(b"PAR1 and no more")
    for i in range(6):
        (folder / "mixed" / ("cat", "dog")[i % 2]).mkdir(parents=True, exist_ok=True)
        size = (6, 5) if i == 5 else (4, 4)
        pixels = np.random.default_rng(i).integers(0, 256, size, np.uint8)
        Image.fromarray(pixels).save(folder / "mixed" / ("cat", "dog")[i % 2] / f"{i}.png")
    (folder / "empty").mkdir()
    for kind in ("cat", "dog"):
        (folder / "texts" / kind).mkdir(parents=True)
        (folder / "texts" / kind / "a.txt").write_text("no image")
