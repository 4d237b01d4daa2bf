from .base import (
    Regularizer as Regularizer,
)
from .base import (
    Sum as Sum,
)
from .flatness import (
    SAM as SAM,
)
from .flatness import (
    GradientNorm as GradientNorm,
)
from .noise import (
    InputNoise as InputNoise,
)
from .noise import (
    LabelNoise as LabelNoise,
)
from .norms import (
    L2 as L2,
)
from .norms import (
    SpectralNorm as SpectralNorm,
)
from .slopes import (
    GeometricComplexity as GeometricComplexity,
)
from .slopes import (
    Jacobian as Jacobian,
)
