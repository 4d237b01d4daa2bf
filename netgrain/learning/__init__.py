"""What a family can learn before it is trained: kernels of its members over data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
