"""The score a network will reach on labelled samples, told before it is trained, and when not to trust it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from netgrain.families.members import Family, family_name, member
from netgrain.families.probes import Data
from netgrain.families.reading import read
from netgrain.geometry.average import average_geometry
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.of_models import geometry_of
from netgrain.geometry.value import Geometry
from netgrain.learning.decompositions import (
    MOST_DENSE,
    Decomposition,
    Features,
    decomposed,
    decomposed_either,
    decomposed_features,
)
from netgrain.learning.kernel_costs import FEWEST, tangent_worth_it
from netgrain.learning.kernel_value import Kernel, KernelKind
from netgrain.learning.kernels import kernel
from netgrain.learning.label_noise import label_noise_bound
from netgrain.learning.landmarks import LandmarkKernel, landmark_kernel, network_of
from netgrain.learning.learning_curves import learning_curve, scored_predictions
from netgrain.learning.leave_one_out import LeaveOneOut, groups_of, leave_one_out, row_digests
from netgrain.learning.modes import mode_shares
from netgrain.learning.outcome import GrainShare, KernelScore, Learnability, LearnabilityAbout
from netgrain.learning.prediction_errors import PredictionError, member_error, track_record
from netgrain.learning.targets import (
    FEWEST_SAMPLES,
    Target,
    Targets,
    check_features,
    explained_share,
    score_of,
    targets_of,
)
from netgrain.learning.trials import FEWEST_STEPS, UNASKED, Design, Trial, rates_and_steps, trial_training
from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import generator_for

KINDS: tuple[KernelKind, ...] = ("layers", "tangent")
SAMPLES = 2000
GRAIN_MEMBERS, GRAIN_POINTS = 8, 200
LARGEST_GRAIN = 4096  # entries of an input whose grain is measured unasked


@dataclass(frozen=True, eq=False)
class Readout:
    """A kernel with its leave-one-out."""

    kernel: Kernel | LandmarkKernel
    decomposition: Decomposition
    found: LeaveOneOut
    score: KernelScore = field(repr=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """How the kernel was held, where that is worth a sentence."""
        K = self.kernel
        if isinstance(K, Kernel):
            return ()
        return (f"kernels over {len(K.matrix)} samples are held by products with {K.landmarks} of them",)


def learnability(
    make: Family | nn.Module,
    X: Tensor,
    y: Tensor,
    *,
    target: Target | None = None,
    classes: Sequence[str] | None = None,
    samples: int = SAMPLES,
    kinds: Sequence[KernelKind] | None = None,
    members: int | None = None,
    trial: bool | None = None,
    design: Design = "halves",
    grain: Geometry | bool = True,
    seed: int = 0,
    progress: bool | None = None,
) -> Learnability:
    """Score that networks of a family will reach on labels, before training.

    A few random networks give kernels over the samples. Ridge regression with each kernel predicts every sample from
    all others (leave-one-out, exact); the kernel with the smaller squared error gives the score. Its error has three
    parts: the samples, the random networks (members), and how far such predictions were from the scores of trained
    networks in the past.

    Parameters
    ----------
    make : callable or torch.nn.Module
        Returns a fresh module on every call; or one trained network, whose features are used as they are.
    X : Tensor of shape (samples, *input_shape)
        Samples, taken as they are.
    y : Tensor of shape (samples,)
        Classes as whole numbers, or numbers of shape (samples,) or (samples, outputs).
    target : {"classes", "numbers"}, optional
        Whether y holds classes or numbers; needed for floating-point labels with few values.
    classes : sequence of str, optional
        Names of the labels 0, 1, …; by default the labels themselves.
    samples : int, default 2000
        Number of random samples to use, at least 20; the learning curve extrapolates beyond them. Above 5,000 samples
        the kernel is approximated by its products with 2,000 of them, or fewer if memory is short.
    kinds : sequence of {"layers", "tangent", "last"}, optional
        Kernels to compare; by default "layers" and "tangent", the latter where its cost allows it.
    members : int, optional
        Number of random networks behind each kernel; by default what `kernel` chooses.
    trial : bool, optional
        Whether to run a short training as well; by default if its cost allows it.
    design : {"halves", "80:20"}, default "halves"
        How the short training splits the samples.
    grain : Geometry or bool, default True
        The family's geometry, or whether to measure it. It is measured only for inputs of at most 4,096 entries.
    seed : int, default 0
        Networks, subsets and splits depend on this seed alone, and not on the order of the samples.

    Returns
    -------
    Learnability
        The score, its error, and the numbers behind it.

    Other Parameters
    ----------------
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Raises
    ------
    NetgrainError
        If all labels are of one class, there are fewer than 20 samples, all samples or features are the same, labels
        could be classes or numbers, values are NaN, or there are more samples than a kernel can hold.

    See Also
    --------
    kernel : The kernels by themselves.

    Notes
    -----
    The prediction is for networks that are trained to fit, without augmentation. Where features must be learnt, a
    kernel at initialisation underrates the network. If a short trial training beats the kernel by more than both
    errors, ``warning`` reports it.

    Examples
    --------
    The label is the sign of the first of two features, which a linear rule can learn:

    >>> X = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    >>> make = lambda: nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    >>> found = learnability(make, X, (X[:, 0] > 0).long(), kinds=["layers"], trial=False)
    >>> found.measure, bool(found.score > 0.9), found.about.samples
    ('accuracy', True, 100)
    """
    X = check_features(X)
    targets = _named(targets_of(y, len(X), target=target), classes)
    whole("samples", samples, FEWEST_SAMPLES)
    if members is not None:
        whole("members", members, 1)
    if kinds is not None and (not kinds or not set(kinds) <= {"layers", "tangent", "last"}):
        raise NetgrainError(f"kinds expects some of 'layers', 'tangent' and 'last', found {tuple(kinds)!r}.")
    given = len(X)
    X, targets, groups = drawn_samples(X, targets, samples, seed)
    kinds, notes = _kinds(make, X, kinds, members, seed)
    with Bar("learnability", len(kinds) + 4, progress) as bar:
        scores: dict[str, KernelScore] = {}
        best: Readout | None = None  # the only one whose kernel is kept
        for kind in kinds:
            one = _read_out(make, X, targets, groups, kind, members, seed)
            scores[kind] = one.score
            best = one if best is None or one.found.squared_error < best.found.squared_error else best
            bar.advance(note=kind)
        assert best is not None
        own = score_of(targets, scored_predictions(best.found.predictions, targets, groups))
        curve = learning_curve(best.kernel.matrix, targets, groups=groups, whole=own.value, seed=seed)
        bar.advance(note="curve")
        shares = mode_shares(
            best.kernel.matrix,
            targets,
            ridge=best.found.ridge,
            whole=best.decomposition,
            groups=groups,
            seed=seed,
        )
        bar.advance(note="modes")
        explained = _grain_share(make, X, targets, groups, best.found, grain, seed)
        bar.advance(note="grain")
        tried, untried = _tried(make, X, targets, groups, best.kernel.matrix, trial, design, seed)
        bar.advance(note="trial")
    members_error = member_error(best.kernel.parts, targets, best.found.ridge, groups)
    error = PredictionError(own.value.stderr, members_error, track_record().kernel.standard)
    about = LearnabilityAbout(
        model=family_name(make, make if isinstance(make, nn.Module) else member(make, seed, 0)),
        input_shape=tuple(X.shape[1:]),
        samples=len(X),
        given=given,
        equal=len(X) - int(groups.max()) - 1,
        members={kind: score.members for kind, score in scores.items()},
        ridge=best.found.ridge,
        seed=seed,
        recipe=track_record().recipe,
        record=track_record().kernel.source,
        notes=(*notes, *best.notes),
    )
    return Learnability(
        score=Estimate(float(own.value), error.total, len(X)),
        error=error,
        measure=targets.measure,
        chance=own.chance,
        balanced=own.balanced,
        per_class=own.per_class,
        counts=dict(zip(targets.classes, targets.counts, strict=True)),
        kernel=best.kernel.kind,
        kernels=scores,
        curve=curve,
        shares=shares,
        noise=label_noise_bound(curve),
        grain=explained,
        trial=tried,
        untried=untried,
        about=about,
    )


def kernel_score(
    make: Family | nn.Module,
    X: Tensor,
    y: Tensor,
    kind: KernelKind,
    *,
    target: Target | None = None,
    samples: int = SAMPLES,
    members: int | None = None,
    seed: int = 0,
) -> KernelScore:
    """What `learnability` says of one kernel, without all that stands beside it.

    Parameters
    ----------
    make, X, y, target, samples, members, seed
        As there.
    kind : {"layers", "tangent", "last"}
        The kernel.

    Returns
    -------
    KernelScore
        The same numbers.
    """
    X = check_features(X)
    X, targets, groups = drawn_samples(X, targets_of(y, len(X), target=target), samples, seed)
    return _read_out(make, X, targets, groups, kind, members, seed).score


def drawn_samples(X: Tensor, targets: Targets, samples: int, seed: int) -> tuple[Tensor, Targets, Tensor]:
    """The samples that are used, their labels, and groups of equal ones."""
    rows = _chosen(X, targets, samples, seed)
    X = X[rows]
    return X, _present(targets.of(rows)), groups_of(X)


def _chosen(X: Tensor, targets: Targets, samples: int, seed: int) -> Tensor:
    """Rows that are used: sorted by what they hold, so that their order does not matter, and drawn with the seed."""
    digests, labels = row_digests(X), targets.values.reshape(len(X), -1).tolist()
    order = torch.tensor(sorted(range(len(X)), key=lambda i: (digests[i], labels[i])))
    drawn = torch.randperm(len(X), generator=generator_for(seed, "samples"))[:samples]
    return order[drawn]


def _named(targets: Targets, classes: Sequence[str] | None) -> Targets:
    if not classes or not targets.classes:
        return targets
    labels = [int(float(label)) for label in targets.classes]
    if min(labels) < 0 or max(labels) >= len(classes):
        raise NetgrainError(
            f"classes holds {len(classes)} names, but labels run from {min(labels)} to {max(labels)}; give a name for "
            "each label from 0."
        )
    return Targets(targets.values, tuple(classes[label] for label in labels))


def _present(targets: Targets) -> Targets:
    """The labels again, without classes that no chosen sample has."""
    if not targets.classes:
        return targets_of(targets.values, target="numbers")
    kept = targets_of(targets.values, target="classes")
    return Targets(kept.values, tuple(targets.classes[int(name)] for name in kept.classes))


def _kinds(
    make: Family | nn.Module, X: Tensor, kinds: Sequence[KernelKind] | None, members: int | None, seed: int
) -> tuple[tuple[KernelKind, ...], tuple[str, ...]]:
    """Kernels to compare, and why one of the usual ones is not among them."""
    if kinds is not None:
        return tuple(dict.fromkeys(kinds)), ()
    _, reading = network_of(make, tuple(X.shape[1:]), seed)
    fewest = 1 if isinstance(make, nn.Module) else members or FEWEST
    if tangent_worth_it(reading, len(X), fewest):
        return KINDS, ()
    return ("layers",), ("the tangent kernel is left out for its cost; pass kinds=('layers', 'tangent') for both",)


def _read_out(
    make: Family | nn.Module,
    X: Tensor,
    targets: Targets,
    groups: Tensor,
    kind: KernelKind,
    members: int | None,
    seed: int,
) -> Readout:
    K: Kernel | LandmarkKernel
    if len(X) > MOST_DENSE:
        K = landmark_kernel(make, X, kind, members, seed=seed)
    else:
        K = kernel(make, X, kind=kind, members=members, seed=seed)
    decomposition = decomposed_either(K.matrix)
    found = leave_one_out(decomposition, targets.columns, groups=groups)
    own = score_of(targets, scored_predictions(found.predictions, targets, groups)).value
    return Readout(K, decomposition, found, KernelScore(own, explained_share(targets, found.predictions), K.members))


def _grain_share(
    make: Family | nn.Module,
    X: Tensor,
    targets: Targets,
    groups: Tensor,
    best: LeaveOneOut,
    grain: Geometry | bool,
    seed: int,
) -> GrainShare | None:
    """R² of xᵀGz and xᵀz beside that of the kernel; None where G was not asked for or is too large to ask for it."""
    flat = X.flatten(1).double()
    large = flat.shape[1] > LARGEST_GRAIN
    if grain is False or (large and (grain is True or len(X) > MOST_DENSE)):
        return None
    G = grain if isinstance(grain, Geometry) else _geometry(make, X, seed)

    def explained(features: Decomposition) -> Estimate:
        return explained_share(targets, leave_one_out(features, targets.columns, groups=groups).predictions)

    return GrainShare(
        explained(_through_the_grain(flat, G)), explained(_linear(flat)), explained_share(targets, best.predictions)
    )


def _linear(flat: Tensor) -> Decomposition:
    """xᵀz, by the smaller of features and samples."""
    return decomposed_features(flat) if _thin(flat) else decomposed(flat @ flat.T)


def _thin(flat: Tensor) -> bool:
    return flat.shape[1] < len(flat) / 2 or len(flat) > MOST_DENSE


def _through_the_grain(flat: Tensor, G: Geometry) -> Decomposition:
    """xᵀGz."""
    if _thin(flat):
        values, vectors = torch.linalg.eigh(G.matrix())
        return decomposed_features((flat @ vectors) * values.clamp(min=0.0).sqrt())
    return decomposed(flat @ G.matvec(flat).T)


def _geometry(make: Family | nn.Module, X: Tensor, seed: int) -> Geometry:
    points = Data(X[:GRAIN_POINTS])
    if isinstance(make, nn.Module):
        return geometry_of(make, points, progress=False)
    return average_geometry(make, X.shape[1:], probe=points, members=GRAIN_MEMBERS, seed=seed, progress=False)


def _tried(
    make: Family | nn.Module,
    X: Tensor,
    targets: Targets,
    groups: Tensor,
    kernel: Tensor | Features,
    trial: bool | None,
    design: Design,
    seed: int,
) -> tuple[Trial | None, str]:
    """A trial training, or why there is none."""
    if trial is False:
        return None, "not asked for"
    if isinstance(make, nn.Module):
        if trial:
            raise NetgrainError("trial=True needs a family that makes fresh networks, found one given network.")
        return None, "a given network is read out as it is"
    if trial is None:
        _, steps = rates_and_steps(read(make, X.shape[1:], seed), UNASKED)
        if steps < FEWEST_STEPS:
            return None, f"its cost allows {steps} steps for each rate, and {FEWEST_STEPS} are needed; pass trial=True"
    tried = trial_training(make, X, targets, design=design, kernel=kernel, groups=groups, seed=seed, progress=False)
    return tried.trial, ""
