"""A matrix that is only known by its products with vectors: enough for a search for leading directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from netgrain.geometry.forms import Form
from netgrain.runtime.errors import NetgrainError


@dataclass(frozen=True, eq=False)
class Products(Form):
    """Each product costs passes through a network, so nothing else is answered.

    >>> Products(2, lambda V: 3 * V).matvec(torch.ones(1, 2)).tolist()
    [[3.0, 3.0]]
    """

    dimension: int
    product: Callable[[Tensor], Tensor]  # (vectors, size) → (vectors, size)

    @property
    def size(self) -> int:
        return self.dimension

    def matvec(self, V: Tensor) -> Tensor:
        return self.product(V.double())

    def trace(self) -> NoReturn:
        raise self._refusal()

    def inner(self, other: Form) -> NoReturn:
        raise self._refusal()

    def _dense(self) -> Tensor:
        return self.matvec(torch.eye(self.size, dtype=torch.float64))

    @staticmethod
    def _refusal() -> NetgrainError:
        return NetgrainError("this geometry is known only by its products with vectors.")
