"""Curves of accuracy made up by hand, for the tests of figures 4, 10, 11 and 14."""

from netgrain.experiments.grain.planted_labels import LABELS, AccuracyCurve, CurveName, Judged


def curve(
    *rows: list[float], indices: list[int] | None = None, train: float = 100.0, left_out: int = 0
) -> AccuracyCurve:
    indices = indices or list(range(len(rows[0])))
    values = [2.0**-i for i in range(len(indices))]
    every = dict(enumerate(map(list, rows)))
    return AccuracyCurve(
        indices,
        values,
        every,
        {s: [train] * len(r) for s, r in every.items()},
        dict.fromkeys(every, [100.0] * len(rows[0])),
        left_out,
    )


def verdict(judged: Judged) -> str:
    return judged[0].verdict


NAME = CurveName("N", "linear")
STEEP = (
    [98.0, 95.0, 80.0, 60.0, 51.0, 50.0],
    [97.0, 96.0, 82.0, 61.0, 50.0, 51.0],
    [98.0, 95.0, 79.0, 58.0, 50.0, 50.0],
)
FLAT = (
    [80.0, 79.0, 80.0, 80.0, 80.0, 79.0],
    [79.0, 80.0, 80.0, 79.0, 80.0, 80.0],
    [80.0, 80.0, 79.0, 80.0, 79.0, 80.0],
)


def all_curves(steep: AccuracyCurve, flat: AccuracyCurve) -> dict[CurveName, AccuracyCurve]:
    found = {CurveName(n, k): steep for n in ("LeNet", "ResNet18", "ViT") for k in LABELS}
    return {**found, **{CurveName("MLP", k): flat for k in LABELS}}
