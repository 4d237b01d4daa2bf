"""Geometric complexity: how steep a network is on its data, GC = mean ‖∂f/∂x‖², with variants and bounds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
