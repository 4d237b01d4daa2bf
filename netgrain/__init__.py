"""netgrain finds the grain of a network: the directions of its input space to which it reacts at initialisation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from netgrain.runtime.errors import GrainWarning, NetgrainError

if TYPE_CHECKING:
    from netgrain.average import average_geometry
    from netgrain.checking import check
    from netgrain.complexity import ComplexityTracker, geometric_complexity
    from netgrain.curvature import loss_curvature
    from netgrain.delta import Evolution
    from netgrain.estimate import Estimate
    from netgrain.evolution import average_evolution, evolution_of, velocity
    from netgrain.geometry import Geometry, corr, data_covariance
    from netgrain.probes import Data, Gaussian, Origin
    from netgrain.sampling import geometry_of
    from netgrain.scores import prune, score
    from netgrain.statistics import data_statistics
    from netgrain.sweeps import sweep
    from netgrain.tracker import GeometryTracker

__version__ = "0.1.0"

# loaded when first asked for, so that `netgrain --help` does not wait for torch
_HOMES = {
    "ComplexityTracker": "complexity",
    "Data": "probes",
    "Estimate": "estimate",
    "Evolution": "delta",
    "Gaussian": "probes",
    "Geometry": "geometry",
    "GeometryTracker": "tracker",
    "Origin": "probes",
    "average_evolution": "evolution",
    "average_geometry": "average",
    "check": "checking",
    "corr": "geometry",
    "data_covariance": "geometry",
    "data_statistics": "statistics",
    "evolution_of": "evolution",
    "geometric_complexity": "complexity",
    "geometry_of": "sampling",
    "loss_curvature": "curvature",
    "prune": "scores",
    "score": "scores",
    "sweep": "sweeps",
    "velocity": "evolution",
}

_ROOMS = ("complexity", "equivariant", "groups", "regularizers")  # to be used as ng.regularizers.L2

__all__ = [
    "ComplexityTracker",
    "Data",
    "Estimate",
    "Evolution",
    "Gaussian",
    "Geometry",
    "GeometryTracker",
    "GrainWarning",
    "NetgrainError",
    "Origin",
    "__version__",
    "average_evolution",
    "average_geometry",
    "check",
    "corr",
    "data_covariance",
    "data_statistics",
    "evolution_of",
    "geometric_complexity",
    "geometry_of",
    "loss_curvature",
    "prune",
    "score",
    "sweep",
    "velocity",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"netgrain.{name}")
    if name in _HOMES:
        return getattr(import_module(f"netgrain.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'netgrain' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
