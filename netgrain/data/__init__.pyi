from .dataset import (
    Dataset as Dataset,
)
from .dataset import (
    Split as Split,
)
from .dataset import (
    as_binary as as_binary,
)
from .dataset import (
    balanced as balanced,
)
from .dataset import (
    resized as resized,
)
from .dataset import (
    standardised as standardised,
)
from .images import (
    cifar2 as cifar2,
)
from .images import (
    cifar10 as cifar10,
)
from .images import (
    digits as digits,
)
from .images import (
    fashion_mnist as fashion_mnist,
)
from .images import (
    load as load,
)
from .images import (
    looking_in as looking_in,
)
from .images import (
    mnist as mnist,
)
from .synthetic import (
    doughnut as doughnut,
)
from .synthetic import (
    gaussian_like as gaussian_like,
)
from .synthetic import (
    isotropic as isotropic,
)
from .synthetic import (
    linear_and_circle as linear_and_circle,
)
from .synthetic import (
    planted as planted,
)
from .synthetic import (
    without as without,
)
