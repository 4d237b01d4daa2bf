"""What every regulariser is: something that changes the data, the loss or the place where its gradient is taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.logits import logits_of
from netgrain.runtime.errors import NetgrainError

Criterion = Callable[[Any, Tensor], Tensor]
State = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class LossEvaluation:
    """One evaluation of the loss, as penalties see it."""

    model: nn.Module
    parameters: Sequence[Tensor]
    x: Tensor  # requires grad where a part differentiates with respect to the inputs
    outputs: Any
    loss: Tensor | None  # None: only the penalty was asked for


class Regularizer:
    """A drop-in regulariser for any training loop; combine several with +.

    ``backward`` replaces ``criterion(model(x), y).backward()``::

        regularizer = L2(1e-4) + InputNoise(0.1)  # once
        loss = regularizer.backward(criterion, model, x, y)

    It adds the gradient of the regularised objective to ``.grad`` and returns the plain loss of the batch, detached.
    The order is fixed: noise on inputs, forward pass, noise on labels, criterion, penalties; SAM evaluates all of that
    twice with the same random numbers. Each regulariser has its own random generator, so torch's global one is not
    changed.

    Parameters
    ----------
    strength : float
        Strength of the regularisation; 0 switches it off.
    seed : int, default 0
        Seed of its own generator.

    Examples
    --------
    The slope of ½w² at w = 3 is 3; the squared error is at its minimum.

    >>> from netgrain.training.regularizers.norms import L2
    >>> net = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(net.weight, 3.0)
    >>> float(L2(0.5).backward(lambda f, y: (f - y).square().mean(), net, torch.tensor([[1.0]]), torch.tensor([[3.0]])))
    0.0
    >>> float(net.weight.grad)
    3.0
    """

    #: what the strength is called in messages
    what = "strength"
    needs_inputs = False  # differentiates with respect to x
    needs_loss = False  # looks at the loss, so `penalty` alone cannot be had

    def __init__(self, strength: float, *, seed: int = 0) -> None:
        self.strength = checked_strength(type(self).__name__, self.what, strength)
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed)

    # --- what a kind of regulariser may do ----------------------------------------------------------------------

    def inputs(self, x: Tensor) -> Tensor:
        """Change the inputs of a batch, for a kind of regulariser to override.

        Parameters
        ----------
        x : Tensor of shape (batch, *input_shape)
            The inputs.

        Returns
        -------
        Tensor
            What the model is given.
        """
        return x

    def targets(self, y: Tensor, outputs: Any) -> Tensor:
        """Change the targets of a batch, for a kind of regulariser to override.

        Parameters
        ----------
        y : Tensor of shape (batch, ...)
            The targets.
        outputs : Tensor
            The model's outputs.

        Returns
        -------
        Tensor
            What the criterion is given.
        """
        return y

    def term(self, step: LossEvaluation) -> Tensor | None:
        """Penalty on one evaluation of the loss, for a kind of regulariser to override.

        Parameters
        ----------
        step : LossEvaluation
            Model, parameters, inputs, outputs and loss.

        Returns
        -------
        Tensor or None
            What is added to the loss; None adds nothing.
        """
        return None

    @property
    def radius(self) -> float:
        """How far uphill the gradient is taken; 0: where the weights are."""
        return 0.0

    # --- using it -----------------------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Regularizer, ...]:
        """The regularisers of a sum, or this one alone."""
        return (self,)

    def __add__(self, other: Regularizer) -> Sum:
        if not isinstance(other, Regularizer):
            return NotImplemented
        return Sum((*self.parts, *other.parts))

    def penalty(self, model: nn.Module, x: Tensor) -> Tensor:
        """Sum of the penalties on a batch, to be added to a loss of your own.

        Parameters
        ----------
        model : torch.nn.Module
            The network.
        x : Tensor of shape (batch, *input_shape)
            The inputs.

        Returns
        -------
        Tensor
            One number with a gradient: ``(loss + r.penalty(model, x)).backward()``.

        Raises
        ------
        NetgrainError
            If a part is no penalty on the model alone, such as noise or SAM; use `backward` then.
        """
        for part in self.parts:
            if part.needs_loss or type(part).term is Regularizer.term:
                raise NetgrainError(
                    f"{part!r} is not a penalty on the model alone; "
                    "call backward(criterion, model, x, y) in place of loss.backward()."
                )
        with torch.enable_grad():
            outputs = None
            if any(p.needs_inputs for p in self.parts):
                x = _differentiable(x)
                # a pass in train mode would count in running statistics; slopes take a pass of their own then
                outputs = None if batch_norms(model) else model(x)
            return self._terms(LossEvaluation(model, trainable(model), x, outputs, None), x)

    def backward(self, criterion: Criterion, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """Add the gradient of the regularised objective to ``.grad``.

        Parameters
        ----------
        criterion : callable
            The loss of (outputs, targets), one number.
        model : torch.nn.Module
            The network.
        x : Tensor of shape (batch, *input_shape)
            The inputs.
        y : Tensor of shape (batch, ...)
            The targets.

        Returns
        -------
        Tensor
            The plain loss of the batch, detached.
        """
        parameters = trainable(model)
        loss, gradients = self.gradients(criterion, model, x, y, parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        return loss

    def gradients(
        self, criterion: Criterion, model: nn.Module, x: Tensor, y: Tensor, parameters: Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Gradient of the regularised objective; ``.grad`` is not touched.

        Parameters
        ----------
        criterion : callable
            The loss of (outputs, targets), one number.
        model : torch.nn.Module
            The network.
        x : Tensor of shape (batch, *input_shape)
            The inputs.
        y : Tensor of shape (batch, ...)
            The targets.
        parameters : sequence of Tensor
            What to differentiate with respect to.

        Returns
        -------
        loss : Tensor
            The plain loss, detached.
        gradients : list of Tensor or None
            One for each parameter.
        """
        radius = sum(part.radius for part in self.parts)
        with torch.enable_grad():
            if not radius:
                return self._evaluate(criterion, model, x, y, parameters)
            draws = [part.generator.get_state() for part in self.parts]
            loss, uphill = self._evaluate(criterion, model, x, y, parameters)
            for part, state in zip(self.parts, draws, strict=True):
                part.generator.set_state(state)
            with _moved(parameters, uphill, radius), _same_statistics(model):
                _, gradients = self._evaluate(criterion, model, x, y, parameters)
        return loss, gradients

    def _evaluate(
        self, criterion: Criterion, model: nn.Module, x: Tensor, y: Tensor, parameters: Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor | None]]:
        for part in self.parts:
            x = part.inputs(x)
        if any(p.needs_inputs and p.strength for p in self.parts):
            x = _differentiable(x)
        outputs = model(x)
        for part in self.parts:
            y = part.targets(y, outputs)
        loss = criterion(outputs, y)
        if loss.dim():
            raise NetgrainError(
                f"expected a criterion that returns one number, found shape {tuple(loss.shape)}; "
                "take its mean over the batch."
            )
        total = loss + self._terms(LossEvaluation(model, parameters, x, outputs, loss), loss)
        return loss.detach(), list(torch.autograd.grad(total, list(parameters), allow_unused=True))

    def _terms(self, step: LossEvaluation, like: Tensor) -> Tensor:
        total = like.new_zeros(())
        for part in self.parts:
            term = part.term(step) if part.strength else None
            if term is not None:
                total = total + term
        return total

    # --- state --------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Random generators and vectors of power iterations, as tensors by name."""
        return {f"{i}/{name}": t for i, part in enumerate(self.parts) for name, t in part._state().items()}

    def load_state_dict(self, state: State) -> None:
        """Resume as the regulariser that a state was taken from.

        Parameters
        ----------
        state : dict of str to Tensor
            What `state_dict` returned; the regulariser must be made the same way.
        """
        for i, part in enumerate(self.parts):
            mine = {name.removeprefix(f"{i}/"): t for name, t in state.items() if name.startswith(f"{i}/")}
            if "generator" not in mine:
                raise NetgrainError(
                    f"expected the state of a regulariser with {len(self.parts)} parts, {self!r}, "
                    f"found names {sorted(state)[:4]}; make it as it was when the state was saved."
                )
            part._restore(mine)

    def _state(self) -> State:
        return {"generator": self.generator.get_state()}

    def _restore(self, state: State) -> None:
        self.generator.set_state(state["generator"].cpu())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.strength:g})"


class Sum(Regularizer):
    """Several regularisers at once, made with +.

    Parameters
    ----------
    parts : sequence of Regularizer
        Different objects, at most one of them SAM.
    """

    def __init__(self, parts: Sequence[Regularizer]) -> None:
        self._parts = tuple(parts)
        if len({id(p) for p in parts}) < len(parts):
            raise NetgrainError("the same regulariser was added twice; expected different objects, each with a state.")
        if sum(p.radius > 0 for p in parts) > 1:
            raise NetgrainError("two SAM steps cannot be combined; expected at most one in a sum.")

    @property
    def parts(self) -> tuple[Regularizer, ...]:
        """The regularisers of the sum."""
        return self._parts

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


def checked_strength(who: str, what: str, value: float, most: float = math.inf) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not 0 <= value <= most:
        bounds = "a number ≥ 0" if most == math.inf else f"a number from 0 to {most:g}"
        raise NetgrainError(f"{who} expects {bounds} as its {what}, found {value!r}; 0 switches it off.")
    return float(value)


def trainable(model: nn.Module) -> list[Tensor]:
    found = [p for p in model.parameters() if p.requires_grad]
    if not found:
        raise NetgrainError(
            f"every parameter of {type(model).__name__} is frozen, expected some to train; set requires_grad=True."
        )
    return list(found)


def flat_outputs(outputs: Any, x: Tensor, who: str) -> Tensor:
    outputs = logits_of(outputs, x)
    if not isinstance(outputs, Tensor) or outputs.dim() == 0 or len(outputs) != len(x):
        found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise NetgrainError(f"{who} expects outputs (batch, outputs) as a tensor, found {found}; wrap the model.")
    return outputs.reshape(len(outputs), -1)


def _differentiable(x: Tensor) -> Tensor:
    if not x.is_floating_point():
        raise NetgrainError(
            f"expected floating-point inputs to differentiate, found {x.dtype}; convert them, or penalise an embedding."
        )
    return x.detach().requires_grad_(True)


def batch_norms(model: nn.Module) -> list[nn.Module]:
    """Layers that use statistics of the batch now, so that samples see each other."""
    kind = nn.modules.batchnorm._BatchNorm
    return [m for m in model.modules() if isinstance(m, kind) and (m.training or m.running_mean is None)]


@contextmanager
def _moved(parameters: Sequence[Tensor], uphill: Sequence[Tensor | None], radius: float) -> Iterator[None]:
    """The parameters radius·g/‖g‖ away from where they are, and back to the same bits."""
    norms = [torch.linalg.vector_norm(g) for g in uphill if g is not None]
    length = torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.ones(())
    before = [p.detach().clone() for p in parameters]
    try:
        with torch.no_grad():
            for p, g in zip(parameters, uphill, strict=True):
                if g is not None:
                    p.add_(g * (radius / (length + 1e-12)))
        yield
    finally:
        with torch.no_grad():
            for p, value in zip(parameters, before, strict=True):
                p.copy_(value)


@contextmanager
def _same_statistics(model: nn.Module) -> Iterator[None]:
    """A second pass over the same batch must not count twice in running statistics."""
    buffers = [(b, b.detach().clone()) for m in batch_norms(model) for b in m.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
