"""The part of one image that a network reacts to.

The answer at an image x is followed while the image fades into its mean colour, over copies x₀ = x, x₁, …, x_L that are
blurred more and more:

    c_s(p) = Σ_channels ∂f/∂x(midway of x_s and x_{s+1}) · (x_s − x_{s+1})        at pixel p

Added over pixels and steps that is f(x) − f(x_L), up to the midpoint rule: what the structure of the image contributes
to the answer, pattern size by pattern size. The map is Σ_s c_s², each step smoothed by the blur that belongs to it, so
that what cancels (edges of both signs) counts, and nothing is drawn finer than it was measured. For several networks it
is the mean of their maps. On planted marks that alone decide the label, this put more of the map on the mark than the
squared gradient or gradient times input, also smoothed or averaged over noise (docs/audit.md).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.families.failures import unwrapped_model
from netgrain.families.gradients import gradients
from netgrain.families.members import Family, forward, frozen, member, model_dtype, without_gradients
from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.samples import checked_samples
from netgrain.runtime.threads import one_thread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FINEST, STEPS = 0.02, 5  # the first blur as a share of the side of the image; each of the next is twice as wide
MEMBERS = 8


@dataclass(frozen=True, eq=False, repr=False)
class ReactionMap:
    """Where in one image a network reacts.

    Attributes
    ----------
    image : Tensor of shape (channels, height, width)
        The image.
    values : Tensor of shape (height, width)
        Share of the reaction at each pixel, in float64; they add up to 1, or are all 0 if the answer depends on nothing
        in the image.
    output : int or None
        The output that was followed; None for several networks that give different answers.
    change : float
        How far the answer moves from the image without structure (its mean colour) to the image: the output minus the
        mean of all outputs, averaged over networks.
    sizes : tuple of (float, float)
        For each step of blurring, the width of the blur in pixels at which it ends, and the share of the reaction.
    members : int
        Number of networks behind it.

    See Also
    --------
    reaction_map : Makes one.
    """

    image: Tensor
    values: Tensor
    output: int | None
    change: float
    sizes: tuple[tuple[float, float], ...]
    members: int

    def share(self, mask: Tensor) -> float:
        """Share of the reaction inside a part of the image.

        Parameters
        ----------
        mask : Tensor of shape (height, width)
            True inside.

        Returns
        -------
        float
            From 0 to 1.
        """
        return float(self.values[mask.bool()].sum())

    def plot(self, ax: Axes | None = None) -> Axes:
        """The image with the reaction over it.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from netgrain.auditing.pictures import overlaid
        from netgrain.runtime.figures import axes_or_new

        ax = axes_or_new(ax, (3.0, 3.0))
        low, high = (float(v) for v in (self.image.min(), self.image.max()))
        ax.imshow(overlaid(self.image, self.values, low, high))
        ax.set_axis_off()
        networks = "one network" if self.members == 1 else f"{self.members} networks"
        ax.set_title(f"what {networks} react{'s' * (self.members == 1)} to", fontsize=9)
        return ax

    def __repr__(self) -> str:
        h, w = self.values.shape
        half = int((self.values.flatten().sort(descending=True).values.cumsum(0) < 0.5).sum()) + 1
        where = f"half of the reaction in {half} of {h * w} pixels" if float(self.values.sum()) else "no reaction"
        followed = "" if self.output is None else f"output {self.output}, "
        return f"ReactionMap({followed}{where}, {self.members} network{'s' * (self.members > 1)})"


@one_thread()
def reaction_map(
    model: nn.Module | Family,
    x: Tensor,
    *,
    output: int | None = None,
    members: int = MEMBERS,
    seed: int = 0,
) -> ReactionMap:
    """The part of one image that a network, or a family of fresh networks, reacts to.

    Parameters
    ----------
    model : torch.nn.Module or callable
        A trained network, which is left as it is found, or a family: a callable that returns a fresh module.
    x : Tensor of shape (channels, height, width)
        The image, preprocessed as the network expects it.
    output : int, optional
        The output to follow; by default the one that is largest at the image.
    members : int, default 8
        Number of fresh networks of a family.
    seed : int, default 0
        Seed of the fresh networks.

    Returns
    -------
    ReactionMap
        Shares of the pixels; draw them with ``plot()``.

    Raises
    ------
    NetgrainError
        If x is not one image, or there is no such output.

    See Also
    --------
    netgrain.geometry_of : All directions that a network reacts to, averaged over images.

    Notes
    -----
    A bright spot means that the answer changes as this part of the image fades. It does not say that this part is
    enough for the answer.

    Examples
    --------
    A network that looks at the left half alone:

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 2, bias=False))
    >>> net[1].weight.data = torch.zeros(2, 8, 8).index_fill(2, torch.arange(4), 1.0).reshape(2, 64)
    >>> net[1].weight.data[1] *= -1
    >>> found = reaction_map(net, torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(0)))
    >>> found.share(torch.arange(8).expand(8, 8) < 5) > 0.95
    True
    """
    image = _checked_image(x)
    if isinstance(model, nn.Module):
        models = [as_it_answers(model)]
    else:
        models = [member(model, seed, i) for i in range(whole("members", members, 1))]
    found = [reaction_maps(one, image[None], output=output)[0] for one in models]
    weights, total = [f.strength for f in found], sum(f.strength for f in found)
    values = sum((f.map for f in found), torch.zeros_like(found[0].map))
    steps = torch.stack([f.steps for f in found]).sum(0)
    outputs = {f.output for f in found}
    return ReactionMap(
        image=image,
        values=values / total if total > 0 else values,
        output=outputs.pop() if len(outputs) == 1 else None,
        change=sum(f.change for f in found) / len(found),
        sizes=tuple(zip(widths(tuple(image.shape)), (steps / (float(steps.sum()) or 1.0)).tolist(), strict=True)),
        members=len(weights),
    )


@dataclass(frozen=True, eq=False)
class Reaction:
    """What one network makes of one image; the map is not normalised."""

    map: Tensor  # (height, width) float64
    steps: Tensor  # (steps,) its sums before the steps were added
    output: int
    change: float

    @property
    def strength(self) -> float:
        return float(self.map.sum())


def reaction_maps(model: nn.Module, X: Tensor, *, output: int | None = None) -> list[Reaction]:
    """The reactions of one network in eval mode to each of some images (n, channels, height, width)."""
    where, dtype = next(model.parameters()).device, model_dtype(model)
    call = frozen(model)
    with torch.no_grad():
        answers = forward(call, X.to(where, dtype)).cpu()
    if output is not None and not 0 <= output < answers.shape[1]:
        raise NetgrainError(f"output {output} was asked for, the network has outputs 0 to {answers.shape[1] - 1}.")
    chosen = answers.argmax(1) if output is None else torch.full((len(X),), output)
    copies = [X, *(blurred(X, width) for width in widths(tuple(X.shape[1:]))[:-1])]
    copies.append(X.mean((2, 3), keepdim=True).expand_as(X))
    total = torch.zeros(len(X), *X.shape[2:], dtype=torch.float64)
    change, steps = torch.zeros(len(X), dtype=torch.float64), []
    # as wide as the blur between two copies; the finest step is not smoothed
    smoothing = (0.0, *widths(tuple(X.shape[1:]))[:-1])
    for (finer, coarser), width in zip(pairwise(copies), smoothing, strict=True):
        slopes = gradients(call, ((finer + coarser) / 2).to(where, dtype), _followed(chosen), at_once=len(X))
        parts = (slopes.reshape(X.shape).cpu().double() * (finer - coarser).double()).sum(1)
        change += parts.sum((1, 2))
        squares = parts.square()
        squares = squares if width == 0 else _smoothed(squares[:, None], width)[:, 0]
        steps.append(squares.sum((1, 2)))
        total += squares
    by_step = torch.stack(steps, 1)
    return [Reaction(total[i], by_step[i], int(chosen[i]), float(change[i])) for i in range(len(X))]


def _followed(chosen: Tensor) -> Callable[[Tensor], Tensor]:
    """The chosen output of each sample minus the mean of all: a shift that all outputs share moves no answer."""

    def followed(y: Tensor) -> Tensor:
        own = y.gather(1, chosen.to(y.device)[:, None])
        return own if y.shape[1] == 1 else own - y.mean(1, keepdim=True)

    return followed


def widths(shape: Sequence[int]) -> tuple[float, ...]:
    """Standard deviations of the blurs in pixels, the last one infinite: the mean colour.

    >>> widths((1, 50, 60))
    (1.0, 2.0, 4.0, 8.0, inf)
    """
    side = min(shape[1:])
    return (*(FINEST * side * 2**k for k in range(STEPS - 1)), math.inf)


def blurred(X: Tensor, width: float) -> Tensor:
    """Images blurred by a Gaussian of this width in pixels, about their mean colour, which stays.

    >>> blurred(torch.ones(1, 1, 4, 4), 2.0).unique().tolist()
    [1.0]
    """
    mean = X.mean((2, 3), keepdim=True)
    moved = _smoothed(X - mean, width)
    return mean + moved - moved.mean((2, 3), keepdim=True)


def _smoothed(X: Tensor, width: float) -> Tensor:
    """Channel by channel with a Gaussian; nothing beyond the edges."""
    reach = max(1, math.ceil(3 * width))
    at = torch.arange(-reach, reach + 1, dtype=X.dtype)
    kernel = torch.exp(-at.square() / (2 * width**2))
    kernel /= kernel.sum()
    n, c, h, w = X.shape
    rows = F.conv2d(X.reshape(n * c, 1, h, w), kernel.reshape(1, 1, 1, -1), padding=(0, reach))
    return F.conv2d(rows, kernel.reshape(1, 1, -1, 1), padding=(reach, 0)).reshape(n, c, h, w)


def as_it_answers(model: nn.Module) -> nn.Module:
    """A copy in eval mode without gradients; a scripted module, which cannot be copied so, must be in eval mode."""
    model = unwrapped_model(model)
    if isinstance(model, torch.jit.ScriptModule):
        if model.training:
            raise NetgrainError("the scripted module is in train mode; call model.eval() first.")
        return model
    return without_gradients(copy.deepcopy(model)).eval()


def _checked_image(x: Any) -> Tensor:
    shape = tuple(getattr(x, "shape", ()))
    if not isinstance(x, Tensor) or len(shape) != 3 or min(shape[1:], default=0) < 2:
        what = f"shape {shape}" if isinstance(x, Tensor) else type(x).__name__
        raise NetgrainError(f"x expects one image of shape (channels, height, width), found {what}.")
    return checked_samples(x[None]).cpu().float()[0]
