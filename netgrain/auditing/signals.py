"""How strongly does this family react to this pattern? Where a signal stands among all directions; who loses it.

    g(u) = uᵀGu · d / tr G,      u = signal / ‖signal‖

g = 1 is an average direction. The words are about g alone, at the probe where G is taken:

    zero        g = 0
    very weak   g < 0.001       one thousandth of the squared gradient of an average direction
    weak        g < 1/3
    average     1/3 ≤ g < 3
    strong      g ≥ 3

They say how strongly a fresh network reacts to the pattern compared with others, not whether it can be learnt. Only
what is lost before the first activation is called invisible: to that no network of the family reacts, at any input
(netgrain.auditing.invisible), and only where networks of its kind were trained on such patterns
(netgrain.auditing.words).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from netgrain.auditing.gains import ROUNDING, gain_estimates
from netgrain.auditing.invisible import invisible_within
from netgrain.auditing.layer_gains import LayerProfile, Loser, layer_profile
from netgrain.auditing.words import word_for_lost
from netgrain.families.members import Family
from netgrain.families.outputs import Output
from netgrain.families.prepared import prepared
from netgrain.families.probes import Probe
from netgrain.families.reading import read
from netgrain.families.sizes import operations
from netgrain.geometry.average import average_geometry
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.spectrum import FULL_LIMIT
from netgrain.geometry.value import Geometry
from netgrain.runtime.arguments import checked_shape
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for
from netgrain.runtime.snippets import snippet

VERY_WEAK, WEAK, STRONG = 1e-3, 1 / 3, 3.0
RANDOM = 1000  # random directions that a signal is ranked among
LOOKED_AT, FEWEST_LOOKED_AT = 32, 2  # networks that are looked at layer by layer
PASSES = 18  # through each of them: two for the pattern and for each of eight random ones
WORK = 2e12  # operations of all of them: a minute or two of one core
SIGMAS = 2.0  # how far a gain may be off when the words around it are named
SAME = 1e-6  # relative: eigenvalues closer than this to uᵀGu are equal to it


def word_for(gain: float) -> str:
    """The word for a gain relative to an average direction.

    >>> [word_for(g) for g in (0.0, 1e-4, 0.1, 1.0, 3.0)]
    ['zero', 'very weak', 'weak', 'average', 'strong']
    """
    if gain <= ROUNDING:
        return "zero"
    words = (("very weak", VERY_WEAK), ("weak", WEAK), ("average", STRONG))
    return next((word for word, below in words if gain < below), "strong")


def _reach(value: Estimate) -> float:
    return SIGMAS * (0.0 if math.isnan(value.stderr) else value.stderr)


@dataclass(frozen=True, eq=False, repr=False)
class Visibility:
    """How strongly a family of networks reacts to a signal, where G is taken.

    Parameters
    ----------
    direction : Tensor of shape input_shape
        The signal u with unit norm.
    gain : Estimate
        uᵀGu relative to an average direction.
    among_random : float
        Share of random unit directions v with vᵀGv below uᵀGu.
    among_eigenvalues : float
        Share of the d eigenvalues below uᵀGu, equal ones counted half; NaN where that is not known.
    G : Geometry
        The geometry behind it.
    invisible : bool
        Whether the signal is lost before the first activation, so that no network of the family reacts to it at any
        input.
    profile : LayerProfile, optional
        The gain after every layer.

    See Also
    --------
    visible : Makes one.
    """

    direction: Tensor
    gain: Estimate
    among_random: float
    among_eigenvalues: float
    G: Geometry
    invisible: bool
    profile: LayerProfile | None = None

    @property
    def word(self) -> str:
        """The gain in a word: strong, average, weak, very weak, zero or invisible.

        Strong from 3 times an average direction upwards, average from 1/3, weak from 1/1000. Invisible is only what no
        input makes the network react to.
        """
        return "invisible" if self.invisible else word_for(self.gain.value)

    @property
    def words(self) -> tuple[str, str]:
        """The words two standard errors below and above the gain."""
        if self.invisible:
            return self.word, self.word
        reach = _reach(self.gain)
        return word_for(self.gain.value - reach), word_for(self.gain.value + reach)

    @property
    def loser(self) -> Loser | None:
        """The layer at which the signal loses most, with its factor.

        None where no layer loses it by more than two standard errors, or if layers were not examined.
        """
        found = None if self.profile is None else self.profile.loser(0)
        return found if found is not None and found.factor.value + _reach(found.factor) < 1 else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        Returns
        -------
        dict
            Word, gain, ranks, probe and the layer that loses the signal.
        """
        lost = self.loser
        return {
            "word": self.word,
            "gain": self.gain.as_dict(),
            "among_random": self.among_random,
            "among_eigenvalues": None if math.isnan(self.among_eigenvalues) else self.among_eigenvalues,
            "invisible": self.invisible,
            "probe": str(self.G.about.probe) or None,
            "lost_at": None if lost is None else {"layer": lost.layer, "factor": lost.factor.as_dict()},
        }

    def __repr__(self) -> str:
        low, high = self.words
        where = "" if self.invisible or not self.G.about.probe.used else f" at the probe {self.G.about.probe}"
        verdict = self.word + where + ("" if low == high else f" ({low} to {high} within its error)")
        gain = f"{self.gain.value:.3g}" + (f" ± {self.gain.stderr:.1g}" if self.gain.stderr > 0 else "")
        ranks = f"above {self.among_random:.0%} of random directions"
        if not math.isnan(self.among_eigenvalues):
            ranks += f" and {self.among_eigenvalues:.0%} of the network's own"
        facts = [f"gain {gain} of an average direction", ranks]
        if self.invisible:
            facts.append("no network of the family reacts to it at any input: it is lost before the first activation")
        if self.profile is not None:
            facts.append(f"loses most at {self.loser}" if self.loser else "no single layer loses it")
        return f"Visibility({verdict}: {'; '.join(facts)})"

    def _repr_html_(self) -> str:
        title, _, facts = repr(self).removeprefix("Visibility(").removesuffix(")").partition(": ")
        return snippet(title, [("", fact) for fact in facts.split("; ")])


def _invisible(make: Family, u: Tensor, gain: Estimate, seed: int) -> bool:
    """Whether a signal is lost before the first activation, in a kind of network that was trained on such signals."""
    return (
        gain.value == 0 and len(invisible_within(make, u[None], seed=seed)) == 1 and word_for_lost(make, seed=seed).may
    )


def visible(
    make: Family,
    signal: Tensor | np.ndarray[Any, Any],
    input_shape: Sequence[int] | None = None,
    *,
    G: Geometry | None = None,
    method: Literal["auto", "closed-form", "sampled"] = "auto",
    probe: Probe | None = None,
    output: Output = "all",
    members: int | None = None,
    tolerance: float | None = None,
    probes: int | None = None,
    first_layer: Literal["auto", "never", "always"] = "auto",
    layers: bool = True,
    layer_members: int | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Visibility:
    """How strongly fresh networks of a family react to a pattern.

    The gain of a pattern u is g(u) = uᵀGu · d / (‖u‖² tr G), so that 1 is an average direction of the d-dimensional
    input space. The result also ranks it among other directions, and names the layer that loses it.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call.
    signal : Tensor or array of shape input_shape
        The pattern. Its length does not matter.
    input_shape : sequence of int, optional
        Shape of one input without the batch axis; that of the signal by default.
    G : Geometry, optional
        The geometry of the family, if you have it already. Options that control how G is computed cannot be combined
        with it.
    method : {"auto", "closed-form", "sampled"}, default "auto"
        How G is obtained, as in `average_geometry`.
    probe : Probe, optional
        Where G is taken: the origin by default, ``Data(X)`` for your samples.
    output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
        Outputs whose gradients count.
    members : int, optional
        Number of networks to sample.
    tolerance : float, optional
        Stop sampling once the expected correlation with the true G reaches ``1 - tolerance``.
    probes : int, optional
        Points for each network (sampled), or in total (closed form).
    first_layer : {"auto", "never", "always"}, default "auto"
        Whether sampling averages over the first layer exactly.
    layers : bool, default True
        Whether to look for the layer that loses the pattern.
    layer_members : int, optional
        Number of networks used to find that layer; by default 32, or for large networks as many as a fixed cost allows,
        at least 2.
    seed : int, default 0
        Network i depends on ``(seed, i)`` only.

    Returns
    -------
    Visibility
        The gain with its error, its ranks, the word for it, and the layer that loses the pattern.

    Other Parameters
    ----------------
    device : torch.device or str, optional
        Device for sampling G.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Raises
    ------
    NetgrainError
        If the signal is zero, not finite or of another shape, or if G is zero.

    See Also
    --------
    audit : The same question about a data set and its labels.
    layer_profile : Gains of several directions after every layer.

    Examples
    --------
    An average pool over two neighbours does not see their difference, whatever follows.

    >>> from torch import nn
    >>> def make():
    ...     return nn.Sequential(nn.AvgPool1d(2), nn.Flatten(), nn.Linear(1, 1, bias=False))
    >>> found = visible(make, torch.tensor([[1.0, -1.0]]))
    >>> found.word, found.gain.value, found.among_eigenvalues, found.loser.layer
    ('invisible', 0.0, 0.25, '0')
    """
    u = _direction(signal, input_shape, G)
    shape = tuple(u.shape)
    make = prepared(make, shape)
    if G is None:
        G = average_geometry(
            make,
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
    else:
        asked = {"probe": probe, "members": members, "tolerance": tolerance, "probes": probes}
        _check_not_asked({**asked, "method": method, "first_layer": first_layer, "output": output})
    gain = None if G.truncated and layers else gain_estimates(G, u[None])[0]
    profile = None
    if layers:
        looked_at = _affordable(make, shape, seed) if layer_members is None else layer_members
        profile = layer_profile(make, u[None], members=looked_at, probe=probe, seed=seed)
        # where only leading directions of G were kept, the networks that were looked at know it
        gain = profile.gain(0, profile.names[-1]) if gain is None else gain
    assert gain is not None
    return Visibility(
        direction=u,
        gain=gain,
        among_random=_among_random(G, gain, seed),
        among_eigenvalues=_among_eigenvalues(G, gain),
        G=G,
        invisible=_invisible(make, u, gain, seed),
        profile=profile,
    )


def _affordable(make: Family, shape: tuple[int, ...], seed: int) -> int:
    """Networks to be looked at layer by layer: the pattern and some random ones pass each of them twice."""
    each = operations(read(make, shape, seed)) * PASSES
    return max(FEWEST_LOOKED_AT, min(LOOKED_AT, int(WORK / each)))


def _check_not_asked(options: Mapping[str, Any]) -> None:
    """Options of making G are refused where G is given."""
    if asked := [name for name, value in options.items() if value not in (None, "auto", "all")]:
        raise NetgrainError(f"{asked[0]}= belongs to making G, but you passed G as well; leave one out.")


def _among_random(G: Geometry, gain: float, seed: int) -> float:
    """P(g(v) < gain) for v uniform on the sphere, from RANDOM draws; of a large input from their mean and variance."""
    if G.d > FULL_LIMIT:
        return among_random_of_many(gain, G.d, G.effective_rank.value)
    generator = generator_for(seed, "random directions", G.d)
    below, pieces = 0, math.ceil(RANDOM / 100)
    for _ in range(pieces):
        v = torch.randn(100, G.d, generator=generator, dtype=torch.float64)
        found = G.form.energies(v) / v.square().sum(1) * (G.d / G.form.trace())
        below += int((found < gain * (1 - SAME)).sum())
    return below / (100 * pieces)


def among_random_of_many(gain: float, d: int, rank: float) -> float:
    """P(g(v) < gain) in many dimensions, by a gamma distribution with the mean and the variance of g.

    For v uniform on the sphere g = vᵀGv · d / tr G has mean 1 and variance 2 (d / rank − 1) / (d + 2), rank being
    (tr G)² / ‖G‖².

    >>> round(among_random_of_many(1.0, 10_000, 100.0), 2), among_random_of_many(0.9, 10_000, 10_000.0)
    (0.52, 0.0)
    """
    from scipy.special import gammainc

    variance = 2 * (d / rank - 1) / (d + 2)
    if not variance > SAME**2:
        return float(gain > 1 + SAME)
    return float(gammainc(1 / variance, gain / variance))


def _among_eigenvalues(G: Geometry, gain: float) -> float:
    """The share of eigenvalues below gain · tr G / d, each block of equal ones with its multiplicity."""
    level = gain * (G.trace.value if G.truncated else G.form.trace()) / G.d
    blocks = G.blocks()
    top = blocks[0].value
    margin = max(SAME * level, ROUNDING * top)
    above = sum(b.size for b in blocks if b.value > level + margin)
    equal = sum(b.size for b in blocks if abs(b.value - level) <= margin)
    known = sum(b.size for b in blocks)
    if known < G.d and above + equal == known:
        return math.nan  # it lies among those that were not computed
    return (G.d - above - equal / 2) / G.d


def _direction(signal: Any, input_shape: Sequence[int] | None, G: Geometry | None) -> Tensor:
    try:
        found = torch.as_tensor(signal).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as e:
        raise NetgrainError(f"the signal is {type(signal).__name__}; expected an array of numbers ({e}).") from e
    if found.is_complex() or found.dim() == 0:
        raise NetgrainError(f"the signal is {found.dtype} {tuple(found.shape)}; expected an array of real numbers.")
    vector = found.double()
    shapes = [("input_shape is", None if input_shape is None else checked_shape(input_shape))]
    shapes.append(("the geometry is for inputs of shape", None if G is None else G.input_shape))
    for what, shape in shapes:
        if shape is not None and tuple(vector.shape) != tuple(shape):
            raise NetgrainError(
                f"the signal has shape {tuple(vector.shape)}, {what} {tuple(shape)}; expected the same: reshape it."
            )
    if not bool(torch.isfinite(vector).all()):
        bad = int((~torch.isfinite(vector)).sum())
        raise NetgrainError(f"the signal holds {bad} numbers that are NaN or Inf; expected finite ones: repair it.")
    norm = float(torch.linalg.vector_norm(vector))
    if norm == 0:
        raise NetgrainError("the signal is zero everywhere, so it has no direction; expected a pattern.")
    return vector / norm
