"""Geometric complexity in a training by the Hugging Face Trainer, of images or of token embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.complexity.callbacks import MissingExtra, TrackerInside, TrackerOptions, labels, random_batch
from netgrain.complexity.checks import unwrapped
from netgrain.complexity.estimators import Estimator
from netgrain.complexity.functions import Of
from netgrain.complexity.tracker import ComplexityTracker
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.packed import read_packed

try:
    from transformers import TrainerCallback
except ModuleNotFoundError as e:
    if e.name != "transformers":
        raise
    raise MissingExtra("transformers", "transformers") from None

FILE = "netgrain_complexity.safetensors"  # in every checkpoint folder
LABELS = ("labels", "label", "label_ids")
MARKS = ("attention_mask", "token_type_ids")  # whole numbers per token, passed on beside the embeddings


class ComplexityCallback(TrackerInside, TrainerCallback):  # type: ignore[misc]
    """A ComplexityTracker inside a Hugging Face Trainer, which logs through trainer.log.

        trainer.add_callback(ComplexityCallback(trainer, every_n_steps=50))

    Scalars "complexity/gc" and so on so arrive in trainer.state.log_history and wherever the Trainer reports to
    (TensorBoard shows them as "train/complexity/gc"). A callback in `Trainer(callbacks=…)` comes after the reporting
    ones and cannot reach them; hence the trainer as an argument.

    X, y: the inputs (a tensor, or a dict as the data collator makes it) and labels; without them `points` random
    samples of the training set are taken. embed: for models of tokens; the complexity is then with respect to the
    input embeddings (`inputs_embeds`), which are looked up anew at each measurement because they train along; the
    attention mask is passed on. every_n_steps: of the optimiser; the weights at the start and at the end are measured
    too. The rest is as in `ComplexityTracker`, which is `callback.tracker` during and after training.

    Each checkpoint folder holds the history, and a resumed training goes on with it. With several processes the first
    one measures; weights that are sharded over processes are not supported.
    """

    def __init__(
        self,
        trainer: Any,
        X: Tensor | Mapping[str, Tensor] | None = None,
        y: Tensor | None = None,
        *,
        embed: bool = False,
        every_n_steps: int = 50,
        of: Of = "logits",
        layer: str | None = None,
        points: int | None = 256,
        estimator: Estimator = "auto",
        rel_error: float = 0.02,
        seed: int = 0,
    ) -> None:
        if not hasattr(trainer, "add_callback"):
            raise NetgrainError(
                f"expected the Trainer first, found {type(trainer).__name__}; write "
                "trainer.add_callback(ComplexityCallback(trainer))."
            )
        inside = None if layer is None else f"model.{layer}"  # of the wrapper below
        self.prepare(X, y, TrackerOptions(every_n_steps, of, inside, points, estimator, rel_error, seed))
        self.trainer, self.embed = trainer, embed

    # --- hooks ------------------------------------------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        self.tracker = self._tracker_of(kwargs["model"], kwargs.get("train_dataloader"))
        saved = self._file(args, state)
        if state.global_step and saved.is_file():
            self.tracker.load_state_dict(read_packed(saved, "complexity tracker")[0], source=str(saved))
        self._measured(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # the last one now: TensorBoard's writer is closed by the time training has ended
        self._measured(state, force=control.should_training_stop)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._measured(state, force=control.should_training_stop)  # stopped early

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._measured(state, force=True)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        path = self._file(args, state)
        if self.tracker is not None and path.parent.is_dir():
            self.tracker.save(path)

    # --- what they do -----------------------------------------------------------------------------------------

    def _file(self, args: Any, state: Any) -> Path:
        return Path(args.output_dir) / f"checkpoint-{state.global_step}" / FILE

    def _measured(self, state: Any, force: bool = False) -> None:
        found = self.new_scalars(state.global_step, force=force)
        if found is not None:
            self.trainer.log(found)

    def _tracker_of(self, model: nn.Module, loader: Any) -> ComplexityTracker:
        batch: Any = self.X
        if batch is None:
            batch = random_batch(loader, self.options.points, self.options.seed, any_sampler=True)
            if batch is None:
                raise NetgrainError(
                    "the training data are a stream, out of which no sample can be taken without disturbing it; "
                    "pass the inputs to measure on, as in ComplexityCallback(trainer, X)."
                )
        if isinstance(batch, Tensor):
            batch = {_main_input(model, {}): batch}
        batch = {name: value for name, value in batch.items() if isinstance(value, Tensor)}
        name = _main_input(model, batch)
        X = batch[name]
        y = self.y
        if y is None:
            y = next((found for key in LABELS if (found := labels(batch.get(key), len(X))) is not None), None)
        if not self.embed and not X.is_floating_point():
            raise NetgrainError(
                f"the inputs '{name}' are {X.dtype} and cannot be differentiated; "
                "pass embed=True to measure with respect to the input embeddings of the model."
            )
        kind, wrapped = ComplexityTracker, _Logits(model, name)
        if self.embed:
            marks = [key for key in MARKS if key in batch and batch[key].shape == X.shape]
            kind, wrapped = _EmbeddingTracker, _Logits(model, "inputs_embeds", _embedding(model), marks)
            X = torch.stack([X, *(batch[key] for key in marks)], -1)  # (n, tokens, 1 + marks)
        return self.made(wrapped, X, y, kind)


class _Logits(nn.Module):
    """A model with named inputs as a map from one tensor to logits; marks are the last entries of that tensor."""

    def __init__(
        self, model: nn.Module, name: str, embedding: nn.Module | None = None, marks: list[str] | None = None
    ) -> None:
        super().__init__()
        self.model, self.name, self.marks = model, name, marks or []
        self.table = [embedding]  # in a list: it is a part of the model already

    def forward(self, x: Tensor) -> Any:
        given: dict[str, Tensor] = {}
        if self.marks:
            # nothing flows back through whole numbers, so they add zero to the squared gradient
            numbers = x[..., -len(self.marks) :].detach().round().long()
            given = {name: numbers[..., i] for i, name in enumerate(self.marks)}
            x = x[..., : -len(self.marks)]
        y = self.model(**{self.name: x}, **given)
        return y[0] if isinstance(y, tuple) and y else unwrapped(y)  # without labels the logits come first


class _EmbeddingTracker(ComplexityTracker):
    """Points are token numbers; what is differentiated are their embeddings as they are now."""

    def _checked(self, X: Tensor) -> Tensor:
        if X.is_floating_point() or X.dim() != 3 or not X.numel():
            raise NetgrainError(
                f"embed=True expects token numbers of shape (samples, tokens), found {X.dtype} "
                f"{tuple(X.shape[:-1])}; leave embed out for inputs that are floating-point numbers already."
            )
        return X.detach()

    def _inputs(self, X: Tensor) -> Tensor:
        assert isinstance(self.model, _Logits)
        table = self.model.table[0]
        assert table is not None
        place = next(table.parameters()).device
        with torch.no_grad():
            embedded = table(X[..., 0].to(place))
        return torch.cat([embedded, X[..., 1:].to(embedded)], -1)


def _main_input(model: nn.Module, batch: Mapping[str, Tensor]) -> str:
    named = getattr(model, "main_input_name", None)
    if isinstance(named, str) and (named in batch or not batch):
        return named
    if not batch:
        raise NetgrainError(
            f"{type(model).__name__} does not say what its input is called (main_input_name); "
            "pass X as a dict, as in {'pixel_values': X}."
        )
    names = [key for key in batch if key not in LABELS]
    names.sort(key=lambda key: not batch[key].is_floating_point())  # stable: the first floating-point one
    if not names:
        raise NetgrainError(f"expected a batch with inputs, found only {', '.join(batch)}; pass X to the callback.")
    return names[0]


def _embedding(model: nn.Module) -> nn.Module:
    get = getattr(model, "get_input_embeddings", None)
    try:
        found = get() if callable(get) else None
    except NotImplementedError:
        found = None
    if not isinstance(found, nn.Module) or next(found.parameters(), None) is None:
        raise NetgrainError(
            f"embed=True expects a model with input embeddings, and get_input_embeddings() of {type(model).__name__} "
            "gives none; add that method, or pass floating-point inputs X."
        )
    return found
