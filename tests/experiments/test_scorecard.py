"""The scorecard: counts, tables that stay whole, and what the central table shows."""

from pathlib import Path

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.reproduction import Part, Reproduction
from netgrain.experiments.scorecard import scorecard
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime import run_folder as runs


def _made_up(*claims: Claim) -> Reproduction:
    about = {"hardware": runs.hardware(), "versions": runs.versions()}
    return Reproduction(
        Path(), "smoke", [Part("fig10", "geometry", "A title.", list(claims), 12.0)], 30.0, about, "2026-01-01"
    )


def test_the_scorecard_counts_and_keeps_its_tables_whole() -> None:
    page = scorecard(
        _made_up(
            claim(
                "predicted order", "rho ≥ 0.8", mean([0.9, 0.92, 0.94]), low=0.8, subject="LeNet, linear", paper="rho"
            ),
            claim("d", "is small", Estimate(9.0, 0.1, 4), high=5.0, paper="small", fitted=False),
            claim("a|b", "two\nlines", Estimate(1.0, 1.0, 4), low=0.0, note="a note"),
            claim("c", "is large", Estimate(0.0, 0.1, 4), low=5.0),
        )
    )
    assert "| **together** | 4 | 1 | 1 | 1 | 1 |" in page
    assert "| statements of the sources | 2 | 1 | 0 | 0 | 1 |" in page
    assert "| our own observations | 2 | 0 | 1 | 1 | 0 |" in page
    assert "| `fig10` | LeNet, linear | 0.92 | 0.87 to 0.97 | 3 | ≥ 0.8 | holds |" in page
    assert "a\\|b: two lines" in page
    assert "a note; to decide it: about 16 instead of 4" in page
    assert "| `fig10` | 12 |" in page


def test_the_central_table_shows_what_each_row_asks_and_no_interval_that_says_nothing() -> None:
    def row(case: str, *rhos: float, low: float) -> Claim:
        return claim("predicted order", "rho", mean(rhos), low=low, subject=case)

    page = scorecard(
        _made_up(
            row("weak", 0.2, 0.22, 0.24, low=1e-9),
            row("unknown", -0.9, 0.1, 0.9, low=1e-9),
            row("alone", 0.5, low=1e-9),
            row("equal", 0.6, 0.6, 0.6, low=0.8),
        )
    )
    assert "| `fig10` | weak | 0.22 | 0.17 to 0.27 | 3 | > 0 | holds |" in page
    assert "| `fig10` | unknown | 0.0333 | not determined | 3 | > 0 | undecided |" in page
    assert "| `fig10` | alone | 0.5 | not determined | 1 | > 0 | undecided |" in page
    assert "| `fig10` | equal | 0.6 | none: the same in all 3 | 3 | ≥ 0.8 | fails |" in page
    assert "-1 to 1" not in page


def test_the_printed_scorecard_is_what_the_code_prints_from_its_numbers() -> None:
    """docs/reproduction.md: threshold and verdict of the central table, from the rows below it."""
    page = (Path(__file__).parents[2] / "docs" / "reproduction.md").read_text()
    central = page.partition("## The central prediction")[2].partition("\n## ")[0]
    rows = [tuple(line.strip("| ").split(" | ")) for line in central.splitlines() if line.startswith("| `")]
    assert rows
    below: dict[tuple[str, str], tuple[str, str, str]] = {}
    experiment = ""
    for line in page.splitlines():
        if line.startswith("### `"):
            experiment = line.split("`")[1]
        cells = line.strip("| ").split(" | ")
        if len(cells) > 4 and ": predicted order: " in cells[1]:
            case, statement = cells[1].split(": predicted order: ")
            below[experiment, case] = (cells[0], statement, cells[5])
    assert len(rows) == len(below)
    for name, case, rho, interval, n, threshold, found in rows:
        judged, statement, count = below[name.strip("`"), case]
        least = statement.rpartition("at least ")[2] if "at least" in statement else None
        assert (found, n, threshold) == (judged, count, f"≥ {least}" if least else "> 0")
        if " to " in interval:
            low, high = map(float, interval.split(" to "))
            assert (low, high) != (-1, 1)
            assert low <= float(rho) <= high
            bound = float(least or 0)
            assert found == ("holds" if low > bound else "fails" if high < bound else "undecided")
