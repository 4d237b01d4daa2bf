"""Training members of a family: one loop for every experiment, the same bits for any number of processes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
