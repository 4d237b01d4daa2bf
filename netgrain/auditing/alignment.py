"""A fixed orthogonal transform of the input that turns the label signal into the grain of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from netgrain.auditing.linear_rules import shrunk
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for
from netgrain.runtime.samples import check_two_classes, checked_labels, checked_samples

MOST = 8  # directions turned
SIGMAS = 4.0  # what is found on one half of the samples must show on the other by so many standard errors


class Align(nn.Module):
    """An orthogonal transform of the input, to be put before a network.

    x ↦ Q x with Q = H_k … H_1, a product of reflections H_j = I − 2 r_j r_jᵀ. It keeps distances and loses nothing. It
    has no parameters to train, so ``nn.Sequential(align, network)`` is a model like any other; its state dict holds the
    reflections.

    Parameters
    ----------
    reflections : Tensor of shape (k, d)
        The rows r_j, with unit norm.
    input_shape : sequence of int
        Shape of one input without the batch axis.

    See Also
    --------
    align : Finds the reflections that turn a label into the grain of a network.

    Examples
    --------
    Reflecting (1, −1) / √2 swaps the two coordinates.

    >>> swap = Align(torch.tensor([[1.0, -1.0]]) / math.sqrt(2), (2,))
    >>> swap(torch.tensor([[3.0, 5.0]])).round(decimals=5).tolist()
    [[5.0, 3.0]]
    """

    reflections: Tensor  # (k, d), unit rows

    def __init__(self, reflections: Tensor, input_shape: Sequence[int]) -> None:
        super().__init__()
        self.input_shape = tuple(input_shape)
        self.register_buffer("reflections", reflections.float())

    def forward(self, x: Tensor) -> Tensor:
        return self._reflected(x, self.reflections)

    def inverse(self, x: Tensor) -> Tensor:
        """Undo the transform.

        Parameters
        ----------
        x : Tensor of shape (batch, *input_shape)
            Transformed inputs.

        Returns
        -------
        Tensor of shape (batch, *input_shape)
            The inputs as they were before.
        """
        return self._reflected(x, self.reflections.flip(0))

    def matrix(self) -> Tensor:
        """The matrix Q, of shape (d, d)."""
        eye = torch.eye(self.reflections.shape[1], device=self.reflections.device)
        return self.forward(eye.reshape(-1, *self.input_shape)).flatten(1).T

    def _reflected(self, x: Tensor, rows: Tensor) -> Tensor:
        if tuple(x.shape[1:]) != self.input_shape:
            raise NetgrainError(f"expected inputs of shape (batch, *{self.input_shape}), found {tuple(x.shape)}.")
        flat = x.flatten(1)
        for r in rows.to(flat.dtype):
            flat = flat - 2 * (flat @ r)[:, None] * r
        return flat.reshape(x.shape)

    def extra_repr(self) -> str:
        return f"{len(self.reflections)} directions of {self.input_shape}"


def align(G: Geometry, X: Tensor, y: Tensor, *, most: int = MOST, seed: int = 0) -> Align:
    """Turn the directions that carry a label onto the leading directions of G.

    Those directions are the linear discriminants and, for labels that are not linear, the directions along which the
    classes differ in variance. Each is found on one half of the samples and confirmed on the other. The k-th is turned
    onto the k-th eigenvector of G; everything else moves little.

    Parameters
    ----------
    G : Geometry
        The geometry of the family that will be trained.
    X : Tensor of shape (samples, *input_shape)
        The training samples.
    y : Tensor of shape (samples,)
        Their labels, 0 to classes − 1.
    most : int, default 8
        Largest number of directions to turn.
    seed : int, default 0
        Chooses the halves of the samples.

    Returns
    -------
    Align
        The transform. Apply it to every input, in training and after.

    Raises
    ------
    NetgrainError
        If no direction carries the label (class means and variances agree within noise).

    See Also
    --------
    audit : Shows whether the label lies along weak directions.

    Examples
    --------
    The label is the sign of the last of three coordinates, and G has its largest eigenvalue along the first one.

    >>> X = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    >>> G = Geometry.from_matrix(torch.diag(torch.tensor([3.0, 2.0, 1.0])))
    >>> turned = align(G, X, (X[:, 2] > 0).long())(torch.tensor([[0.0, 0.0, 1.0]]))
    >>> turned.abs().round(decimals=1).tolist()
    [[1.0, 0.0, 0.0]]
    """
    if G.d != X[0].numel():
        raise NetgrainError(f"the data have {X[0].numel()} entries a sample, the geometry {G.d}; use the same input.")
    W = label_directions(X, y, most=most, seed=seed)
    if not len(W):
        raise NetgrainError(
            "no direction along which the label shows was found (class means and variances agree within noise), "
            "so there is nothing to turn; pass more samples, or a label that depends on a few directions."
        )
    V = G.directions(len(W)).flatten(1)
    reflections: list[Tensor] = []
    for j in range(len(W)):
        w = W[j]
        for r in reflections:
            w = w - 2 * (w @ r) * r
        # either sign will do: the nearer one moves the input less
        target = V[j] if float(w @ V[j]) >= 0 else -V[j]
        difference = w - target
        length = float(difference.norm())
        if length > 1e-9:
            reflections.append(difference / length)
    rows = torch.stack(reflections) if reflections else torch.zeros(0, G.d, dtype=torch.float64)
    return Align(rows, tuple(X.shape[1:]))


def label_directions(X: Tensor, y: Tensor, *, most: int = MOST, seed: int = 0) -> Tensor:
    """Orthonormal directions (k, d) along which the label shows, linear ones first; k may be 0."""
    flat = checked_samples(X).cpu().flatten(1).double()
    y = checked_labels(y, len(flat)).cpu()
    check_two_classes(y)
    found, other = torch.randperm(len(y), generator=generator_for(seed, "label directions")).chunk(2)
    chosen: list[Tensor] = []
    for candidate, shows in _candidates(flat[found], y[found]):
        rest = _apart_from(chosen, candidate)
        if float(rest.norm()) < 0.1 or len(chosen) == most:
            continue
        rest = rest / rest.norm()
        if shows(flat[other] @ rest, y[other]):
            chosen.append(rest)
    if not chosen:
        return torch.zeros(0, flat.shape[1], dtype=torch.float64)
    return _refined(flat, y, torch.stack(chosen))


def _apart_from(others: list[Tensor], v: Tensor) -> Tensor:
    """The part of v that is orthogonal to orthonormal others."""
    return v - sum(((v @ c) * c for c in others), torch.zeros_like(v))


def _candidates(X: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Callable[[Tensor, Tensor], bool]]]:
    """Discriminants, then directions of unequal variance, each with its test on fresh samples."""
    classes = y.unique().tolist()
    mean = X.mean(0)
    means = torch.stack([X[y == c].mean(0) - mean for c in classes])
    within = torch.cat([X[y == c] - X[y == c].mean(0) for c in classes])
    covariance = within.T @ within / len(X)
    rule = torch.linalg.solve(shrunk(covariance, len(X)), means.T).T
    _, strengths, rows = torch.linalg.svd(rule, full_matrices=False)
    for row, strength in zip(rows, strengths, strict=True):
        if float(strength) > 1e-9 * float(strengths[0]):
            yield row, _differs
    for c in classes:
        mine = X[y == c] - X[y == c].mean(0)
        values, vectors = torch.linalg.eigh(mine.T @ mine / len(mine) - covariance)
        for i in values.abs().argsort(descending=True)[:2].tolist():
            yield vectors[:, i], _variances_differ


def _variances_differ(z: Tensor, y: Tensor) -> bool:
    return _differs((z - z.mean()).square(), y)


def _differs(z: Tensor, y: Tensor) -> bool:
    """Whether the mean of z in some class is off the mean of the others by SIGMAS standard errors."""
    for c in y.unique():
        a, b = z[y == c], z[y != c]
        if len(a) > 1 and len(b) > 1:
            error = math.sqrt(float(a.var() / len(a) + b.var() / len(b)))
            if abs(float(a.mean() - b.mean())) > SIGMAS * error:
                return True
    return False


def _refined(X: Tensor, y: Tensor, W: Tensor) -> Tensor:
    """The directions again from all samples: each candidate of all samples nearest to a chosen one takes its place."""
    all_of_it = [row / row.norm() for row, _ in _candidates(X, y)]
    out: list[Tensor] = []
    for w in W:
        best = max(all_of_it, key=lambda row: abs(float(row @ w)))
        rest = _apart_from(out, best)
        use = _apart_from(out, rest if abs(float(best @ w)) > 0.5 and float(rest.norm()) > 0.1 else w)
        if float(use.norm()) > 0.1:
            out.append(use / use.norm())
    return torch.stack(out)
