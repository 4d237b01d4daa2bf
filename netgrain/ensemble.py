"""Members of a family: member i is a function of (seed, i) alone; input gradients without parameter gradients."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from netgrain.errors import NetgrainError
from netgrain.memory import shortage

Make = Callable[[], nn.Module]
Output = str | int | tuple[str, int, int] | Callable[[Tensor], Tensor]

POINTS_AT_ONCE = 64  # fixed, so that a result never depends on how work was cut into pieces


def stream(seed: int, *labels: int | str) -> int:
    """A 63-bit seed for one use of randomness, a function of its labels alone.

    >>> stream(0, "member", 1) == stream(0, "member", 1) != stream(0, "member", 2)
    True
    """
    digest = hashlib.blake2b(repr((seed, *labels)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run with torch's, NumPy's and Python's global generators set to a seed; the caller's states come back."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    mps_state = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=list(devices)):
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
            if mps_state is not None:
                torch.mps.set_rng_state(mps_state)


def member(make: Make, seed: int, i: int, device: torch.device | str = "cpu") -> nn.Module:
    """Member i of the family: fresh, in eval mode, its parameters frozen."""
    with seeded(stream(seed, "member", i)):
        model = make()
    if not isinstance(model, nn.Module):
        raise NetgrainError(
            f"expected a callable that returns a torch.nn.Module, found one that returns {type(model).__name__}; "
            "pass the class or a function, as in partial(ResNet18, channels=1)."
        )
    check_weights(model, f"member {i}")
    return model.requires_grad_(False).eval().to(device)


def check_weights(model: nn.Module, who: str = "the model") -> None:
    """Refuse a model without parameters or with parameters that are not finite."""
    empty = True
    for name, parameter in model.named_parameters():
        empty = False
        # a sum is finite iff all entries are (up to overflow, looked at again), at a tenth of the cost of isfinite
        if not bool(torch.isfinite(parameter.detach().sum())) and not bool(torch.isfinite(parameter.detach()).all()):
            raise NetgrainError(f"{who} has NaN or Inf in parameter '{name}'; expected finite weights.")
    if empty:
        raise NetgrainError(f"{who} ({type(model).__name__}) has no parameters, so there is no family to average over.")


def best_device() -> torch.device:
    """A CUDA GPU where there is one; MPS, which lacks float64 and some operations, only where it is asked for.

    The environment variable NETGRAIN_DEVICE names another.
    """
    if asked := os.environ.get("NETGRAIN_DEVICE"):
        return checked_device(asked)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def checked_device(text: str) -> torch.device:
    """The device that a text names, if it is there."""
    try:
        device = torch.device(text)
    except RuntimeError as e:
        raise NetgrainError(f"'{text}' is not a device; expected cpu, cuda, cuda:1 or mps.") from e
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device.type, False):
        raise NetgrainError(f"device '{text}' is not available to this PyTorch ({torch.__version__}); use cpu.")
    return device


def in_double(t: Tensor) -> Tensor:
    """t in float64 where it lives; on the CPU for MPS, which has no float64."""
    return (t.cpu() if t.device.type == "mps" else t).double()


def widest(device: torch.device) -> torch.dtype:
    """float64, or what a device that has none offers."""
    return torch.float32 if device.type == "mps" else torch.float64


def model_dtype(model: nn.Module) -> torch.dtype:
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)


def frozen(model: nn.Module) -> Callable[[Tensor], Any]:
    """The model as a function of x only: no gradient reaches its parameters, and the model is left as it is."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    if not any(t.requires_grad for t in tensors.values()):
        return model
    detached = {name: t.detach() for name, t in tensors.items()}
    return lambda x: functional_call(model, detached, (x,))


def forward(call: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """Outputs as (points, outputs); every failure of the model is told with the shape that caused it."""
    try:
        y = call(x)
    except NetgrainError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as e:
        if short := shortage(e):
            raise NetgrainError(short) from e
        text = str(e).strip() or type(e).__name__
        reason = text.splitlines()[0]
        raise NetgrainError(
            f"the model failed on inputs of shape {tuple(x.shape[1:])} ({reason}); pass the input_shape it expects."
        ) from e
    if not isinstance(y, Tensor):
        raise NetgrainError(
            f"the model returned {type(y).__name__}, expected a tensor (batch, outputs); wrap it to return logits."
        )
    if y.dim() == 0 or len(y) != len(x):
        raise NetgrainError(
            f"the model turned a batch of {len(x)} into shape {tuple(y.shape)}; expected one row of outputs per input."
        )
    if not y.is_floating_point():
        raise NetgrainError(
            f"the model returned {y.dtype}; expected floating-point outputs that can be differentiated."
        )
    return y.reshape(len(y), -1)


def select(y: Tensor, output: Output) -> Tensor:
    """The scalar outputs whose gradients count, (points, outputs) → (points, chosen)."""
    k = y.shape[1]
    if callable(output):
        return output(y).reshape(len(y), -1)
    if output == "all":
        return y
    if output == "mean":
        return y.mean(1, keepdim=True)
    if isinstance(output, int) and not isinstance(output, bool):
        if not -k <= output < k:
            raise NetgrainError(f"output {output} was asked for, the model has {k} outputs (0 to {k - 1}).")
        return y[:, output : output + 1 if output != -1 else None]
    if isinstance(output, tuple) and len(output) == 3 and output[0] == "diff":
        _, i, j = output
        if not (0 <= i < k and 0 <= j < k):
            raise NetgrainError(f"output {output} was asked for, the model has {k} outputs (0 to {k - 1}).")
        return y[:, i : i + 1] - y[:, j : j + 1]
    raise NetgrainError(f"output {output!r} is not known; expected 'all', 'mean', an index or ('diff', i, j).")


def describe_output(output: Output) -> str:
    return "custom" if callable(output) else output if isinstance(output, str) else str(output)


def gradients(
    call: Callable[[Tensor], Any],
    X: Tensor,  # (points, *input_shape)
    output: Output = "all",
    at: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None,
) -> Tensor:
    """∇ₓ of each chosen output at each point, shape (points · outputs, *shape of what is differentiated).

    ``at`` replaces the input by another place of the network: it maps a batch x to (outputs, tensor there).
    """
    pieces = []
    for points in X.split(POINTS_AT_ONCE):
        with torch.enable_grad():
            if at is None:
                place = points.detach().requires_grad_(True)
                y = select(forward(call, place), output)
            else:
                raw, place = at(points.detach())
                y = select(raw, output)
            if not y.requires_grad:
                pieces.append(place.new_zeros(len(points) * y.shape[1], *place.shape[1:]))
                continue
            rows = [
                # outputs of different points do not mix, so one backward pass serves a whole batch of points
                torch.autograd.grad(y[:, j].sum(), place, retain_graph=j + 1 < y.shape[1], allow_unused=True)[0]
                for j in range(y.shape[1])
            ]
        rows = [torch.zeros_like(place) if g is None else g for g in rows]
        pieces.append(torch.stack(rows, 1).flatten(0, 1))
    return torch.cat(pieces)


def check_deterministic(call: Callable[[Tensor], Any], x: Tensor) -> None:
    """Refuse a model that gives two answers to one question, or whose samples see each other."""
    with torch.no_grad():
        first, second = forward(call, x), forward(call, x)
        if not torch.allclose(first, second, rtol=1e-4, atol=1e-6, equal_nan=True):
            raise NetgrainError(
                "the model is stochastic in eval mode: two passes over one input differ; "
                "switch dropout and other noise off."
            )
        alone = forward(call, x[:1])
        size = float(first.nan_to_num(0.0, 0.0, 0.0).abs().max())  # outputs that are not finite are told elsewhere
        if not torch.allclose(first[:1], alone, rtol=1e-2, atol=1e-4 * size, equal_nan=True):
            raise NetgrainError(
                "the model mixes the samples of a batch: the output for one input depends on its neighbours; "
                "use eval mode or a normalisation that acts on each sample."
            )
