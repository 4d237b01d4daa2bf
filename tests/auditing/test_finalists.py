"""Short trainings of the best changes: who is trained, for how long, and what their gains are made of."""

import sys
from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch import nn

from netgrain.auditing import finalists
from netgrain.auditing.advice import advise
from netgrain.auditing.catalogue import Catalogue, catalogue
from netgrain.auditing.finalists import (
    FIXED_ERROR,
    MOST,
    TRAINED,
    UNTRAINED,
    affordable,
    contenders,
    final_gain,
    finals,
)
from netgrain.auditing.known_network import Change
from netgrain.auditing.paired_gains import Gain, error_of_mean, paired
from netgrain.learning.trials import FEW_RATES, FEWEST_STEPS, RATES, STEPS
from netgrain.runtime.errors import NetgrainError

X = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] * X[:, 1] > 0).long()


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))


def change(name: str, kind: str = "pool", family: object = make) -> Change:
    return Change(name, "", kind, family)  # type: ignore[arg-type]


def told(value: float, chosen_by: float | None = None) -> Gain:
    return Gain(value, 0.02, 0.01, 0.03, value if chosen_by is None else chosen_by, 100)


def test_the_best_are_trained_and_the_best_of_each_kind_that_kernels_cannot_judge() -> None:
    found = [(change(str(i)), told(i / 100)) for i in range(20)]
    found += [(change(f"gain {i}", "initial gain"), told(-i / 100)) for i in range(3)]
    found += [(change(f"norm {i}", "norm"), told(-0.5 - i)) for i in range(3)]
    names = [c.change for c, _ in contenders(found)]
    assert names == ["19", "18", "gain 0", "norm 0", "17", "16", "15", "14"]
    assert len(names) == MOST
    assert [c.change for c, _ in contenders(found[:3])] == ["2", "1", "0"]


def test_the_budget_sets_rates_steps_and_how_many_are_trained() -> None:
    over = paired(X, Y, members=4, samples=100)
    wanted = [(change(str(i)), told(i / 10)) for i in range(6)]
    step = finalists._step(make, over)
    most = 7 * len(RATES) * STEPS * step
    assert affordable(make, wanted, over, most) == (wanted, (RATES, STEPS))
    fewer = affordable(make, wanted, over, 5 * len(RATES) * STEPS * step)
    assert fewer == (wanted[:4], (RATES, STEPS))
    assert affordable(make, wanted, over, 4.9 * len(RATES) * STEPS * step) == (wanted, (FEW_RATES, STEPS))
    assert affordable(make, wanted, over, 2 * len(FEW_RATES) * FEWEST_STEPS * step) == (
        wanted[:1],
        (FEW_RATES, FEWEST_STEPS),
    )
    assert affordable(make, wanted, over, 1.0)[0] == []
    assert finals(make, wanted, over, budget=1.0).gains == {}


def test_what_is_trained_comes_first_and_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = catalogue(make, X)
    few = Catalogue(tuple(c for c in whole.changes if c.kind in ("initial gain", "activation")), 0)
    monkeypatch.setattr(sys.modules[advise.__module__], "catalogue", lambda *_: few)
    by_kernels = advise(make, X, Y, samples=100, members=4, trained=0)
    by_training = advise(make, X, Y, samples=100, members=4, trained=2.5e10)
    assert (by_kernels.steps, any(row.trained for row in by_kernels.rows)) == (0, False)
    assert (by_training.steps, by_training.rates) == (FEWEST_STEPS, len(FEW_RATES))
    trained = [row.trained for row in by_training.rows]
    assert 0 < sum(trained) < len(trained)
    assert trained == sorted(trained, reverse=True)
    assert by_training.first is None or by_training.first.trained
    assert by_training.as_dict()["rows"][0]["trained"] is True
    kernels = {row.change: row.gain for row in by_kernels.rows}
    assert all(row.gain == kernels[row.change] for row in by_training.rows if not row.trained)


class Stuck(nn.Module):
    """Its features are good, and its answers never depend on them."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.head = nn.Linear(6, 32), nn.Linear(32, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.features(x).relu() * 1e-12)
        return out


def test_own_answers_count_as_much_as_what_features_tell() -> None:
    easy = paired(X, (X[:, 0] > 0).long(), members=4, samples=200)
    stuck, free = (finalists.trained_goodness(f, easy, ((1e-3,), 150)) for f in (Stuck, make))
    assert float(stuck[stuck.isfinite()].mean()) < 0.8 < 0.9 < float(free[free.isfinite()].mean())


def test_a_gain_by_hand() -> None:
    over = paired(X, Y, members=4, samples=100)
    plain, after = torch.full((100,), float("nan")).double(), torch.full((100,), float("nan")).double()
    rows = torch.arange(0, 100, 3)  # those that did not train
    plain[rows], after[rows] = 0.0, (torch.arange(len(rows)) % 2).double()
    found = final_gain(plain, after, 1 - after, told(0.2, 0.4), over)
    measured = torch.tensor([after[i] for i in rows.tolist() if i in over.measuring])
    chose = torch.tensor([1 - after[i] for i in rows.tolist() if i in over.choosing])
    assert found.n == len(measured)
    assert found.value == pytest.approx(TRAINED * float(measured.mean()) + UNTRAINED * 0.2)
    assert found.chosen_by == pytest.approx(TRAINED * float(chose.mean()) + UNTRAINED * 0.4)
    assert found.samples == pytest.approx(TRAINED * error_of_mean(measured) + UNTRAINED * 0.02)
    assert found.model >= FIXED_ERROR


def test_one_that_diverges_is_no_advice_and_a_network_that_does_is_as_good_as_guessing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = paired(X, Y, members=4, samples=100)
    real, calls = finalists.trial_training, iter([True, False, True])

    def failing(*args: object, **options: object) -> object:
        if next(calls):
            raise NetgrainError("diverged")
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(finalists, "trial_training", failing)
    found = finals(make, [(change("good"), told(0.1)), (change("bad"), told(0.0))], over, budget=None)
    assert found.failed == ("bad",)
    assert list(found.gains) == ["good"]
    guessing = max(float((over.targets.values == c).double().mean()) for c in (0, 1))
    assert found.gains["good"].value > TRAINED * (0.9 - guessing - 0.25)


def test_numbers_are_judged_by_the_share_that_is_explained() -> None:
    over = paired(X, X[:, 0] + 0.1 * X[:, 1], members=4, samples=200)
    one = partial(nn.Linear, 6, 1)
    values = finalists.trained_goodness(one, over, ((1e-2,), 300))
    kept = values[values.isfinite()]
    assert 80 < len(kept) < 120
    assert 0.8 < float(kept.mean()) < 1.0


@pytest.fixture(autouse=True)
def _left_alone() -> Iterator[None]:
    state = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), state)
