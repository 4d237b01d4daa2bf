"""What a network will learn from labels, told before it is trained: kernels, leave-one-out, and their validity."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
