from .kernel_value import (
    Kernel as Kernel,
)
from .kernel_value import (
    KernelAbout as KernelAbout,
)
from .kernels import (
    kernel as kernel,
)
from .learning_curves import (
    LearningCurve as LearningCurve,
)
from .learning_curves import (
    learning_curve as learning_curve,
)
from .leave_one_out import (
    LeaveOneOut as LeaveOneOut,
)
from .modes import (
    eigenlearning as eigenlearning,
)
from .outcome import (
    Learnability as Learnability,
)
from .predictions import (
    learnability as learnability,
)
from .rankings import (
    ranking as ranking,
)
from .targets import (
    Targets as Targets,
)
from .trials import (
    trial_training as trial_training,
)
