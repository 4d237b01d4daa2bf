from . import (
    auditing as auditing,
)
from . import (
    closed_form as closed_form,
)
from . import (
    complexity as complexity,
)
from . import (
    data as data,
)
from . import (
    equivariant as equivariant,
)
from . import (
    families as families,
)
from . import (
    groups as groups,
)
from . import (
    models as models,
)
from . import (
    runtime as runtime,
)
from . import (
    training as training,
)
from .auditing.audits import audit as audit
from .auditing.comparisons import compare as compare
from .auditing.signals import visible as visible
from .complexity.estimators import geometric_complexity as geometric_complexity
from .complexity.sweeps import sweep as sweep
from .complexity.tracker import ComplexityTracker as ComplexityTracker
from .families.batch_statistics import data_statistics as data_statistics
from .families.probes import (
    Data as Data,
)
from .families.probes import (
    Gaussian as Gaussian,
)
from .families.probes import (
    Origin as Origin,
)
from .geometry.agreement import check as check
from .geometry.average import average_geometry as average_geometry
from .geometry.covariance import data_covariance as data_covariance
from .geometry.estimate import Estimate as Estimate
from .geometry.of_models import geometry_of as geometry_of
from .geometry.scores import (
    prune as prune,
)
from .geometry.scores import (
    score as score,
)
from .geometry.symmetric import corr as corr
from .geometry.value import Geometry as Geometry
from .runtime.errors import (
    GrainWarning as GrainWarning,
)
from .runtime.errors import (
    NetgrainError as NetgrainError,
)
from .runtime.versions import __version__ as __version__
from .training import regularizers as regularizers
from .training.curvature import loss_curvature as loss_curvature
from .training.delta import Evolution as Evolution
from .training.evolution import (
    average_evolution as average_evolution,
)
from .training.evolution import (
    evolution_of as evolution_of,
)
from .training.evolution import (
    velocity as velocity,
)
from .training.geometry_tracker import GeometryTracker as GeometryTracker
