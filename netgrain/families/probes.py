"""Where x comes from: the points at which a network's input gradient is taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from netgrain.runtime.arguments import found, is_number
from netgrain.runtime.errors import NetgrainError


@runtime_checkable
class Probe(Protocol):
    """Where x comes from: anything with the methods `describe` and `points`.

    To use your own sampler, write a class with these two methods.

    See Also
    --------
    Origin, Gaussian, Data

    Examples
    --------
    The corners of a cube:

    >>> class Corners:
    ...     def describe(self):
    ...         return "corners"
    ...     def points(self, input_shape, count, seed):
    ...         coins = torch.rand(count, *input_shape, generator=torch.Generator().manual_seed(seed))
    ...         return coins.round()
    >>> isinstance(Corners(), Probe), Corners().points((2,), 3, seed=0).shape
    (True, torch.Size([3, 2]))
    """

    def describe(self) -> str:
        """A short name for tables and files."""
        ...

    def points(self, input_shape: tuple[int, ...], count: int, seed: int) -> Tensor:
        """Up to `count` points, a function of the seed alone.

        Parameters
        ----------
        input_shape : tuple of int
            Shape of one input without the batch axis.
        count : int
            Largest number of points.
        seed : int
            Seed of the random choice.

        Returns
        -------
        Tensor of shape (points, *input_shape)
            The points.
        """
        ...


@dataclass(frozen=True)
class Origin:
    """The single point x = 0.

    It is the limit of ``Gaussian(sigma)`` for sigma → 0 where the network is differentiable there; at a kink netgrain
    takes that limit instead, and reports it.

    Examples
    --------
    >>> Origin().points((2,), 5, seed=0)
    tensor([[0., 0.]])
    """

    def describe(self) -> str:
        """A short name for tables and files: "origin"."""
        return "origin"

    def points(self, input_shape: tuple[int, ...], count: int, seed: int) -> Tensor:
        """The one point x = 0.

        Parameters
        ----------
        input_shape : tuple of int
            Shape of one input without the batch axis.
        count : int
            Not used: there is one point.
        seed : int
            Not used: nothing is random.

        Returns
        -------
        Tensor of shape (points, *input_shape)
            Zeros of shape (1, *input_shape).
        """
        return torch.zeros(1, *input_shape)


@dataclass(frozen=True)
class Gaussian:
    """Gaussian points x ~ N(0, σ²I).

    Parameters
    ----------
    sigma : float, default 1
        Standard deviation of every coordinate, positive.

    Examples
    --------
    >>> Gaussian(0.001).describe()
    'gaussian:0.001'
    """

    sigma: float = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.sigma) and np.isfinite(self.sigma) and self.sigma > 0):
            raise NetgrainError(
                f"Gaussian expects a positive sigma, found {found(self.sigma)}; for sigma = 0 use Origin()."
            )

    def describe(self) -> str:
        """A short name for tables and files, as in "gaussian:0.5"."""
        return f"gaussian:{self.sigma:g}"

    def points(self, input_shape: tuple[int, ...], count: int, seed: int) -> Tensor:
        """Independent Gaussian points.

        Parameters
        ----------
        input_shape : tuple of int
            Shape of one input without the batch axis.
        count : int
            Number of points.
        seed : int
            Seed of the random numbers.

        Returns
        -------
        Tensor of shape (points, *input_shape)
            The points.
        """
        generator = torch.Generator().manual_seed(seed)
        return self.sigma * torch.randn(count, *input_shape, generator=generator)


@dataclass(frozen=True, eq=False)
class Data:
    """Points drawn from given samples.

    Parameters
    ----------
    X : Tensor of shape (samples, *input_shape)
        Finite floating-point samples.
    name : str, default "data"
        Name of the samples in tables.

    Examples
    --------
    >>> Data(torch.zeros(10, 3)).describe()
    'data (10 samples)'
    """

    X: Tensor
    name: str = field(default="data")

    def __post_init__(self) -> None:
        try:
            X = torch.as_tensor(self.X).detach().cpu()
        except (TypeError, ValueError, RuntimeError) as e:  # torch raises all three
            raise NetgrainError(f"Data expects samples as a tensor or array, found {found(self.X)}.") from e
        if X.dim() < 2 or len(X) == 0:
            raise NetgrainError(
                f"Data expects samples of shape (samples, …), found {tuple(X.shape)}; add a first axis."
            )
        if not X.is_floating_point():
            raise NetgrainError(
                f"Data expects floating-point samples, found {X.dtype}; convert, as in X.float() / 255."
            )
        if not bool(torch.isfinite(X).all()):
            raise NetgrainError("Data expects finite samples, found NaN or Inf; remove or repair those samples first.")
        object.__setattr__(self, "X", X)

    def describe(self) -> str:
        """A short name for tables and files, as in "data (10 samples)"."""
        return f"{self.name} ({len(self.X)} samples)"

    def points(self, input_shape: tuple[int, ...], count: int, seed: int) -> Tensor:
        """Samples without repetition; all of them, in order, if `count` is not smaller.

        Parameters
        ----------
        input_shape : tuple of int
            Shape of one input without the batch axis.
        count : int
            Largest number of samples.
        seed : int
            Seed of the random choice.

        Returns
        -------
        Tensor of shape (points, *input_shape)
            The chosen samples.
        """
        if tuple(self.X.shape[1:]) != input_shape:
            raise NetgrainError(
                f"the data has samples of shape {tuple(self.X.shape[1:])}, input_shape is {input_shape}; "
                "make them equal."
            )
        if count >= len(self.X):
            return self.X
        chosen = torch.randperm(len(self.X), generator=torch.Generator().manual_seed(seed))[:count]
        return self.X[chosen]


def checked_probe(probe: Any, input_shape: tuple[int, ...] | None = None) -> None:
    """Refuse what is no probe, and one of the user's own that gives points of another shape; None is the default."""
    if probe is None:
        return
    wanted = "probe expects Origin(), Gaussian(σ) or Data(X)"
    if isinstance(probe, type):
        raise NetgrainError(f"{wanted}, found {found(probe)}; call it, as in {probe.__name__}(…).")
    if not isinstance(probe, Probe):
        hint = f"{found(probe)}; wrap it, as in Data(X)" if hasattr(probe, "shape") else found(probe)
        raise NetgrainError(f"{wanted}, found {hint}.")
    if input_shape is None or isinstance(probe, Origin | Gaussian | Data):
        return
    points: Any = probe.points(input_shape, 1, 0)
    if not isinstance(points, Tensor) or tuple(points.shape[1:]) != input_shape or not len(points):
        shape = tuple(points.shape[1:]) if isinstance(points, Tensor) else type(points).__name__
        raise NetgrainError(f"the probe gives points of shape {shape}; expected tensors of points of {input_shape}.")


def probe_named(text: str, samples: Tensor | None = None) -> Probe | None:
    """A probe from its name: auto, origin, gaussian:0.001, or data.

    samples: what "data" alone stands for, in a command that has data.

    >>> probe_named("gaussian:0.5")
    Gaussian(sigma=0.5)
    >>> probe_named("data", torch.zeros(10, 3)).describe()
    'data (10 samples)'
    """
    kind, _, value = text.partition(":")
    if kind == "auto":
        return None
    if kind == "origin" and not value:
        return Origin()
    if kind == "gaussian":
        try:
            return Gaussian(float(value or 1.0))
        except ValueError as e:
            if isinstance(e, NetgrainError):
                raise
            raise NetgrainError(f"probe '{text}' expects a number after the colon, as in gaussian:0.001.") from e
    if text == "data" and samples is not None:
        return Data(samples)
    data = "data:FILE" if samples is None else "data"
    raise NetgrainError(f"probe '{text}' is not known; expected auto, origin, gaussian:SIGMA or {data}.")
