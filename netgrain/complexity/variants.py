"""Variants of geometric complexity: free of the logits' gauge, of their scale, per class, per layer, and all at once.

With A = J Jᵀ (k × k) at one point and M = diag p − ppᵀ, p = softmax f:

    logits tr A,   centred tr A − 1ᵀA1/k,   softmax tr MAM ≤ tr A / 4,   input Fisher tr MA

so that the k backward passes of the exact estimator serve all of them. Of the two that do not depend on the scale of
the outputs, GC / Σ_c Var f_c is the mean squared frequency of the function (‖w‖² for sin(w·x)), and GC / γ² compares
slopes with the margin γ that they have to overcome (arXiv 2405.18590).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from netgrain.complexity.checks import check_finite, checked_labels, described
from netgrain.complexity.estimators import (
    BATCH,
    FEW_OUTPUTS,
    Complexity,
    Effort,
    Estimator,
    SquaredNorms,
    mean_slope,
    squared_norms,
)
from netgrain.complexity.functions import MeasuredFunction, Of, map_of
from netgrain.complexity.jacobian_products import Jacobians
from netgrain.families.outputs import Output
from netgrain.families.probes import Data
from netgrain.geometry.estimate import mean_of
from netgrain.geometry.of_models import geometry_of
from netgrain.runtime.devices import in_double
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.progress import Bar
from netgrain.runtime.threads import one_thread

if TYPE_CHECKING:
    from netgrain.geometry.value import Geometry

GAUGES = ("logits", "softmax", "centred", "fisher")
MOST_NUMBERS = 2**24  # of the Jacobians held at a time


# --- one at a time ----------------------------------------------------------------------------------------------------


@one_thread()
def normalised_complexity(
    model: nn.Module,
    X: Tensor,
    *,
    estimator: Estimator = "auto",
    rel_error: float = 0.02,
    vectors: int | None = None,
    layer: str | None = None,
    batch: int = BATCH,
    seed: int = 0,
    progress: bool | None = None,
) -> Complexity:
    """Complexity per output variance, R = GC / Σ_c Var(f_c) over the points.

    The mean squared frequency of f, free of the scale of the outputs: ‖w‖² for f = sin(w·x) with a uniform phase.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        Points at which slopes are measured, as the network takes them; complexity is per unit of this input.
    estimator : {"auto", "exact", "forward", "vjp", "jvp", "outputs"}, default "auto"
        How ‖J‖² is computed, as in `geometric_complexity`.
    rel_error : float, default 0.02
        Relative standard error that random vectors aim at.
    vectors : int, optional
        Random vectors (or outputs) per point; by default as many as `rel_error` needs.
    layer : str, optional
        Name of a submodule: the map from the input to its output is measured instead.
    batch : int, default 256
        Number of points to differentiate together; it changes the result only by rounding.
    seed : int, default 0
        Seed of everything random.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    Complexity
        R, with the standard error of GC over the variance.

    Raises
    ------
    NetgrainError
        If the outputs do not vary over the points.

    Examples
    --------
    >>> x = torch.arange(8)[:, None] * (2 * torch.pi / 8)
    >>> class Wave(nn.Module):
    ...     def forward(self, x):
    ...         return 5 * torch.sin(3 * x)
    >>> round(normalised_complexity(Wave(), x), 4)
    9.0
    """
    with map_of(model, X, layer=layer) as f:
        norms = squared_norms(f, Effort(estimator, rel_error, vectors, batch, seed, progress))
        return _per_variance(norms, f.outputs(batch), described(f.X))


@dataclass(frozen=True)
class MarginComplexity:
    """GC / γ², and the margin γ it was divided by.

    Attributes
    ----------
    value : Complexity
        GC / γ²; infinite where γ is not positive.
    gamma : float
        The quantile of the margins.
    quantile : float
        Which one.
    wrong : float
        Share of the points with a margin of at most zero.
    note : str
        Why the value is not finite, if it is not.
    """

    value: Complexity
    gamma: float
    quantile: float
    wrong: float  # share of the points with a margin of at most zero
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            **self.value.as_dict(),
            "gamma": self.gamma,
            "quantile": self.quantile,
            "wrong": self.wrong,
            "note": self.note,
        }

    def __repr__(self) -> str:
        what = self.note or f"γ = {self.gamma:.4g}, the {self.quantile:.0%} quantile of the margins"
        return f"MarginComplexity({self.value.value:.6g}; {what}; {self.wrong:.1%} of the points wrong)"


@one_thread()
def margin_complexity(
    model: nn.Module,
    X: Tensor,
    y: Tensor,
    *,
    quantile: float = 0.5,
    estimator: Estimator = "auto",
    rel_error: float = 0.02,
    vectors: int | None = None,
    batch: int = BATCH,
    seed: int = 0,
    progress: bool | None = None,
) -> MarginComplexity:
    """Complexity per squared margin, GC / γ².

    γ is a quantile of f_y − max_{j≠y} f_j over the points. Training with cross-entropy makes outputs grow without
    limit, and GC with their square; this quotient does not depend on their scale. With one output and labels 0 and 1
    the margin is ±f.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        Points at which slopes are measured, as the network takes them; complexity is per unit of this input.
    y : Tensor of shape (samples,)
        Labels, whole numbers from 0.
    quantile : float, default 0.5
        Which quantile of the margins γ is; 0.5 is the median.
    estimator : {"auto", "exact", "forward", "vjp", "jvp", "outputs"}, default "auto"
        How ‖J‖² is computed, as in `geometric_complexity`.
    rel_error : float, default 0.02
        Relative standard error that random vectors aim at.
    vectors : int, optional
        Random vectors (or outputs) per point; by default as many as `rel_error` needs.
    batch : int, default 256
        Number of points to differentiate together; it changes the result only by rounding.
    seed : int, default 0
        Seed of everything random.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    MarginComplexity
        The quotient, γ and the share of wrong points. Where γ is not positive the value is infinite, and
        ``note`` says why.

    References
    ----------
    .. [1] Munn, Dherin, Gonzalvo, "A margin-based multiclass generalization bound via geometric
       complexity", arXiv 2405.18590.

    Examples
    --------
    >>> net = nn.Linear(2, 2, bias=False)
    >>> _ = net.weight.data.copy_(3 * torch.eye(2))
    >>> margin_complexity(net, torch.eye(2), torch.tensor([0, 1]))  # 2 · 3² / 3²
    MarginComplexity(2; γ = 3, the 50% quantile of the margins; 0.0% of the points wrong)
    """
    _check_quantile(quantile)
    with map_of(model, X) as f:
        margin = margins(f.outputs(batch), y)
        norms = squared_norms(f, Effort(estimator, rel_error, vectors, batch, seed, progress))
        return _per_margin(norms, margin, quantile, described(f.X))


def margins(outputs: Tensor, y: Tensor) -> Tensor:
    """f_y − max_{j≠y} f_j of each point, (n,); positive where the largest output is the right one.

    >>> margins(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([2])).tolist()
    [-1.0]
    """
    k = outputs.shape[1]
    y = checked_labels(y, len(outputs), k, logit=True)
    if k == 1:
        return outputs[:, 0] * (2 * y - 1)
    own = outputs.gather(1, y[:, None])
    others = outputs.scatter(1, y[:, None], -math.inf)
    return (own - others.max(1, keepdim=True).values)[:, 0]


@dataclass(frozen=True)
class PartComplexity:
    """Complexity of each part: of the points of each class, or up to each layer.

    Attributes
    ----------
    of : {"class", "layer"}
        What the parts are.
    parts : dict of str to Complexity
        The complexity of each part, by name.
    skipped : dict of str to str
        Layers that could not be measured, and why.
    """

    of: str  # "class" or "layer"
    parts: dict[str, Complexity]
    skipped: dict[str, str]  # layers that could not be measured, and why

    def __getitem__(self, name: str | int) -> Complexity:
        return self.parts[known_name(self.of, str(name), self.parts)]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, by name."""
        return {name: value.as_dict() for name, value in self.parts.items()}

    def __repr__(self) -> str:
        width = max(map(len, self.parts), default=0)
        rows = [f"  {name:{width}}  {str(value).partition(' (')[0]}" for name, value in self.parts.items()]
        rows += [f"  not measured: {name} ({reason})" for name, reason in self.skipped.items()]
        return "\n".join([f"complexity per {self.of}", *rows])


@one_thread()
def per_class_complexity(
    model: nn.Module,
    X: Tensor,
    y: Tensor,
    *,
    classes: Sequence[str] = (),
    estimator: Estimator = "auto",
    rel_error: float = 0.02,
    vectors: int | None = None,
    of: Of = "logits",
    layer: str | None = None,
    batch: int = BATCH,
    seed: int = 0,
    progress: bool | None = None,
) -> PartComplexity:
    """Geometric complexity over the points of each class.

    The mean over classes, weighted by their numbers of points, is GC.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        Points at which slopes are measured, as the network takes them; complexity is per unit of this input.
    y : Tensor of shape (samples,)
        Labels, whole numbers from 0.
    classes : sequence of str, default ()
        Names of the classes.
    estimator : {"auto", "exact", "forward", "vjp", "jvp", "outputs"}, default "auto"
        How ‖J‖² is computed, as in `geometric_complexity`.
    rel_error : float, default 0.02
        Relative standard error that random vectors aim at.
    vectors : int, optional
        Random vectors (or outputs) per point; by default as many as `rel_error` needs.
    of : {"logits", "softmax", "log-softmax", "centred", "fisher"} or callable, default "logits"
        What is differentiated, as in `geometric_complexity`.
    layer : str, optional
        Name of a submodule: the map from the input to its output is measured instead.
    batch : int, default 256
        Number of points to differentiate together; it changes the result only by rounding.
    seed : int, default 0
        Seed of everything random.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    PartComplexity
        One complexity for each class with points, by label or name.

    Examples
    --------
    >>> class Square(nn.Module):
    ...     def forward(self, x):
    ...         return x**2 / 2
    >>> found = per_class_complexity(Square(), torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 0, 1]))
    >>> found[0].value, found[1].value
    (5.0, 25.0)
    """
    with map_of(model, X, of, layer) as f:
        labels = checked_labels(y, f.n)
        norms = squared_norms(f, Effort(estimator, rel_error, vectors, batch, seed, progress))
        return _per_class(norms, labels, classes, f.X)


@one_thread()
def per_layer_complexity(
    model: nn.Module,
    X: Tensor,
    layers: Sequence[str] | None = None,
    *,
    estimator: Estimator = "auto",
    rel_error: float = 0.02,
    vectors: int | None = None,
    of: Of = "logits",
    batch: int = BATCH,
    seed: int = 0,
    progress: bool | None = None,
) -> PartComplexity:
    """Geometric complexity of the map from the input to each layer.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        Points at which slopes are measured, as the network takes them; complexity is per unit of this input.
    layers : sequence of str, optional
        Names of submodules; by default all modules without children, in the order of the model.
    estimator : {"auto", "exact", "forward", "vjp", "jvp", "outputs"}, default "auto"
        How ‖J‖² is computed, as in `geometric_complexity`.
    rel_error : float, default 0.02
        Relative standard error that random vectors aim at.
    vectors : int, optional
        Random vectors (or outputs) per point; by default as many as `rel_error` needs.
    of : {"logits", "softmax", "log-softmax", "centred", "fisher"} or callable, default "logits"
        What is differentiated, as in `geometric_complexity`.
    batch : int, default 256
        Number of points to differentiate together; it changes the result only by rounding.
    seed : int, default 0
        Seed of everything random.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    PartComplexity
        One complexity for each layer. Without `layers`, ``skipped`` names those that cannot be measured
        (applied more than once, not reached, cut off from the input).

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    >>> for layer in net:
    ...     _ = layer.weight.data.fill_(2.0)
    >>> found = per_layer_complexity(net, torch.zeros(1, 1))
    >>> found["0"].value, found["1"].value
    (4.0, 16.0)
    """
    given, effort = layers is not None, Effort(estimator, rel_error, vectors, batch, seed, progress=False)
    names = layers if layers is not None else [n for n, m in model.named_modules() if n and not any(m.children())]
    if not names:
        raise NetgrainError(f"{type(model).__name__} has no layers to look at; expected a model with submodules.")
    with map_of(model, X):  # what is wrong with the model or the data is said before layers are skipped
        pass
    parts, skipped = {}, {}
    with Bar("complexity of layers", len(names), progress) as bar:
        for name in names:
            try:
                parts[name] = mean_slope(model, X, effort, of, name)
            except NetgrainError as e:
                if given:
                    raise
                skipped[name] = str(e).partition("; ")[0]
            bar.advance()
    return PartComplexity("layer", parts, skipped)


def agop(
    model: nn.Module,
    X: Tensor,
    *,
    output: Output = "all",
    probes: int | None = None,
    seed: int = 0,
    keep: int = 64,
    progress: bool | None = None,
) -> Geometry:
    """Average gradient outer product of a model over data, (1/n) Σ J(xᵢ)ᵀJ(xᵢ).

    The same object as ``netgrain.geometry_of([model], Data(X))``. Its eigenvectors are the input directions the model
    reacts to, its trace is the geometric complexity.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        Points at which slopes are measured, as the network takes them; complexity is per unit of this input.
    output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
        Outputs whose gradients count; ``"all"`` sums over outputs.
    probes : int, optional
        Number of points to use; by default all.
    seed : int, default 0
        Seed of everything random.
    keep : int, default 64
        Leading directions to keep when the input is too large for anything but a sketch.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    Geometry
        G over d = prod(input_shape) coordinates.

    References
    ----------
    .. [1] Radhakrishnan, Beaglehole, Pandit, Belkin, "Mechanism of feature learning in deep fully
       connected networks and kernel machines that recursively learn features", arXiv 2212.13881.

    Examples
    --------
    >>> net = nn.Linear(2, 1)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 2.0]]))
    >>> agop(net, torch.zeros(3, 2)).trace.value
    5.0
    """
    return geometry_of([model], Data(X), output=output, probes=probes, seed=seed, keep=keep, progress=progress)


# --- all at once ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Complexities:
    """The variants of geometric complexity of one model on one set of points.

    Attributes
    ----------
    logits : Complexity
        GC of the outputs.
    softmax, centred, fisher : Complexity or None
        GC of the probabilities, of the outputs without their mean, and of log p; None for one output.
    per_variance : Complexity or None
        GC over the variance of the outputs; None where they do not vary.
    per_margin : MarginComplexity or None
        GC over the squared margin; None without labels.
    per_class : PartComplexity or None
        GC of each class; None without labels.
    """

    logits: Complexity
    softmax: Complexity | None
    centred: Complexity | None
    fisher: Complexity | None
    per_variance: Complexity | None
    per_margin: MarginComplexity | None
    per_class: PartComplexity | None

    @property
    def inputs(self) -> str:
        """The input space in words."""
        return self.logits.inputs

    def variants(self) -> dict[str, Complexity]:
        """The variants that have a value, by name."""
        margin = None if self.per_margin is None else self.per_margin.value
        named = {name: getattr(self, name) for name in (*GAUGES, "per_variance")} | {"per_margin": margin}
        return {name: value for name, value in named.items() if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found: dict[str, Any] = {name: value.as_dict() for name, value in self.variants().items()}
        if self.per_margin is not None:
            found["per_margin"] = self.per_margin.as_dict()
        return {**found, "per_class": None if self.per_class is None else self.per_class.as_dict()}

    def __repr__(self) -> str:
        rows = [f"  {name.replace('_', ' '):13} {str(v).partition(' (')[0]}" for name, v in self.variants().items()]
        return "\n".join([f"Complexities ({self.logits.estimator}; {self.inputs})", *rows])


@one_thread()
def complexities(
    model: nn.Module,
    X: Tensor,
    y: Tensor | None = None,
    *,
    classes: Sequence[str] = (),
    estimator: Estimator = "auto",
    rel_error: float = 0.02,
    quantile: float = 0.5,
    batch: int = BATCH,
    seed: int = 0,
    progress: bool | None = None,
) -> Complexities:
    """All variants of geometric complexity in one object.

    Up to 16 outputs they come from one set of backward passes. Softmax, centred and Fisher need two outputs or more.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        Points at which slopes are measured, as the network takes them; complexity is per unit of this input.
    y : Tensor of shape (samples,), optional
        Labels, whole numbers from 0: with them also per margin and per class.
    classes : sequence of str, default ()
        Names of the classes.
    estimator : {"auto", "exact", "forward", "vjp", "jvp", "outputs"}, default "auto"
        How ‖J‖² is computed, as in `geometric_complexity`.
    rel_error : float, default 0.02
        Relative standard error that random vectors aim at.
    quantile : float, default 0.5
        Which quantile of the margins is divided by.
    batch : int, default 256
        Number of points to differentiate together; it changes the result only by rounding.
    seed : int, default 0
        Seed of everything random.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    Complexities
        The variants, None where one has no meaning.

    Examples
    --------
    With f = x and p = ½, M = diag p − ppᵀ is ½(I − 11ᵀ/2).

    >>> net = nn.Linear(2, 2, bias=False)
    >>> _ = net.weight.data.copy_(torch.eye(2))
    >>> found = complexities(net, torch.tensor([[1.0, 1.0], [-1.0, -1.0]]))  # p = ½, M = ½(I − 11ᵀ/2)
    >>> found.logits.value, found.centred.value, round(found.softmax, 6), found.fisher.value, found.per_variance.value
    (2.0, 1.0, 0.25, 0.5, 1.0)
    """
    effort = Effort(estimator, rel_error, None, batch, seed, progress)
    _check_quantile(quantile)
    with map_of(model, X) as f:
        inputs, outputs = described(f.X), f.outputs(batch)
        labels = None if y is None else checked_labels(y, f.n, f.k, logit=True)
        gauges = GAUGES if f.k > 1 else ("logits",)
        if f.k <= FEW_OUTPUTS and estimator in ("auto", "exact"):
            norms = {kind: SquaredNorms(v, 0 * v, 0, "exact", 0) for kind, v in _from_grams(f, batch, progress).items()}
        else:
            norms = {"logits": squared_norms(f, effort)}
            for kind in gauges[1:]:
                with map_of(model, X, kind) as g:
                    norms[kind] = squared_norms(g, effort)
        values = {kind: norms[kind].mean(kind, inputs) for kind in gauges}
        logits, varies = norms["logits"], float(outputs.var(0, correction=0).sum()) > 0
        return Complexities(
            values["logits"],
            values.get("softmax"),
            values.get("centred"),
            values.get("fisher"),
            _per_variance(logits, outputs, inputs) if varies else None,
            None if labels is None else _per_margin(logits, margins(outputs, labels), quantile, inputs),
            None if labels is None else _per_class(logits, labels, classes, f.X),
        )


def _from_grams(f: MeasuredFunction, batch: int, progress: bool | None) -> dict[str, Tensor]:
    """Squared norms of each point from A = J Jᵀ: k backward passes for all of them."""
    found: dict[str, list[Tensor]] = {kind: [] for kind in GAUGES}
    at_once = max(1, min(batch, MOST_NUMBERS // (f.k * f.d)))
    with Bar("geometric complexity", f.n, progress) as bar:
        for part in torch.arange(f.n).split(at_once):
            J = in_double(Jacobians(f, part).rows())  # (points, k, d)
            A = J @ J.mT
            with torch.no_grad():
                p = in_double(f.call(f.points(part))).softmax(1)
            M = torch.diag_embed(p) - p[:, :, None] * p[:, None]
            trace = A.diagonal(dim1=1, dim2=2).sum(1)
            found["logits"].append(trace)
            found["centred"].append((trace - A.sum((1, 2)) / f.k).clamp(min=0))  # rounding
            found["softmax"].append((M @ A @ M).diagonal(dim1=1, dim2=2).sum(1))
            found["fisher"].append((M * A).sum((1, 2)))
            bar.advance(len(part))
    values = {kind: torch.cat(pieces).cpu() for kind, pieces in found.items()}
    check_finite(values["logits"])
    return values


def _per_variance(norms: SquaredNorms, outputs: Tensor, inputs: str) -> Complexity:
    spread = (outputs - outputs.mean(0)).square().sum(1)
    variance = float(spread.mean())
    if not variance > 0:
        raise NetgrainError(
            f"the outputs are the same at all {len(outputs)} points, so there is no variance to divide by; "
            "expected points on which the model differs."
        )
    value = float(norms.values.mean()) / variance
    # numerator and denominator are means over the same points: the error of their quotient, to first order
    influence = (norms.values - value * spread) / variance
    return _rescaled(norms, 1 / variance, "logits / variance", inputs, mean_of(influence).stderr)


def _per_margin(norms: SquaredNorms, margin: Tensor, quantile: float, inputs: str) -> MarginComplexity:
    gamma, wrong = float(margin.quantile(quantile)), float((margin <= 0).double().mean())
    if gamma > 0:
        value = _rescaled(norms, 1 / gamma**2, "logits / margin²", inputs)
        return MarginComplexity(value, gamma, quantile, wrong)
    note = (
        f"the {quantile:.0%} quantile of the margins is {gamma:.4g}, not above zero: with {wrong:.0%} of the points "
        "wrong there is no margin to divide by"
    )
    value = Complexity(math.inf, math.nan, estimator=norms.estimator, of="logits / margin²", inputs=inputs)
    return MarginComplexity(value, gamma, quantile, wrong, note)


def _rescaled(norms: SquaredNorms, factor: float, of: str, inputs: str, spread: float = math.nan) -> Complexity:
    stderr, n = norms.error()
    return norms.described(factor * float(norms.values.mean()), factor * stderr, n, of, inputs, spread)


def _per_class(norms: SquaredNorms, y: Tensor, classes: Sequence[str], X: Tensor) -> PartComplexity:
    if classes and int(y.max()) >= len(classes):
        raise NetgrainError(f"labels run to {int(y.max())}, but {len(classes)} classes were named; name them all.")
    parts = {}
    for label in y.unique().tolist():
        mask = y == label
        name = classes[label] if classes else str(label)
        parts[name] = norms.mean("logits", described(X[mask.to(X.device)]), mask)
    return PartComplexity("class", parts, {})


def _check_quantile(quantile: float) -> None:
    if not 0 <= quantile <= 1:
        raise NetgrainError(f"expected a quantile between 0 and 1, found {quantile:g}; 0.5 is the median.")
