"""Names of parts."""

from netgrain.data.splits import part_of, train_and_test


def test_names_of_parts() -> None:
    assert [part_of(word) for word in ("TRAIN", "testing", "dev", "data")] == ["train", "test", "validation", None]
    assert train_and_test({"validation": 1, "train": 0}) == [0, 1]
    assert train_and_test({"train": 0}) == [0]
