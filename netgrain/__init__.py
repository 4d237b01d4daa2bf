"""netgrain finds the grain of a network: the directions of its input space to which it reacts at initialisation."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
