"""What is known of the entries of a storage, and what each ATen operation makes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

Source = tuple[int, int]  # seed and state of the generator before a draw: equal states give equal numbers
NEVER_SET = "never set"
FAR = 9.0  # standard deviations beyond which a normal law has no weight (1e-19)


class Record(NamedTuple):
    """What is known of every entry of a storage: shift + scale·Z, the Z independent and of one standard law."""

    base: str  # of Z: "constant" (Z = 0), "uniform" in ±1, "normal", "truncated" (normal within bounds), "unknown"
    shift: float = 0.0
    scale: float = 0.0
    bounds: tuple[float, float] = (-math.inf, math.inf)
    sources: frozenset[Source] = frozenset()
    dtype: torch.dtype | None = None
    reason: str = ""  # of "unknown": NEVER_SET, or nothing special
    escaped: bool = False  # others hold this memory and may write to it unseen

    def affine(self, scale: float, shift: float = 0.0) -> Record:
        base = "constant" if scale == 0 and self.base != "unknown" else self.base
        return self._replace(base=base, scale=self.scale * scale, shift=self.shift * scale + shift)

    def forgotten(self, sources: Iterable[Source] = ()) -> Record:
        return Record("unknown", sources=self.sources | frozenset(sources), escaped=self.escaped)

    def stored_as(self, dtype: torch.dtype) -> Record:
        """The record in entries of some type: whole numbers hold constants only."""
        if self.base == "unknown" or dtype.is_floating_point:
            return self._replace(dtype=dtype)
        if self.base != "constant" or dtype.is_complex or not self.shift.is_integer():
            return self.forgotten()
        return self._replace(dtype=dtype, shift=float(bool(self.shift)) if dtype is torch.bool else self.shift)


@dataclass(frozen=True, eq=False)
class Call:
    """One operation with its named arguments, its result, and what is known of a tensor before it."""

    named: dict[str, Any]
    out: Any
    fact: Callable[[Tensor], Record]

    def __getitem__(self, name: str) -> Any:
        return self.named.get(name)

    def number(self, name: str, default: Any = None) -> float | None:
        """An argument as a number: a Python number, or a tensor whose entries are all one constant."""
        value = self.named.get(name, default)
        if isinstance(value, Tensor):
            record = self.fact(value)
            return record.shift if record.base == "constant" else None
        return float(value) if isinstance(value, int | float) else None

    def operand(self, name: str) -> Record | None:
        """What is known of a tensor argument that is not repeated by broadcasting."""
        value = self.named.get(name)
        if not isinstance(value, Tensor):
            return None
        record = self.fact(value)
        return record if record.base == "constant" or value.shape == self.out.shape else None


RecordRule = Callable[[Call], Record | None]  # None: not known


def constant(value: Any) -> Record | None:
    return Record("constant", float(value)) if isinstance(value, int | float) else None


def truncated_normal(mean: float, sd: float, low: float, high: float) -> Record | None:
    """A normal law within low ≤ value ≤ high; plainly normal where the bounds are out of reach."""
    if not (sd > 0 and low < high and low < mean + FAR * sd and high > mean - FAR * sd):
        return None
    bounds = ((low - mean) / sd, (high - mean) / sd)
    plain = bounds[0] < -FAR and bounds[1] > FAR
    return Record("normal", mean, sd) if plain else Record("truncated", mean, sd, bounds)


def _uniform(call: Call) -> Record | None:
    a, b = call["from"], call["to"]
    return Record("uniform", (a + b) / 2, (b - a) / 2) if b > a else constant(a)


def _normal(call: Call) -> Record | None:
    mean, sd = call["mean"], call["std"]
    if isinstance(mean, Tensor) or isinstance(sd, Tensor):
        return None
    return Record("normal", float(mean), float(sd)) if sd else constant(mean)


def _copy(name: str) -> RecordRule:
    return lambda call: call.operand(name)


def _mul(call: Call) -> Record | None:
    for x, k in (("self", "other"), ("other", "self")):
        record, number = call.operand(x), call.number(k)
        if record is not None and number is not None:
            return record.affine(number)
    return None


def _div(call: Call) -> Record | None:
    record, number = call.operand("self"), call.number("other")
    return record.affine(1 / number) if record is not None and number and not call["rounding_mode"] else None


def _sum(sign_self: float, sign_other: float) -> RecordRule:
    """±self ± other with one of the two constant; `alpha` multiplies other, and self in other − alpha·self (rsub)."""

    def rule(call: Call) -> Record | None:
        alpha = call.number("alpha", 1)
        if alpha is None:
            return None
        a, b = (sign_self * alpha, sign_other) if sign_self < 0 else (sign_self, sign_other * alpha)
        for x, k, scale_x, scale_k in (("self", "other", a, b), ("other", "self", b, a)):
            record, number = call.operand(x), call.number(k)
            if record is not None and number is not None:
                return record.affine(scale_x, scale_k * number)
        return None

    return rule


def _neg(call: Call) -> Record | None:
    record = call.operand("self")
    return None if record is None else record.affine(-1.0)


def _erfinv(call: Call) -> Record | None:
    """erfinv maps the uniform law in ±1 to the normal law of variance ½, and a part of it to a part of that."""
    record = call.operand("self")
    if record is None or record.base != "uniform":
        return None
    ends = torch.tensor([record.shift - abs(record.scale), record.shift + abs(record.scale)], dtype=torch.float64)
    if float(ends.abs().max()) > 1 + 1e-9:
        return None
    low, high = (float(z) for z in torch.erfinv(ends.clamp(-1, 1)))
    made = truncated_normal(0.0, math.sqrt(0.5), low, high)
    return None if made is None else made._replace(sources=record.sources)


def _clamp(call: Call) -> Record | None:
    """Clamping changes nothing where the law already ends there (up to rounding)."""
    record = call.operand("self")
    if record is None or record.base == "unknown":
        return None
    reach = {"truncated": record.bounds, "uniform": (-1.0, 1.0), "normal": (-FAR, FAR), "constant": (0.0, 0.0)}
    ends = sorted(record.shift + record.scale * z for z in reach[record.base])
    slack = 1e-6 * abs(record.scale)
    low = -math.inf if call["min"] is None else call.number("min")
    high = math.inf if call["max"] is None else call.number("max")
    if low is None or high is None or low > ends[0] + slack or high < ends[1] - slack:
        return None
    return record


def _empty(_: Call) -> Record | None:
    return Record("unknown", reason=NEVER_SET)


RULES: dict[str, RecordRule] = {
    **dict.fromkeys(("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"), _empty),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero_"), lambda _: constant(0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), lambda _: constant(1)),
    **dict.fromkeys(("full", "full_like", "new_full"), lambda call: constant(call["fill_value"])),
    "fill_": lambda call: constant(call.number("value")),
    "scalar_tensor": lambda call: constant(call["s"]),
    **dict.fromkeys(("rand", "rand_like"), lambda _: Record("uniform", 0.5, 0.5)),
    **dict.fromkeys(("randn", "randn_like"), lambda _: Record("normal", 0.0, 1.0)),
    "uniform_": _uniform,
    **dict.fromkeys(("normal_", "normal"), _normal),
    **dict.fromkeys(("clone", "_to_copy", "t_", "transpose_", "squeeze_", "unsqueeze_", "detach_"), _copy("self")),
    "copy_": _copy("src"),
    **dict.fromkeys(("mul", "mul_"), _mul),
    **dict.fromkeys(("div", "div_"), _div),
    **dict.fromkeys(("add", "add_"), _sum(1.0, 1.0)),
    **dict.fromkeys(("sub", "sub_"), _sum(1.0, -1.0)),
    "rsub": _sum(-1.0, 1.0),
    **dict.fromkeys(("neg", "neg_"), _neg),
    **dict.fromkeys(("erfinv", "erfinv_"), _erfinv),
    **dict.fromkeys(("clamp", "clamp_"), _clamp),
}
