"""Sweeps: a family trained at several settings and seeds, and how its geometric complexity follows."""

from netgrain.sweeps.curve import Curve, monotone, pooled, spearman
from netgrain.sweeps.protocol import Perceptron, Protocol, along
from netgrain.sweeps.scales import Curves, Panel, Scale, scales
from netgrain.sweeps.starts import at_start, expected_at_start
from netgrain.sweeps.sweeping import sweep

__all__ = [
    "Curve",
    "Curves",
    "Panel",
    "Perceptron",
    "Protocol",
    "Scale",
    "along",
    "at_start",
    "expected_at_start",
    "monotone",
    "pooled",
    "scales",
    "spearman",
    "sweep",
]
