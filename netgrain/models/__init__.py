"""Network families: plain `nn.Module`s that share one signature, and models written as text."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
