"""Courses and changes with chosen numbers, for the tests of claims and drawings."""

import torch

from netgrain import Estimate
from netgrain.experiments.grain import following as f
from netgrain.experiments.grain.change_by_index import Change, Directions
from netgrain.experiments.grain.courses import Course, Labels
from netgrain.experiments.theory.inclusion import Inside


def rows(members: int = 5, times: int = 3, d: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randn(members, times, 2, d, generator=torch.Generator().manual_seed(seed))


def directions(d: int = 16, kind: str = "ordered") -> Directions:
    """Of a G with d eigenvalues, with two, or with one."""
    values = {
        "ordered": torch.arange(d, 0, -1.0),
        "two": torch.where(torch.arange(d) < d // 4, 4.0, 1.0),
        "one": torch.ones(d),
    }[kind].double()
    bands = {"ordered": [(0, 1), (1, 2), (2, 4), (4, 8), (8, 16)], "two": [(0, d // 4), (d // 4, d)]}
    return Directions(values, torch.eye(d, dtype=torch.float64), bands.get(kind, bands["ordered"]), kind != "one")


def change(fall: Estimate, order: Estimate, kind: str = "ordered", random: float = 0.0) -> Change:
    along = directions(kind=kind)
    curve = [Estimate(1.0 / (k + 1), 0.01, 8, 1.0) for k in range(len(along.bands))]
    return Change(along, curve, curve, order, order, Estimate(random, 0.05, 8), fall)


def course(
    rise: Estimate, slope: Estimate, excess: Estimate, left_out: int = 0, kind: str = "ordered", beside: bool = True
) -> Course:
    flat = [Estimate(0.3, 0.01, 8, 0.2)] * 3
    since = [Estimate(v, 0.01, 8) for v in (0.0, -0.1, 0.2)]
    order = Estimate(-5 * rise.value, 5 * rise.stderr, rise.n)
    return Course(
        steps=[0, 1, 5], corr={"GSG": flat, "S": flat, "I": flat}, train=flat, test=flat, since=since,
        rise=f.Rise(rise, rise, (2, 1)), inside=Inside(excess, 0.1, excess), dimension=3, slope=slope, members=8,
        left_out=left_out, apart=Estimate(0.2 - rise.value, rise.stderr, rise.n), twins=[0.99, 0.98, 0.99],
        labels=Labels(flat, Estimate(0.2 - rise.value, rise.stderr, rise.n), [0.3] * 3, rise),
        change=change(rise, order, kind),
        beside=change(Estimate(0.0, 0.001, 8), order, kind) if beside else None,
    )  # fmt: skip
