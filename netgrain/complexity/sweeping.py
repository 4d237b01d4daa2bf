"""A sweep over a user's own family: train at every value and seed, and see how complexity follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from netgrain.complexity.sweeps import Curve
from netgrain.experiments.heuristics.protocol import curve_of, measured
from netgrain.families.members import Make, best_device, checked_device, member, stream
from netgrain.runtime.engines import engine_for
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.processes import Processes
from netgrain.runtime.progress import Bar
from netgrain.runtime.units import Engine, Outcome, Unit, in_order
from netgrain.training.checks import checked
from netgrain.training.regularizers.base import Regularizer
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member


def sweep(
    make: Make,
    X: Tensor,  # (samples, *input_shape)
    y: Tensor,  # (samples,) labels, or floating-point targets for "sse" and "mse"
    values: Sequence[float],
    settings: Settings,
    *,
    regularizer: Callable[[float], Regularizer] | None = None,
    field: str | None = None,
    test: tuple[Tensor, Tensor] | None = None,
    seeds: int = 3,
    points: int | None = 1000,
    engine: Engine | str | None = None,
    workers: int | None = None,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Curve:
    """Geometric complexity after training, along the strengths of a regulariser or the values of a setting.

    regularizer: what makes one from a strength, as the class itself: `sweep(..., [0, 1e-4, 1e-3], regularizer=L2)`.
    field: or the name of a setting that takes the values: `sweep(..., [0.01, 0.1], field="lr")`. Compare at the same
    loss, with `Settings(stop_at_loss=..., stop_every=10)`: runs that miss it are flagged and left out of `rho`. A seed
    has the same initial weights and batches at every value, and the curve compares within seeds. Complexity is measured
    at `points` training inputs, in eval mode. engine, workers and device: where networks are trained, and how many at a
    time.

    >>> import torch
    >>> from netgrain.training.regularizers.norms import L2
    >>> X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    >>> line = lambda: torch.nn.Linear(3, 2)
    >>> settings = Settings(steps=200, batch=None, lr=0.1)
    >>> curve = sweep(line, X, (X[:, 0] > 0).long(), [0.001, 0.01, 0.1], settings, regularizer=L2, workers=1)
    >>> curve.per_seed()
    [-1.0, -1.0, -1.0]
    """
    if (regularizer is None) == (field is None):
        raise NetgrainError(
            "expected one of regularizer= (such as L2) and field= (such as 'lr'), to say what is swept."
        )
    if field is not None and field not in Settings.__dataclass_fields__:
        known = ", ".join(Settings.__dataclass_fields__)
        raise NetgrainError(f"Settings has no field '{field}'; expected one of {known}.")
    if len(set(values)) < 2 or seeds < 1:
        raise NetgrainError(f"expected at least two different values and one seed, found {list(values)} and {seeds}.")
    chosen = [settings if field is None else Settings(**{**settings.as_dict(), field: v}) for v in values]
    if regularizer is not None:
        for v in values:
            regularizer(v)  # a bad strength is said before anything is trained
    X, y = checked(member(make, 0, 0), X, y, settings.loss)

    place = best_device() if device is None else checked_device(device)
    via = engine_for(engine, workers, place) or Processes()

    def task(unit: Mapping[str, Any]) -> Outcome:
        seed, j = unit["seed"], unit["value"]
        penalty = None if regularizer is None else regularizer(values[j])
        for part in penalty.parts if penalty is not None else ():
            part.generator.manual_seed(stream(seed, "regularizer"))
        trained = train_member(make, X, y, chosen[j], seed=seed, i=0, regularizer=penalty, device=place)
        return Outcome(measured(trained, make, (X, y), test, chosen[j], points, device=place))

    units = [Unit({"seed": seed, "value": j}) for seed in range(seeds) for j in range(len(values))]
    numbers = []
    with Bar("trainings", len(units), progress) as bar:
        for found in in_order(via.run(task, units), units):
            numbers.append(found.numbers)
            bar.advance()
    return curve_of(tuple(values), numbers, seeds)
