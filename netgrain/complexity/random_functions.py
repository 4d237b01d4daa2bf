"""How complicated the functions of untrained networks are: random networks on the square [−1, 1]².

Weights are U(−s, s) with s = α√(6/(fan_in + fan_out)), biases U(−1, 1), one output. What an architecture draws at
random tells what it likes to learn (Teney et al., Neural Redshift, CVPR 2024). Five measures of a function f, none of
which changes under f → a·f + b (`lz` for a > 0):

    fourier    Σ_k ‖k‖|f̂(k)| / Σ_k |f̂(k)|, k ≠ 0, f̂ the cosine transform: the even extension of f has no jump at the
               border, where a plain FFT would see nothing but that jump; ‖k‖ counts half waves over the square
    chebyshev  the same with Chebyshev coefficients, ‖k‖ their order
    lz         words in the Lempel–Ziv (1978) dictionary of the values, cut into `LEVELS` levels, row by row
    rayleigh   R(f) = E‖∇f‖² / Var f, a mean squared frequency (f = sin(w·x) over whole periods: ‖w‖²)
    path_tv    total variation along segments between random points of the square, over the standard deviation of f
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.families.members import forward
from netgrain.geometry.estimate import Estimate
from netgrain.models import layers
from netgrain.runtime.devices import best_device, checked_device
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.threads import one_thread

MEASURES = ("fourier", "chebyshev", "lz", "rayleigh", "path_tv")
LEVELS = 16  # of the values, for Lempel–Ziv
SEGMENTS, ON_SEGMENT = 16, 32
CURVES: dict[str, Callable[[Tensor], Tensor]] = {
    "sine": torch.sin,
    "gaussian": lambda z: torch.exp(-z.square() / 2),
    "selu": F.selu,
}  # beside the activations every built-in model knows
Call = Callable[[Tensor], Tensor]  # (networks, points, 2) → (networks, points)


@dataclass(frozen=True)
class RandomFunctions:
    """One architecture at one weight scale: mean over networks and its standard error, for every measure."""

    activation: str
    depth: int
    scale: float
    fourier: Estimate
    chebyshev: Estimate
    lz: Estimate
    rayleigh: Estimate
    path_tv: Estimate


@dataclass(frozen=True, repr=False)
class Profile:
    """Measures of random networks for every activation, depth and scale.

    Attributes
    ----------
    cells : tuple of RandomFunctions
        One for each architecture and scale.
    networks : int
        Networks per cell.
    width : int or None
        Width of the networks; None where they came from ``make=``.
    grid : int
        Points along each side of the square.
    seed : int
        The seed.
    """

    cells: tuple[RandomFunctions, ...]
    networks: int
    width: int | None  # None: the networks came from make=
    grid: int
    seed: int

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary per cell with every measure and its standard error."""
        found = []
        for cell in self.cells:
            row: dict[str, Any] = {"activation": cell.activation, "depth": cell.depth, "scale": cell.scale}
            for name in MEASURES:
                value: Estimate = getattr(cell, name)
                row |= {name: value.value, f"{name}_stderr": value.stderr}
            found.append(row)
        return found

    def curve(self, measure: str, activation: str, depth: int) -> list[Estimate]:
        """One measure along the scales.

        Parameters
        ----------
        measure : {"fourier", "chebyshev", "lz", "rayleigh", "path_tv"}
            Which one.
        activation : str
            Name of the activation.
        depth : int
            Number of hidden layers.

        Returns
        -------
        list of Estimate
            One for each scale, mean over networks.
        """
        if measure not in MEASURES:
            raise NetgrainError(f"there is no measure {measure!r}; expected one of {', '.join(MEASURES)}.")
        found = [getattr(c, measure) for c in self.cells if (c.activation, c.depth) == (activation, depth)]
        if not found:
            raise NetgrainError(f"activation {activation!r} at depth {depth} is not in this profile.")
        return found

    def __repr__(self) -> str:
        lines = [f"{'activation':>12} {'depth':>5} {'scale':>5} " + " ".join(f"{m:>10}" for m in MEASURES)]
        for c in self.cells:
            numbers = " ".join(f"{getattr(c, m).value:10.3g}" for m in MEASURES)
            lines.append(f"{c.activation:>12} {c.depth:5d} {c.scale:5.3g} {numbers}")
        width = "networks of make=" if self.width is None else f"width {self.width}"
        return f"Profile({self.networks} networks per row, {width}, grid {self.grid} × {self.grid})\n" + "\n".join(
            lines
        )


@one_thread()
def complexity_profile(
    make: Callable[..., nn.Module] | None = None,
    *,
    activations: Sequence[layers.Activation] = ("relu", "gelu", "tanh", "sine"),
    depths: Sequence[int] = (1, 3, 5),
    scales: Sequence[float] = (0.5, 1.0, 2.0, 3.0),
    networks: int = 10,
    width: int = 64,
    grid: int = 32,
    seed: int = 0,
    norm: str | None = None,
    residual: bool = False,
    gating: bool = False,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Profile:
    """Complexity of the functions of random networks on the square [−1, 1]².

    By activation, number of hidden layers and weight scale α: weights are U(−s, s) with s = α√(6/(fan_in + fan_out)),
    biases U(−1, 1). Network i has the same uniform numbers at every scale and for every activation, so that rows are
    comparable pair by pair.

    Parameters
    ----------
    make : callable, optional
        Called as ``make(activation=…, depth=…)``, gives your own module of two inputs and one output; its matrices and
        biases are drawn from the same distribution, and `width`, `norm`, `residual` and `gating` are ignored.
    activations : sequence of str, default ("relu", "gelu", "tanh", "sine")
        Names of activations; ``"gaussian"`` and ``"selu"`` are also available.
    depths : sequence of int, default (1, 3, 5)
        Numbers of hidden layers.
    scales : sequence of float, default (0.5, 1, 2, 3)
        Weight scales α.
    networks : int, default 10
        Number of networks per cell; with fewer than 10, a curve is mostly noise.
    width : int, default 64
        Width of hidden layers.
    grid : int, default 32
        Points along each side of the square.
    seed : int, default 0
        Seed of everything random.
    norm : {"layer"}, optional
        Normalise every hidden layer before its activation.
    residual : bool, default False
        Add the input of a hidden layer of equal width to its output.
    gating : bool, default False
        Multiply every activation by a second linear map.
    device : torch.device or str, optional
        Where networks run, by default a GPU if there is one; weights are drawn on the CPU, so a seed gives the same
        networks on any device.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    Profile
        Five measures for each cell (architecture and scale), with standard errors over networks.

    References
    ----------
    .. [1] Teney, Nicolicioiu, Hartmann, Abbasnejad, "Neural Redshift: random networks are not random
       functions", CVPR 2024.

    Examples
    --------
    A linear network has the Rayleigh quotient of a linear function, R = 3 (slope² over slope²·Var U(−1, 1)), up to the
    grid.

    >>> profile = complexity_profile(activations=("linear",), depths=(2,), scales=(1.0,), networks=3)
    >>> [round(R, 2) for R in profile.curve("rayleigh", "linear", 2)]
    [3.0]
    """
    if networks < 2:
        raise NetgrainError(f"expected at least two networks for a standard error, found networks={networks}.")
    if width < 1 or grid < 4:
        raise NetgrainError(f"expected width ≥ 1 and grid ≥ 4, found width={width}, grid={grid}.")
    if isinstance(activations, str) or not activations or not depths or not scales:
        raise NetgrainError("expected lists of activations, depths and scales, at least one of each.")
    if min(depths) < 0 or not all(math.isfinite(s) and s > 0 for s in scales):
        raise NetgrainError(f"expected depths ≥ 0 and scales > 0, found depths {depths}, scales {scales}.")
    if norm not in (None, "layer"):
        raise NetgrainError(f"norm expects None or 'layer', found {norm!r}.")
    place = best_device() if device is None else checked_device(device)
    points = _Points(grid, seed, place)
    cells = []
    with Bar("random networks", len(depths) * len(activations) * len(scales), progress) as bar:
        for choice, depth, scale in product(activations, depths, scales):
            draw = _Draw(choice, depth, scale, networks, seed, place)
            calls = [_Stack(draw, width, norm, residual, gating)] if make is None else _drawn(make, draw)
            each = zip(*(points.measures(call) for call in calls), strict=True)
            values = [np.concatenate(parts) for parts in each]
            cells.append(RandomFunctions(_name(choice), depth, float(scale), *(_over_networks(v) for v in values)))
            bar.advance()
    return Profile(tuple(cells), networks, width if make is None else None, grid, seed)


def _over_networks(values: np.ndarray[Any, Any]) -> Estimate:
    return Estimate(values.mean(), values.std(ddof=1) / math.sqrt(len(values)), len(values))


# --- the networks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Draw:
    """Some networks of one kind at one weight scale."""

    choice: layers.Activation
    depth: int
    scale: float
    networks: int
    seed: int
    device: torch.device | str = "cpu"


class _Stack:
    """Many fully connected networks at once: every layer is one batched matrix product over networks."""

    def __init__(self, draw: _Draw, width: int, norm: str | None, residual: bool, gating: bool) -> None:
        self.curve, self.norm, self.residual = _curve(draw.choice), norm, residual
        sizes = [2, *[width] * draw.depth, 1]
        self.weights: list[tuple[Tensor, Tensor]] = []
        self.gates: list[tuple[Tensor, Tensor]] = []

        def drawn(n_in: int, n_out: int, label: str) -> tuple[Tensor, Tensor]:
            W, b = _uniform(draw.networks, n_in, n_out, draw.scale, draw.seed, label)
            return W.to(draw.device), b.to(draw.device)

        for l, (n_in, n_out) in enumerate(pairwise(sizes)):
            self.weights.append(drawn(n_in, n_out, f"layer {l}"))
            if gating:
                self.gates.append(drawn(n_in, n_out, f"gate {l}"))

    def __call__(self, x: Tensor) -> Tensor:
        h = x
        for l, (W, b) in enumerate(self.weights[:-1]):
            z = torch.baddbmm(b, h, W)
            if self.norm == "layer":
                z = F.layer_norm(z, z.shape[-1:])
            z = self.curve(z)
            if self.gates:
                V, c = self.gates[l]
                z = z * torch.baddbmm(c, h, V)
            h = h + z if self.residual and z.shape == h.shape else z
        W, b = self.weights[-1]
        return torch.baddbmm(b, h, W)[..., 0]


def _uniform(networks: int, n_in: int, n_out: int, scale: float, seed: int, label: str) -> tuple[Tensor, Tensor]:
    """Weights (networks, n_in, n_out) and biases (networks, 1, n_out); network i is a function of (seed, i) alone."""
    W, b = torch.empty(networks, n_in, n_out), torch.empty(networks, 1, n_out)
    for i in range(networks):
        generator = torch.Generator().manual_seed(derived_seed(seed, "network", i, label))
        W[i].uniform_(-1, 1, generator=generator)
        b[i].uniform_(-1, 1, generator=generator)
    return W * (scale * math.sqrt(6 / (n_in + n_out))), b


def _drawn(make: Callable[..., nn.Module], draw: _Draw) -> Iterator[Call]:
    """The caller's modules, their matrices and biases drawn by the law of `_Stack`; norms and the like stay."""
    for i in range(draw.networks):
        model = make(activation=draw.choice, depth=draw.depth)
        if not isinstance(model, nn.Module):
            raise NetgrainError(f"expected make to return a torch.nn.Module, found {type(model).__name__}.")
        model.cpu().requires_grad_(False).eval()  # drawn on the CPU: the same numbers on every device
        generator = torch.Generator().manual_seed(derived_seed(draw.seed, "network", i))
        for module in model.modules():
            weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
            if not isinstance(weight, Tensor) or weight.dim() < 2:
                continue
            fans = nn.init._calculate_fan_in_and_fan_out(weight)
            weight.uniform_(-1, 1, generator=generator).mul_(draw.scale * math.sqrt(6 / sum(fans)))
            if isinstance(bias, Tensor):
                bias.uniform_(-1, 1, generator=generator)
        yield _one(model.to(draw.device))


def _one(model: nn.Module) -> Call:
    def call(x: Tensor) -> Tensor:
        y = forward(model, x[0])
        if y.shape[1] != 1:
            raise NetgrainError(f"expected networks with one output, found {y.shape[1]}; pass outputs=1.")
        return y[None, :, 0]

    return call


def _name(choice: layers.Activation) -> str:
    return choice if isinstance(choice, str) else getattr(choice, "__name__", type(choice).__name__)


def _curve(choice: layers.Activation) -> Callable[[Tensor], Tensor]:
    if isinstance(choice, str) and choice.casefold() in CURVES:
        return CURVES[choice.casefold()]
    return layers.activation(choice)


# --- the measures ---------------------------------------------------------------------------------------------------


class _Points:
    """Where networks are evaluated: cell centres, Chebyshev nodes, and points on random segments."""

    def __init__(self, grid: int, seed: int, device: torch.device | str = "cpu") -> None:
        self.grid = grid
        centres = (2 * torch.arange(grid, dtype=torch.float64) + 1) / grid - 1
        nodes = torch.cos(torch.pi * (torch.arange(grid, dtype=torch.float64) + 0.5) / grid)
        self.square, self.nodes = (torch.cartesian_prod(t, t).float().to(device) for t in (centres, nodes))
        generator = torch.Generator().manual_seed(derived_seed(seed, "segments"))
        ends = torch.rand(2, SEGMENTS, 1, 2, generator=generator) * 2 - 1
        t = torch.linspace(0, 1, ON_SEGMENT)[None, :, None]
        self.segments = ((1 - t) * ends[0] + t * ends[1]).flatten(0, 1).to(device)
        orders = np.arange(grid)
        self.order = np.hypot(orders[:, None], orders[None, :])

    def measures(self, call: Call) -> list[np.ndarray[Any, Any]]:
        """The five measures of every network, each (networks,)."""
        from scipy.fft import dctn  # here, so that importing netgrain stays light

        networks = len(call.weights[0][0]) if isinstance(call, _Stack) else 1
        with torch.enable_grad():
            x = self.square.expand(networks, -1, -1).contiguous().requires_grad_(True)
            values = call(x)
            (slopes,) = torch.autograd.grad(values.sum(), x)
        with torch.no_grad():
            rest = call(torch.cat([self.nodes, self.segments]).expand(networks, -1, -1))
        f = values.detach().cpu().double().numpy()
        if not np.isfinite(f).all():
            raise NetgrainError("a random network has NaN or Inf outputs; expected finite ones: lower the scales.")
        at_nodes, on_segments = rest.cpu().double().split([len(self.nodes), len(self.segments)], 1)
        variance = np.maximum(f.var(1), np.finfo(np.float32).tiny)  # a constant function has no frequency
        steps = on_segments.reshape(networks, SEGMENTS, ON_SEGMENT).diff(dim=2).abs().sum(2).mean(1)
        square = (networks, self.grid, self.grid)
        return [
            self._mean_order(dctn(f.reshape(square), type=2, axes=(1, 2), norm="ortho")),
            self._mean_order(dctn(at_nodes.numpy().reshape(square), type=2, axes=(1, 2), norm="ortho")),
            np.array([_words(row) for row in f.reshape(square)], dtype=float),
            slopes.cpu().double().square().sum(2).mean(1).numpy() / variance,
            steps.numpy() / np.sqrt(variance),
        ]

    def _mean_order(self, coefficients: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        amplitude = np.abs(coefficients)
        amplitude[:, 0, 0] = 0  # the mean of f is no wave
        total = np.maximum(amplitude.sum((1, 2)), np.finfo(float).tiny)
        found: np.ndarray[Any, Any] = (amplitude * self.order).sum((1, 2)) / total
        return found


def _words(values: np.ndarray[Any, Any]) -> int:
    """Size of the LZ78 dictionary of a matrix of numbers, read in snake order so that neighbours stay neighbours.

    >>> _words(np.zeros((2, 3)))  # a, aa, aaa: words grow by one letter
    3
    """
    snake = values.copy()
    snake[1::2] = snake[1::2, ::-1]
    spread = np.ptp(snake)
    letters = np.zeros(snake.size, dtype=int)
    if spread > 0:
        letters = np.minimum((snake.ravel() - snake.min()) / spread * LEVELS, LEVELS - 1).astype(int)
    words: dict[tuple[int, int], int] = {}
    word = 0  # the empty word; a word is known by its number, and grows by (number, letter)
    for letter in letters.tolist():
        longer = words.get((word, letter))
        if longer is None:
            words[word, letter] = len(words) + 1
            word = 0
        else:
            word = longer
    return len(words)
