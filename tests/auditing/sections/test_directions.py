"""Directions on the page: the first, those at the edge, the last; pictures of images and bars of tables."""

import torch

from netgrain.auditing.audits import Audit
from netgrain.auditing.axes import Axes
from netgrain.auditing.sections.directions import _shown


def test_which_are_shown() -> None:
    def axes(d: int, leading: int) -> Axes:
        return Axes(torch.ones(d), torch.eye(d), [(0, d)], leading, d)

    shown = _shown(axes(100, 40))
    assert [i for group, i in shown if group == "strongest"] == list(range(16))
    assert [i for group, i in shown if group == "weakest"] == list(range(84, 100))
    middle = [i for group, i in shown if group == "middle"]
    assert (len(middle), 40 in middle, middle) == (16, True, sorted(middle))
    for d in (3, 20, 33):
        assert [i for _, i in _shown(axes(d, d))] == list(range(d))


def test_numbers_and_pictures(audited: Audit) -> None:
    rows = audited.report["directions"]
    assert [r["index"] for r in rows] == sorted({r["index"] for r in rows})
    cumulative = [r["cumulative"] for r in rows]
    assert cumulative == sorted(cumulative)
    assert all(r["block"][0] <= r["index"] < r["block"][1] for r in rows)
    assert all(0 <= r["label_relevance"] <= 1 for r in rows)
    assert all(r["picture"].startswith("data:image/png") and r["fourier"] and r["bars"] is None for r in rows)
