"""Tensors that do not depend on the input: known numbers, or the entries of a random tensor in known places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from netgrain.families.initialisation import TensorLaw
from netgrain.families.nested import every, replaced
from netgrain.families.trace import Computed, Other, Unsupported, Weight

# functions that move entries without changing them
MOVES = {
    "reshape",
    "view",
    "permute",
    "transpose",
    "unsqueeze",
    "squeeze",
    "expand",
    "contiguous",
    "flatten",
    "getitem",
}
MOVES |= {"to", "float", "double", "type_as", "detach", "clone", "view_as", "reshape_as", "expand_as", "movedim", "t"}
MOVES |= {"T", "mT", "unflatten", "select", "narrow", "chunk", "split", "unbind", "repeat", "swapaxes", "data"}
PRODUCTS = {"mul": 1, "rmul": 1, "div": -1, "truediv": -1, "multiply": 1}

LawOf = Callable[[Weight], tuple[TensorLaw, tuple[int, ...]]]  # the law of a parameter's entries, and its shape


@dataclass(frozen=True, eq=False)
class Known:
    """A tensor that no input changes.

    numbers: float64, where they are the same in every member. Else `law` is that of every entry and `places` tells
    which entry of the random tensor stands where: equal places are one and the same number.
    """

    numbers: Tensor | None
    law: TensorLaw | None = None
    places: Tensor | None = None

    @property
    def entries(self) -> Tensor:
        """Numbers or places: what is moved when the tensor is."""
        found = self.places if self.numbers is None else self.numbers
        assert found is not None
        return found

    @property
    def number(self) -> float | None:
        """The one number that stands everywhere."""
        if self.numbers is None or not self.numbers.numel():
            return None
        first = self.numbers.flatten()[0]
        return float(first) if bool((self.numbers == first).all()) else None

    def moved(self, move: Callable[[Tensor], Tensor]) -> Known:
        if self.numbers is None:
            return Known(None, self.law, move(self.entries))
        return Known(move(self.numbers))

    def affine(self, scale: float, shift: float = 0.0) -> Known:
        if self.numbers is None:
            assert self.law is not None
            return Known(None, self.law.affine(scale, shift), self.places)
        return Known(self.numbers * scale + shift)


def known(value: Any, law_of: LawOf, where: str) -> Known:
    """What is known of a constant argument: a number, a parameter, or something computed from parameters.

    law_of: of a parameter or buffer. Raises Unsupported where the numbers are neither known nor entries of one law.
    """
    if isinstance(value, int | float):
        return Known(torch.tensor(float(value), dtype=torch.float64))
    if isinstance(value, Weight):
        law, shape = law_of(value)
        if law.variance == 0:
            return Known(torch.full((), law.mean, dtype=torch.float64).expand(shape))
        places = torch.arange(torch.Size(shape).numel()).reshape(shape)
        return Known(None, law, places)
    if isinstance(value, Other):
        if not value.weights and (numbers := value.numbers) is not None:
            return Known(numbers.double())
        if value.made is not None:
            return _computed(value.made, law_of, where)
    raise Unsupported(f"{where} uses a tensor whose numbers are not known")


def _computed(made: Computed, law_of: LawOf, where: str) -> Known:
    tensors = {
        id(a): known(a, law_of, where)
        for a in (*every((made.args, made.kwargs), Weight), *every((made.args, made.kwargs), Other))
    }
    random = [k for k in tensors.values() if k.numbers is None]

    def run(change: Callable[[Known], Tensor]) -> Tensor:
        args: Any = (made.args, made.kwargs)
        for kind in (Weight, Other):
            args = replaced(args, kind, lambda a: change(tensors[id(a)]))
        out = made.function(*args[0], **args[1])
        return list(every(out, Tensor))[made.item]

    if not random:
        return Known(run(lambda k: k.entries).double())
    if len(random) == 1 and made.name in MOVES:
        return random[0].moved(lambda entries: run(lambda k: entries if k is random[0] else k.entries))
    if len(random) == 1 and made.name == "neg":
        return random[0].affine(-1.0)
    if len(random) == 1 and made.name in PRODUCTS and len(made.args) == 2:
        first, second = (tensors[id(a)] if id(a) in tensors else known(a, law_of, where) for a in made.args)
        factor = (second if first is random[0] else first).number
        power = PRODUCTS[made.name]
        if factor is not None and (power == 1 or first is random[0]):
            return random[0].affine(factor**power)
    raise Unsupported(f"{where} uses weights that are computed from random ones ({made.name})")
