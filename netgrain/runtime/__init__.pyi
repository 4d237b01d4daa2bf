from .answers import UnitError as UnitError
from .engine_in_use import (
    current as current,
)
from .engine_in_use import (
    using as using,
)
from .engines import (
    ENGINES as ENGINES,
)
from .engines import (
    engine as engine,
)
from .engines import (
    engine_for as engine_for,
)
from .local import Local as Local
from .on_ray import Ray as Ray
from .on_slurm import Slurm as Slurm
from .processes import (
    Processes as Processes,
)
from .processes import (
    most_workers as most_workers,
)
from .streams import MemberStream as MemberStream
from .units import (
    Engine as Engine,
)
from .units import (
    Outcome as Outcome,
)
from .units import (
    Unit as Unit,
)
from .units import (
    Work as Work,
)
from .units import (
    fingerprint as fingerprint,
)
from .units import (
    in_order as in_order,
)
from .units import (
    timed as timed,
)
