"""What a member is asked for: its gradient rows, alone or side by side with others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.families.gradients import POINTS_AT_ONCE, gradients
from netgrain.families.members import Family, member, model_dtype
from netgrain.families.outputs import Output
from netgrain.families.probes import Probe
from netgrain.families.side_by_side import rows_of_members, why_not_side_by_side
from netgrain.geometry.first_layer import FirstLayer
from netgrain.geometry.random_head import RandomHead
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.units import Outcome


@dataclass(frozen=True, eq=False)
class MembersAtPoints(ABC):
    """What members are asked for at points of their own."""

    make: Family
    seed: int
    shape: tuple[int, ...]
    probe: Probe
    count: int  # points of each member
    output: Output

    @abstractmethod
    def one(self, i: int) -> Outcome:
        """The answer of member i."""

    def one_by_one(self, members: range) -> list[Outcome]:
        return [self.one(i) for i in members]

    def points(self, i: int) -> Tensor:
        return self.probe.points(self.shape, self.count, derived_seed(self.seed, "probe", i))


@dataclass(frozen=True, eq=False)
class Rows(MembersAtPoints):
    """Gradient rows (rows, size) of each member in float32, and whether all of them are zero."""

    plan: FirstLayer | None
    device: torch.device
    head: RandomHead | None = None
    at_once: int = POINTS_AT_ONCE  # points of one pass

    def points(self, i: int) -> Tensor:
        found = super().points(i)
        # at the origin the one point is repeated, for as many random vectors in the place of the last layer
        return found if self.head is None or len(found) > 1 else found.expand(self.count, *self.shape)

    def one(self, i: int) -> Outcome:
        model = member(self.make, self.seed, i, self.device)
        points = self.points(i).to(self.device, model_dtype(model))
        if self.head is not None:
            call = self.head.on(model, derived_seed(self.seed, "head", i))
            if self.plan is None:
                return self._outcome(i, gradients(call, points, at_once=self.at_once).flatten(1))
            return self._outcome(i, self.plan.rows(model, points, "all", call, self.at_once).flatten(1))
        if self.plan is None:
            return self._outcome(i, gradients(model, points, self.output, at_once=self.at_once).flatten(1))
        return self._outcome(i, self.plan.rows(model, points, self.output, at_once=self.at_once))

    def side_by_side(self, members: range) -> list[Outcome]:
        """Several members in one pass."""
        models = [member(self.make, self.seed, i, self.device) for i in members]
        points = torch.stack([self.points(i) for i in members]).to(self.device, model_dtype(models[0]))
        if self.plan is None:
            found = rows_of_members(models, points, self.output)
        else:
            found = self.plan.rows_of_members(models, points, self.output)
        return [self._outcome(i, rows) for i, rows in zip(members, found, strict=True)]

    def why_one_by_one(self) -> str | None:
        """None if members may run side by side."""
        if self.head is not None:
            return "each has a random vector in the place of its last layer"
        models = [member(self.make, self.seed, i, self.device) for i in range(2)]
        points = torch.stack([self.points(i)[:1] for i in range(2)]).to(self.device, model_dtype(models[0]))
        return why_not_side_by_side(models, points, self.output, at=None if self.plan is None else self.plan.name)

    @staticmethod
    def _outcome(i: int, rows: Tensor) -> Outcome:
        rows = rows.float().cpu()
        check_rows(rows, f"member {i}")
        return Outcome({"zero": not bool(rows.any())}, {"rows": rows})


def random_inputs(model: nn.Module, shape: tuple[int, ...], count: int = 3) -> Tensor:
    """A few inputs to try a model with, always the same, in its precision."""
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(0)).to(model_dtype(model))


def check_rows(rows: Tensor, who: str) -> None:
    if not bool(torch.isfinite(rows).all()):
        raise NetgrainError(
            f"the input gradient of {who} has NaN or Inf; look for a division by zero or an overflow in it."
        )
