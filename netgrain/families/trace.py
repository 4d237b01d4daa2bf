"""Record what a module does to its input: one step per torch function, with concrete shapes.

The module really runs while a mode watches every torch function that touches something computed from x. So control
flow that looks at shapes, loops and in-place layers all work; only a decision that needs a number (`if x.sum() > 0`)
cannot be recorded, and is refused. A module on the meta device, which has shapes but no numbers, runs on zeros: its
weights are stood in for, and convolutions and linear layers only say what shape they make. (Torch's own kernels for the
meta device would import its compiler first, which takes seconds.)
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from netgrain.families.aliases import Aliases, same_entries, with_item
from netgrain.families.calls import is_leaf, watching
from netgrain.families.logits import NotFound, logits_of, remark_on
from netgrain.families.members import tensors_of
from netgrain.families.nested import every, replaced
from netgrain.runtime.errors import NetgrainError

Look = Callable[[int, str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], None]
WEIGHTED = {"linear"} | {f"conv{turned}{n}d" for turned in ("", "_transpose") for n in (1, 2, 3)}
# what a forward may ask of a tensor without looking at its numbers
ABOUT_SHAPES = {"shape", "ndim", "dtype", "device", "layout", "requires_grad", "is_leaf", "grad_fn", "grad", "names"}
ABOUT_SHAPES |= {"size", "dim", "ndimension", "numel", "nelement", "len", "stride", "is_contiguous", "element_size"}
ABOUT_SHAPES |= {"is_floating_point", "is_complex", "get_device", "storage_offset", "has_names", "is_same_size"}
ABOUT_SHAPES |= {f"is_{kind}" for kind in ("meta", "cuda", "cpu", "sparse", "quantized", "mps", "nested")}
ABOUT_SHAPES |= {"itemsize", "nbytes"}
# arguments of a convolution after the bias; those of a transposed one
CONVOLUTION = ("stride", "padding", "dilation", "groups")
TRANSPOSED = ("stride", "padding", "output_padding", "groups", "dilation")


class Unsupported(NetgrainError):
    """A module, or one of its layers, has no closed form; the message names it."""


@dataclass(frozen=True)
class Ref:
    """Output `item` of step `step` (step −1: the input)."""

    step: int
    item: int = 0


@dataclass(frozen=True)
class Weight:
    """A parameter or buffer of the module, by dotted name."""

    name: str


@dataclass(frozen=True, eq=False)
class Other:
    """A tensor that is neither computed from x nor a parameter itself."""

    shape: tuple[int, ...]
    weights: frozenset[str] = frozenset()  # the parameters and buffers that it was computed from
    made: Computed | None = None  # how, where nothing wrote to it since
    value: Tensor | None = None  # its numbers, where they are real
    version: int = 0  # of them: what was written to later does not count

    @property
    def numbers(self) -> Tensor | None:
        """Its numbers, where they are real and nothing wrote to them since."""
        return self.value if self.value is not None and self.value._version == self.version else None


@dataclass(frozen=True, eq=False)
class Computed:
    """Output `item` of a torch function of tensors that do not depend on x."""

    function: Callable[..., Any]
    name: str
    args: tuple[Any, ...]  # tensors among them are Weight or Other
    kwargs: dict[str, Any]
    item: int


@dataclass(frozen=True, eq=False)
class Step:
    """One torch function. Tensors among its arguments are Ref, Weight or Other."""

    index: int
    function: Callable[..., Any]
    name: str  # the function's name without underscores: conv2d, relu, add
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    module: str  # dotted path of the innermost module that called it
    kind: str  # class of that module
    shapes: tuple[tuple[int, ...], ...]  # of its outputs, batch first
    outputs: tuple[Tensor, ...]  # real ones, when the module ran on numbers

    @property
    def where(self) -> str:
        """How an error message calls this place."""
        place = f"'{self.module}' ({self.kind})" if self.module else f"the model's forward ({self.kind})"
        return place if self.name.casefold() in self.kind.casefold() else f"{self.name} in {place}"


@dataclass(frozen=True, eq=False)
class Trace:
    """All steps in order, and where the output comes from."""

    input_shape: tuple[int, ...]
    steps: list[Step]
    output: Ref
    calls: tuple[tuple[str, str], ...] = ()  # name and class of every module without modules inside, in order
    looked_at: frozenset[str] = frozenset()  # parameters and buffers whose numbers became Python values
    remark: str = ""  # on which of several outputs were taken

    def needed(self, passes: Callable[[Step], bool] = lambda _: True) -> set[int]:
        """Steps that the output depends on, through steps that pass."""
        needed = {self.output.step}
        for step in reversed(self.steps):
            if step.index in needed and passes(step):
                needed |= {ref.step for ref in refs_in((step.args, step.kwargs))}
        return needed


def record(model: nn.Module, x: Tensor, *, look: Look | None = None, outputs: bool = True) -> Trace:
    """Run the module on x, of shape (batch, *input_shape), and write down its steps.

    look: gets the index of each step, its name, function and real arguments, before it runs; outputs are not kept then.
    outputs: whether steps keep what they put out, which takes as much memory as the pass itself.
    """
    watch = _watching(model, x)
    watch.look, watch.outputs = look, outputs
    with torch.no_grad():
        returned = _run(model, x, watch)
    try:
        y = logits_of(returned, x)
    except NotFound as e:
        raise Unsupported(str(e).rstrip(".")) from e
    if not isinstance(y, Tensor) or id(y) not in watch.refs:
        raise Unsupported("the module's output is not a tensor computed from its input")
    with torch.no_grad():
        watch.catch_up(y)
    output, seen = watch.refs[id(y)], frozenset(watch.looked_at)
    remark = remark_on(returned, x)
    return Trace(tuple(x.shape[1:]), watch.steps, output, tuple(watch.calls), seen, remark)


def recorded(model: nn.Module, x: Tensor, *, stop_after: int) -> list[Step]:
    """The steps up to this one; what follows is not run. Where gradients are on, the outputs carry them."""
    watch = _watching(model, x)
    watch.last = stop_after
    if stop_after >= 0:
        with suppress(_Enough):
            _run(model, x, watch)
    return watch.steps


class _Enough(Exception):
    """The last step that was asked for has run."""


def _watching(model: nn.Module, x: Tensor) -> _Watch:
    tensors = tensors_of(model)
    return _Watch({id(t): name for name, t in tensors.items()}, list(tensors.values()), x)


def _run(model: nn.Module, x: Tensor, watch: _Watch) -> Any:
    try:
        # with gradients enabled, though none is taken: a forward that switches them off shows itself
        with (
            torch.inference_mode(False),
            torch.set_grad_enabled(watch.gradients),
            torch.device(x.device),
            _module_names(model, watch),
            watch,
        ):
            return model(x)
    except (Unsupported, _Enough):
        raise
    except Exception as e:  # a user's module may fail in any way it likes
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        place = f" in '{watch.module[0]}'" if watch.module[0] else ""
        raise Unsupported(f"the module could not be traced{place} ({type(e).__name__}: {reason})") from e


def outputs_of(trace: Trace) -> int:
    """Numbers that the module returns for one input."""
    if trace.output.step < 0:
        return math.prod(trace.input_shape)
    return math.prod(trace.steps[trace.output.step].shapes[trace.output.item][1:])


@dataclass(eq=False)
class _Watch(TorchFunctionMode):
    names: dict[int, str]
    tensors: list[Tensor]  # parameters and buffers
    x: Tensor
    steps: list[Step] = field(default_factory=list)
    module: tuple[str, str] = ("", "Module")
    last: int | None = None  # the step to stop after
    look: Look | None = None
    outputs: bool = True  # whether steps keep them

    def __post_init__(self) -> None:
        super().__init__()
        self.refs: dict[int, Ref] = {id(self.x): Ref(-1)}
        self.stand_in = any(t.is_meta for t in self.tensors)
        self.gradients = not any(t.requires_grad for t in self.tensors)  # else a graph would be kept
        self.alive: dict[int, weakref.ref[Tensor]] = {}  # what is known by its id; forgotten with its tensor
        self.kept: list[Tensor] = []  # constants into which something computed from x was written
        self.aliases = Aliases()
        self.aliases.hold(self.x)
        self.calls: list[tuple[str, str]] = []
        self.sources = {tensor: frozenset([name]) for tensor, name in self.names.items()}
        self.made: dict[int, tuple[Computed, int]] = {}  # how a tensor was computed, and its version then
        self.looked_at: set[str] = set()

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = _name(function)
        tensors = list(every((args, kwargs), Tensor))
        touched = [t for t in tensors if id(t) in self.refs]
        if name not in ABOUT_SHAPES:
            self._check_constants([t for t in tensors if id(t) not in self.refs], name)
        if not touched:
            return self._constant(name, function, args, kwargs)
        if name == "setitem" and _assigns_itself(*args):
            return None  # the end of x[key] += y: x falls behind what was written already
        if name not in ABOUT_SHAPES:
            for t in touched:
                self.catch_up(t)
        arguments, keywords = replaced((args, kwargs), Tensor, self._argument)
        if name == "setitem":
            arguments, function = (self._target(args[0]), *arguments[1:]), with_item
        before = {id(t): t._version for t in touched}
        inside = f" in '{self.module[0]}'" if self.module[0] else ""
        if self.gradients and not torch.is_grad_enabled() and name not in ABOUT_SHAPES:
            place = inside.removeprefix(" in ") or "its forward"
            raise Unsupported(f"{place} switches gradients off ({name} under no_grad)")
        if any(math.isnan(v) for v in every((args, kwargs), float)):
            raise Unsupported(f"{name}{inside} is given NaN")
        if self.look is not None and name not in ABOUT_SHAPES:
            self.look(len(self.steps), name, function, args, kwargs)
        out = self._run(name, torch.Tensor.__setitem__ if name == "setitem" else function, args, kwargs)
        outputs = [args[0]] if name == "setitem" else list(every(out, Tensor))
        if not outputs:
            if name not in ABOUT_SHAPES:
                raise Unsupported(f"its forward looks at numbers ({name}{inside})")
            return out
        step = self._step(function, name, arguments, keywords, outputs)
        written = [t for t in touched if t._version != before[id(t)]]
        if written and not any(t is o for t in written for o in outputs) and name != "setitem":
            raise Unsupported(f"{step.where} writes in place into a tensor that is also used elsewhere")
        self._keep(step, outputs)
        for t in outputs:
            if name == "setitem" or any(t is w for w in written):
                self.aliases.write(t, step.where)
        return out

    def _constant(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
        """Run a function of tensors that do not depend on x."""
        given: Any = None if name in ABOUT_SHAPES else replaced((args, kwargs), Tensor, self._argument)
        out = function(*args, **kwargs)
        outputs = list(every(out, Tensor))
        for t in outputs:
            self._follow(t)
        self._follow_weights(name, (args, kwargs), outputs)
        for item, t in enumerate(outputs if given is not None else ()):
            self.made[id(t)] = Computed(function, name, given[0], given[1], item), t._version
        return out

    def _check_constants(self, constants: list[Tensor], name: str) -> None:
        """Refuse a tensor that is none of the recording's, if something computed from x was written through a view."""
        if any(self.aliases.shares(t) for t in constants):
            inside = f" in '{self.module[0]}'" if self.module[0] else ""
            raise Unsupported(f"{name}{inside} uses a tensor into which something computed from x was written")

    def _target(self, x: Tensor) -> Ref | Weight | Other:
        """What is written to, as it was before."""
        found = self._argument(x)
        if not isinstance(found, Other) or found.value is None:
            return found
        return Other(found.shape, found.weights, found.made, found.value.clone())

    def catch_up(self, t: Tensor) -> None:
        """Record what a write to a tensor that shares memory with t has made of it."""
        for patch in self.aliases.patches(t):
            if not patch.name:
                raise Unsupported(f"{patch.where} writes in place into a tensor that is also used elsewhere")
            self.catch_up(patch.source)
            new = self.refs[id(patch.source)]
            args = (self.refs[id(t)], patch.key, new) if patch.itself else (new, patch.key)
            self._keep(self._step(patch.function, patch.name, args, {}, [t]), [t])

    def _step(
        self, function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: Any, outputs: list[Tensor]
    ) -> Step:
        # a later in-place layer may overwrite them
        real = () if self.stand_in or self.look is not None or not self.outputs else tuple(t.clone() for t in outputs)
        shapes = tuple(tuple(t.shape) for t in outputs)
        return Step(len(self.steps), function, name, args, kwargs, *self.module, shapes, real)

    def _keep(self, step: Step, outputs: list[Tensor]) -> None:
        self.steps.append(step)
        for item, t in enumerate(outputs):
            if id(t) in self.made or id(t) in self.sources:
                self.kept.append(t)  # a constant no more: views of it would pass for constants if it were gone
            self.refs[id(t)] = Ref(step.index, item)
            self._follow(t)
            self.aliases.hold(t)
        if step.index == self.last:
            raise _Enough

    def _follow(self, t: Tensor) -> None:
        """Know t by its id for as long as it lives: the id may be given to another tensor then."""
        number = id(t)
        if number not in self.alive:
            self.alive[number] = weakref.ref(t, lambda _: self._forget(number))

    def _forget(self, number: int) -> None:
        for known in (self.alive, self.refs, self.made, self.sources):
            known.pop(number, None)
        self.aliases.forget(number)

    def _run(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.stand_in:
            return function(*args, **kwargs)
        if name in WEIGHTED and len(args) > 1 and isinstance(args[1], Tensor):
            return _shaped(name, function, args, kwargs)
        args, kwargs = replaced((args, kwargs), Tensor, lambda t: torch.zeros(t.shape) if t.is_meta else t)
        return function(*args, **kwargs)

    def _argument(self, t: Tensor) -> Ref | Weight | Other:
        if id(t) in self.refs:
            return self.refs[id(t)]
        if id(t) in self.names:
            return Weight(self.names[id(t)])
        weights = self.sources.get(id(t), frozenset())
        made, version = self.made.get(id(t), (None, 0))
        real = not t.is_meta and not (self.stand_in and weights)
        # a view shares its version with what it shows: written to since, it is not what was computed
        known = made if t._version == version else None
        return Other(tuple(t.shape), weights, known, t.detach() if real else None, t._version)

    def _follow_weights(self, name: str, arguments: Any, outputs: list[Tensor]) -> None:
        """Which weights entered a tensor, or a Python value, that does not depend on x."""
        used = [self.sources[id(t)] for t in every(arguments, Tensor) if id(t) in self.sources]
        for t in outputs:
            self.sources[id(t)] = frozenset().union(*used)
        if not outputs and name not in ABOUT_SHAPES:
            self.looked_at.update(*used)


def _name(function: Callable[..., Any]) -> str:
    """conv2d, add for __add__ and add_, mT for the attribute of that name."""
    name = getattr(function, "__name__", str(function))
    if name == "__get__":
        name = getattr(getattr(function, "__self__", None), "__name__", name)
    return str(name).strip("_")


def _shaped(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Zeros of the shape that a linear layer or a convolution makes, at the cost of one channel."""
    x, weight = args[0], args[1]
    if name == "linear":
        if x.shape[-1] != weight.shape[-1]:
            raise Unsupported(f"a linear layer expects {weight.shape[-1]} features and is given {x.shape[-1]}")
        return torch.zeros(*x.shape[:-1], weight.shape[0])
    turned = "transpose" in name
    order = TRANSPOSED if turned else CONVOLUTION
    given = dict(zip(order, args[3:], strict=False)) | {k: v for k, v in kwargs.items() if k != "bias"}
    groups = given.pop("groups", 1)
    expected = weight.shape[0] if turned else weight.shape[1] * groups
    if x.dim() != weight.dim() or x.shape[1] != expected:
        raise Unsupported(f"a convolution expects {expected} channels and is given inputs of shape {tuple(x.shape)}")
    one = function(torch.zeros(1, 1, *x.shape[2:]), torch.zeros(1, 1, *weight.shape[2:]), None, **given)
    return torch.zeros(len(x), weight.shape[1] * groups if turned else weight.shape[0], *one.shape[2:])


def _assigns_itself(x: Tensor, key: Any, value: Any) -> bool:
    """Whether x[key] = value assigns a view of x to itself."""
    return isinstance(value, Tensor) and not any(True for _ in every(key, Tensor)) and same_entries(x[key], value)


def refs_in(value: Any) -> Iterator[Ref]:
    """All references to recorded values among arguments, in order."""
    return every(value, Ref)


def weights_in(value: Any) -> Iterator[Weight]:
    """All parameters and buffers among arguments, in order."""
    return every(value, Weight)


def others_in(value: Any) -> Iterator[Other]:
    """All further tensors among arguments, in order."""
    return every(value, Other)


@contextmanager
def _module_names(model: nn.Module, watch: _Watch) -> Iterator[None]:
    """Tell the watch which module is running."""
    outer: list[tuple[str, str]] = []

    def enter(name: str, module: nn.Module, _inputs: Any) -> None:
        outer.append(watch.module)
        watch.module = (name, type(module).__name__)
        if is_leaf(module):
            watch.calls.append(watch.module)

    def leave(_name: str, _module: nn.Module, _output: Any) -> None:
        watch.module = outer.pop()

    with watching(model, enter, leave):
        yield
