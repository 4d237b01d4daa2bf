"""Made-up data whose label lies along chosen directions of input space, for asking what a network learns.

Directions are tensors of the input's shape, of unit norm and orthogonal to each other: rows of `G.directions(k)`.
Every function has its own random generator, a function of `seed` alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from netgrain.data.choosing import generator_for
from netgrain.data.dataset import Dataset
from netgrain.data.scaling import AT_ONCE, channel_moments, channels
from netgrain.runtime.errors import NetgrainError

Labels = Literal["linear", "quadratic", "sinusoidal"]
KINDS: tuple[Labels, ...] = ("linear", "quadratic", "sinusoidal")
HALF_OF_SQUARES = 0.45493642311957283  # the median of α² for α ~ N(0, 1)
ORTHONORMAL = 1e-5  # largest deviation of U Uᵀ from the identity; single precision passes


class Spectral(Protocol):
    """What is needed of a Geometry."""

    @property
    def d(self) -> int: ...
    @property
    def input_shape(self) -> tuple[int, ...]: ...
    @property
    def eigenvalues(self) -> Tensor: ...
    def directions(self, k: int | None = None) -> Tensor: ...
    def flip(self, *, seed: int = 0) -> Spectral: ...


# --- data sets ------------------------------------------------------------------------------------------------


def doughnut(
    u1: Tensor,
    u2: Tensor,
    n: int,
    *,
    noise: float,
    radii: tuple[float, float] = (1.0, 2.0),
    jitter: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """Two concentric circles in a plane, Gaussian noise everywhere else.

    x = r_y (cos φ · u1 + sin φ · u2) + noise · ω, φ uniform, ω ~ N(0, I − u1 u1ᵀ − u2 u2ᵀ), r_y = radii[y], to which
    jitter · N(0, 1) is added. Half of the samples (rounded down) are of class 1.

    Parameters
    ----------
    u1, u2 : Tensor of shape input_shape
        Directions that span the plane: unit vectors at right angles, such as rows of ``G.directions(k)``.
    n : int
        Number of samples.
    noise : float
        Standard deviation in every direction outside the plane.
    radii : tuple of two floats, default (1.0, 2.0)
        Radius of the circle of class 0 and of class 1.
    jitter : float, default 0.0
        Standard deviation of the radius within a class.
    seed : int, default 0
        The same seed gives the same samples.

    Returns
    -------
    Dataset
        n samples of shape input_shape, and their classes 0 and 1.

    Raises
    ------
    NetgrainError
        If the directions are not orthonormal, `n` is below one, or a scale is negative or not finite.

    See Also
    --------
    linear_and_circle : Circles together with a second feature that tells the class.

    Examples
    --------
    The distance from the origin within the plane is 1 for class 0 and 2 for class 1:

    >>> data = doughnut(torch.tensor([1.0, 0, 0]), torch.tensor([0, 1.0, 0]), 4, noise=0.1)
    >>> data.X[:, :2].norm(dim=1).round().long().tolist() == (data.y + 1).tolist()
    True
    """
    U = _orthonormal(u1, u2)
    y = _balanced(n, seed, "doughnut")
    circle = _circle(y, radii, jitter, seed, "doughnut")
    X = _assemble(circle, U, _scale(noise, "noise"), n, seed, "doughnut")
    note = f"circles of radius {radii[0]:g} and {radii[1]:g}, noise {noise:g} in the other directions"
    return Dataset(X.reshape(n, *u1.shape), y, "doughnut", ("inner", "outer") if radii[0] < radii[1] else (), note)


def isotropic(
    u: Tensor,
    n: int,
    *,
    labels: Labels = "linear",
    epsilon: float = 1.0,
    frequency: float | None = None,
    sigma: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """Labels along one direction of nearly isotropic noise.

    x = ε α u + ω, α ~ N(0, 1), ω ~ N(0, σ²(I − u uᵀ)). y = 1 where α > 0 (linear), α² is above its median (quadratic)
    or sin(x·u) = sin(ε α) > 0 (sinusoidal). Both classes have probability one half, and the rule does not depend on the
    sample.

    Parameters
    ----------
    u : Tensor of shape input_shape
        The direction, of unit norm.
    n : int
        Number of samples.
    labels : {"linear", "quadratic", "sinusoidal"}, default "linear"
        How the label follows from α.
    epsilon : float, default 1.0
        Standard deviation ε along the direction.
    frequency : float, optional
        Sinusoidal labels only: y = 1 where sin(frequency · α) > 0. The default is ε, so that the label is the sign of
        sin(x·u). A fixed value such as π gives the same labels whatever ε is.
    sigma : float, default 1.0
        Standard deviation σ in every other direction.
    seed : int, default 0
        The same seed gives the same samples.

    Returns
    -------
    Dataset
        n samples of shape input_shape, and their classes 0 and 1.

    Raises
    ------
    NetgrainError
        If `labels` is not known, u is not of unit norm, `n` is below one, `sigma` is negative or not finite, or the
        frequency of sinusoidal labels is not a positive number.

    See Also
    --------
    planted : Such labels on images of your own.

    Examples
    --------
    With linear labels, the sign of x·u is the class:

    >>> u = torch.tensor([0.6, 0.8])
    >>> data = isotropic(u, 5)
    >>> (data.X @ u > 0).tolist() == (data.y == 1).tolist()
    True
    """
    _known(labels)
    U = _orthonormal(u)
    alpha = torch.randn(_count(n), generator=generator_for(seed, "isotropic", "alpha"), dtype=torch.float64)
    y = (_of_alpha(labels, alpha, epsilon if frequency is None else frequency) > 0).long()
    X = _assemble(epsilon * alpha[:, None], U, _scale(sigma, "sigma"), n, seed, "isotropic")
    note = f"{labels} labels, epsilon {epsilon:g} along the direction, sigma {sigma:g} elsewhere"
    return Dataset(X.reshape(n, *u.shape), y, "isotropic", ("0", "1"), note)


def planted(
    X: Tensor,  # (samples, *input_shape)
    u: Tensor,
    *,
    labels: Labels = "linear",
    label_noise: float = 0.2,
    scale: float | None = None,
    reference: Tensor | None = None,
    seed: int = 0,
) -> Dataset:
    """Given images with labels planted along a direction.

    y = 1 where the score is above its median. The score is x·u (linear), (x·u)² (quadratic) or sin(x̄·u) (sinusoidal),
    x̄ being x with each channel scaled to variance 1. Label noise is Gaussian noise on the input used for labelling
    only, with label_noise times the channel's variance. Since only its component along u counts, that component is
    drawn.

    Parameters
    ----------
    X : Tensor of shape (samples, *input_shape)
        The images. They are kept as given.
    u : Tensor of shape input_shape
        The direction, of unit norm.
    labels : {"linear", "quadratic", "sinusoidal"}, default "linear"
        How the score follows from x·u.
    label_noise : float, default 0.2
        Variance of the label noise, relative to each channel's variance.
    scale : float, optional
        Sinusoidal labels only: multiply x̄·u (and its label noise) so that its standard deviation is this many radians.
        By default x̄·u stays as it is. `phase_spread` measures how many radians that is.
    reference : Tensor of shape (samples, *input_shape), optional
        Images to compute the variances and the median from; X itself by default. Give the training images when you
        label test images, with the same seed, and both follow one rule.
    seed : int, default 0
        The same seed gives the same label noise.

    Returns
    -------
    Dataset
        X and its classes 0 and 1.

    Raises
    ------
    NetgrainError
        If `labels` is not known, u is not of unit norm, shapes differ, `label_noise` is negative or not finite, or
        `scale` is not a positive number or given for other labels.

    See Also
    --------
    isotropic : Such labels on Gaussian noise.
    phase_spread : Standard deviation of x̄·u.

    Examples
    --------
    Without label noise the two images with the larger first entry are of class 1:

    >>> X = torch.tensor([[4.0, 0.0], [1.0, 9.0], [3.0, 0.0], [2.0, 9.0]])
    >>> planted(X, torch.tensor([1.0, 0.0]), label_noise=0.0).y.tolist()
    [1, 0, 1, 0]
    """
    _known(labels)
    flat_u = _orthonormal(u)[0]
    if X.shape[1:] != u.shape:
        raise NetgrainError(f"images of shape {tuple(X.shape[1:])} and a direction of shape {tuple(u.shape)} differ.")
    if reference is not None and reference.shape[1:] != X.shape[1:]:
        raise NetgrainError(
            f"images have shape {tuple(X.shape[1:])}, the reference {tuple(reference.shape[1:])}; expected the same."
        )
    X = X.cpu()
    base = X if reference is None else reference.cpu()
    by_channel = channels(flat_u.reshape(1, *u.shape))[0]  # (channels, entries)
    std = channel_moments(base)[1]
    if labels == "sinusoidal":
        v, std = _normalised(flat_u, base), (std > 0).double()
    else:
        v = flat_u
    variance = _scale(label_noise, "label_noise") * float((std.square() * by_channel.square().sum(1)).sum())
    factor = _factor(scale, labels, base, v)

    def score(images: Tensor, use: str) -> Tensor:
        noise = torch.randn(len(images), generator=generator_for(seed, "planted", use), dtype=torch.float64)
        along = factor * (_products(images, v) + math.sqrt(variance) * noise)
        return {"linear": along, "quadratic": along.square(), "sinusoidal": along.sin()}[labels]

    rule = score(base, "reference")
    y = ((rule if reference is None else score(X, "others")) > rule.median()).long()
    note = f"images as given, {labels} labels planted along a direction, label noise {label_noise:g}"
    if scale is not None:
        note += f", scaled to {scale:g} radians"
    return Dataset(X, y, "planted", ("0", "1"), note)


def phase_spread(X: Tensor, u: Tensor) -> float:
    """Standard deviation of x̄·u in radians: how fast sinusoidal labels turn.

    x̄ is x with each channel scaled to variance 1. The sine changes its sign every π radians, so at 10 radians a label
    changes about a dozen times between −2 and 2 standard deviations.

    Parameters
    ----------
    X : Tensor of shape (samples, *input_shape)
        The images.
    u : Tensor of shape input_shape
        The direction, of unit norm.

    Returns
    -------
    float
        The standard deviation over the images.

    Raises
    ------
    NetgrainError
        If u is not of unit norm, or its shape is not that of an image.

    See Also
    --------
    planted : Labels whose `scale` sets it.

    Examples
    --------
    With a single entry, x̄·u has variance 1:

    >>> round(phase_spread(torch.tensor([[3.0], [-1.0], [7.0]]), torch.ones(1)), 6)
    1.0
    """
    flat_u = _orthonormal(u)[0]
    if X.shape[1:] != u.shape:
        raise NetgrainError(f"images of shape {tuple(X.shape[1:])} and a direction of shape {tuple(u.shape)} differ.")
    X = X.cpu()
    return float(_products(X, _normalised(flat_u, X)).std(correction=0))


def linear_and_circle(
    u1: Tensor,
    u2: Tensor,
    u3: Tensor,
    n: int,
    *,
    epsilon: float = 1.0,
    radii: tuple[float, float] = (1.5, 0.25),
    noise: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """Two features that each determine the class: a step and a radius in a plane.

    x = ε s u1 + r_y (cos φ · u2 + sin φ · u3) + noise · ω with s = 2y − 1, r_y = radii[y], φ uniform, ω standard normal
    in the complement of all three directions. ``without(data, u1)`` leaves the circle, ``without(data, u2, u3)`` the
    step. Half of the samples (rounded down) are of class 1.

    Parameters
    ----------
    u1 : Tensor of shape input_shape
        Direction of the step.
    u2, u3 : Tensor of shape input_shape
        Directions that span the plane of the circles. All three are unit vectors at right angles.
    n : int
        Number of samples.
    epsilon : float, default 1.0
        Half the height of the step.
    radii : tuple of two floats, default (1.5, 0.25)
        Radius of the circle of class 0 and of class 1.
    noise : float, default 1.0
        Standard deviation in every other direction.
    seed : int, default 0
        The same seed gives the same samples.

    Returns
    -------
    Dataset
        n samples of shape input_shape, and their classes 0 and 1.

    Raises
    ------
    NetgrainError
        If the directions are not orthonormal, `n` is below one, or a radius or `noise` is negative or not finite.

    See Also
    --------
    doughnut : The circles alone.
    without : A data set with directions projected out.

    Examples
    --------
    Along u1 samples are at −1 (class 0) or 1 (class 1), and in the plane at distance 1.5 or 0.25:

    >>> data = linear_and_circle(*torch.eye(3), 4)
    >>> data.X[:, 0].round().tolist() == (2.0 * data.y - 1).tolist()
    True
    >>> (data.X[:, 1:].norm(dim=1) > 1).tolist() == (data.y == 0).tolist()
    True
    """
    U = _orthonormal(u1, u2, u3)
    y = _balanced(n, seed, "linear and circle")
    step = epsilon * (2.0 * y.double() - 1)
    inside = torch.cat([step[:, None], _circle(y, radii, 0.0, seed, "linear and circle")], 1)
    X = _assemble(inside, U, _scale(noise, "noise"), n, seed, "linear and circle")
    note = f"step {epsilon:g}, circles of radius {radii[0]:g} and {radii[1]:g}, noise {noise:g}"
    return Dataset(X.reshape(n, *u1.shape), y, "linear and circle", ("0", "1"), note)


def gaussian_like(G: Spectral, n: int, *, seed: int = 0, flipped: bool = False, classes: int = 2) -> Dataset:
    """Gaussian samples shaped like a geometry, with random labels.

    x ~ N(0, G/‖G‖₂), or N(0, flip(G)/‖flip(G)‖₂) where the strong directions of G are the weak ones. Labels are
    independent and uniform over the classes.

    Parameters
    ----------
    G : Geometry
        The covariance, up to a factor. All of its directions are needed, not only the leading ones.
    n : int
        Number of samples.
    seed : int, default 0
        The same seed gives the same samples.
    flipped : bool, default False
        Take ``G.flip(seed=seed)`` instead of G. Inside blocks of equal eigenvalues the result depends on the seed. Pass
        ``G.flip_blocks()`` as G for the variant that moves blocks as wholes.
    classes : int, default 2
        Number of classes.

    Returns
    -------
    Dataset
        n samples of shape ``G.input_shape``, and classes 0 to classes − 1.

    Raises
    ------
    NetgrainError
        If only leading directions of G were kept, G is zero, or `n` is below one.

    Examples
    --------
    G reacts to the first entry only, so the second one is always zero:

    >>> from netgrain.geometry.value import Geometry
    >>> G = Geometry.from_matrix(torch.tensor([[4.0, 0.0], [0.0, 0.0]]))
    >>> gaussian_like(G, 3).X[:, 1].abs().tolist()
    [0.0, 0.0, 0.0]
    """
    _count(n)
    if getattr(G, "full_trace", None) is not None:
        raise NetgrainError(
            f"only the leading directions of this geometry (d = {G.d}) were kept, so samples with its covariance "
            "cannot be drawn; use a smaller input."
        )
    H = G.flip(seed=seed) if flipped else G
    values = H.eigenvalues.double()
    if len(values) == 0 or float(values[0]) <= 0:
        raise NetgrainError("the geometry is zero; expected one with a positive eigenvalue.")
    rank = int((values > 0).sum())
    root = (values[:rank] / values[0]).sqrt()[:, None] * H.directions(rank).reshape(rank, G.d).double()
    generator = generator_for(seed, "gaussian", "x")
    X = torch.empty(n, G.d)
    for part in X.split(AT_ONCE):
        part.copy_(torch.randn(len(part), rank, generator=generator, dtype=torch.float64) @ root)
    y = torch.randint(classes, (n,), generator=generator_for(seed, "gaussian", "labels"))
    note = f"covariance of the {'flipped ' if flipped else ''}geometry, largest eigenvalue 1; random labels"
    name = "gaussian like flip(G)" if flipped else "gaussian like G"
    return Dataset(X.reshape(n, *G.input_shape), y, name, tuple(map(str, range(classes))), note)


def without(dataset: Dataset, *directions: Tensor) -> Dataset:
    """A data set with directions projected out of every sample: x − Σ (x·u) u.

    Parameters
    ----------
    dataset : Dataset
        The samples.
    *directions : Tensor of shape input_shape
        One or more unit vectors at right angles to each other.

    Returns
    -------
    Dataset
        The projected samples with the same labels; its note records the projection.

    Raises
    ------
    NetgrainError
        If the directions are not orthonormal, none is given, or their shape is not that of a sample.

    See Also
    --------
    linear_and_circle : Data with two features, one of which can be taken away.

    Examples
    --------
    >>> data = Dataset(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 1]))
    >>> without(data, torch.tensor([1.0, 0.0])).X.tolist()
    [[0.0, 2.0], [0.0, 4.0]]
    """
    U = _orthonormal(*directions)
    if tuple(directions[0].shape) != dataset.shape:
        raise NetgrainError(
            f"samples of shape {dataset.shape} and directions of shape {tuple(directions[0].shape)} differ."
        )
    X = torch.empty(len(dataset), U.shape[1])
    for source, target in zip(dataset.X.flatten(1).split(AT_ONCE), X.split(AT_ONCE), strict=True):
        target.copy_(source.double() - (source.double() @ U.T) @ U)
    note = f"{dataset.note}; {len(U)} direction{'s' * (len(U) != 1)} projected out"
    return replace(dataset, X=X.reshape(dataset.X.shape), note=note)


# --- inside ---------------------------------------------------------------------------------------------------


def _orthonormal(*directions: Tensor) -> Tensor:
    """The directions as rows (k, d) in float64, made orthonormal to the last digit; far from it they are refused."""
    if not directions:
        raise NetgrainError("expected at least one direction, found none.")
    shapes = {tuple(u.shape) for u in directions}
    if len(shapes) != 1:
        raise NetgrainError(f"expected directions of one shape, found {sorted(shapes)}.")
    U = torch.stack([u.detach().cpu().double().flatten() for u in directions])
    if U.shape[0] > U.shape[1]:
        raise NetgrainError(f"{U.shape[0]} directions do not fit into {U.shape[1]} dimensions.")
    gram = U @ U.T
    off = float((gram - torch.eye(len(U), dtype=torch.float64)).abs().max())
    if not off <= ORTHONORMAL:  # NaN is refused too
        raise NetgrainError(
            f"the directions are not orthonormal: their inner products differ from the identity by {off:.2g}; "
            "pass orthogonal unit vectors, such as rows of G.directions(k)."
        )
    # the symmetric square root, so that no direction is preferred in mending rounding errors
    values, vectors = torch.linalg.eigh(gram)
    mended: Tensor = vectors @ torch.diag(values.rsqrt()) @ vectors.T @ U
    return mended


def _of_alpha(labels: Labels, alpha: Tensor, frequency: float) -> Tensor:
    """What is above zero for class 1 of isotropic data."""
    if labels == "linear":
        return alpha
    if labels == "quadratic":
        return alpha.square() - HALF_OF_SQUARES
    if not (math.isfinite(frequency) and frequency > 0):
        raise NetgrainError(f"sinusoidal labels need a positive frequency (epsilon by default), got {frequency:g}.")
    return (frequency * alpha).sin()


def _normalised(flat_u: Tensor, base: Tensor) -> Tensor:
    """v with x̄·u = x·v, x̄ having variance 1 in every channel of the base that varies."""
    std = channel_moments(base)[1]
    weight = torch.where(std == 0, torch.ones_like(std), std).reciprocal()
    by_channel: Tensor = channels(flat_u.reshape(1, *base.shape[1:]))[0] * weight[:, None]
    return by_channel.flatten()


def _products(images: Tensor, v: Tensor) -> Tensor:
    return torch.cat([part.flatten(1).double() @ v for part in images.split(AT_ONCE)])


def _factor(scale: float | None, labels: Labels, base: Tensor, v: Tensor) -> float:
    """What x̄·u is multiplied with so that its standard deviation over the base is `scale`."""
    if scale is None:
        return 1.0
    if labels != "sinusoidal" or not (math.isfinite(scale) and scale > 0):
        raise NetgrainError(
            f"scale expects a positive number and sinusoidal labels, got {scale:g} and {labels} labels."
        )
    spread = float(_products(base, v).std(correction=0))
    return scale / spread if spread > 0 else 1.0


def _assemble(inside: Tensor, U: Tensor, sigma: float, n: int, seed: int, use: str) -> Tensor:
    """Coordinates `inside` (n, k) along the rows of U, plus noise in their complement: float32 (n, d)."""
    generator = generator_for(seed, use, "noise")
    X = torch.empty(n, U.shape[1])
    for coordinates, target in zip(inside.split(AT_ONCE), X.split(AT_ONCE), strict=True):
        noise = torch.randn(len(target), U.shape[1], generator=generator, dtype=torch.float64)
        target.copy_(sigma * (noise - (noise @ U.T) @ U) + coordinates @ U)
    return X


def _circle(y: Tensor, radii: tuple[float, float], jitter: float, seed: int, use: str) -> Tensor:
    generator = generator_for(seed, use, "circle")
    angle = 2 * math.pi * torch.rand(len(y), generator=generator, dtype=torch.float64)
    r = torch.tensor([_scale(radius, "radius") for radius in radii], dtype=torch.float64)[y]
    r = r + _scale(jitter, "jitter") * torch.randn(len(y), generator=generator, dtype=torch.float64)
    return torch.stack([r * angle.cos(), r * angle.sin()], 1)


def _balanced(n: int, seed: int, use: str) -> Tensor:
    y = (torch.arange(_count(n)) < n // 2).long()
    return y[torch.randperm(n, generator=generator_for(seed, use, "labels"))]


def _count(n: int) -> int:
    if n < 1:
        raise NetgrainError(f"{n} samples were asked for; expected at least one.")
    return n


def _scale(value: float, name: str) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise NetgrainError(f"{name} {value} was given; expected a finite number that is not negative.")
    return value


def _known(labels: str) -> None:
    if labels not in KINDS:
        raise NetgrainError(f"labels '{labels}' are not known; expected one of {', '.join(KINDS)}.")
