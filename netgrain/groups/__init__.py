"""Finite groups and their Fourier transforms: any group, by name, generators, table or product; and the rotations."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
