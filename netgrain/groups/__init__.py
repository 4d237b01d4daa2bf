"""Finite groups and their Fourier transforms: any group, by name, generators, table or product; and the rotations."""

from netgrain.groups.constructors import (
    alternating,
    cyclic,
    dicyclic,
    dihedral,
    direct,
    from_cayley,
    from_matrices,
    from_permutations,
    linear_action,
    p4m,
    planes_by_quaternions,
    quaternion,
    semidirect,
    symmetric,
)
from netgrain.groups.fourier import Fourier
from netgrain.groups.group import Group, Irrep
from netgrain.groups.parsing import parse
from netgrain.groups.so3 import SO3, wigner

__all__ = [
    "SO3",
    "Fourier",
    "Group",
    "Irrep",
    "alternating",
    "cyclic",
    "dicyclic",
    "dihedral",
    "direct",
    "from_cayley",
    "from_matrices",
    "from_permutations",
    "linear_action",
    "p4m",
    "parse",
    "planes_by_quaternions",
    "quaternion",
    "semidirect",
    "symmetric",
    "wigner",
]
