"""What products with a form take, counted before they are asked for."""

from __future__ import annotations

import math

from netgrain.geometry.cells import Cells
from netgrain.geometry.forms import Factored, Form
from netgrain.geometry.lattice import Lattice
from netgrain.geometry.probed import Probed
from netgrain.geometry.standardised_forms import Centred, Contrasts
from netgrain.geometry.structured_forms import Kronecker, Separated, Spread


def multiplications(form: Form) -> int:
    """What vᵀGv takes for one vector v, about.

    >>> import torch
    >>> from netgrain.geometry.forms import Dense
    >>> multiplications(Factored(torch.ones(5, 100))), multiplications(Dense(torch.eye(3, dtype=torch.float64)))
    (500, 9)
    """
    if isinstance(form, Probed):
        return multiplications(form.whole)
    if isinstance(form, Kronecker):
        return form.copies * multiplications(form.core)
    if isinstance(form, Contrasts):
        return form.copies * max(multiplications(block) for _, block in form.blocks)
    if isinstance(form, Centred):
        return multiplications(form.spread) + multiplications(form.source)
    if isinstance(form, Spread):
        return math.prod(form.stem.kernel) * multiplications(form.source)
    if isinstance(form, Separated):
        return form.terms * form.size * sum(form.axes)
    if isinstance(form, Lattice):
        return form.blocks.numel()
    if isinstance(form, Cells):
        return form.size
    return form.rows.numel() if isinstance(form, Factored) else form.size**2
