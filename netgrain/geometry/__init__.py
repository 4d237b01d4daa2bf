"""The average geometry G: the value, how it is held, and the ways to obtain it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
