"""Regularisers for any PyTorch loop, in two lines, to be combined with +."""

from netgrain.regularizers.base import Regularizer, Sum
from netgrain.regularizers.flatness import SAM, GradientNorm
from netgrain.regularizers.noise import InputNoise, LabelNoise
from netgrain.regularizers.norms import L2, SpectralNorm
from netgrain.regularizers.slopes import GeometricComplexity, Jacobian

__all__ = [
    "L2",
    "SAM",
    "GeometricComplexity",
    "GradientNorm",
    "InputNoise",
    "Jacobian",
    "LabelNoise",
    "Regularizer",
    "SpectralNorm",
    "Sum",
]
