from .alignment import (
    Align as Align,
)
from .alignment import (
    align as align,
)
from .audits import (
    Audit as Audit,
)
from .audits import (
    audit as audit,
)
from .cards import (
    Card as Card,
)
from .cards import (
    card as card,
)
from .comparisons import compare as compare
from .layer_gains import (
    LayerProfile as LayerProfile,
)
from .layer_gains import (
    layer_profile as layer_profile,
)
from .signals import (
    Visibility as Visibility,
)
from .signals import (
    visible as visible,
)
from .swaps import (
    WhatIf as WhatIf,
)
from .swaps import (
    what_if as what_if,
)
