"""The initialisation law of every parameter and buffer of a module.

First the initialisation program is read (`initialisation_program`): exact, and on the meta device, so that no weight is
drawn. A tensor that it does not explain is drawn afresh a few dozen times when its law is asked for, and passes the
tests of `initialisation_draws` or is refused with the reason.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from netgrain.families.initialisation_draws import CannotRead, Draws, draw, law_of_draws
from netgrain.families.initialisation_program import watch
from netgrain.families.initialisation_records import NEVER_SET, Record
from netgrain.families.members import Family
from netgrain.families.tensor_law import TensorLaw, law_of_record
from netgrain.runtime.randomness import derived_seed

__all__ = ["CannotRead", "Initialisation", "TensorLaw"]

DRAWS, DRAWS_LARGE = 64, 24  # fresh members that unexplained laws are read from; the second above a million parameters


class Initialisation:
    """Laws of all parameters and buffers of the family of modules that `make` returns.

    >>> laws = Initialisation(lambda: nn.Linear(64, 10))
    >>> laws.of("weight").text, laws.on_meta
    ('uniform in ±0.125', True)
    """

    model: nn.Module  # one module of the family, in eval mode and without gradients; its tensors may be on meta
    on_meta: bool
    tied: dict[str, str]  # further names of a tensor → its first name

    def __init__(self, make: Family, *, seed: int = 0) -> None:
        self._make, self._seed = make, seed
        self.model, program = watch(make, seed)
        named = [
            *self.model.named_parameters(remove_duplicate=False),
            *self.model.named_buffers(remove_duplicate=False),
        ]
        self.tied = _tied(named)
        self._tensors = {name: t for name, t in named if name not in self.tied}
        self.on_meta = any(t.is_meta for t in self._tensors.values())
        self._lazy = {name for name, t in self._tensors.items() if is_lazy(t)}
        self._records = {
            name: Record("unknown") if program is None else program.of(t)
            for name, t in self._tensors.items()
            if name not in self._lazy
        }
        self._found: dict[tuple[str, bool], TensorLaw] = {}
        self._draws: Draws | None = None

    def of(self, name: str, *, independent: bool = True) -> TensorLaw:
        """Law of one entry of a parameter or buffer.

        Parameters
        ----------
        name : str
            Dotted name, as in ``named_parameters()``.
        independent : bool, default True
            Whether entries must be independent. If not, they need only be uncorrelated, as those of
            an orthogonal matrix are; this matters only for laws that are read from draws.

        Returns
        -------
        TensorLaw
            The same for all entries.

        Raises
        ------
        CannotRead
            If there is no such law; the message says why.

        Examples
        --------
        PyTorch draws the weights of a linear layer between ±1/√64:

        >>> Initialisation(lambda: nn.Linear(64, 10)).of("weight").text
        'uniform in ±0.125'
        """
        name = self.tied.get(name, name)
        if (name, independent) not in self._found:
            self._found[name, independent] = self._read(name, independent)
        return self._found[name, independent]

    def recorded(self, name: str) -> Record:
        """What the program tells of a parameter or buffer, without draws; else its base is "unknown"."""
        return self._records.get(self.tied.get(name, name), Record("unknown"))

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[self.tied.get(name, name)].shape)

    def _read(self, name: str, independent: bool) -> TensorLaw:
        if name not in self._tensors:
            raise CannotRead(f"'{name}': the module has no parameter or buffer of this name{self._hint(name)}")
        if name in self._lazy:
            raise CannotRead(f"'{name}': it has no shape before the first forward pass, so no law (a lazy module)")
        if not _has_numbers(self._tensors[name]):
            raise CannotRead(f"'{name}': it has no entries, or complex ones")
        record = self._records[name]
        for other, theirs in self._records.items():
            if other != name and record.sources & theirs.sources:
                raise CannotRead(f"'{name}': shares its random numbers with '{other}'")
        if record.reason == NEVER_SET:
            raise CannotRead(f"'{name}': it is never initialised")
        law = law_of_record(record) if record.base != "unknown" else self._drawn(name, independent)
        if not math.isfinite(law.mean) or not math.isfinite(law.variance):
            raise CannotRead(f"'{name}': its entries are not finite")
        return law

    def _hint(self, name: str) -> str:
        owner, _, leaf = name.rpartition(".")
        prefix = f"{owner}.parametrizations.{leaf}." if owner else f"parametrizations.{leaf}."
        sources = [n for n in self._tensors if n.startswith(prefix)]
        return f"; it is computed from {' and '.join(map(repr, sources))}" if sources else ""

    def _drawn(self, name: str, independent: bool) -> TensorLaw:
        if self._lazy:
            raise CannotRead(f"'{name}': its law needs fresh draws, and '{min(self._lazy)}' has no shape yet")
        if self._draws is None:
            large = sum(p.numel() for p in self.model.parameters()) >= 1_000_000
            unknown = [n for n, r in self._records.items() if r.base == "unknown" and _has_numbers(self._tensors[n])]
            self._draws = draw(self._make, unknown, DRAWS_LARGE if large else DRAWS, derived_seed(self._seed, "laws"))
        drawn, others = self._draws.of(name), self._draws.others(name)
        law = law_of_draws(drawn, others, seed=derived_seed(self._seed, "law", name), independent=independent)
        if isinstance(law, str):
            raise CannotRead(f"'{name}': {law}")
        return law


def _has_numbers(t: Tensor) -> bool:
    return t.numel() > 0 and not t.is_complex()


def _tied(named: list[tuple[str, Tensor]]) -> dict[str, str]:
    """Names of one and the same tensor: one object, or one place in memory seen in one way."""
    first: dict[object, str] = {}
    tied = {}
    for name, t in named:
        place = id(t) if is_lazy(t) or t.layout is not torch.strided else _place(t)
        if place in first:
            tied[name] = first[place]
        else:
            first[place] = name
    return tied


def _place(t: Tensor) -> object:
    if t.numel() == 0:
        return id(t)
    return t.untyped_storage()._cdata, t.storage_offset(), tuple(t.shape), t.stride(), t.dtype
