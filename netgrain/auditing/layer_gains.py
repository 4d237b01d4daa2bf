"""Which layer loses a direction: the gain of a direction relative to an average one, after every layer.

    gain_l(u) = E‖J_l u‖² / (E tr J_lᵀJ_l / d),      J_l = ∂h_l/∂x,   h_l the output of layer l,   ‖u‖ = 1

Before the first layer every gain is 1; after the last one it is uᵀGu · d / tr G. A layer's factor is its gain divided
by that of the tensor it was given, so that branches are compared with where they started.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.auditing.layer_watching import BETWEEN, INPUT, Labels, Step, labels_of, watched
from netgrain.families.gradients import check_deterministic
from netgrain.families.members import Family, double_copy, member, model_dtype
from netgrain.families.origin import probe_used
from netgrain.families.probes import Probe
from netgrain.families.reading import read
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.threads import one_thread

AT_ONCE = 32  # directions that pass the network together
STEP = {torch.float64: 1e-5, torch.float32: 1e-2}  # of finite differences, relative to the size of the probe point
NOTHING = {torch.float64: 1e-14, torch.float32: 1e-7}  # gains below this are rounding: zero
SAME = 1e-9  # a step outside the layers that changes no gain by more than this is not listed


@dataclass(frozen=True)
class Loser:
    """The layer at which a direction loses most, and gain after / gain before (0: all of it)."""

    layer: str
    factor: Estimate

    def __repr__(self) -> str:
        return f"{self.layer} (gain × {self.factor})"


@dataclass(frozen=True, eq=False, repr=False)
class LayerProfile:
    """Gains of k directions after every layer of a network, in forward order.

    gain_l(u) = E‖J_l u‖² / (E tr J_lᵀJ_l / d), where J_l = ∂h_l/∂x, h_l is the output of layer l and ‖u‖ = 1. It
    compares the direction u with an average one: before the first layer every gain is 1, and after the last one, the
    output of the network, it is uᵀGu · d / tr G. A layer is one call of a module that has no modules inside; the calls
    of a module that is called twice are "NAME (1 of 2)" and "NAME (2 of 2)". Work done outside such modules, by
    functions, is a step of its own, named "before LAYER" or "output".

    Attributes
    ----------
    names : tuple of str
        Names of the layers.
    gains : Tensor of shape (k, layers)
        Gain of each direction after each layer, in float64. NaN where a layer lets nothing through at all.
    errors : Tensor of shape (k, layers)
        Standard errors of the gains over members; NaN if there is only one member.
    factors : Tensor of shape (k, layers)
        Gain after a layer divided by the gain of the layer's own input, so that a branch is compared with where it
        started.
    factor_errors : Tensor of shape (k, layers)
        Standard errors of the factors.
    members : int
        Number of random networks behind the averages.
    probe : str
        Where x came from.
    notes : tuple of str
        Remarks, for example that the network does not run in double precision.

    See Also
    --------
    layer_profile : Computes it.
    """

    names: tuple[str, ...]
    gains: Tensor  # (k, layers) float64
    errors: Tensor  # (k, layers) standard errors of the gains over members
    factors: Tensor  # (k, layers): gain after / gain of the layer's own input
    factor_errors: Tensor  # (k, layers)
    members: int
    probe: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def gain(self, j: int, layer: str) -> Estimate:
        """Gain of one direction after one layer.

        Parameters
        ----------
        j : int
            Index of the direction, from 0.
        layer : str
            A name in `names`.

        Returns
        -------
        Estimate
            The gain with its standard error over members.

        Raises
        ------
        NetgrainError
            If there is no such layer.
        """
        if layer not in self.names:
            raise NetgrainError(f"there is no layer '{layer}'; expected one of {', '.join(self.names)}.")
        column = self.names.index(layer)
        return Estimate(float(self.gains[j, column]), float(self.errors[j, column]), self.members)

    def loser(self, j: int = 0) -> Loser:
        """The layer at which a direction loses most: the one with the smallest factor.

        Parameters
        ----------
        j : int, default 0
            Index of the direction, from 0.

        Returns
        -------
        Loser
            Name and factor of the layer; the first such layer if several factors are 0. A factor of 1 or more means
            that no layer loses the direction.

        Raises
        ------
        NetgrainError
            If there is no such direction.
        """
        if not 0 <= j < len(self.gains):
            raise NetgrainError(f"direction {j} was asked for; expected 0 to {len(self.gains) - 1}.")
        column = int(self.factors[j].nan_to_num(math.inf, posinf=math.inf).argmin())
        factor = Estimate(float(self.factors[j, column]), float(self.factor_errors[j, column]), self.members)
        return Loser(self.names[column], factor)

    def __repr__(self) -> str:
        k = len(self.gains)
        shown = [
            f"direction {j}: gain {float(self.gains[j, -1]):.3g}, least at {self.loser(j)}" for j in range(min(k, 4))
        ]
        more = [f"and {k - 4} more"] if k > 4 else []
        head = f"{len(self)} layers, {self.members} member{'s' * (self.members != 1)}, probe {self.probe}"
        return f"LayerProfile({head}; {'; '.join(shown + more)})"


@one_thread()
def layer_profile(
    make: Family,
    directions: Tensor,  # (k, *input_shape), any length but zero
    *,
    probe: Probe | None = None,
    members: int = 32,
    random: int = 8,
    probes: int = 1,
    seed: int = 0,
) -> LayerProfile:
    """Gains of given directions after every layer of a family of networks.

    gain_l(u) = E‖J_l u‖² / (E tr J_lᵀJ_l / d) over fresh members, where J_l = ∂h_l/∂x, h_l is the output of layer l and
    ‖u‖ = 1. A gain falls where a layer loses the direction.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call.
    directions : Tensor of shape (k, *input_shape)
        The directions u. They are scaled to unit length, so any length but zero will do.
    probe : Probe, optional
        Where x comes from: ``Origin()``, ``Gaussian(sigma)`` or ``Data(X)``. By default the origin, or its limit σ → 0
        if the network has a kink there.
    members : int, default 32
        Number of random networks to average over.
    random : int, default 8
        Number of random unit vectors per member that represent an average direction; a whole basis is used if d is no
        larger.
    probes : int, default 1
        Number of points x for each member.
    seed : int, default 0
        Network i depends on ``(seed, i)`` only.

    Returns
    -------
    LayerProfile
        Gains and factors of the k directions at each layer, with standard errors.

    Raises
    ------
    NetgrainError
        If a direction is zero or not finite, if `members`, `random` or `probes` is not a positive whole number, or if
        the members do not all call the same layers.

    See Also
    --------
    visible : What a network makes of one pattern.

    Notes
    -----
    J_l u comes from central differences in double precision on the CPU, or in the network's own precision where the
    network does not run in double.

    Examples
    --------
    A matrix with singular values 2 and 0, then one that turns and doubles. The average of ‖J u‖² over both directions
    is (4 + 0)/2 after the first layer, so the gains are 4/2 and 0, and the second layer does not change them:

    >>> from torch import nn
    >>> def make():
    ...     net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    ...     net[0].weight.data = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    ...     net[1].weight.data = torch.tensor([[0.0, -2.0], [2.0, 0.0]])
    ...     return net
    >>> profile = layer_profile(make, torch.eye(2), members=2)
    >>> profile.gains.round(decimals=6).tolist(), profile.loser(1).layer
    ([[2.0, 2.0], [0.0, 0.0]], '0')
    """
    units = _units(directions)
    shape, k = tuple(units.shape[1:]), len(units)
    members, random, probes = whole("members", members, 1), whole("random", random, 1), whole("probes", probes, 1)
    reading = read(make, shape, seed)
    model = reading.member
    x = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)).to(model_dtype(model))
    check_deterministic(model, x)
    resolved = probe_used(probe, model, shape, "all")
    labels = labels_of(reading.calls())
    doubled = model_dtype(double_copy(model, shape)) == torch.float64  # not where constants are in single precision
    dtype = torch.float64 if doubled else torch.float32

    def passed(i: int) -> tuple[list[Step[Tensor]], Tensor]:
        points = resolved.probe.points(shape, probes, derived_seed(seed, "probe", i)).to(dtype)
        vectors = torch.cat([units, _random_units(shape, random, derived_seed(seed, "layers", i))]).to(dtype)
        return measured(member(make, seed, i).to(dtype), labels, points, vectors)

    found = [passed(i) for i in range(members)]
    steps = found[0][0]
    if any([s.name for s in others] != [s.name for s in steps] for others, _ in found):
        raise NetgrainError("the members do not all call the same layers; expected one order for all of them.")
    along = torch.stack([squares[:k] for _, squares in found])
    average = torch.stack([squares[k:].mean(0) for _, squares in found])
    notes = [] if resolved.why is None else [str(resolved.why)]
    if not doubled:
        notes.append("differences in single precision: the network does not run in double")
    return _summary(steps, along, average, NOTHING[dtype], resolved.text, tuple(notes))


# --- one member ----------------------------------------------------------------------------------------------------


def measured(model: nn.Module, labels: Labels, points: Tensor, vectors: Tensor) -> tuple[list[Step[Tensor]], Tensor]:
    """All steps of one member, and their squares (directions, steps), averaged over the points."""
    passes = [[_passed(model, labels, x, piece) for piece in vectors.split(AT_ONCE)] for x in points]
    squares = [torch.cat([torch.stack([s.found for s in steps], 1) for steps in pieces]) for pieces in passes]
    return passes[0][0], torch.stack(squares).mean(0)


def _passed(model: nn.Module, labels: Labels, x: Tensor, vectors: Tensor) -> list[Step[Tensor]]:
    """‖J_l v‖² for every direction v at every step, from the pairs x ± εv."""
    size = float(x.square().mean().sqrt())
    epsilon = STEP[x.dtype] * (min(1.0, size) if size > 0 else 1.0)

    def squares(_: str, t: Tensor) -> Tensor:
        ahead, behind = t.reshape(2, len(vectors), -1)
        found: Tensor = ((ahead - behind) / (2 * epsilon)).double().square().sum(1)
        return found

    return watched(model, labels, torch.cat([x + epsilon * vectors, x - epsilon * vectors]), squares)


# --- over members --------------------------------------------------------------------------------------------------


def _summary(
    steps: list[Step[Tensor]], along: Tensor, average: Tensor, nothing: float, probe: str, notes: tuple[str, ...]
) -> LayerProfile:
    """Ratios of means over members, with linearised errors; along (members, k, steps), average (members, steps)."""
    m = len(along)
    mean_average = average.mean(0)
    gains = along.mean(0) / mean_average
    gains = torch.where(gains < nothing, 0.0, gains)
    # what each member adds to the relative error of a gain
    share = (along / mean_average - gains * (average / mean_average)[:, None]) / gains.clamp(min=1e-300)
    share = torch.where(gains == 0, 0.0, share)

    def spread(t: Tensor) -> Tensor:
        return t.std(0) / math.sqrt(m) if m > 1 else torch.full_like(t[0], math.nan)

    sources = [step.source for step in steps]
    kept: list[int] = []
    columns_before, shares_before = [], []
    for i, step in enumerate(steps):
        source = sources[i]
        before = torch.ones_like(gains[:, 0]) if source == INPUT else gains[:, source]
        unchanged = torch.allclose(gains[:, i], before, rtol=SAME if nothing < 1e-10 else 1e-4, atol=nothing)
        if unchanged and step.name.startswith(BETWEEN):
            sources = [source if s == i else s for s in sources]
            continue
        kept.append(i)
        columns_before.append(before)
        shares_before.append(torch.zeros_like(share[..., 0]) if source == INPUT else share[..., source])
    before, share_before = torch.stack(columns_before, 1), torch.stack(shares_before, 2)
    gains, share = gains[:, kept], share[..., kept]
    # a direction that was lost before is not lost again
    factors = torch.where(before == 0, 1.0, gains / before.clamp(min=1e-300))
    return LayerProfile(
        names=tuple(steps[i].name for i in kept),
        gains=gains,
        errors=spread(share) * gains,
        factors=factors,
        factor_errors=spread(share - share_before) * factors,
        members=m,
        probe=probe,
        notes=notes,
    )


def _units(directions: Tensor) -> Tensor:
    vectors = torch.as_tensor(directions).detach().cpu().double()
    if vectors.dim() < 2 or vectors.numel() == 0:
        raise NetgrainError(f"expected directions of shape (k, *input_shape), found {tuple(vectors.shape)}.")
    norms = torch.linalg.vector_norm(vectors.flatten(1), dim=1)
    if not bool(torch.isfinite(norms).all()) or bool((norms == 0).any()):
        bad = int((~torch.isfinite(norms) | (norms == 0)).nonzero()[0])
        raise NetgrainError(f"direction {bad} has length {float(norms[bad]):g}; expected finite and not zero.")
    units: Tensor = vectors / norms.reshape(-1, *[1] * (vectors.dim() - 1))
    return units


def _random_units(shape: tuple[int, ...], count: int, seed: int) -> Tensor:
    d = math.prod(shape)
    if d <= count:
        return torch.eye(d, dtype=torch.float64).reshape(d, *shape)
    v = torch.randn(count, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    units: Tensor = v / torch.linalg.vector_norm(v, dim=1, keepdim=True)
    return units.reshape(count, *shape)
