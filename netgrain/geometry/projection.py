"""Where a sample was projected to lose its noise, and how much of the truth lies there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Projection:
    """A linear space of matrices onto which an estimate was projected, and how much of the truth lies in it.

    Parameters
    ----------
    kind : {"lattice", "diagonal", "alike", "cells"}
        Offsets that are multiples of a period, the diagonal alone, all positions treated alike, or
        those inside a cell that have the same place in the strides behind it.
    share : float
        Share of ‖G‖² inside, as distinct members show it (for cells, the squared Corr of what is
        kept with G).
    error : float
        Its standard error over members.
    period : tuple of int, default ()
        Of the lattice, or size of a cell, in input positions.

    Examples
    --------
    >>> str(Projection("lattice", 0.998, 0.001, (32, 32)))
    'kept where positions differ by multiples of 32 x 32: a share of 0.998 ± 0.001 of ‖G‖² lies there'
    """

    kind: str
    share: float
    error: float
    period: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = {
            "lattice": f"where positions differ by multiples of {' x '.join(map(str, self.period))}",
            "diagonal": "on the diagonal over positions",
            "alike": "what treats all positions alike",
            "cells": f"what treats positions alike inside cells of {' x '.join(map(str, self.period))}",
        }[self.kind]
        return f"kept {where}: a share of {self.share:.3f} ± {self.error:.3f} of ‖G‖² lies there"
