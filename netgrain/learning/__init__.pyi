from .kernel_value import (
    Kernel as Kernel,
)
from .kernel_value import (
    KernelAbout as KernelAbout,
)
from .kernels import (
    kernel as kernel,
)
