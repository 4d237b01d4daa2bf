"""Errors, warnings, tables and exit codes."""

import warnings

import pytest
import typer

from netgrain.cli import output
from tests.cli.commands import Run


def test_other_warnings_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(RuntimeWarning, match="not ours"), output.one_sentence_errors():
        warnings.warn("not ours", RuntimeWarning, stacklevel=1)
    assert capsys.readouterr().err == ""


def test_bugs_keep_their_traceback(run: Run) -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        run("geometry", "models.py:Buggy", "--input", "4", "--members", "3")


def test_an_answer_is_json_or_a_table_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    answer = output.Answer({"a": 1}, ["a table"], code=output.FAILED, written=["a.png"])
    for as_json, printed in ((True, '{\n  "a": 1\n}\n'), (False, "a table\nwritten: a.png\n")):
        with pytest.raises(typer.Exit) as end:
            answer.give(as_json)
        assert end.value.exit_code == 1
        assert capsys.readouterr().out == printed


def test_what_is_missing_is_said_after_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    answer = output.Answer({}, [], error="one file\nis missing.")
    with pytest.raises(typer.Exit) as end, output.one_sentence_errors():
        answer.give(True)
    assert end.value.exit_code == output.BAD_INPUT
    assert capsys.readouterr() == ("{}\n", "error: one file is missing.\n")


def test_an_interrupt_names_what_was_kept_once(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(typer.Exit) as end,
        output.one_sentence_errors(),
        output.on_interrupt(lambda: "two files are there"),
    ):
        raise KeyboardInterrupt
    assert end.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted; two files are there\n"


def test_cells_are_text_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    table = output.plain_table(("[b]", "n"), [("[link]", "12")], right=("n",))
    output.Answer({}, [[("[bold]name", "[/] \\[red]x")], table]).give(False)
    out = capsys.readouterr().out
    assert "[bold]name  [/] \\[red]x" in out
    assert "[link]" in out
