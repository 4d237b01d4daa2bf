"""What the numbers mean for a model and a data set: the audit, its page, what-if, signals, alignment and cards."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
