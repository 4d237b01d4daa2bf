"""A golden geometry as a unit test: notice a changed initialisation, a zero head or wrong padding in milliseconds.

    def test_grain():
        assert_same_grain(make_model, "golden.safetensors", input_shape=(3, 32, 32))

The file is made once with `write_golden` (or by running the test with NETGRAIN_UPDATE_GOLDEN=1) and committed: a few
kilobytes, for it holds G only as its products with sixteen fixed random vectors, its trace and its diagonal.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from netgrain.families.members import Family
from netgrain.families.outputs import Output
from netgrain.families.probes import Probe
from netgrain.geometry.average import geometry_by
from netgrain.geometry.options import Method, Options
from netgrain.geometry.storage import check_layout
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.packed import read_packed, write_packed
from netgrain.runtime.randomness import derived_seed

UPDATE = "NETGRAIN_UPDATE_GOLDEN"
VECTORS = 16
LAYOUT = 1
MOST_DENSE = 4096  # dimensions up to which the diagonal is exact
MEMBERS = 64  # where a family has no closed form
SIGMAS = 4.0


@dataclass(frozen=True, eq=False)
class _Sketch:
    products: Tensor  # (VECTORS, d): G z for fixed random z
    diagonal: Tensor  # (d,), as an image this is where the network looks
    trace: float
    noise: float  # expected relative distance between two such sketches of one family
    input_shape: tuple[int, ...]
    method: str


def write_golden(
    make: Family,
    path: str | Path,
    *,
    input_shape: Sequence[int],
    method: Method | None = None,
    members: int | None = None,
    probe: Probe | None = None,
    output: Output = "all",
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = False,
) -> Path:
    """Measure a family and write its golden file.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call.
    path : str or Path
        Where to write the file. It has a few kilobytes; commit it with your tests.
    input_shape : sequence of int
        Shape of one input without the batch axis.
    method : {"auto", "closed-form", "sampled"}, optional
        By default the closed form where there is one, else 64 sampled networks.
    members : int, optional
        Number of networks to sample.
    probe : Probe, optional
        Where x comes from; the origin by default, or its limit if the network has a kink there.
    output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
        Outputs whose gradients count.
    seed : int, default 0
        Of the networks.
    device : torch.device or str, optional
        Device for sampling.
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    Path
        Where the file is.

    See Also
    --------
    assert_same_grain : The test that compares with the file.
    """
    asked = Options(
        input_shape, members=members, probe=probe, output=output, seed=seed, device=device, progress=progress
    )
    return _write(_sketched(make, method, asked), path)


def _write(sketch: _Sketch, path: str | Path) -> Path:
    header = {
        "layout": LAYOUT,
        "trace": sketch.trace,
        "noise": sketch.noise,
        "input_shape": list(sketch.input_shape),
        "method": sketch.method,
    }
    return write_packed(
        path, "golden geometry", header, {"products": sketch.products.float(), "diagonal": sketch.diagonal.float()}
    )


def assert_same_grain(
    make: Family,
    path: str | Path,
    *,
    tol: float = 0.02,
    input_shape: Sequence[int] | None = None,
    method: Method | None = None,
    members: int | None = None,
    probe: Probe | None = None,
    output: Output = "all",
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = False,
) -> None:
    """Assert that a family still has the geometry of its golden file.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call.
    path : str or Path
        The golden file; rewritten if the environment variable NETGRAIN_UPDATE_GOLDEN is 1.
    tol : float, default 0.02
        Largest relative distance ‖G − G₀‖ / ‖G₀‖ (Frobenius, over the fixed vectors). Sampled families are allowed four
        times their sampling noise in addition.
    input_shape : sequence of int, optional
        Shape of one input; only to make a missing file.
    method : {"auto", "closed-form", "sampled"}, optional
        By default the closed form where there is one, else 64 sampled networks.
    members : int, optional
        Number of networks to sample.
    probe : Probe, optional
        Where x comes from; the origin by default, or its limit if the network has a kink there.
    output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
        Outputs whose gradients count.
    seed : int, default 0
        Of the networks.
    device : torch.device or str, optional
        Device for sampling.
    progress : bool, default False
        Show a progress bar.

    Raises
    ------
    AssertionError
        If the geometry changed; the message says how.
    NetgrainError
        If there is no golden file.

    See Also
    --------
    write_golden : Makes the file.

    Examples
    --------
    >>> import tempfile
    >>> from torch import nn
    >>> make = lambda: nn.Sequential(nn.Conv1d(1, 4, 3, padding=1, bias=False), nn.Flatten(), nn.Linear(32, 1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = write_golden(make, folder + "/golden.safetensors", input_shape=(1, 8))
    ...     assert_same_grain(make, file)
    """
    asked = partial(Options, members=members, probe=probe, output=output, seed=seed, device=device, progress=progress)
    path = Path(path)
    if os.environ.get(UPDATE):
        shape = input_shape if input_shape is not None or not path.exists() else _read(path).input_shape
        if shape is None:
            raise NetgrainError(f"{path} does not exist yet, so {UPDATE} needs input_shape= to make it.")
        _write(_sketched(make, method, asked(shape)), path)
        return
    if not path.exists():
        raise NetgrainError(
            f"{path} does not exist; make it once with netgrain.geometry.write_golden(make, '{path}', input_shape=…) "
            f"or by running this test with {UPDATE}=1, look at it, and commit it."
        )
    if not (math.isfinite(tol) and tol >= 0):
        raise NetgrainError(f"expected tol as a number ≥ 0 such as 0.02, found {tol}.")
    golden = _read(path)
    if input_shape is not None and tuple(input_shape) != golden.input_shape:
        raise NetgrainError(f"{path} is for inputs of shape {golden.input_shape}, asked for was {tuple(input_shape)}.")
    now = _sketched(make, method, asked(golden.input_shape))
    apart = _apart(now.products, golden.products)
    allowed = tol + SIGMAS * math.hypot(now.noise, golden.noise)
    if apart > allowed:
        raise AssertionError(
            f"the geometry of the family is not that of {path}: ‖G − G₀‖ / ‖G₀‖ = {apart:.3g}, allowed are "
            f"{allowed:.3g}. {_what_changed(now, golden, allowed)} If this is meant, run once with {UPDATE}=1."
        )


def _what_changed(now: _Sketch, golden: _Sketch, allowed: float) -> str:
    if now.trace == 0:
        return "Its input gradient is zero: is the last layer, or a whole branch, initialised to zero?"
    factor = now.trace / golden.trace
    same_shape = _apart(now.products / now.trace, golden.products / golden.trace) <= allowed
    if same_shape:
        return f"Only its size changed, by a factor of {factor:.3g}: was the initialisation, or a scale, changed?"
    size = "" if abs(factor - 1) <= allowed else f"Its size changed by a factor of {factor:.3g}. "
    border = _border_share(now, golden)
    if border is not None and border > 0.75:
        return f"{size}{border:.0%} of the change in where it looks is at the border: was padding or cropping changed?"
    return f"{size}It looks along other directions: was the architecture (kernel, stride, pooling, skips) changed?"


def _border_share(now: _Sketch, golden: _Sketch) -> float | None:
    """The share of the change of the diagonal in the outer eighth of the sides, for images large enough."""
    shape = golden.input_shape
    if len(shape) != 3 or min(shape[1:]) < 16:
        return None
    width = min(shape[1:]) // 8
    change = (now.diagonal - golden.diagonal).square().reshape(shape).sum(0)
    inner = change[width:-width, width:-width].sum()
    return 1 - float(inner / change.sum())


def _apart(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


def _sketched(make: Family, method: Method | None, asked: Options) -> _Sketch:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GrainWarning)  # of a zero geometry: said by the comparison
        G = _geometry(make, method, asked)
    generator = torch.Generator().manual_seed(derived_seed(0, "golden vectors", G.d))
    z = torch.randn(VECTORS, G.d, generator=generator, dtype=torch.float64)
    products = G.form.matvec(z)
    diagonal = G.matrix().diagonal() if G.d <= MOST_DENSE else (z * products).mean(0)
    noise = _noise(G) if G.form.parts else 0.0
    return _Sketch(products, diagonal, G.trace.value, noise, asked.shape, G.method)


def _geometry(make: Family, method: Method | None, asked: Options) -> Geometry:
    """By the closed form where neither a method nor members are asked for; else, or without one, as asked."""
    if asked.members is None and method is None:
        try:
            return geometry_by("closed-form", make, asked)
        except NetgrainError:  # no closed form; what is wrong with the model itself is said by sampling, too
            asked = replace(asked, members=MEMBERS)
    return geometry_by(method or "auto", make, asked)


def _noise(G: Geometry) -> float:
    """Relative distance from the truth that sampling leaves: Corr c with the truth means √(1 − c²)/c off it."""
    if G.trace.value == 0:
        return 0.0
    c = G.fidelity
    if not math.isfinite(c) or c <= 0:
        return 1.0
    return math.hypot(math.sqrt(max(1 - c * c, 0.0)) / c, G.trace.stderr / max(G.trace.value, 1e-300))


def _read(path: Path) -> _Sketch:
    header, tensors = read_packed(path, "golden geometry")
    check_layout(header, path, [LAYOUT], "make it anew")
    try:
        shape = tuple(header["input_shape"])
        sketch = _Sketch(
            tensors["products"].double(),
            tensors["diagonal"].double(),
            float(header["trace"]),
            float(header["noise"]),
            shape,
            str(header["method"]),
        )
        whole = sketch.products.shape == (VECTORS, math.prod(shape)) and sketch.diagonal.shape == (math.prod(shape),)
        numbers = [*(float(t.abs().sum()) for t in (sketch.products, sketch.diagonal)), sketch.trace, sketch.noise]
        if not whole or not all(map(math.isfinite, numbers)) or not all(type(n) is int and n > 0 for n in shape):
            raise ValueError(f"products {tuple(sketch.products.shape)} for inputs of shape {shape}")
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as e:
        raise NetgrainError(f"{path} holds no whole golden geometry ({type(e).__name__}: {e}); make it anew.") from e
    return sketch
