"""How the traces of single networks are spread: where a few of them make up the mean, it says little."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

FEWEST = 8  # traces from which a spread is read
TRIMMED = 0.1  # share of the traces left out at either end
# a mean above SKEWED medians is made by few networks, if those in the middle do not reach half of it
SKEWED, MIDDLE = 3.0, 0.5
# a network above FAR medians stands alone, and matters if it has this share of all traces together
FAR, SHARE = 20.0, 1 / 3


@dataclass(frozen=True)
class Tails:
    """Spread of the traces of single networks.

    Parameters
    ----------
    members : int
        Number of networks (or batches of them) behind it.
    mean : float
        Mean trace, which is the trace of G.
    median : float
        Half of the traces are below.
    trimmed : float
        Mean without the tenth at either end.
    largest : float
        The largest trace.

    Examples
    --------
    Eleven networks of trace 1 and one of trace 205 have a mean of 18.

    >>> import torch
    >>> spread = Tails.of(torch.tensor([205.0] + 11 * [1.0]))
    >>> spread.mean, spread.median, spread.trimmed, spread.heavy
    (18.0, 1.0, 1.0, True)
    """

    members: int
    mean: float
    median: float
    trimmed: float
    largest: float

    @classmethod
    def of(cls, traces: Tensor) -> Tails | None:
        """The spread of some traces.

        Parameters
        ----------
        traces : Tensor of shape (members,)
            One for each network.

        Returns
        -------
        Tails or None
            None where there are too few traces to tell.
        """
        n = len(traces)
        if n < FEWEST:
            return None
        values = traces.double().sort().values
        cut = int(TRIMMED * n)
        middle = (values[(n - 1) // 2] + values[n // 2]) / 2
        return cls(n, float(values.mean()), float(middle), float(values[cut : n - cut].mean()), float(values[-1]))

    @property
    def heavy(self) -> bool:
        """Whether a few networks make up the mean."""
        if not self.median > 0:
            return False  # most gradients are zero, which is another matter
        alone = self.largest > FAR * self.median and self.largest > SHARE * self.members * self.mean
        return alone or (self.mean > SKEWED * self.median and self.trimmed < MIDDLE * self.mean)

    def __str__(self) -> str:
        return (
            f"heavy tails: the largest of {self.members} traces is {self.largest / self.median:.3g} times the median, "
            f"so their mean {self.mean:.3g} depends on a few networks (median {self.median:.3g}, trimmed mean "
            f"{self.trimmed:.3g})"
        )
