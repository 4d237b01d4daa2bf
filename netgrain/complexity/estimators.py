"""Geometric complexity GC = mean over points of ‖J(x)‖², J = ∂f/∂x: exact, or from random vectors with error bars.

With A = J Jᵀ (k × k) at one point, random signs v ∈ {±1}ᵏ (Rademacher) give an unbiased sample ‖Jᵀv‖² = vᵀAv of tr A
with variance V = 2 Σ_{a≠b} A_ab², in one backward pass for all points at once (points do not mix). Probes of different
points are independent, so the mean of m vectors on n points has variance Σᵢ Vᵢ / (n² m) *on these points*. The spread
of ‖Jᵀv‖² between points cannot stand for it: it also holds the spread of tr A. So Vᵢ is estimated from the differences
of vectors at one point: from all m ≥ 2 of them, or, for m = 1, from a second vector at a random sixteenth of the points
(at least 32), which enters the error bar only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn

from netgrain.complexity.checks import check_effort, check_finite, described
from netgrain.complexity.functions import MeasuredFunction, Of, map_of
from netgrain.complexity.jacobian_products import PointVectors, forward_norms, reverse_norms
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.runtime.arguments import whole
from netgrain.runtime.devices import in_double
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.threads import one_thread

Estimator = Literal["auto", "exact", "forward", "vjp", "jvp", "outputs"]
ESTIMATORS = get_args(Estimator)
FEW_OUTPUTS = 16  # up to here "auto" takes one backward pass per output
FEW_INPUTS = 64  # up to here, and below the number of outputs, one product Ju per input
PILOTS = 32  # points with a second vector where one per point was asked for
BATCH = 256


class Complexity(Estimate):
    """A geometric complexity: a float with its error and how it was computed.

    Parameters
    ----------
    value : float
        The number.
    stderr : float, default 0
        Standard error as an estimate of the exact value *on these points*; 0 where it was computed
        exactly.
    n : int, default 0
        Number of terms behind the standard error, for Student's t.
    plug_in : float, optional
        The naive value where the number itself is bias-corrected.
    estimator : str, default "exact"
        How it was computed.
    of : str, default "logits"
        The function that was measured.
    vectors : int, default 0
        Random vectors (or outputs) per point; 0 where none were needed.
    population_stderr : float, default nan
        Standard error as an estimate of the expectation over the distribution the points came from.
    inputs : str, default ""
        The input space in words: complexity is per unit of input.

    Examples
    --------
    >>> Complexity(12.5, estimator="exact", of="logits", inputs="3 points 2 as given, mean 0.00, sd 1.00")
    12.5 (exact; logits; 3 points 2 as given, mean 0.00, sd 1.00)
    """

    estimator: str
    of: str
    vectors: int
    population_stderr: float
    inputs: str

    def __new__(
        cls,
        value: float,
        stderr: float = 0.0,
        n: int = 0,
        plug_in: float | None = None,
        *,
        estimator: str = "exact",
        of: str = "logits",
        vectors: int = 0,
        population_stderr: float = math.nan,
        inputs: str = "",
    ) -> Complexity:
        self = cast(Complexity, super().__new__(cls, value, stderr, n, plug_in))
        self.estimator, self.of, self.vectors = estimator, of, int(vectors)
        self.population_stderr, self.inputs = float(population_stderr), inputs
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), (self.value, self.stderr, self.n, self.plug_in), self._labels())

    def _labels(self) -> dict[str, Any]:
        names = ("estimator", "of", "vectors", "population_stderr", "inputs")
        return {name: getattr(self, name) for name in names}

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite becomes None."""
        labels = self._labels()
        if not math.isfinite(self.population_stderr):
            labels["population_stderr"] = None
        return {**super().as_dict(), **labels}

    def __repr__(self) -> str:
        if self.estimator in ("exact", "forward"):
            return f"{self.value:.6g} (exact; {self.of}; {self.inputs})"
        number = f"{self.value:.6g}" if self.stderr == 0 else self.with_error
        count = "1 vector" if self.vectors == 1 else f"{self.vectors} vectors"
        return f"{number} ({self.estimator}, {count}; {self.of}; {self.inputs})"

    __str__ = __repr__


def _rebuilt(kind: type[Complexity], numbers: tuple[Any, ...], labels: dict[str, Any]) -> Complexity:
    return kind(*numbers, **labels)


@one_thread()
def geometric_complexity(
    model: nn.Module,
    X: Tensor,
    *,
    estimator: Estimator = "auto",
    rel_error: float = 0.02,
    vectors: int | None = None,
    of: Of = "logits",
    layer: str | None = None,
    batch: int = BATCH,
    seed: int = 0,
    progress: bool | None = None,
) -> Complexity:
    """Mean squared input slope of a model over data, GC = (1/n) Σᵢ ‖J(xᵢ)‖².

    J = ∂f/∂x (k × d) is the input Jacobian and ‖·‖ the Frobenius norm; outputs are reshaped to (n, k). GC is the
    trace of the average geometry over the data, and twice the Dirichlet energy.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        Points at which slopes are measured, as the network takes them; complexity is per unit of this input.
    estimator : {"auto", "exact", "forward", "vjp", "jvp", "outputs"}, default "auto"
        ``"exact"``: one backward pass per output. ``"forward"``: one product Ju per input coordinate, exact
        too. ``"vjp"``: ‖Jᵀv‖² with random signs v ∈ {±1}ᵏ. ``"jvp"``: ‖Ju‖² with random signs u ∈ {±1}ᵈ.
        ``"outputs"``: the gradients of some of the k outputs, drawn for each point without replacement.
        ``"auto"``: exact up to 16 outputs, forward if d ≤ 64 and d < k, otherwise vjp, or exact where that
        needs no more passes.
    rel_error : float, default 0.02
        Target for the relative standard error from random vectors.
    vectors : int, optional
        Random vectors, or outputs, per point; by default as many as `rel_error` needs, at least two.
    of : {"logits", "softmax", "log-softmax", "centred", "fisher"} or callable, default "logits"
        What is differentiated: the outputs, their softmax or its logarithm, the outputs without their mean
        (blind to a common shift), the vector whose squared slope is tr Jᵀ(diag p − ppᵀ)J, or your own
        function of the outputs (n, k).
    layer : str, optional
        Name of a submodule: the map from the input to its output is measured instead.
    batch : int, default 256
        Number of points to differentiate together; it changes the result only by rounding.
    seed : int, default 0
        The random vectors of a point depend on ``(seed, its index)`` only.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    Complexity
        The number, with its standard error, estimator and input space.

    Raises
    ------
    NetgrainError
        If the model is in train mode with batch norm or dropout, mixes the samples of a batch, or has
        gradients that are not finite.

    See Also
    --------
    netgrain.complexity.complexities : All variants at once.
    netgrain.geometry_of : The matrix of which this is the trace.

    References
    ----------
    .. [1] Dherin, Munn, Rosca, Barrett, "Why neural networks find simple solutions: the many
       regularizers of geometric complexity", arXiv 2209.13083.

    Examples
    --------
    A linear map has the squared norm of its matrix, on any data.

    >>> net = nn.Linear(2, 2)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 2.0], [0.0, 2.0]]))
    >>> geometric_complexity(net, torch.zeros(3, 2)).value
    9.0
    >>> geometric_complexity(net, torch.zeros(3, 2), of="centred").value  # (1² + 0²) / 2: half the squared difference
    0.5
    """
    return mean_slope(model, X, Effort(estimator, rel_error, vectors, batch, seed, progress), of, layer)


@dataclass(frozen=True)
class Effort:
    """How slopes are measured, checked; see `geometric_complexity`."""

    estimator: Estimator = "auto"
    rel_error: float = 0.02
    vectors: int | None = None
    batch: int = BATCH
    seed: int = 0
    progress: bool | None = None

    def __post_init__(self) -> None:
        known_name("estimator", self.estimator, ESTIMATORS)
        check_effort(self.rel_error, self.vectors, self.batch)
        object.__setattr__(self, "seed", whole("seed", self.seed))


def mean_slope(model: nn.Module, X: Tensor, effort: Effort, of: Of = "logits", layer: str | None = None) -> Complexity:
    """The geometric complexity with options that were checked."""
    name = of if isinstance(of, str) else getattr(of, "__name__", "custom")
    name = name if layer is None else f"layer '{layer}'" if name == "logits" else f"{name} of layer '{layer}'"
    with map_of(model, X, of, layer) as f:
        return squared_norms(f, effort).mean(name, described(f.X))


@dataclass(frozen=True, eq=False)
class SquaredNorms:
    """‖J(xᵢ)‖² of every point, and the variance of each where it was estimated from random vectors."""

    values: Tensor  # (n,) float64
    variances: Tensor  # (n,) float64 of the values; NaN where nothing is known of it; zeros: exact
    freedom: int  # degrees of freedom behind each known variance
    estimator: str
    vectors: int

    @property
    def exact(self) -> bool:
        return self.estimator in ("exact", "forward")

    def error(self, index: Tensor | None = None) -> tuple[float, int]:
        """Standard error of the mean over points, as an estimate of its exact value, and n for Student's t."""
        values = self.values if index is None else self.values[index]
        if self.exact:
            return 0.0, 0
        some = self.variances if index is None else self.variances[index]
        some = some[~some.isnan()]
        if not len(some):  # no second vector among the chosen points: those of all points stand for them
            some = self.variances[~self.variances.isnan()]
        total = float(some.sum())
        stderr = math.sqrt(float(some.mean()) / len(values))
        # Welch–Satterthwaite: points differ in variance; (freedom + 2)/freedom is the second moment of χ²/freedom
        squares = float(some.square().sum()) / (self.freedom + 2)
        most = len(some) * self.freedom
        return stderr, 1 + (min(max(1, round(total**2 / squares)), most) if squares > 0 else most)

    def mean(self, of: str, inputs: str, index: Tensor | None = None) -> Complexity:
        """The mean over the points, or over some of them."""
        values = self.values if index is None else self.values[index]
        stderr, n = self.error(index)
        return self.described(float(values.mean()), stderr, n, of, inputs, mean_of(values).stderr)

    def described(self, value: float, stderr: float, n: int, of: str, inputs: str, spread: float) -> Complexity:
        """A number made of these norms, with its origin; spread: its standard error over points."""
        return Complexity(
            value,
            stderr,
            n,
            estimator=self.estimator,
            of=of,
            vectors=self.vectors,
            population_stderr=spread,
            inputs=inputs,
        )


def squared_norms(f: MeasuredFunction, effort: Effort) -> SquaredNorms:
    """‖J(xᵢ)‖² of every point of a map, by the estimator asked for."""
    estimator, rel_error, vectors, run = effort.estimator, effort.rel_error, effort.vectors, _Run(f, effort)
    if estimator == "exact" or (estimator == "auto" and f.k <= FEW_OUTPUTS):
        return run.exact()
    if estimator == "forward":
        return run.forward()
    if estimator == "auto" and f.d < f.k and f.d <= FEW_INPUTS:
        try:
            return run.forward()
        except NetgrainError:  # an operation that can be differentiated once only
            return run.exact()
    kind = "vjp" if estimator == "auto" else estimator
    most = f.d if kind == "jvp" else f.k
    if kind == "outputs" and vectors is not None and vectors > f.k:
        raise NetgrainError(f"expected at most {f.k} outputs to draw, the model has no more, found vectors={vectors}.")
    if vectors is not None:
        return run.sampled(kind, vectors)
    found = run.sampled(kind, min(2, most))
    while True:
        value, stderr = float(found.values.mean()), found.error()[0]
        if stderr <= rel_error * value or found.vectors >= most:
            return found
        needed = math.ceil(1.05 * found.vectors * (stderr / (rel_error * value)) ** 2)
        if estimator == "auto" and needed >= f.k:
            return run.exact()
        found = run.sampled(kind, min(max(needed, found.vectors + 1), most))


# --- passes over the points -------------------------------------------------------------------------------------------


class _Run:
    """Passes over the points of one map; vectors that were made are kept."""

    def __init__(self, f: MeasuredFunction, effort: Effort) -> None:
        self.f, self.batch, self.seed, self.progress = f, effort.batch, effort.seed, effort.progress
        self.samples = torch.empty(f.n, 0, dtype=torch.float64)  # one column per vector

    def exact(self) -> SquaredNorms:
        return self._whole("exact", self.f.k)

    def forward(self) -> SquaredNorms:
        return self._whole("forward", self.f.d)

    def _whole(self, kind: str, size: int) -> SquaredNorms:
        """The sum over all basis vectors."""
        values = self._over(torch.arange(self.f.n), range(size), PointVectors("basis", size, 0).at, kind)[:, 0]
        check_finite(values)
        return SquaredNorms(values, torch.zeros_like(values), 0, kind, 0)

    def sampled(self, kind: str, m: int) -> SquaredNorms:
        """The mean of m vectors at every point; those made before are used again."""
        f = self.f
        vectors = PointVectors(kind, f.d if kind == "jvp" else f.k, self.seed).at
        made = self.samples.shape[1]
        new = self._over(torch.arange(f.n), range(made, m), vectors, kind)
        self.samples = torch.cat([self.samples, new], 1)
        values = self.samples.mean(1)
        check_finite(values)
        if kind == "outputs" and m == f.k:
            return SquaredNorms(values, torch.zeros_like(values), 0, "exact", m)
        if m > 1:
            variances = self.samples.var(1) / m
        else:
            count = min(f.n, max(PILOTS, f.n // 16))
            generator = torch.Generator().manual_seed(derived_seed(self.seed, "pilot"))
            pilots = torch.randperm(f.n, generator=generator)[:count].sort().values
            # one output has nothing to be drawn from but itself
            second = self._over(pilots, range(1, 2), vectors, kind)[:, 0]
            variances = torch.full_like(values, math.nan)
            variances[pilots] = (values[pilots] - second).square() / 2
        if kind == "outputs":
            variances = variances * (1 - m / f.k)  # drawn without replacement
        return SquaredNorms(values, variances, max(m - 1, 1), kind, m)

    def _over(
        self, index: Tensor, js: range, vectors: Callable[[Tensor], Callable[[int], Tensor]], kind: str
    ) -> Tensor:
        """‖Jᵀv_j‖², or ‖Ju_j‖², for each point of index and each j: (points, len(js)) in float64.

        For whole sums over many outputs (kind exact or forward) the sum alone is kept, as one column.
        """
        sums = kind in ("exact", "forward")
        scale = self.f.k if kind == "outputs" else 1  # one of k outputs stands for all
        found = []
        norms = forward_norms if kind in ("forward", "jvp") else reverse_norms
        with Bar("geometric complexity", len(index) * len(js), self.progress) as bar:
            for part in index.split(self.batch):
                columns = norms(self.f, part, js, vectors(part))
                total = in_double(torch.zeros(len(part), 1 if sums else len(js), device=self.f.device))
                for position, column in enumerate(columns):
                    total[:, 0 if sums else position] += column
                    bar.advance(len(part))
                found.append(scale * total.cpu())
        return torch.cat(found)
