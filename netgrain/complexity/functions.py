"""The function whose complexity is measured: a model, or one of its layers, and what is done to its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.complexity.checks import check_mode, checked_points, unwrapped
from netgrain.families.failures import check_connected, check_finite_outputs, unwrapped_model
from netgrain.families.gradients import check_deterministic
from netgrain.families.members import forward, frozen, model_dtype
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.randomness import seeded

Of = str | Callable[[Tensor], Tensor]


def _fisher(y: Tensor) -> Tensor:
    # diag p − ppᵀ = BᵀB with B = diag(√p)(I − 1pᵀ): at fixed p, the Jacobian BJ of By has squared norm tr JᵀBᵀBJ
    p = y.detach().softmax(1)
    return p.sqrt() * (y - (p * y).sum(1, keepdim=True))


KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "logits": lambda y: y,
    "softmax": lambda y: y.softmax(1),
    "log-softmax": lambda y: y.log_softmax(1),
    "centred": lambda y: y - y.mean(1, keepdim=True),
    "fisher": _fisher,
}


@dataclass(frozen=True, eq=False)
class MeasuredFunction:
    """x ↦ h(f(x)) on given points: d numbers in, k numbers out; no gradient reaches a parameter."""

    call: Callable[[Tensor], Tensor]  # (points, *input_shape) → (points, k)
    X: Tensor  # (n, *input_shape), where and as the caller has it
    k: int
    device: torch.device
    dtype: torch.dtype

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def d(self) -> int:
        return self.X[0].numel()

    def outputs(self, batch: int = 256) -> Tensor:
        """The outputs at all points, (n, k) in float64."""
        with torch.no_grad():
            return torch.cat(
                [self.call(self.points(part)).cpu().double() for part in torch.arange(self.n).split(batch)]
            )

    def points(self, index: Tensor) -> Tensor:
        """A copy of these points where the model is, in its precision."""
        return self.X[index.to(self.X.device)].detach().to(self.device, self.dtype, copy=True)


@contextmanager
def map_of(model: nn.Module, X: Tensor, of: Of = "logits", layer: str | None = None) -> Iterator[MeasuredFunction]:
    """The checked map of a model, for as long as the block lasts; the model is left as it was found."""
    X = checked_points(X)
    check_mode(model)
    model = unwrapped_model(model)
    whole = frozen(model)
    h = of if callable(of) else KINDS[known_name("of", of, KINDS)]
    # a model without parameters has no precision and no place of its own
    tensors = [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
    dtype, device = (model_dtype(model), tensors[0].device) if tensors else (X.dtype, X.device)
    with torch.inference_mode(False), _observed(model, whole, layer) as observed:
        width: list[int] = []  # of the outputs, from the passes of the check

        def call(x: Tensor) -> Tensor:
            y = _transformed(forward(observed, x), h, of)
            check_finite_outputs(y, whole, x)
            width[:] = [y.shape[1]]
            return y

        few = X[:3].detach().to(device, dtype, copy=True)
        with seeded(0):  # a model that draws random numbers is refused, and the caller's generators are left alone
            check_deterministic(call, few)
            with torch.enable_grad():
                if not call(few.requires_grad_(True)).requires_grad:
                    check_connected(call, few)
        yield MeasuredFunction(call, X, width[-1], device, dtype)


def _transformed(y: Tensor, h: Callable[[Tensor], Tensor], of: Of) -> Tensor:
    if isinstance(of, str):
        if y.shape[1] == 1 and of != "logits":
            raise NetgrainError(
                f"of='{of}' expects at least two outputs, the model has one; use of='logits', or of=torch.sigmoid "
                "for the probability."
            )
        return h(y)
    return forward(h, y, who="of=: the function", advice="it gets the outputs as (batch, outputs)")


@contextmanager
def _observed(model: nn.Module, whole: Callable[[Tensor], Any], layer: str | None) -> Iterator[Callable[[Tensor], Any]]:
    """The model as a function of x, or the part of it that ends with a layer."""
    if layer is None:
        yield whole
        return
    modules = {name: module for name, module in model.named_modules() if name}
    if layer not in modules:
        known_name("layer", layer, modules)
    seen: list[Any] = []

    def call(x: Tensor) -> Any:
        seen.clear()
        whole(x)
        if len(seen) != 1:
            times = "never" if not seen else f"{len(seen)} times"
            raise NetgrainError(
                f"layer '{layer}' is applied {times} in one pass; expected once: name another module of the model."
            )
        # a clone, because a layer that follows may work in place
        return seen.pop()

    def keep(module: nn.Module, inputs: Any, output: Any) -> None:
        seen.append(output.clone() if isinstance(output, Tensor) else unwrapped(output))

    hook = modules[layer].register_forward_hook(keep)
    try:
        yield call
    finally:
        hook.remove()
