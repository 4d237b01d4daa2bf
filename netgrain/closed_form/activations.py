"""The Gaussian moments of each activation: exact for straight pieces and a few smooth ones, else by an expansion."""

from __future__ import annotations

from netgrain.closed_form.gaussian_expectations import Activation, ErfMoments, Exponential, Gelu, Wave
from netgrain.closed_form.piecewise_linear import PiecewiseLinear
from netgrain.families.activations import ActivationCall

# activations with formulas of their own, by the name of the call
EXACT: dict[str, type[Activation]] = {"gelu": Gelu, "erf": ErfMoments, "sin": Wave, "cos": Wave, "exp": Exponential}


def with_moments(call: ActivationCall) -> Activation:
    """The activation with its Gaussian expectations E[φφ] and E[φ'φ'].

    Parameters
    ----------
    call : ActivationCall
        What `netgrain.families.activations` recognised.

    Returns
    -------
    Activation
        Exact moments for straight pieces, GELU, erf, sine, cosine and exp; else an expansion.

    Examples
    --------
    Both of two independent units of a ReLU are on with probability 1/4:

    >>> import torch
    >>> from netgrain.families.activations import activation_of
    >>> relu = with_moments(activation_of(torch.relu, (torch.zeros(2),)))
    >>> relu.moments(torch.eye(2))[1].tolist()
    [[0.5, 0.25], [0.25, 0.5]]
    """
    if call.slopes is not None:
        return PiecewiseLinear(call.name, call.function, call.homogeneous, call.kinks, slopes=call.slopes)
    kind = EXACT.get(call.name, Activation)
    return kind(call.name, call.function, call.homogeneous, call.kinks, call.bends)
