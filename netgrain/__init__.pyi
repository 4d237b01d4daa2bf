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
    groups as groups,
)
from . import (
    models as models,
)
from . import regularizers as regularizers
from . import (
    runtime as runtime,
)
from . import (
    training as training,
)
from .average import average_geometry as average_geometry
from .checking import check as check
from .complexity.estimators import geometric_complexity as geometric_complexity
from .complexity.tracker import ComplexityTracker as ComplexityTracker
from .curvature import loss_curvature as loss_curvature
from .delta import Evolution as Evolution
from .estimate import Estimate as Estimate
from .evolution import (
    average_evolution as average_evolution,
)
from .evolution import (
    evolution_of as evolution_of,
)
from .evolution import (
    velocity as velocity,
)
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
from .geometry import (
    Geometry as Geometry,
)
from .geometry import (
    corr as corr,
)
from .geometry import (
    data_covariance as data_covariance,
)
from .runtime.errors import (
    GrainWarning as GrainWarning,
)
from .runtime.errors import (
    NetgrainError as NetgrainError,
)
from .sampling import geometry_of as geometry_of
from .scores import (
    prune as prune,
)
from .scores import (
    score as score,
)
from .sweeps.sweeping import sweep as sweep
from .tracker import GeometryTracker as GeometryTracker

__version__: str
