"""Tables as text: FILE.csv with the names of its columns in the first line, parted by commas, semicolons or tabs."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

import numpy as np

from netgrain.data.dataset import Dataset
from netgrain.data.in_memory import Array
from netgrain.data.tables import datasets_of_tables
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import NetgrainError

SEPARATORS = ",;\t|"
MISSING = frozenset({"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null"})  # as pandas reads them
MISSING_AMONG_NUMBERS = frozenset({"None", "none", "?", "-"})  # words elsewhere
TRUTHS = {"true": "1", "false": "0"}
MOST_BYTES = 2**30  # of a file of text


def read_parts(path: Path, wanted: Wanted) -> list[Dataset]:
    """The table of a file: numbers and words are features, one column holds the labels."""
    columns = read_columns(path)
    return datasets_of_tables([columns], name=path.name, wanted=wanted, notes=[])


def read_columns(path: Path) -> dict[str, Array]:
    """The columns of a file by name: whole numbers, numbers (NaN where missing) or words."""
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise NetgrainError(
                f"{path} has {size / 2**30:.1f} GiB of text, expected at most {MOST_BYTES / 2**30:.0f}: save it as "
                ".parquet or .npz, or with fewer rows."
            )
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        raise NetgrainError(f"{path} is no text in UTF-8 ({e.reason} at byte {e.start}); save it as UTF-8.") from e
    except OSError as e:
        raise NetgrainError(f"cannot read {path}: {e.strerror}.") from e
    first = text.lstrip("\r\n").split("\n", 1)[0]
    separator = "\t" if path.suffix.casefold() == ".tsv" else max(SEPARATORS, key=first.count)
    header, rows = _rows(text, path, separator)
    return {name: _column([row[i] for row in rows], comma=separator == ";") for i, name in enumerate(header)}


def _rows(text: str, path: Path, separator: str) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the rows, all of the same length."""
    if "\0" in text:
        raise NetgrainError(f"{path} is not a text file (it holds zero bytes); expected lines of values and commas.")
    try:
        lines = csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=True)
        table = [(lines.line_num, row) for row in lines if any(cell.strip() for cell in row)]
    except csv.Error as e:
        raise NetgrainError(f"{path} cannot be read as a table ({e}); expected lines of values and commas.") from e
    header = [cell.strip() for cell in table[0][1]] if table else []
    if header and all(_is_number(cell) for cell in header):
        raise NetgrainError(
            f"the first line of {path} holds numbers ({', '.join(header)[:40]}); expected the names of the columns: "
            "add them as the first line."
        )
    if len(table) < 2:
        found = "nothing" if not table else "only the names of columns"
        raise NetgrainError(f"{path} is empty (it holds {found}); expected names of columns and a row for each sample.")
    if double := sorted({name for name in header if header.count(name) > 1}):
        raise NetgrainError(f"{path} has several columns called '{double[0]}'; expected different names.")
    for number, row in table[1:]:
        if len(row) != len(header):
            raise NetgrainError(
                f"line {number} of {path} has {len(row)} values, the first line has {len(header)} names; expected as "
                "many (put quotes around a value that contains a comma)."
            )
    return header, [row for _, row in table[1:]]


def _column(cells: list[str], *, comma: bool) -> Array:
    """Numbers if every value is one, else words; comma: decimals may have one."""
    words = [cell.strip() for cell in cells]
    numbers = [TRUTHS.get(w.casefold(), w.replace(",", ".") if comma else w) for w in words]
    gaps = np.array([word in MISSING or word in MISSING_AMONG_NUMBERS for word in words])
    try:
        given = np.array([number for number, gap in zip(numbers, gaps, strict=True) if not gap], np.float64)
    except ValueError:
        return np.array(["" if word in MISSING else word for word in words], str)
    if gaps.all() and not all(word in MISSING for word in words):
        return np.array(words, str)
    if gaps.any():
        found = np.full(len(words), np.nan)
        found[~gaps] = given
        return found
    whole = all(number.lstrip("+-").isdecimal() for number in numbers) and bool((np.abs(given) < 2**53).all())
    return given.astype(np.int64) if whole else given


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
