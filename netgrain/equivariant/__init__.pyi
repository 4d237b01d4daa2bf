from .descent import (
    Descent as Descent,
)
from .descent import (
    exponential_descent as exponential_descent,
)
from .dual import lower_bound as lower_bound
from .kkt import (
    Stationarity as Stationarity,
)
from .kkt import (
    parameter_residual as parameter_residual,
)
from .kkt import (
    stationarity as stationarity,
)
from .limits import (
    NETS as NETS,
)
from .limits import (
    limit as limit,
)
from .limits import (
    make_network as make_network,
)
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
from .penalties import (
    BlockTransform as BlockTransform,
)
from .penalties import (
    diagonal_transform as diagonal_transform,
)
from .penalties import (
    euclidean_transform as euclidean_transform,
)
from .penalties import (
    group_transform as group_transform,
)
from .penalties import (
    matrix_transform as matrix_transform,
)
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
from .separable import (
    check_separable as check_separable,
)
from .separable import (
    support_vector as support_vector,
)
from .solution import (
    METHODS as METHODS,
)
from .solution import (
    Limit as Limit,
)
from .solution import (
    Trajectory as Trajectory,
)
from .spherical import (
    SphericalNetwork as SphericalNetwork,
)
from .spherical import (
    block_limit as block_limit,
)
from .spherical import (
    spherical_limit as spherical_limit,
)
from .spherical import (
    spherical_transform as spherical_transform,
)
