"""A device that does not exist, for machines without a GPU: tensors that are really in this memory, but must not mix.

Inside `elsewhere("cuda")` or `elsewhere("mps")`, whatever is moved to or made on that device says that it is there, and
the mistakes that a real device would refuse are refused: an operation on tensors of both places, `.numpy()`, float64 on
MPS. Numbers drawn there are refused as well, since a seed would no longer give the same numbers everywhere. The
arithmetic is the CPU's, so results must equal those of the CPU bit for bit.

What it cannot see: rounding, speed and missing kernels of a real device, and what happens inside torch itself (hooks
and backward passes of custom functions included).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# what may see both places; indices may come from the CPU as well
ACROSS = {Tensor.copy_, Tensor.__setitem__, Tensor.data.__set__, torch._has_compatible_shallow_copy_type}
DRAWS = {
    *(getattr(torch, name) for name in ("rand", "randn", "randint", "randperm", "rand_like", "randn_like")),
    *(getattr(torch, name) for name in ("randint_like", "normal", "bernoulli", "multinomial", "poisson")),
    *(getattr(Tensor, name) for name in ("normal_", "uniform_", "bernoulli_", "exponential_", "random_")),
    *(getattr(Tensor, name) for name in ("multinomial", "bernoulli", "log_normal_", "cauchy_", "geometric_")),
}
TOGETHER = {torch.cat, torch.stack, torch.equal, torch.allclose, torch.hstack, torch.vstack}
MOVES = {Tensor.to, Tensor.cpu, Tensor.cuda}
TO_NUMPY = {Tensor.numpy, Tensor.__array__}


@contextmanager
def elsewhere(kind: str) -> Iterator[torch.device]:
    """Pretend that there is one device of this kind ("cuda" or "mps"); yields it."""
    with mock.patch("netgrain.runtime.devices.is_there", return_value=True), _Elsewhere(kind):
        yield torch.device(kind)


class _Elsewhere(TorchFunctionMode):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.place = kind, torch.device(kind, 0)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        tensors = _tensors((args, named))
        there = [t for t in tensors if _is_there(t)]
        if func == Tensor.device.__get__:
            return self.place if there else func(*args)
        if func is torch._C._nn._parse_to:  # how modules read the arguments of `to`
            return func(*args, **named)
        if func in TO_NUMPY and there:
            raise TypeError(f"can't convert {self.place} device type tensor to numpy.")
        target, args, named = self._asked(func, args, named)
        if target is not None and func in MOVES:
            out = func(*args, **named)
            if target != _is_there(args[0]) and _shares(out, args[0]):
                out = out.clone()  # another place is another memory
        else:
            if target is None:
                target = _is_there(args[0]) if func in ACROSS else bool(there)
            self._check_mixing(func, args, tensors, there)
            if func in DRAWS and target:
                raise RuntimeError(
                    f"{_name(func)} draws on {self.place}, where a seed gives other numbers; draw on the CPU and move."
                )
            out = func(*args, **named)
        self._mark(out, target)
        return out

    def _asked(
        self, func: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[bool | None, tuple[Any, ...], dict[str, Any]]:
        """Whether the call asks for a place (True: there), and the call without the request."""
        if func is Tensor.cpu:
            return False, args, named
        if func is Tensor.cuda:
            return self.kind == "cuda", args[:1], {}
        if func is Tensor.to:
            others = [*args[1:], *named.values()]
            for other in others:
                if isinstance(other, Tensor):
                    return _is_there(other), args, named
        target: bool | None = None

        def local(value: Any) -> Any:
            nonlocal target
            if not isinstance(value, str | torch.device):
                return value
            target = torch.device(value).type == self.kind
            return torch.device("cpu") if target else value

        if func is Tensor.to:
            args = (args[0], *map(local, args[1:]))
        if "device" in named:
            named["device"] = local(named["device"])
        return target, args, named

    def _check_mixing(
        self, func: Callable[..., Any], args: tuple[Any, ...], tensors: list[Tensor], there: list[Tensor]
    ) -> None:
        here = [t for t in tensors if not _is_there(t)]
        if not there or not here:
            return
        if func in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[0], Tensor):
            # an index may come from the CPU; a value may come from anywhere only if it is copied, not scattered
            places = {_is_there(t) for t in _tensors(args[2:]) if t.dim()} if _tensors(args[1]) else set()
            places |= {True for t in _tensors(args[1]) if _is_there(t)}
            fine = places <= {_is_there(args[0])}
        elif func in ACROSS:
            fine = True
        elif func in TOGETHER or (_name(func).endswith("_") and args[0] is here[0]):
            fine = False
        else:
            fine = all(t.dim() == 0 for t in here)  # a number of the CPU may meet a tensor there
        if not fine:
            raise RuntimeError(
                f"{_name(func)}: expected all tensors to be on the same device, found {self.place} and cpu "
                f"(shapes {[tuple(t.shape) for t in there]} and {[tuple(t.shape) for t in here]})."
            )

    def _mark(self, out: Any, there: bool) -> None:
        for t in _tensors(out):
            wide = t.dtype in (torch.float64, torch.complex128)
            if there and wide and self.kind == "mps":
                raise TypeError("Cannot convert a MPS Tensor to float64 dtype: MPS does not support float64.")
            if there != _is_there(t):
                _storage(t).elsewhere = there  # type: ignore[attr-defined]


def _is_there(value: Any) -> bool:
    return isinstance(value, Tensor) and getattr(_storage(value), "elsewhere", False)


def _storage(t: Tensor) -> torch.UntypedStorage:
    """The memory, which views, parameters and transformed tensors share; it carries the mark."""
    with torch._C.DisableTorchFunction():
        while torch._C._functorch.is_functorch_wrapped_tensor(t):
            t = torch._C._functorch.get_unwrapped(t)
        return t.untyped_storage()


def _shares(a: Tensor, b: Tensor) -> bool:
    return _storage(a)._cdata == _storage(b)._cdata


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [t for v in value.values() for t in _tensors(v)]
    if isinstance(value, list | tuple):
        return [t for v in value for t in _tensors(v)]
    return []


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", str(func))
