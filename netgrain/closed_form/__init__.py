"""Second moments of gradients through the steps of a network, one rule per step; nothing is sampled."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
