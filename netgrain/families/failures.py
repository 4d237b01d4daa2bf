"""What is wrong with a model that fails, returns no numbers or lets no gradient through: the place and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from netgrain.families.calls import watching
from netgrain.families.logits import logits_of
from netgrain.families.nested import every
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import shortage

ADVICE = "give it inputs of the shape it expects"
CUT = (
    "the outputs are cut off from the inputs (rounding, detach() or no_grad inside the model); "
    "expected outputs that can be differentiated with respect to the inputs."
)


class NotFinite(NetgrainError):
    """Outputs or input gradients are NaN or Inf; the message names the module where that begins."""


# --- a model that raises --------------------------------------------------------------------------------------------


def why_it_failed(error: BaseException, shape: tuple[int, ...], who: str, advice: str) -> str:
    """One sentence: the shape that a model failed on, its own words, and what to do about them."""
    if short := shortage(error):
        return short
    reason = " ".join((str(error).strip() or type(error).__name__).splitlines()[0].split())
    if missing := re.search(r"forward\(\) missing \d+ required positional arguments?: (.+)", reason):
        first = missing[1].replace("'", "").split(" and ")[0].split(",")[0]
        return (
            f"{who}'s forward needs {missing[1]} too; tell average_geometry, geometry_of or check how to call it, "
            f"as in call=lambda model, x: model(x, {first}=...), or wrap it in a module that takes one tensor."
        )
    if "argument #1 'indices'" in reason or "index tensors must be long" in reason.lower():
        return (
            f"{who} looks up tokens in an Embedding, and whole numbers cannot be differentiated; pass at='embeddings' "
            "and input_shape=(tokens, width) to average_geometry, geometry_of or check, or elsewhere the part of the "
            "model that takes embeddings, as a module of its own."
        )
    if "more than 1 value per channel when training" in reason:
        return (
            f"{who} mixes the samples of a batch, since a batch norm in it uses their statistics; "
            "this batch has one sample: use more, running statistics, or a normalisation that acts on each sample."
        )
    return f"{who} failed on inputs of shape {shape} ({reason.rstrip('.')}); {_fitting(reason, shape) or advice}."


def _fitting(reason: str, shape: tuple[int, ...]) -> str:
    """What to do where the mistake is a common one."""
    channels = re.search(r"to have (\d+) channels, but got (\d+) channels", reason)
    if channels and len(shape) > 1 and shape[-1] == int(channels[1]):
        return f"put the channels first, as in {(shape[-1], *shape[:-1])}"
    too_many = re.search(r"Expected (\d)D \(unbatched\) or (\d)D \(batched\) input", reason)
    if too_many and len(shape) == int(too_many[2]):
        return f"leave out the batch: inputs are given without the batch, as in {shape[1:]}"
    return ""


# --- weights that are not there -------------------------------------------------------------------------------------


def check_not_lazy(model: nn.Module, who: str) -> None:
    """Refuse modules whose weights get their shape with the first forward pass."""
    for name, t in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(t):
            owner = name.rpartition(".")[0]
            raise NetgrainError(
                f"{who}: '{owner}' ({type(model.get_submodule(owner)).__name__}) has no weights before its first "
                "forward pass; write out its sizes, or run one batch through the model before you pass it on."
            )


def check_has_numbers(model: nn.Module, who: str) -> None:
    """Refuse parameters on the meta device, which have a shape and no numbers."""
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            raise NetgrainError(
                f"{who} has no numbers in parameter '{name}' (it is on the device 'meta'); build the model on the CPU, "
                "or give it weights with model.to_empty(device='cpu') and its own initialisation."
            )


def unwrapped_model(model: nn.Module) -> nn.Module:
    """The module inside torch.compile and DataParallel: the same function of the same weights."""
    while True:
        inner = model._modules.get("_orig_mod") if type(model).__name__ == "OptimizedModule" else None
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inner = model.module
        if inner is None:
            return model
        model = inner


# --- outputs that are not numbers -----------------------------------------------------------------------------------


def check_finite_outputs(y: Tensor, call: Callable[[Tensor], Any], x: Tensor) -> None:
    """Refuse outputs y = call(x) with NaN or Inf, and name the first module that returns one."""
    # a sum is finite only if all entries are (up to overflow, looked at again)
    if bool(torch.isfinite(y.detach().sum())) or bool(torch.isfinite(y.detach()).all()):
        return
    at_origin = not bool(x.detach().any()) and _is_finite_elsewhere(call, x)
    where = " at x = 0" if at_origin else ""
    way_out = ", or use another probe, as in Gaussian(1)" if at_origin else ""
    raise NotFinite(
        f"the model returns NaN or Inf{where}{_first_not_finite(call, x)}; expected finite outputs: look for a "
        f"division by zero, a logarithm or root of a negative number, or an overflow{way_out}."
    )


def check_finite_gradient(rows: Tensor, call: Callable[[Tensor], Any], x: Tensor) -> None:
    """Refuse input gradients with NaN or Inf, at outputs that are finite."""
    if bool(torch.isfinite(rows.sum())) or bool(torch.isfinite(rows).all()):
        return
    place = _first_not_finite(call, x) or _first_gradient_not_finite(call, x)
    raise NotFinite(
        f"the input gradient has NaN or Inf{place}, although the outputs are finite; look for a root of zero, a "
        "division by zero or an overflow."
    )


def _is_finite_elsewhere(call: Callable[[Tensor], Any], x: Tensor) -> bool:
    with torch.no_grad():
        y = call(torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).to(x))
    return all(bool(torch.isfinite(t).all()) for t in _floats(logits_of(y, x)))


def _first_not_finite(call: Callable[[Tensor], Any], x: Tensor) -> str:
    """ ", first in 'name' (Kind)" for the first module whose output is not finite; empty if none is."""
    seen: list[str] = []

    def look(where: str, output: Any) -> None:
        if not seen and any(not bool(torch.isfinite(t).all()) for t in _floats(output)):
            seen.append(where)

    with torch.no_grad(), _watching(call, look):
        call(x.detach())
    return f", first in {seen[0]}" if seen else ""


def _first_gradient_not_finite(call: Callable[[Tensor], Any], x: Tensor) -> str:
    """ ", first behind 'name' (Kind)": the last module whose output has a gradient that is not finite."""
    seen: list[str] = []

    def look(where: str, output: Any) -> None:
        def judge(gradient: Tensor) -> None:
            if not seen and not bool(torch.isfinite(gradient).all()):
                seen.append(where)

        for t in _floats(output):
            if t.requires_grad:
                t.register_hook(judge)

    with torch.enable_grad(), _watching(call, look):
        place = x.detach().requires_grad_(True)
        torch.autograd.grad(logits_of(call(place), place).sum(), place, allow_unused=True)
    return f", first behind {seen[0]}" if seen else ""


@contextmanager
def _watching(call: Callable[[Tensor], Any], look: Callable[[str, Any], None]) -> Iterator[None]:
    """Inside, `look` gets the place and the output of every module that runs, innermost first."""
    model = call if isinstance(call, nn.Module) else getattr(call, "model", None)

    def leave(name: str, module: nn.Module, output: Any) -> None:
        place = f"'{name}'" if name else "the model's own forward"
        look(f"{place} ({type(module).__name__})", output)

    if isinstance(model, nn.Module) and not isinstance(model, torch.jit.ScriptModule):
        with watching(model, leaving=leave):
            yield
    else:
        yield


def _floats(value: Any) -> Iterator[Tensor]:
    return (t for t in every(value, Tensor) if t.is_floating_point() or t.is_complex())


# --- outputs without a gradient -------------------------------------------------------------------------------------


def check_connected(call: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """Outputs call(x) without a gradient may be constants; if they change with x, the gradient was cut off."""
    generator = torch.Generator().manual_seed(0)
    elsewhere = x.detach() + (1 + x.detach().abs()) * torch.randn(x.shape, generator=generator).to(x)
    with torch.no_grad():
        if not torch.equal(call(elsewhere), call(x.detach())):
            raise NetgrainError(CUT)


SHAPE_ADVICE = "pass the input shape it expects"
