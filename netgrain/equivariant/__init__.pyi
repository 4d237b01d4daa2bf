from .descent import Descent as Descent
from .descent import exponential_descent as exponential_descent
from .limits import limit as limit
from .limits import make_network as make_network
from .networks import (
    CircularCNN as CircularCNN,
)
from .networks import (
    Diagonal as Diagonal,
)
from .networks import (
    FullyConnected as FullyConnected,
)
from .networks import (
    GroupCNN as GroupCNN,
)
from .networks import (
    Linearisation as Linearisation,
)
from .networks import (
    LinearNetwork as LinearNetwork,
)
from .networks import (
    linearisation as linearisation,
)
from .networks import (
    predictor as predictor,
)
from .penalties import BlockTransform as BlockTransform
from .schatten_norms import (
    ranks as ranks,
)
from .schatten_norms import (
    real_ratio as real_ratio,
)
from .schatten_norms import (
    schatten as schatten,
)
from .schatten_norms import (
    schatten_objective as schatten_objective,
)
from .schatten_norms import (
    schatten_ratio as schatten_ratio,
)
from .schatten_norms import (
    stable_rank as stable_rank,
)
from .schatten_norms import (
    weighted_rank as weighted_rank,
)
from .separable import support_vector as support_vector
from .solution import Limit as Limit
from .solution import Trajectory as Trajectory
from .sphere import (
    InvariantRotationCNN as InvariantRotationCNN,
)
from .sphere import (
    SphereNetwork as SphereNetwork,
)
from .sphere import (
    rotation_features as rotation_features,
)
from .sphere import (
    sphere_limit as sphere_limit,
)
from .sphere import (
    sphere_transform as sphere_transform,
)
from .spherical import (
    SphericalNetwork as SphericalNetwork,
)
from .spherical import (
    spherical_limit as spherical_limit,
)
from .spherical import (
    spherical_transform as spherical_transform,
)
