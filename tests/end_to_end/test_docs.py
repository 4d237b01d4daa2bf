"""What the documents show can be typed: their links, the commands they name, and the runner of all their lines."""

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from netgrain.cli.app import app
from tests.end_to_end import docs_lines
from tests.end_to_end.docs_lines import Piece, as_run, marks, pieces

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
EXTRAS = re.compile(r"netgrain\[\w")  # there is no package index that has netgrain


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    document = ROOT / name
    for target in re.findall(r"\]\(([^)#]+)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), f"{name} points to {target}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_extras_are_installed_from_the_checkout(name: str) -> None:
    assert not EXTRAS.findall((ROOT / name).read_text())


# --- commands ---------------------------------------------------------------------------------------------------------


def commands_by_name() -> dict[str, Any]:
    return typer.main.get_command(app).commands  # type: ignore[attr-defined,no-any-return]


def parsed(line: str) -> None:
    """An error unless the command line takes these words; nothing is run."""
    words = shlex.split(line, comments=True)
    assert words[0] == "netgrain"
    commands, name, words = commands_by_name(), words[1], words[2:]
    assert name in commands, f"no such command: {line}"
    if "--help" not in words:
        commands[name].make_context(line, list(words))
    if name == "plan":
        parsed(f"netgrain {shlex.join(words)}".removesuffix(" --json"))


def help_examples() -> list[str]:
    texts = [app.info.epilog or "", *(command.epilog or "" for command in commands_by_name().values())]
    return [line.strip() for text in texts for line in text.splitlines() if line.strip().startswith("netgrain ")]


def in_prose() -> list[str]:
    """Commands that stand in a sentence; words in capitals are placeholders, and most fit as they are."""
    texts = (re.sub(r"```.*?```", "", (ROOT / name).read_text(), flags=re.DOTALL) for name in DOCUMENTS)
    found = [" ".join(span.split()) for text in texts for span in re.findall(r"`(netgrain [^`]+)`", text)]
    return sorted({line for line in found if "COMMAND" not in line and "…" not in line})


def printed() -> list[str]:
    found = [piece for name in DOCUMENTS for piece in pieces(name, (ROOT / name).read_text())]
    hint = (ROOT / "examples" / "next.txt").read_text().splitlines()  # the end of `make demo`
    found += [Piece("next.txt", 0, "sh", row.strip()) for row in hint if row.startswith("  netgrain ")]
    return [piece.text for piece in found if piece.kind == "sh" and piece.text.startswith("netgrain ")]


def test_every_command_shows_examples() -> None:
    assert len(help_examples()) > 30
    assert len(printed()) > 30


@pytest.mark.parametrize("line", sorted({*help_examples(), *printed(), *in_prose()}))
def test_the_command_line_takes_what_is_shown(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words and options. Models and data are looked for at once: the reader's data are here by name only."""
    monkeypatch.setattr("netgrain.cli.options.check_name", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, tmp_path / "out" / "demo"):
        (folder / "photos").mkdir(parents=True)
        (folder / "my.npz").touch()
    parsed(line)


CHEAP = ("group ", "list", "limit --group D8 --depth", "geometry lenet --input", "card lenet", "run fig1 --scale smoke")


@pytest.mark.parametrize("line", [e for e in help_examples() if e.removeprefix("netgrain ").startswith(CHEAP)])
def test_cheap_examples_of_the_help_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, shlex.split(line)[1:])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("line", ["netgrain audti lenet", "netgrain run fig1 --scal smoke", "netgrain plan run --no"])
def test_a_wrong_command_is_not_taken(line: str) -> None:
    with pytest.raises(Exception, match=r"[Nn]o such (command|option)"):
        parsed(line)


def test_no_example_gives_eight_pixels_to_a_network_that_needs_more() -> None:
    for line in {*help_examples(), *printed(), *in_prose()}:
        assert not re.search(r"\blenet\b.*--data digits", line), line


# --- the runner of all lines ------------------------------------------------------------------------------------------

PAGE = """
# Title
```sh
export READY=yes   # the set-up
```
Words, and a formula that is no command:

    G = E[JᵀJ]

```
test "$READY" = yes && touch made
netgrain run fig1 \\
  --scale laptop    # slow: 2 minutes; data: cifar10
# a line for the reader
```
<!-- extra: lightning; extra: tensorboard -->
```python
import lightning

x = 1
```
```text
an output
```
"""


def test_pieces_of_a_page() -> None:
    found = pieces("p.md", PAGE)
    assert [(piece.kind, piece.line) for piece in found] == [("sh", 4), ("sh", 11), ("sh", 12), ("python", 18)]
    assert found[2].text == "netgrain run fig1 --scale laptop"
    assert found[2].marks == (("slow", "2"), ("data", "cifar10"))
    assert found[3].named("extra") == ["lightning", "tensorboard"]
    assert marks("after a kill") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("    netgrain list\n", "p.md:1: put this command in a fence"),
        ("```sh\nls\n", "p.md:1: this block has no end"),
        ("```console\n$ ls\n```\n", "p.md:1: a block of 'console'"),
    ],
)
def test_nothing_escapes_by_its_form(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        pieces("p.md", text)


@pytest.mark.parametrize(
    ("text", "mark", "small"),
    [
        ("make demo", "slow", "make demo SCALE=smoke"),
        ("netgrain run fig1 --scale laptop --out a", "slow", "netgrain run gc-double-descent --scale smoke --out a"),
        ("netgrain theory --scale paper", "slow", "netgrain theory theorem-a2 --scale smoke"),
        ("netgrain reproduce --only complexity", "slow", "netgrain reproduce --only gc-double-descent --scale smoke"),
        ("netgrain run gc-l2 --out a", "slow", "netgrain run gc-l2 --out a --scale smoke"),
        ("netgrain plan run fig10", "slow", "netgrain plan run gc-double-descent --scale smoke"),
        ("netgrain audit vit --data mnist", "slow", "netgrain audit vit:width=0.125 --data mnist --limit 300"),
        ("netgrain x --address 10.0.0.1:6379 --workers 64", "cluster", "netgrain x --address 127.0.0.1:7 --workers 2"),
    ],
)
def test_marked_lines_are_run_smaller_and_nearer(text: str, mark: str, small: str) -> None:
    piece = Piece("p.md", 1, "sh", text, ((mark, ""),))
    assert as_run(piece, printed=False, port=7) == small
    if mark == "slow":
        assert as_run(piece, printed=True, port=7) == text


def checked(folder: Path, page: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    root = folder / "root"
    (root / "docs").mkdir(parents=True)
    (root / "README.md").write_text(page)
    code = docs_lines.main(["--root", str(root), "--out", str(folder / "out"), "--limit", "20"])
    return code, capsys.readouterr().out


SETUP = "```sh\nexport READY=yes\n```\nNow use it.\n"


def test_a_good_page_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = SETUP + (
        '```sh\ntest "$READY" = yes\nexport B=2\ntest $B = 2 && echo 3 > c.txt\n```\n'
        "```python\nx = int(open('c.txt').read())\n```\n```python\nassert x == 3\n```\n"
    )
    code, said = checked(tmp_path, page, capsys)
    assert code == 0, said
    assert "6 of 6 lines run" in said
    assert not (tmp_path / "root" / "c.txt").exists()  # in a copy


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("```sh\necho no such luck; false\n```", "no such luck"),
        ("```sh\nnetgrain-without-setup list\n```", "command not found"),
        ("```python\nundefined_name\n```", "NameError"),
        ("```python\nimport os\nos._exit(0)\n```", "no answer from Python"),
        ("```python\nimport warnings\nwarnings.warn('old')\n```", "UserWarning: old"),
        ("```sh\nsleep 1 # slow\n```", "no rule of SMALLER"),
    ],
)
def test_a_broken_line_is_found(block: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = checked(tmp_path, f"{SETUP}{block}\n", capsys)
    assert code == 1
    assert said in output
    assert "2 of 2 lines run" in output
    assert "1 failed" in output


def test_a_set_up_that_fails_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = checked(tmp_path, "```sh\nfalse\n```\nthen\n```sh\ntouch here\n```\n", capsys)
    assert (code, "touch here" in output) == (1, False)


def test_the_set_up_ends_with_make_demo_whose_files_other_pages_use() -> None:
    page = "```sh\nmake setup\n```\nThen:\n```sh\nmake demo    # slow: minutes\n```\n```sh\nls out/demo\n```\n"
    assert [piece.text for piece in docs_lines._setup(pieces("README.md", page))] == ["make setup", "make demo"]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 900


def test_what_needs_a_missing_extra_is_told_and_not_counted_as_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs_lines, "_no_extra", lambda name, session: f"needs {name}")
    code, output = checked(tmp_path, f"{SETUP}```sh\nfalse # extra: vision\n```\n", capsys)
    assert code == 0
    assert "1 of 2 lines run" in output
    assert "false (needs vision)" in output


# --- the site ---------------------------------------------------------------------------------------------------------


def test_broken_links_of_a_site_are_found(tmp_path: Path) -> None:
    problems = runpy.run_path(str(ROOT / "docs" / "links.py"))["problems"]
    good = '<a href="b.html#there">b</a><a href="#here" id="here">a</a><a href="https://example.org/x">x</a>'
    (tmp_path / "index.html").write_text(good)
    (tmp_path / "b.html").write_text('<p id="there"></p><img src="p.png"><link rel="stylesheet" href="s.css?v=1">')
    (tmp_path / "p.png").touch()
    (tmp_path / "s.css").touch()
    assert problems(tmp_path) == ([], 4)
    bad = (
        '<a href="c.html">c</a><a href="b.html#gone">b</a><img src="q.png"><script src="https://cdn.org/m.js"></script>'
    )
    (tmp_path / "index.html").write_text(bad)
    assert problems(tmp_path)[0] == [
        "index.html links to c.html, and there is no such file",
        "index.html links to b.html#gone, and that page has no such anchor",
        "index.html links to q.png, and there is no such file",
        "index.html loads https://cdn.org/m.js from another site",
    ]
