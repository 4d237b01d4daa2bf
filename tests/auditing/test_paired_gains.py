"""Paired gains against brute force, and on labels that nothing can predict."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from netgrain.auditing.paired_gains import Judged, Paired, cost_of, gain, goodness, judged, kinds_for, paired
from netgrain.learning.kernels import kernel
from netgrain.learning.learning_curves import scored_predictions
from netgrain.learning.leave_one_out import leave_one_out
from netgrain.learning.targets import Targets
from netgrain.models import MLP


def samples(n: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def pooled() -> nn.Module:
    return nn.Sequential(nn.AvgPool1d(2), nn.Conv1d(1, 6, 1), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2))


def whole() -> nn.Module:
    return nn.Sequential(nn.Conv1d(1, 6, 1), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))


X = samples(90, 1, 8)
Y = (X[:, 0, 0] > X[:, 0, 1]).long()


@pytest.fixture(scope="module")
def over() -> Paired:
    return paired(torch.cat([X, X[:3]]), torch.cat([Y, Y[:3]]), members=4)


@pytest.fixture(scope="module")
def both(over: Paired) -> tuple[Judged, Judged]:
    return judged(pooled, over), judged(whole, over)


def test_halves_share_no_sample_and_twins_stay_together(over: Paired) -> None:
    rows = torch.cat([over.choosing, over.measuring])
    assert rows.sort().values.tolist() == list(range(93))
    assert not set(over.groups[over.choosing].tolist()) & set(over.groups[over.measuring].tolist())
    assert len(over.choosing) in range(45, 49)


def test_the_gain_and_its_errors_by_brute_force(over: Paired, both: tuple[Judged, Judged]) -> None:
    """Both sets of leave-one-out predictions, by solving the ridge problem again without each group of samples."""
    columns, right = over.targets.columns, []
    for make in (pooled, whole):
        K = kernel(make, over.X, kind="layers", members=4, method="sampled", progress=False)
        assert K.parts is not None
        half = K.parts[2:].mean(0)
        ridge = leave_one_out(half, columns, groups=over.groups).ridge
        n = len(columns)
        H = torch.eye(n).double() - 1 / n
        C = H @ half @ H
        C = C / C.diagonal().mean()
        predictions = torch.zeros_like(columns)
        for i in range(n):
            kept = (over.groups != over.groups[i]).nonzero()[:, 0]
            m = len(kept)
            # a free intercept: bordered system
            A = torch.zeros(m + 1, m + 1).double()
            A[:m, :m] = C[kept[:, None], kept] + ridge * torch.eye(m)
            A[:m, m] = A[m, :m] = 1
            b = torch.cat([columns[kept], torch.zeros(1, columns.shape[1]).double()])
            solved = torch.linalg.solve(A, b)
            predictions[i] = C[i, kept] @ solved[:m] + solved[m]
        shown = scored_predictions(predictions, over.targets, over.groups)
        right.append((shown.argmax(1) == over.targets.values)[over.measuring].double())
    found = gain(*both)
    difference = right[1] - right[0]
    assert found.value == pytest.approx(float(difference.mean()))
    assert found.samples == pytest.approx(float(difference.std()) / math.sqrt(len(difference)))
    assert found.n == len(over.measuring)
    assert found.value > 0.2  # a pool hides which of two neighbours is larger


def test_the_error_over_members_is_the_jackknife_of_pairs(both: tuple[Judged, Judged]) -> None:
    before, after = both
    a, b = (y - x for x, y in zip(before.blocks, after.blocks, strict=True))  # two blocks of one member each
    assert gain(before, after).members == pytest.approx(abs(a - b) / 2)
    assert gain(before, before).members == 0.0
    assert gain(before, before).value == 0.0
    assert gain(before, before).samples > 0  # one more sample could differ


def test_what_chooses_does_not_measure(both: tuple[Judged, Judged]) -> None:
    before, after = both
    lucky = Judged(torch.ones_like(after.choosing), after.measuring, after.blocks, after.kind)
    assert gain(before, lucky).chosen_by > gain(before, after).chosen_by
    assert gain(before, lucky).value == gain(before, after).value
    other = gain(before, after, choosing=lucky)
    assert (other.value, other.chosen_by) == (gain(before, after).value, gain(before, lucky).chosen_by)


def test_numbers_have_the_score_of_explained_variance() -> None:
    values = samples(40, 1).double()
    targets, predictions = Targets(values), 0.8 * values
    score = goodness(targets, predictions, None)
    spread = values.var(correction=0) * (40 / 39) ** 2
    assert float(score.mean()) == pytest.approx(float(1 - (0.2 * values).square().mean() / spread))


def test_the_best_of_many_gains_nothing_where_labels_are_noise() -> None:
    """The mean over seeds of the chosen change's gain: on the choosing half it is luck, on the other one nothing."""
    chosen, measured, covered, seeds = 0.0, [], 0, 200
    generator = torch.Generator().manual_seed(0)
    for _ in range(seeds):
        plain, *others = [by_chance(generator) for _ in range(21)]
        best = max((gain(plain, other) for other in others), key=lambda g: g.chosen_by)
        chosen += best.chosen_by / seeds
        measured.append(best.value)
        covered += abs(best.value) < 1.96 * best.samples
    mean, error = torch.tensor(measured).mean(), torch.tensor(measured).std() / seeds**0.5
    assert chosen > 0.05  # the luck of the best of twenty
    assert abs(float(mean)) < 3 * float(error)
    assert 0.9 * seeds <= covered <= 0.99 * seeds


def by_chance(generator: torch.Generator) -> Judged:
    halves = torch.randint(2, (2, 150), generator=generator).double()
    return Judged(halves[0], halves[1], (0.5, 0.5), "layers")


def test_kinds_and_costs() -> None:
    dense, convolutional = partial(MLP, channels=4, image_size=1, outputs=2), whole
    assert kinds_for(dense()) == ("layers", "tangent")
    assert kinds_for(convolutional()) == ("layers",)
    total, each = cost_of(convolutional, (1, 8), 50, 4)
    assert each == 2 * 6 * 8 + 2 * 48 * 2
    assert total == 4 * 50 * each + 2 * 40 * 50**3
