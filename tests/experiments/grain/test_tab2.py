"""Table 2 has the cells that the paper has, and none of Table 1 on a laptop."""

from netgrain.experiments.grain import pruning, tab1, tab2


def test_cells_of_the_paper() -> None:
    assert len(pruning.cells(tab1.PRESETS["paper"])) == 2 * 12  # in both variants
    assert len(pruning.cells(tab2.PRESETS["paper"])) == 2 * 27
    laptop = [set(pruning.cells(t.PRESETS["laptop"])) for t in (tab1, tab2)]
    assert not laptop[0] & laptop[1]
    assert all(pruning.printed_gain(n, level) > 0 for n in pruning.NETWORKS for level in range(10, 100, 10))
    assert pruning.printed_gain("ViT", 90) == 0.6
    assert pruning.printed("ResNet18", "score", 70) == "66.2±0.3"
