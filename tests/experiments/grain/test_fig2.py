"""Figure 2: courses of networks and the claims about them."""

import math

import pytest
import torch

from netgrain import Estimate
from netgrain.data import Dataset, Split
from netgrain.experiments.grain import fig2
from netgrain.experiments.grain import following as f
from netgrain.experiments.grain.trials import Trials
from netgrain.experiments.theory.inclusion import Inside
from netgrain.runtime.units import Outcome


def _rows(members: int = 5, times: int = 3, d: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randn(members, times, 2, d, generator=torch.Generator().manual_seed(seed))


def _verdicts(claims: list) -> dict[str, str]:
    return {c.name: c.verdict for c in claims}


def _course(rise: Estimate, slope: Estimate, excess: Estimate, left_out: int = 0) -> fig2.Course:
    flat = [Estimate(0.3, 0.01, 8, 0.2)] * 3
    since = [Estimate(v, 0.01, 8) for v in (0.0, -0.1, 0.2)]
    return fig2.Course(
        steps=[0, 1, 5], corr={"GSG": flat, "S": flat, "I": flat}, train=flat, test=flat, since=since,
        rise=f.Rise(rise, rise, (2, 1)), inside=Inside(excess, 0.1, excess), dimension=3, slope=slope, members=8,
        left_out=left_out,
    )  # fmt: skip


def test_fig2_claims() -> None:
    yes, no, maybe = Estimate(0.2, 0.01, 8), Estimate(-0.2, 0.01, 8), Estimate(0.01, 0.1, 8)
    courses = {
        "MLP": _course(yes, no, yes),
        "LeNet": _course(no, yes, no),
        "ResNet18": _course(maybe, maybe, maybe, left_out=1),
        "ViT": _course(Estimate(math.nan, math.nan, 2), no, yes),
    }
    found = fig2.claims(fig2.Result(fig2.PRESETS["smoke"], courses, "digits"))
    verdicts = _verdicts(found)
    assert len(verdicts) == len(found) == 15
    assert "MLP: above S" not in verdicts
    assert {v for n, v in verdicts.items() if n.startswith("MLP")} == {"holds"}
    assert {v for n, v in verdicts.items() if n.startswith("LeNet")} == {"fails"}
    assert {v for n, v in verdicts.items() if n.startswith("ResNet18")} == {"undecided"}
    assert verdicts["ViT: rise"] == "undecided"
    notes = {c.name: c.note for c in found}
    assert "an identity" in notes["MLP: rise"]
    assert "1 diverged" in notes["ResNet18: rise"]
    assert "step (5 and 1)" in notes["LeNet: rise"]
    assert fig2.when(courses["MLP"]) == (
        "two standard errors below its start first at step 1, above its start first at step 5"
    )


def test_diverged_members_leave_a_course() -> None:
    bad = Outcome({"diverged": True, "train": [], "test": []}, {"rows": torch.zeros(0)})
    good = [
        Outcome({"diverged": False, "train": [50.0, 60.0], "test": [50.0, 40.0]}, {"rows": _rows(1, 2, seed=i)[0]})
        for i in range(6)
    ]
    eye = torch.eye(6, dtype=torch.float64)
    target = Outcome({"dimension": 1}, {"GSG": eye, "S": eye, "top": eye[:, :1]})
    slope = fig2.mean_slope([Outcome({"slopes": [1.0, None, 3.0]})])
    assert (slope.value, slope.n) == (2.0, 2)
    course = fig2.course_of([0, 5], Trials([[o] for o in (*good, bad)]), target, slope)
    assert (course.members, course.left_out) == (6, 1)
    assert [v.value for v in course.train] == [50.0, 60.0]
    assert course.corr["S"][1].value == pytest.approx(course.corr["I"][1].value)
    gone = fig2.course_of([0, 5], Trials([[bad], [bad]]), target, slope)
    none = fig2.Result(fig2.PRESETS["smoke"], {"LeNet": gone}, "digits")
    assert {c.verdict for c in fig2.claims(none) if "slope" not in c.name} == {"undecided"}
    assert "2 diverged" in fig2.claims(none)[0].note


def test_full_batch_has_half_of_either_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def pictures(*, samples: int, tests: int, **_: object) -> Split:
        made = [torch.arange(n).float().reshape(-1, 1, 1, 1).expand(-1, 1, 2, 2) for n in (samples, tests)]
        return Split(*(Dataset(X, (torch.arange(len(X)) % 5 < 3).long(), "made up") for X in made))

    monkeypatch.setattr(fig2, "pictures", pictures)
    images = {"samples": 20, "tests": 10}
    X, y, tests, labels = fig2.data_of(images, "true")
    assert X.shape == (20, 1, 2, 2)
    assert int(y.sum()) == 10
    assert torch.equal((X[:, 0, 0, 0] % 5 < 3).long(), y)
    again, random, _, other = fig2.data_of(images, "random")
    assert torch.equal(again, X)
    assert not torch.equal(random, y)
    assert torch.equal(random, fig2.data_of(images, "random")[1])
    assert len(tests) == len(labels) == len(other) == 10
