"""Tables as text."""

from pathlib import Path

import numpy as np
import pytest

from netgrain.data.csv_files import read_columns
from netgrain.runtime.errors import NetgrainError


def table(folder: Path, text: str | bytes, name: str = "own.csv") -> Path:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder / name


def test_numbers_and_words(tmp_path: Path) -> None:
    text = (
        '\ufeffn,x,word,"a, b",truth,gap,none\r\n1,0.5,cat,7,True,,none\r\n-2, 1e3 ,"d ""o"" g",8,false,3,mild\r\n\r\n'
    )
    found = read_columns(table(tmp_path, text))
    assert list(found) == ["n", "x", "word", "a, b", "truth", "gap", "none"]
    assert [values.dtype.kind for values in found.values()] == ["i", "f", "U", "i", "i", "f", "U"]
    assert found["x"].tolist() == [0.5, 1000.0]
    assert found["word"].tolist() == ["cat", 'd "o" g']
    assert found["truth"].tolist() == [1, 0]
    assert np.isnan(found["gap"][0])
    assert found["gap"][1] == 3
    assert found["none"].tolist() == ["none", "mild"]  # a word among words


@pytest.mark.parametrize("cell", ["", "NA", "NaN", "null", "?", "None"])
def test_what_stands_for_a_missing_number(cell: str, tmp_path: Path) -> None:
    assert np.isnan(read_columns(table(tmp_path, f"a,b\n{cell},1\n2,1\n"))["a"][0])


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "a;b\n1,5;x\n2,0;y\n"), ("a.tsv", "a\tb\n1.5\tx\n2\ty\n"), ("a.csv", "a|b\n1.5|x\n2|y")],
)
def test_other_separators(name: str, text: str, tmp_path: Path) -> None:
    found = read_columns(table(tmp_path, text, name))
    assert (found["a"].tolist(), found["b"].tolist()) == ([1.5, 2.0], ["x", "y"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"is empty \(it holds nothing\)"),
        ("a,b\n", r"is empty \(it holds only the names of columns\)"),
        ("1,2\n3,4\n", r"first line of .* holds numbers \(1, 2\); expected the names of the columns"),
        ("a,b\n1,2\n3\n", "line 3 of .* has 1 values, the first line has 2 names"),
        ("a,b,a\n1,2,3\n", "several columns called 'a'"),
        (b"a,b\n\xff,2\n", "is no text in UTF-8 .* at byte 4"),
        (b"a,b\n\x00,2\n", "holds zero bytes"),
        ('a,b\n"1,2\n', "cannot be read as a table"),
        ("a,b\n" + "9" * 140_000 + ",1\n", "cannot be read as a table .*field larger"),
    ],
)
def test_what_is_no_table(text: str | bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(NetgrainError, match=said):
        read_columns(table(tmp_path, text))


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netgrain.data.csv_files.MOST_BYTES", 5)
    with pytest.raises(NetgrainError, match=r"GiB of text, expected at most .* save it as \.parquet"):
        read_columns(table(tmp_path, "a,b\n1,2\n"))
