"""Watch a module's initialisation program: which law does every storage have when make() is done?

Each ATen operation of make() passes by. A storage is known when all its entries are shift + scale·Z with independent Z
of one standard law; an operation without a rule makes what it writes unknown, so nothing unknown is ever trusted.
Sources follow the data: two tensors with a common source share random numbers. On the meta device nothing is drawn.
"""

from __future__ import annotations

import random
import sys
import warnings
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from netgrain.families.failures import unwrapped_model
from netgrain.families.initialisation_records import RULES, Call, Record, Source, constant, truncated_normal
from netgrain.families.members import Family, member
from netgrain.families.nested import every
from netgrain.runtime.randomness import derived_seed, seeded

UNSEEN = Record("unknown", escaped=True)  # a storage that no watched operation created
# ways to a tensor's memory around the dispatcher
ESCAPES = {"numpy", "__array__", "tolist", "data_ptr", "untyped_storage", "_typed_storage", "storage", "__dlpack__"}
PLACES = {vars(torch._C.TensorBase)[name].__get__: name for name in ("is_meta", "device")}
TRUNC_NORMAL = getattr(getattr(nn.init, "_no_grad_trunc_normal_", None), "__code__", None)


def watch(make: Family, seed: int) -> tuple[nn.Module, Program | None]:
    """A module of the family and the program that made it: on meta, else really made, else made without watching."""
    for on_meta in (True, False):
        try:
            model, program = _run(make, derived_seed(seed, "program"), on_meta)
        except Exception:  # whatever the user's code does not like about being watched: the last attempt lets it speak
            continue
        if isinstance(model, nn.Module) and not (on_meta and program.depends_on_device):
            for parameter in model.parameters():
                if not is_lazy(parameter):
                    parameter.requires_grad_(False)
            return model.eval(), program
    return member(make, seed, 0), None


def _run(make: Family, seed: int, on_meta: bool) -> tuple[nn.Module, Program]:
    with seeded(seed), ExitStack() as stack:
        before = _outside_generators()
        if on_meta:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")  # about the meta device; the user's own come back when members are made
            stack.enter_context(torch.device("meta"))
        program = stack.enter_context(Program())
        stack.enter_context(_Questions(program, on_meta))
        model = make()
        model = unwrapped_model(model) if isinstance(model, nn.Module) else model
        program.trusted = _outside_generators() == before
    return model, program


def _outside_generators() -> tuple[Any, ...]:
    """States of Python's and NumPy's generators: numbers drawn from them can enter as a scale, without a trace."""
    _, keys, position, *rest = np.random.get_state()
    return random.getstate(), np.asarray(keys).tobytes(), position, *rest


class Operation(NamedTuple):
    """What the schema of an ATen operation says, read once."""

    name: str
    arguments: tuple[str, ...]
    defaults: dict[str, Any]
    written: tuple[str, ...]
    draws: bool
    is_view: bool


@lru_cache(maxsize=1024)
def _operation(func: Any) -> Operation:
    schema = func._schema
    return Operation(
        schema.name.removeprefix("aten::"),
        tuple(a.name for a in schema.arguments),
        {a.name: a.default_value for a in schema.arguments if a.has_default_value()},
        tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write),
        torch.Tag.nondeterministic_seeded in func.tags,
        any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns),
    )


class Program(TorchDispatchMode):
    """Records of all storages written while this mode is active."""

    trusted = True  # no random numbers came from outside torch
    depends_on_device = False  # what was seen on meta may not be what happens elsewhere
    paused = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operation imports the compiler, for several seconds

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # the weak reference keeps an address from being given to another storage
        self._records: dict[int, tuple[StorageWeakRef, Record]] = {}
        self._seen_by_python: set[Source] = set()  # what Python looked at may have decided what was done next
        self._seed = torch.initial_seed()

    def of(self, t: Tensor) -> Record:
        """What is known of one tensor when the program has ended."""
        record = self._fact(t)
        return record if self.trusted else record.forgotten()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            operation = _operation(func)
            named = {**operation.defaults, **dict(zip(operation.arguments, args, strict=False)), **kwargs}
            inputs = list(every(named, Tensor))
            keys = {_key(t) for t in inputs}
            source = self._draw() if operation.draws else None
            on_meta = any(t.is_meta for t in inputs) or getattr(named.get("device"), "type", "") == "meta"
            if not on_meta or operation.is_view or _is_light(operation.name, named):
                out = func(*args, **kwargs)
            elif (out := _blank_result(operation.name, named)) is None:
                self.depends_on_device = True
                raise NotImplementedError(f"{operation.name} is not run on meta")
            self._note(operation, Call(named, out, self._fact), inputs, keys, source)
            return out

    def _note(
        self, operation: Operation, call: Call, inputs: list[Tensor], keys: set[int], source: Source | None
    ) -> None:
        written = [t for name in operation.written for t in every(call[name], Tensor)]
        created = [t for t in every(call.out, Tensor) if _key(t) not in keys]
        if not written and not created:
            if next(every(call.out, Tensor), None) is None:  # a tensor became a Python value
                self._seen_by_python.update(*(self._fact(t).sources for t in inputs))
            return
        rule = RULES.get(operation.name)
        # what follows a look at random numbers may follow from it (rejection, for one)
        record = rule(call) if rule is not None and not self._seen_by_python else None
        if record is not None and source is not None:
            own_numbers = source[0] == self._seed and call["generator"] is None  # else perhaps always the same
            record = record._replace(sources=frozenset([source])) if own_numbers else None
        if record is None:
            drawn = frozenset() if source is None else frozenset([source])
            record = Record("unknown", sources=drawn.union(*(self._fact(t).sources for t in inputs)))
        for t in written:
            self.overwrite(t, record)
        for t in created:
            self._store(t, record._replace(escaped=False))

    def overwrite(self, t: Tensor, record: Record) -> None:
        """Write to a tensor. A part of a storage tells nothing of the whole, and memory that others hold is theirs."""
        escaped = not t.is_meta and self._records.get(_key(t), (None, UNSEEN))[1].escaped
        if escaped or not _is_whole(t):
            record = self._fact(t).forgotten(record.sources)
        self._store(t, record._replace(escaped=escaped))

    def hold(self, t: Tensor, record: Record) -> None:
        """A tensor made from a Python number, which is always the same unless Python looked at random ones."""
        if not self._seen_by_python:
            self._store(t, record)

    def look(self, t: Tensor) -> None:
        """Python gets hold of a tensor's memory."""
        record = self._fact(t)
        self._seen_by_python |= record.sources
        self._store(t, record.forgotten()._replace(escaped=True))

    def truncated(self, t: Tensor, mean: float, sd: float, low: float, high: float) -> None:
        """nn.init.trunc_normal_ as a whole: it does nothing on meta, and elsewhere looks at what it draws."""
        self.paused = True
        try:
            source = self._draw()
            nn.init.trunc_normal_(t, mean, sd, low, high)
        finally:
            self.paused = False
        record = truncated_normal(mean, sd, low, high)
        if record is None or source[0] != self._seed or self._seen_by_python:
            record = self._fact(t).forgotten()
        self.overwrite(t, record._replace(sources=record.sources | {source}))

    def _draw(self) -> Source:
        """The generator's state, which then moves on (on meta no draw moves it)."""
        source = torch.initial_seed(), hash(torch.default_generator.get_state().numpy().tobytes())
        torch.rand((), device="cpu")
        return source

    def _store(self, t: Tensor, record: Record) -> None:
        if (storage := _storage(t)) is not None:
            self._records[storage._cdata] = StorageWeakRef(storage), record.stored_as(t.dtype)

    def _fact(self, t: Tensor) -> Record:
        """What is known of a tensor, which may see its storage in other ways than entry by entry."""
        _, record = self._records.get(_key(t), (None, UNSEEN))
        if record.base == "unknown":
            return record
        plain = t.dtype == record.dtype and not t.is_neg() and not t.is_conj()
        once = record.base == "constant" or _is_distinct(t)
        return record if plain and once and not record.sources & self._seen_by_python else record.forgotten()


class _Questions(TorchFunctionMode):
    """Notice what never reaches ATen: who asks where tensors are, who takes their memory, and Python numbers."""

    def __init__(self, program: Program, on_meta: bool) -> None:
        super().__init__()
        self._program, self._on_meta = program, on_meta

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, frame = getattr(func, "__name__", ""), sys._getframe(1)
        place = PLACES.get(func) if name == "__get__" else None
        with torch._C.DisableTorchFunction():
            if place == "is_meta" and frame.f_code is TRUNC_NORMAL and frame.f_locals["generator"] is None:
                self._program.truncated(args[0], *(frame.f_locals[k] for k in ("mean", "std", "a", "b")))
                return True  # to trunc_normal_: nothing is left to do
            if place is not None and self._on_meta:
                self._asked(place, args[0], frame.f_globals.get("__name__", ""))
            elif name in ESCAPES and args and isinstance(args[0], Tensor):
                self._program.look(args[0])
        out = func(*args, **(kwargs or {}))
        if func is torch.tensor and args and (record := constant(args[0])) is not None:
            with torch._C.DisableTorchFunction():
                self._program.hold(out, record)
        return out

    def _asked(self, place: str, t: Tensor, asker: str) -> None:
        """Some laws of nn.init do nothing on meta; what other programs do there is not known."""
        if place == "is_meta" and asker == "torch.nn.init":
            self._program.overwrite(t, self._program.of(t).forgotten())
        elif not asker.startswith("torch."):  # `torch` itself is torch.get_default_device
            self._program.depends_on_device = True


# operations that run on meta without importing torch's compiler, which takes seconds; those with a rule need not run
LIGHT = {"empty", "empty_strided", "new_empty", "new_empty_strided", "zeros", "new_zeros", "ones", "new_ones", "full"}
LIGHT |= {"new_full", "scalar_tensor", "rand", "uniform_", "zero_", "clone", "copy_", "_to_copy"}
LIGHT |= {"detach_", "t_", "transpose_", "squeeze_", "unsqueeze_", "_unsafe_view"}


def _is_light(name: str, named: dict[str, Any]) -> bool:
    return name in LIGHT and (name != "clone" or _is_whole(named["self"]))


def _blank_result(name: str, named: dict[str, Any]) -> Tensor | None:
    """The result on meta of an operation with a rule: a shape and a type. None: not that simple."""
    if name not in RULES:
        return None
    x, other = named.get("self"), named.get("other")
    if "size" in named:
        return torch.empty(named["size"], dtype=named.get("dtype"), device="meta")
    if not isinstance(x, Tensor) or (isinstance(other, Tensor) and other.dim() and other.shape != x.shape):
        return None
    if name.endswith("_"):
        return x
    dtype = named.get("dtype") or (x.dtype if other is None else torch.result_type(x, other))
    if not dtype.is_floating_point and name != "clone" and not name.endswith("_like"):
        return None
    device = named.get("device") or x.device
    stride = x.stride() if _is_whole(x) else torch.empty(x.shape, device="meta").stride()
    return torch.empty_strided(x.shape, stride, dtype=dtype, device=device)


def _storage(t: Tensor) -> torch.UntypedStorage | None:
    try:
        return t.untyped_storage()
    except (NotImplementedError, RuntimeError, ValueError):  # sparse, or not yet there
        return None


def _key(t: Tensor) -> int:
    storage = _storage(t)
    return 0 if storage is None else storage._cdata


def _is_distinct(t: Tensor) -> bool:
    """Whether no two entries are one number in memory."""
    reach = 0
    for stride, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size > 1 and stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def _is_whole(t: Tensor) -> bool:
    storage = _storage(t)
    return storage is not None and storage.nbytes() == t.numel() * t.element_size() and _is_distinct(t)
