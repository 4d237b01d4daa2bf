from .constructors import (
    alternating as alternating,
)
from .constructors import (
    cyclic as cyclic,
)
from .constructors import (
    dicyclic as dicyclic,
)
from .constructors import (
    dihedral as dihedral,
)
from .constructors import (
    direct as direct,
)
from .constructors import (
    from_cayley as from_cayley,
)
from .constructors import (
    from_matrices as from_matrices,
)
from .constructors import (
    from_permutations as from_permutations,
)
from .constructors import (
    linear_action as linear_action,
)
from .constructors import (
    p4m as p4m,
)
from .constructors import (
    planes_by_quaternions as planes_by_quaternions,
)
from .constructors import (
    quaternion as quaternion,
)
from .constructors import (
    semidirect as semidirect,
)
from .constructors import (
    symmetric as symmetric,
)
from .fourier import Fourier as Fourier
from .group import (
    Group as Group,
)
from .group import (
    Irrep as Irrep,
)
from .parsing import parse as parse
from .so3 import (
    SO3 as SO3,
)
from .so3 import (
    harmonics as harmonics,
)
from .so3 import (
    wigner as wigner,
)
from .sphere import Sphere as Sphere
