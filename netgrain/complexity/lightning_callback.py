"""Geometric complexity in a Lightning training: a callback for `lightning.pytorch` and for `pytorch_lightning`."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from netgrain.complexity.callbacks import MissingExtra, TrackerInside, TrackerOptions, inputs_and_labels, random_batch
from netgrain.complexity.estimators import Estimator
from netgrain.complexity.functions import Of
from netgrain.complexity.tracker import ComplexityTracker
from netgrain.runtime.errors import GrainWarning, NetgrainError

NAMESPACES = ("lightning.pytorch", "pytorch_lightning")


def _callback_class() -> Any:
    """Callback of the namespace in use; hooks are called by name, so one of them serves trainers of both."""
    for name in sorted(NAMESPACES, key=lambda name: name not in sys.modules):
        try:
            return import_module(name).Callback
        except ModuleNotFoundError as e:
            if e.name is None or e.name.split(".")[0] not in ("lightning", "pytorch_lightning"):
                raise  # installed, but something it needs is not: its own words are better
    raise MissingExtra("Lightning", "lightning")


class ComplexityCallback(TrackerInside, _callback_class()):  # type: ignore[misc]
    """A ComplexityTracker inside a Lightning Trainer, which logs to the trainer's own loggers.

    X, y: the points and their labels; without them `points` random samples of the training data are taken (of a
    streaming or specially sampled loader: the first batch, from batches x or (x, y)). every_n_steps: of the optimiser,
    as trainer.global_step counts them; the weights at the start and at the end are measured too. module: the name of
    the submodule to measure, where the LightningModule's own forward is not the network. The rest is as in
    `ComplexityTracker`, which is `callback.tracker` during and after training.

    Scalars "complexity/gc" and so on go to every logger at the step they were measured, and to
    trainer.callback_metrics, where early stopping and checkpoints find them. The history is part of the checkpoint,
    and a resumed training goes on with it. With several processes the first one measures.
    """

    def __init__(
        self,
        X: Tensor | None = None,
        y: Tensor | None = None,
        *,
        X_test: Tensor | None = None,
        every_n_steps: int = 50,
        module: str | None = None,
        of: Of = "logits",
        layer: str | None = None,
        points: int | None = 256,
        estimator: Estimator = "auto",
        rel_error: float = 0.02,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.prepare(X, y, TrackerOptions(every_n_steps, of, layer, points, estimator, rel_error, seed, X_test))
        self.module = module
        self._state: dict[str, Any] | None = None  # of a checkpoint, until there is a tracker to take it

    # --- hooks ------------------------------------------------------------------------------------------------

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        model = self._model(pl_module)
        old = self.tracker
        if old is not None and (old.model is not model or (old.steps and old.steps[-1] > trainer.global_step)):
            self.tracker = None  # another training

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if not trainer.is_global_zero:
            return
        if self.tracker is None:
            self.tracker = self._tracker_of(trainer, self._model(pl_module), batch)
        self._measured(trainer, pl_module)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.tracker is not None and trainer.is_global_zero:
            self._measured(trainer, None, force=True)

    def state_dict(self) -> dict[str, Any]:
        return self.tracker.state_dict() if self.tracker is not None else self._state or {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._state, self.tracker = state_dict or None, None

    # --- what they do -----------------------------------------------------------------------------------------

    def _measured(self, trainer: Any, pl_module: Any | None, force: bool = False) -> None:
        step = trainer.global_step
        found = self.new_scalars(step, force=force)
        if found is None:
            return
        # straight to the loggers: pl_module.log would write them only at multiples of log_every_n_steps
        for logger in trainer.loggers:
            logger.log_metrics(found, step=step)
        if pl_module is not None:
            pl_module.log_dict(found, on_step=True, on_epoch=False, logger=False, rank_zero_only=True)

    def _model(self, pl_module: Any) -> nn.Module:
        if self.module is None:
            return pl_module  # type: ignore[no-any-return]
        try:
            return pl_module.get_submodule(self.module)  # type: ignore[no-any-return]
        except AttributeError as e:
            names = ", ".join(name for name, _ in pl_module.named_children())
            raise NetgrainError(
                f"{type(pl_module).__name__} has no submodule '{self.module}'; expected one such as {names}."
            ) from e

    def _tracker_of(self, trainer: Any, model: nn.Module, batch: Any) -> ComplexityTracker:
        X, y, lasting = self.X, self.y, True
        if X is None:
            whole = random_batch(trainer.train_dataloader, self.options.points, self.options.seed)
            lasting = whole is not None
            X, y = inputs_and_labels(batch if whole is None else whole)
        tracker = self.made(model, X, y)
        if self._state is not None:
            state, self._state = self._state, None
            if not lasting and state["identity"].get("X") != tracker._identity()["X"]:
                # a resumed stream begins elsewhere; its points are as good as the old ones
                warnings.warn(
                    "the complexity is measured on other points than before the checkpoint, because the training data "
                    "are a stream; pass X to the callback to keep them.",
                    GrainWarning,
                    stacklevel=2,
                )
                state = state | {"identity": tracker._identity()}
            tracker.load_state_dict(state, source="the checkpoint")
        return tracker
