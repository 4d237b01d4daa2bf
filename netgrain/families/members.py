"""Members of a family: member i is a function of (seed, i) alone; input gradients without parameter gradients."""

from __future__ import annotations

import hashlib
import inspect
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from netgrain.families.failures import (
    ADVICE,
    check_connected,
    check_finite_gradient,
    check_finite_outputs,
    check_not_lazy,
    unwrapped_model,
    why_it_failed,
)
from netgrain.runtime.arguments import found, whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import shortage

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
        model = built(make)
    check_weights(model, f"member {i}")
    return without_gradients(model).eval().to(device)


def without_gradients(model: nn.Module) -> nn.Module:
    """The model, its parameters frozen one by one, which scripted modules allow too."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model


def built(make: Any) -> nn.Module:
    """A fresh module of the family, without the wrapping of torch.compile or DataParallel; else a sentence."""
    _refuse_inference_mode()  # weights that are made in it have no gradients for good
    wanted = "make expects a class or function that returns a fresh torch.nn.Module"
    if isinstance(make, str):
        raise NetgrainError(f"{wanted}, found the text {make!r}; netgrain.models.load_model(text) makes one of a name.")
    if isinstance(make, nn.Module):
        kind = type(unwrapped_model(make)).__name__
        raise NetgrainError(
            f"{wanted}, found one finished module ({kind}); pass its class or a function that builds it anew. "
            "For one given model use geometry_of(model, probe)."
        )
    if not callable(make):
        raise NetgrainError(f"{wanted}, found {found(make)}; pass it, as in partial(ResNet18, channels=1).")
    name = getattr(make, "__name__", type(make).__name__)
    try:
        model = make()
    except NetgrainError:
        raise
    except Exception as e:  # the user's own code may raise anything
        if short := shortage(e):
            raise NetgrainError(short) from e
        if isinstance(e, TypeError) and (missing := _required(make)):
            raise NetgrainError(
                f"{name} needs a value for '{missing}'; pass functools.partial({name}, {missing}=…) or a function "
                "without arguments."
            ) from e
        reason = " ".join(f"{type(e).__name__}: {e}".split())
        raise NetgrainError(f"{name} could not be built ({reason}); call it by itself to see where it fails.") from e
    if not isinstance(model, nn.Module):
        # a value would say little here: its type is what is wrong
        kind = found(model) if model is None or isinstance(model, type) else type(model).__name__
        raise NetgrainError(
            f"expected a callable that returns a torch.nn.Module, found one that returns {kind}; "
            "pass the class or a function, as in partial(ResNet18, channels=1)."
        )
    return unwrapped_model(model)


def _refuse_inference_mode() -> None:
    if torch.is_inference_mode_enabled():
        raise NetgrainError("gradients cannot be taken in torch.inference_mode(); call netgrain outside of it.")


def _required(make: Callable[..., Any]) -> str | None:
    """The first argument that a callable cannot do without."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return None
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return next((p.name for p in parameters if p.default is p.empty and p.kind not in optional), None)


def check_weights(model: nn.Module, who: str = "the model") -> None:
    """Refuse a model without parameters or with parameters that are not finite."""
    check_not_lazy(model, who)
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


def checked_device(asked: torch.device | str) -> torch.device:
    """The device that a text names, if it is there."""
    try:
        device = torch.device(asked)
    except (RuntimeError, TypeError) as e:
        raise NetgrainError(f"'{asked}' is not a device; expected cpu, cuda, cuda:1 or mps.") from e
    if not is_there(device.type):
        raise NetgrainError(f"device '{asked}' is not available to this PyTorch ({torch.__version__}); use cpu.")
    return device


def is_there(kind: str) -> bool:
    """Whether this machine has such a device."""
    here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return here.get(kind, False)


def in_double(t: Tensor) -> Tensor:
    """t in float64 where it lives; on the CPU for MPS, which has no float64."""
    return (t.cpu() if t.device.type == "mps" else t).double()


def widest(device: torch.device) -> torch.dtype:
    """float64, or what a device that has none offers."""
    return torch.float32 if device.type == "mps" else torch.float64


def model_dtype(model: nn.Module) -> torch.dtype:
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)


@dataclass(frozen=True, eq=False)
class Frozen:
    """A model as a function of x alone: it runs with these tensors in place of its own."""

    model: nn.Module
    tensors: dict[str, Tensor]

    def __call__(self, x: Tensor) -> Any:
        return functional_call(self.model, self.tensors, (x,))


def frozen(model: nn.Module) -> Callable[[Tensor], Any]:
    """The model as a function of x only: no gradient reaches its parameters, and the model is left as it is."""
    model = unwrapped_model(model)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    if not any(t.requires_grad for t in tensors.values()):
        return model
    if isinstance(model, torch.jit.ScriptModule):  # cannot be called with other tensors; it keeps a larger graph
        return model
    return Frozen(model, {name: t.detach() for name, t in tensors.items()})


def forward(call: Callable[[Tensor], Any], x: Tensor, *, advice: str = ADVICE, who: str = "the model") -> Tensor:
    """Outputs as (points, outputs); every failure of the model is told with the shape that caused it.

    advice: the way out if the model cannot take x; it depends on where the caller got x from.
    """
    try:
        y = call(x)
    except NetgrainError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError, MemoryError) as e:
        raise NetgrainError(why_it_failed(e, tuple(x.shape[1:]), who, advice)) from e
    if not isinstance(y, Tensor):
        kind = "None" if y is None else type(y).__name__
        raise NetgrainError(f"{who} returned {kind}, expected a tensor (batch, outputs); wrap it to return logits.")
    if y.dim() == 0 or len(y) != len(x):
        raise NetgrainError(
            f"{who} turned a batch of {len(x)} into shape {tuple(y.shape)}; expected one row of outputs per input."
        )
    if not y.is_floating_point():
        raise NetgrainError(f"{who} returned {y.dtype}; expected floating-point outputs that can be differentiated.")
    if y.numel() == 0:
        raise NetgrainError(f"{who} returned shape {tuple(y.shape)}, which has no outputs; expected at least one.")
    return y.reshape(len(y), -1)


def checked_output(output: Any, outputs: int | None = None) -> Output:
    """The output asked for, if it is one, and if a model with so many outputs has it (None: not known yet).

    Indices count from 0; there are no negative ones.

    >>> checked_output("mean"), checked_output(2, 3), checked_output(("diff", 0, 1))
    ('mean', 2, ('diff', 0, 1))
    """
    if callable(output) or (isinstance(output, str) and output in ("all", "mean")):
        return output  # type: ignore[no-any-return]
    two = isinstance(output, tuple) and len(output) == 3 and output[0] == "diff"
    try:
        indices = [whole("output", i) for i in (output[1:] if two else (output,))]
    except NetgrainError as e:
        raise NetgrainError(
            f"output expects 'all', 'mean', an index, ('diff', i, j) or a function, found {found(output)}."
        ) from e
    has = "" if outputs is None else f", the model has {outputs} output{'s' * (outputs != 1)} (0 to {outputs - 1})"
    if min(indices) < 0:
        raise NetgrainError(f"output {output} was asked for{has}; outputs count from 0, negative ones are not known.")
    if outputs is not None and max(indices) >= outputs:
        raise NetgrainError(f"output {output} was asked for{has}.")
    if two and indices[0] == indices[1]:
        raise NetgrainError(f"output {output} is zero for every model; expected two different outputs.")
    return ("diff", indices[0], indices[1]) if two else indices[0]


def select(y: Tensor, output: Output) -> Tensor:
    """The scalar outputs whose gradients count, (points, outputs) → (points, chosen)."""
    output = checked_output(output, y.shape[1])
    if callable(output):
        return forward(output, y, who="output=: the function", advice="it gets the outputs as (batch, outputs)")
    if output == "all":
        return y
    if output == "mean":
        return y.mean(1, keepdim=True)
    if isinstance(output, tuple):
        _, i, j = output
        return y[:, i : i + 1] - y[:, j : j + 1]
    assert isinstance(output, int)
    return y[:, output : output + 1]


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
    _refuse_inference_mode()
    pieces = []
    for points in X.split(POINTS_AT_ONCE):
        with torch.enable_grad():
            if at is None:
                place = points.detach().requires_grad_(True)
                y = select(forward(call, place), output)
            else:
                raw, place = at(points.detach())
                y = select(raw, output)
            check_finite_outputs(y, call, points)
            if not y.requires_grad:
                if at is None:
                    check_connected(lambda x: select(forward(call, x), output), points)
                pieces.append(place.new_zeros(len(points) * y.shape[1], *place.shape[1:]))
                continue
            rows = [
                # outputs of different points do not mix, so one backward pass serves a whole batch of points
                torch.autograd.grad(y[:, j].sum(), place, retain_graph=j + 1 < y.shape[1], allow_unused=True)[0]
                for j in range(y.shape[1])
            ]
        if at is None and all(g is None for g in rows):
            check_connected(lambda x: select(forward(call, x), output), points)
        rows = [torch.zeros_like(place) if g is None else g for g in rows]
        pieces.append(torch.stack(rows, 1).flatten(0, 1))
        check_finite_gradient(pieces[-1], call, points)
    return torch.cat(pieces)


def check_differentiable(call: Callable[[Tensor], Any], x: Tensor, output: Output, *, advice: str = ADVICE) -> Tensor:
    """The chosen outputs at x, if a gradient leads from them back to x or they are constants."""
    with torch.inference_mode(False), torch.enable_grad():
        place = x.clone().detach().requires_grad_(True)
        y = select(forward(call, place, advice=advice), output)
        if not y.requires_grad:
            check_connected(lambda x: select(forward(call, x), output), place)
    return y.detach()


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
