from .certificates import (
    ClassBound as ClassBound,
)
from .certificates import (
    ErrorBound as ErrorBound,
)
from .certificates import (
    gc_error_bound as gc_error_bound,
)
from .collapse import (
    NeuralCollapse as NeuralCollapse,
)
from .collapse import (
    neural_collapse as neural_collapse,
)
from .estimators import (
    Complexity as Complexity,
)
from .estimators import (
    geometric_complexity as geometric_complexity,
)
from .learning_coefficient import (
    LearningCoefficient as LearningCoefficient,
)
from .learning_coefficient import (
    local_learning_coefficient as local_learning_coefficient,
)
from .lipschitz import (
    LipschitzProfile as LipschitzProfile,
)
from .lipschitz import (
    lipschitz_profile as lipschitz_profile,
)
from .mlp_bounds import (
    NormBounds as NormBounds,
)
from .mlp_bounds import (
    TransferInequality as TransferInequality,
)
from .mlp_bounds import (
    norm_bounds as norm_bounds,
)
from .mlp_bounds import (
    transfer_inequality as transfer_inequality,
)
from .paths import (
    Arc as Arc,
)
from .paths import (
    arc_length as arc_length,
)
from .paths import (
    interpolation_minimum as interpolation_minimum,
)
from .paths import (
    path_total_variation as path_total_variation,
)
from .random_functions import (
    Profile as Profile,
)
from .random_functions import (
    complexity_profile as complexity_profile,
)
from .tracker import (
    ComplexityTracker as ComplexityTracker,
)
from .tracker import (
    to_tensorboard as to_tensorboard,
)
from .variants import (
    Complexities as Complexities,
)
from .variants import (
    MarginComplexity as MarginComplexity,
)
from .variants import (
    PartComplexity as PartComplexity,
)
from .variants import (
    agop as agop,
)
from .variants import (
    complexities as complexities,
)
from .variants import (
    margin_complexity as margin_complexity,
)
from .variants import (
    normalised_complexity as normalised_complexity,
)
from .variants import (
    per_class_complexity as per_class_complexity,
)
from .variants import (
    per_layer_complexity as per_layer_complexity,
)
