"""What a change of an architecture gives back: a family with submodules swapped, its geometry before and after."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from netgrain.auditing.advice import scores_of
from netgrain.auditing.advised import Row
from netgrain.auditing.gains import gain_estimates
from netgrain.auditing.known_network import Change
from netgrain.auditing.places import SHARES, where
from netgrain.auditing.swapped import Replacement, Swapped
from netgrain.families.members import Family
from netgrain.families.outputs import Output
from netgrain.families.probes import Probe
from netgrain.geometry.average import average_geometry
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.symmetric import corr
from netgrain.geometry.value import Geometry
from netgrain.learning.targets import Target
from netgrain.runtime.arguments import checked_shape, whole
from netgrain.runtime.errors import NetgrainError, did_you_mean

MOST_DENSE = 1024  # dimensions up to which the difference is decomposed as a whole
ROUNDING = 1e-6  # a gain below this share of an average direction is none


@dataclass(frozen=True, eq=False, repr=False)
class WhatIf:
    """The geometry of a family before and after a change, and what lies between them.

    Where a geometry was sampled, the directions that gained most were chosen on the same sample, which makes their
    gains a little too large.

    Parameters
    ----------
    family : Swapped
        The changed family, a callable that returns a fresh module.
    before, after : Geometry
        G without and with the change.
    correlation : Estimate
        Corr(before, after); NaN where one of them is zero.
    gained : Tensor of shape (k, *input_shape)
        The directions that gained most, with unit norm: eigenvectors of after / tr(after) − before / tr(before) with
        the largest positive eigenvalues, as many as there are.
    gained_before, gained_after : tuple of Estimate
        Their gains relative to an average direction.
    scores : Row, optional
        Expected score before and after, and the gain, where labelled samples were given.

    See Also
    --------
    what_if : Makes one.
    """

    family: Swapped
    before: Geometry
    after: Geometry
    correlation: Estimate
    gained: Tensor
    gained_before: tuple[Estimate, ...]
    gained_after: tuple[Estimate, ...]
    scores: Row | None = None

    @property
    def directions_for(self) -> dict[float, tuple[int | None, int | None]]:
        """Numbers of directions that carry 50%, 90% and 99% of G, before and after.

        None means more directions than were computed.
        """
        return {share: (self.before.directions_for(share), self.after.directions_for(share)) for share in SHARES}

    def __repr__(self) -> str:
        changes = self.family.changes
        for G, when in ((self.before, "before"), (self.after, "after")):
            if G.trace.value == 0:
                return f"WhatIf({changes}: {when} the change the network does not react to its input)"
        counts = [
            "/".join("?" if pair[i] is None else str(pair[i]) for pair in self.directions_for.values()) for i in (0, 1)
        ]
        facts = [
            f"G {where(self.before)}",
            f"directions for 50/90/99 % of the geometry {counts[0]} → {counts[1]} of {self.before.d}",
            f"Corr(before, after) {self.correlation}",
            f"tr G × {self.after.trace.value / self.before.trace.value:.3g}",
        ]
        if len(self.gained):
            facts.append(
                f"the direction that gained most: {self.gained_before[0].value:.3g} → {self.gained_after[0].value:.3g} "
                "times an average one"
            )
        if self.scores is not None:
            facts.insert(0, repr(self.scores))
        return f"WhatIf({changes}: {'; '.join(facts)})"


def what_if(
    make: Family,
    swap: Mapping[str, Replacement],
    input_shape: Sequence[int] | None = None,
    *,
    X: Tensor | None = None,
    y: Tensor | None = None,
    target: Target | None = None,
    samples: int | None = None,
    keep: int = 8,
    method: Literal["auto", "closed-form", "sampled"] = "auto",
    probe: Probe | None = None,
    output: Output = "all",
    members: int | None = None,
    tolerance: float | None = None,
    probes: int | None = None,
    first_layer: Literal["auto", "never", "always"] = "auto",
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> WhatIf:
    """What a family sees and will learn, before and after layers are replaced.

    Both geometries are taken in the same way. Weights that are not replaced are the same before and after. With
    labelled samples the expected score is predicted for both, sample by sample, so that the gain has an error.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call.
    swap : mapping of str to Module or callable
        Dotted names of submodules, and what replaces each: a module, whose parameters are drawn anew for every member,
        or a callable that returns a fresh one.
    input_shape : sequence of int, optional
        Shape of one input without the batch axis; by default that of X.
    X : Tensor of shape (samples, *input_shape), optional
        Samples as the network gets them.
    y : Tensor of shape (samples,), optional
        Their labels: classes as whole numbers, or numbers.
    target : {"classes", "numbers"}, optional
        Whether y holds classes or numbers; needed for floating-point labels with few values.
    samples : int, optional
        Number of samples behind the scores; by default as many as a fixed cost allows, at most 1,000.
    keep : int, default 8
        How many of the directions that gained most to return.
    method : {"auto", "closed-form", "sampled"}, default "auto"
        How both geometries are obtained, as in `average_geometry`.
    probe : Probe, optional
        Where they are taken: the origin by default, ``Data(X)`` for your samples.
    output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
        Outputs whose gradients count.
    members : int, optional
        Number of networks to sample for each geometry.
    tolerance : float, optional
        Stop sampling once the expected correlation with the true G reaches ``1 - tolerance``.
    probes : int, optional
        Points for each network (sampled), or in total (closed form).
    first_layer : {"auto", "never", "always"}, default "auto"
        Whether sampling averages over the first layer exactly.
    seed : int, default 0
        Network i depends on ``(seed, i)`` only.

    Returns
    -------
    WhatIf
        Both geometries, their correlation, the directions that gained most, and scores where there are labels.

    Other Parameters
    ----------------
    device : torch.device or str, optional
        Device for sampling.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Raises
    ------
    NetgrainError
        If a name matches no submodule, if the network does not run with the replacement, or if X and y or the shape are
        missing.

    See Also
    --------
    average_geometry : The geometry of one family, and what the options mean.
    audit : Tries changes on your data with ``swaps=``.

    Examples
    --------
    An average pool over two neighbours hides their difference (1, −1); without the pool its gain is that of their sum.

    >>> def make():
    ...     return nn.Sequential(nn.AvgPool1d(2), nn.Flatten(), nn.Linear(1, 1, bias=False))
    >>> swap = {"0": nn.Identity(), "2": nn.Linear(2, 1, bias=False)}
    >>> answer = what_if(make, swap, (1, 2), keep=1)
    >>> answer.directions_for[0.99], answer.gained[0, 0].abs().mul(2**0.5).round(decimals=6).tolist()
    ((1, 2), [1.0, 1.0])
    >>> answer.gained_before[0].value, round(answer.gained_after[0].value, 6)
    (0.0, 1.0)
    """
    sizes = X.shape[1:] if X is not None and input_shape is None else input_shape
    if (X is None) != (y is None) or sizes is None:
        raise NetgrainError("what_if expects input_shape, or labelled samples as X=… and y=…; give one of them.")
    keep, shape = whole("keep", keep, 1), checked_shape(sizes)

    def geometry(family: Family) -> Geometry:
        return average_geometry(
            family,
            shape,
            method=method,
            probe=probe,
            output=output,
            members=members,
            tolerance=tolerance,
            probes=probes,
            first_layer=first_layer,
            seed=seed,
            device=device,
            progress=progress,
        )

    family = Swapped(make, swap)
    before = geometry(make)
    family.check_fits(shape)
    after = geometry(family)
    scores = None
    if X is not None and y is not None:
        change = Change(family.changes, f"replace {family.changes}", "swap", family)
        scores = scores_of(make, change, X, y, target=target, samples=samples, seed=seed)
    zero = before.trace.value == 0 or after.trace.value == 0
    if zero or before.full_trace is not None or after.full_trace is not None:
        c = Estimate(float("nan")) if zero else corr(before, after)
        return WhatIf(family, before, after, c, torch.zeros(0, *shape, dtype=torch.float64), (), (), scores)
    gained = _gained(before, after, min(keep, before.d)).reshape(-1, *shape)
    return WhatIf(
        family,
        before,
        after,
        corr(before, after),
        gained,
        gain_estimates(before, gained),
        gain_estimates(after, gained),
        scores,
    )


def _gained(before: Geometry, after: Geometry, k: int) -> Tensor:
    """Eigenvectors (≤ k, d) of the largest positive eigenvalues of G'/tr G' − G/tr G."""
    a, b = after.trace.value, before.trace.value
    if before.d <= MOST_DENSE:
        difference = after.matrix() / a - before.matrix() / b
        ascending, columns = torch.linalg.eigh(difference)
        values, vectors = ascending.flip(0)[:k], columns.T.flip(0)[:k]
        least = float(ascending[0])
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        def times(v: Any) -> Any:
            column = torch.from_numpy(v.reshape(1, -1).copy())
            return (after.form.matvec(column) / a - before.form.matvec(column) / b)[0].numpy()

        start = torch.randn(before.d, generator=torch.Generator().manual_seed(0), dtype=torch.float64).numpy()
        operator = LinearOperator((before.d, before.d), matvec=times, dtype=start.dtype)
        found, rows = eigsh(operator, k, which="LA", v0=start, tol=1e-6)
        order = found.argsort()[::-1].copy()
        values, vectors = torch.from_numpy(found[order]), torch.from_numpy(rows.T[order])
        least = -float(values[0])
    # the rest of the difference: directions that stayed or lost
    vectors = vectors[values > max(ROUNDING / before.d, ROUNDING * abs(least))]
    largest = vectors.gather(1, vectors.abs().argmax(1, keepdim=True))
    signed: Tensor = vectors * largest.sign()
    return signed


# --- as written on the command line ----------------------------------------------------------------------------------


def parsed_swaps(changes: Sequence[str]) -> dict[str, nn.Module]:
    """NAME=LAYER(arguments) → a module of torch.nn; arguments are plain values, nothing else is evaluated.

    >>> parsed_swaps(["pool1=AvgPool2d(2, stride=1)"])
    {'pool1': AvgPool2d(kernel_size=2, stride=1, padding=0)}
    """
    found: dict[str, nn.Module] = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise NetgrainError(f"a change is written NAME=LAYER as in \"pool1=AvgPool2d(2)\", found '{change}'.")
        found[name.strip()] = _layer(text.strip())
    return found


def _layer(text: str) -> nn.Module:
    try:
        call = ast.parse(text if "(" in text else text + "()", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError
        args = [ast.literal_eval(a) for a in call.args]
        kwargs = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg is not None}
    except (SyntaxError, ValueError) as e:
        raise NetgrainError(f"'{text}' is not a layer with plain arguments; write it as AvgPool2d(2) or GELU().") from e
    layers = [n for n in dir(nn) if isinstance(getattr(nn, n), type) and issubclass(getattr(nn, n), nn.Module)]
    if call.func.id not in layers:
        hint = did_you_mean(call.func.id, layers) or " Expected a class of torch.nn."
        raise NetgrainError(f"torch.nn has no layer {call.func.id!r}.{hint}")
    try:
        made = getattr(nn, call.func.id)(*args, **kwargs)
    except (TypeError, ValueError, RuntimeError) as e:
        raise NetgrainError(f"'{text}' could not be made ({e}); check its arguments.") from e
    assert isinstance(made, nn.Module)
    return made
