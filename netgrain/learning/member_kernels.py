"""The kernel of one member: its network made, calibrated on the samples, and asked for features or gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.families.batch_statistics import calibrate, tracking_norms
from netgrain.families.members import Family, member, model_dtype
from netgrain.learning.kernel_value import KernelKind
from netgrain.learning.layer_features import FeaturePlan, feature_plan, last_features, layer_features
from netgrain.learning.layer_grams import layer_gram, mean_square, products
from netgrain.learning.tangent_products import TangentPlan, tangent_features, tangent_plan
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.units import Outcome

Plan = FeaturePlan | TangentPlan | None


def plan_for(kind: KernelKind, model: nn.Module, X: Tensor, *, traced: bool) -> Plan:
    """What is asked of every member, found out on three samples."""
    few = X[torch.linspace(0, len(X) - 1, 3).long()].to(next(model.parameters()).device, model_dtype(model))
    if kind == "layers":
        return feature_plan(model, few, modules=not traced)
    if kind == "tangent":
        return tangent_plan(model, few)
    last_features(model, few, 3)
    return None


def width_of(plan: Plan, model: nn.Module, few: Tensor) -> int:
    """Numbers that one sample gives: features, or gradients and their factors."""
    if isinstance(plan, FeaturePlan):
        return sum(t.shape[1] for t in layer_features(model, few, plan, len(few)))
    if isinstance(plan, TangentPlan):
        found = tangent_features(model, few, plan, len(few), 0)
        return found.rows.shape[1] + sum(a.shape[1] + b.shape[1] for a, b in found.dense)
    return last_features(model, few, len(few)).shape[1]


@dataclass(frozen=True, eq=False)
class MemberKernels:
    """Kernels (n, m) of members, float64, each a function of (seed, i) alone."""

    make: Family
    seed: int
    kind: KernelKind
    samples: Tensor  # X, and Z after it where there is one
    n: int  # samples of X
    plan: Plan
    batch: int
    normalise: bool
    device: torch.device
    calibration: Tensor | None  # for batch norms; None: they stay as they are

    def one_by_one(self, members: range) -> list[Outcome]:
        return [Outcome({}, {"kernel": self.of(member(self.make, self.seed, i, self.device), i)}) for i in members]

    def of(self, model: nn.Module, i: int) -> Tensor:
        """The kernel of a network whose parameters are frozen; i: its number, of random vectors and signs."""
        if self.calibration is not None and tracking_norms(model):
            calibrate(model, self.calibration)
        X = self.samples.to(self.device, model_dtype(model))
        if isinstance(self.plan, FeaturePlan):
            found, count = layer_gram(layer_features(model, X, self.plan, self.batch), self.n)
            size = float(count)  # the mean diagonal of a sum of sets
        elif isinstance(self.plan, TangentPlan):
            seed = derived_seed(self.seed, "tangent", i)
            features = tangent_features(model, X, self.plan, self.batch, seed)
            found = features.gram(self.n)
            size = float(found.diagonal().mean()) if len(X) == self.n else features.mean_diagonal(self.n)
        else:
            rows = last_features(model, X, self.batch)
            found, size = products(rows, self.n), mean_square(rows[: self.n])
        if not bool(torch.isfinite(found).all()):
            raise NetgrainError(
                f"member {i} has features or gradients that are NaN or Inf; check it for a division by zero or "
                "an overflow."
            )
        return found / size if self.normalise and size else found
