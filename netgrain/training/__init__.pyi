from . import regularizers as regularizers
from .loop import accuracy as accuracy
from .settings import (
    Settings as Settings,
)
from .settings import (
    Trained as Trained,
)
from .settings import (
    minibatch_order as minibatch_order,
)
from .trained_members import (
    train as train,
)
from .trained_members import (
    train_member as train_member,
)
