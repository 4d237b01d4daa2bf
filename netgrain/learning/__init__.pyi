from .kernel_value import (
    Kernel as Kernel,
)
from .kernel_value import (
    KernelAbout as KernelAbout,
)
from .leave_one_out import (
    LeaveOneOut as LeaveOneOut,
)
from .targets import (
    Targets as Targets,
)
