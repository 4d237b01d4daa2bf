"""Figure 2: its data, its variants, and what its units compare."""

import pytest
import torch

from netgrain.data import Dataset, Split
from netgrain.experiments.grain import fig2, fig8


def test_text_and_code_differ_in_the_rate_of_the_mlp() -> None:
    paper = fig2.PRESETS["paper"]
    assert {n: paper.rate(n) for n in paper.networks} == dict.fromkeys(fig2.NETWORKS, 0.1)
    code = fig2.replace(paper, variant="code")
    assert code.rate("MLP") == 0.01
    assert code.rate("LeNet") == 0.1
    assert (paper.decay, paper.clip, paper.microbatch) == ("linear", 5.0, 1000)
    assert (fig8.PRESETS["paper"].decay, fig8.PRESETS["paper"].clip) == (None, None)


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
