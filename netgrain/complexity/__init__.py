"""Geometric complexity: how steep a network is on its data, GC = mean ‖∂f/∂x‖², with variants and bounds."""

from netgrain.complexity.certificates import ClassBound, ErrorBound, gc_error_bound
from netgrain.complexity.collapse import NeuralCollapse, neural_collapse
from netgrain.complexity.estimators import Complexity, geometric_complexity
from netgrain.complexity.learning_coefficient import LearningCoefficient, local_learning_coefficient
from netgrain.complexity.lipschitz import LipschitzProfile, lipschitz_profile
from netgrain.complexity.mlp_bounds import NormBounds, TransferInequality, norm_bounds, transfer_inequality
from netgrain.complexity.paths import Arc, arc_length, interpolation_minimum, path_total_variation
from netgrain.complexity.profile import Profile, complexity_profile
from netgrain.complexity.tracker import ComplexityTracker, to_tensorboard
from netgrain.complexity.variants import (
    Complexities,
    MarginComplexity,
    PartComplexity,
    agop,
    complexities,
    margin_complexity,
    normalised_complexity,
    per_class_complexity,
    per_layer_complexity,
)

__all__ = [
    "Arc",
    "ClassBound",
    "Complexities",
    "Complexity",
    "ComplexityTracker",
    "ErrorBound",
    "LearningCoefficient",
    "LipschitzProfile",
    "MarginComplexity",
    "NeuralCollapse",
    "NormBounds",
    "PartComplexity",
    "Profile",
    "TransferInequality",
    "agop",
    "arc_length",
    "complexities",
    "complexity_profile",
    "gc_error_bound",
    "geometric_complexity",
    "interpolation_minimum",
    "lipschitz_profile",
    "local_learning_coefficient",
    "margin_complexity",
    "neural_collapse",
    "norm_bounds",
    "normalised_complexity",
    "path_total_variation",
    "per_class_complexity",
    "per_layer_complexity",
    "to_tensorboard",
    "transfer_inequality",
]
