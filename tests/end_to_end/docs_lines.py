"""Runs every shell line and Python block of README.md and docs/*.md as a reader would: `make docs-lines`.

The README's lines up to `make demo` are its set-up. They run in a copy of the checkout, without any other environment
in reach, so what they do not install is not there. Then the pages run, each in a copy of its own, two at a time: shell
lines in one shell session, Python blocks in one Python session, in the order of the page.

Marks say what a line needs. They stand in the comment at its end (`# slow: 3 minutes; data: cifar10`), or in an HTML
comment in front of a whole block (`<!-- extra: lightning -->`):

    slow         run at a small scale (SMALLER says how), as printed with --as-printed
    cluster      run with a Ray cluster on this machine, or with SLURM's local mode
    extra: NAME  run by the Python that runs this file, where that has the extra
    data: NAME   run where netgrain finds that data set ($NETGRAIN_DATA or its cache)
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELL, PYTHON = ("", "sh"), ("python",)  # languages of fences
IGNORED = ("text",)  # outputs
MARKS = ("slow", "cluster", "extra", "data")
COMMAND = re.compile(r"(netgrain|make|python|pip|ray) ")  # what must not hide in an indented block

CHEAP = "gc-double-descent"  # an experiment of half a second
# What makes a slow line small; every rule that fits is applied.
SMALLER = (
    (r"^make demo$", "make demo SCALE=smoke"),
    (r"--scale (?:laptop|paper)\b", "--scale smoke"),
    # `make demo` has run figures already; these lines are about the command, so one cheap experiment stands for all
    (r"(?<= run )fig\d+\b", CHEAP),
    (r"(?<= --only )(?:fig\d+|complexity)\b", CHEAP),
    (r"^netgrain theory(?= --)", "netgrain theory theorem-a2"),
    (r"^(netgrain (?:plan )?(?:run|reproduce|theory)\b(?!.*--scale).*)$", r"\1 --scale smoke"),
    (r"^(netgrain (?:audit|compare|score|prune|complexity|what-if)\b(?!.*--limit).*)$", r"\1 --limit 300"),
    (r"(?<= )(resnet18|vit)(?= )", r"\1:width=0.125"),
    (r"--check \d+", "--check 64"),
    (r"--members \d+", "--members 8"),
    (r"--input 3x224x224\b", "--input 3x32x32"),
)
# What brings a cluster to this machine; {port} is that of its Ray.
NEARER = (
    (r"10\.0\.0\.1:6379", "127.0.0.1:{port}"),
    (r"--node-ip-address=10\.0\.0\.1 --port=6379", "--node-ip-address=127.0.0.1 --port={port} --num-cpus=2"),
    (r"slurm:partition=\S+", "slurm:cluster=local"),
    (r"--workers \d+", "--workers 2"),
)

DRIVER = """
import json, os, sys, traceback, warnings
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what a block prints goes to the log
if json.loads(sys.argv[1]):
    warnings.simplefilter("error")
session = {"__name__": "__main__"}
for asked in sys.stdin:
    page, line, text = json.loads(asked)
    try:
        exec(compile("\\n" * (line - 1) + text, page, "exec"), session)
        good = True
    except BaseException:
        traceback.print_exc()
        good = False
    sys.stdout.flush()
    print(json.dumps(good), file=answers, flush=True)
"""


Marks = tuple[tuple[str, str], ...]  # a mark and what follows it


@dataclass(frozen=True)
class Piece:
    """A shell line or a Python block, as it is printed."""

    page: str
    line: int
    kind: str  # "sh" or "python"
    text: str
    marks: Marks = ()

    def named(self, mark: str) -> list[str]:
        """What follows a mark, for each time it is there."""
        return [value for name, value in self.marks if name == mark]

    @property
    def first(self) -> str:
        return next(row for row in self.text.splitlines() if row.strip())


@dataclass(frozen=True)
class Outcome:
    """What became of a piece."""

    piece: Piece
    verdict: str  # "ran", "failed" or "not run"
    seconds: float = 0.0
    said: str = ""  # the output of a failure, or why it was not run


# --- reading --------------------------------------------------------------------------------------------------------


def pieces(page: str, text: str) -> list[Piece]:
    """Everything on a page that can be run, in order; an error for what would be missed."""
    found: list[Piece] = []
    fence: tuple[str, int, Marks, list[str]] | None = None
    before: Marks = ()
    for number, row in enumerate(text.splitlines(), 1):
        if row.startswith("```"):
            if fence is None:
                fence = (row[3:].strip(), number + 1, before, [])
            else:
                found += _block(page, *fence)
                fence = None
            before = ()
        elif fence is not None:
            fence[3].append(row)
        elif row.strip():
            comment = re.fullmatch(r"<!-- (.*) -->", row.strip())
            before = marks(comment[1]) if comment else ()
            if row.startswith("    ") and COMMAND.match(row.strip()):
                raise ValueError(f"{page}:{number}: put this command in a fence, so that it is run: {row.strip()}")
    if fence is not None:
        raise ValueError(f"{page}:{fence[1] - 1}: this block has no end")
    return found


def marks(comment: str) -> Marks:
    """The marks of a comment; its other words are for the reader.

    >>> marks("slow: 3 minutes; data: cifar10"), marks("after a kill")
    ((('slow', '3'), ('data', 'cifar10')), ())
    """
    parts = (re.match(r"\s*(\w+)(?:: *([\w-]+))?", part) for part in comment.split(";"))
    return tuple((part[1], part[2] or "") for part in parts if part and part[1] in MARKS)


def _block(page: str, language: str, start: int, above: Marks, rows: list[str]) -> Iterator[Piece]:
    if language in PYTHON:
        yield Piece(page, start, "python", "\n".join(rows) + "\n", above)
    elif language in SHELL:
        number = 0
        while number < len(rows):
            first, text = number, rows[number]
            while text.endswith("\\") and number + 1 < len(rows):
                number += 1
                text = f"{text[:-1].rstrip()} {rows[number].strip()}"
            number += 1
            command, comment = _without_comment(text)
            if command:
                yield Piece(page, start + first, "sh", command, (*above, *marks(comment)))
    elif language not in IGNORED and not language.startswith("{"):  # {toctree} and its like make the site
        raise ValueError(f"{page}:{start - 1}: a block of '{language}' is neither run nor known as output")


def _without_comment(row: str) -> tuple[str, str]:
    command, _, comment = re.sub(r"^#", " #", row).partition(" #")
    return command.strip(), comment.strip()


def as_run(piece: Piece, *, printed: bool, port: int) -> str:
    """The text of a piece as it is run here."""
    text = piece.text
    if piece.named("cluster"):
        for pattern, better in NEARER:
            text = re.sub(pattern, better.format(port=port), text)
    if piece.named("slow") and not printed:
        small = text
        for pattern, better in SMALLER:
            small = re.sub(pattern, better, small)
        if small == text:
            raise ValueError("this line is marked slow, and no rule of SMALLER makes it smaller")
        text = small
    return text


# --- running --------------------------------------------------------------------------------------------------------


@dataclass
class Session:
    """One reader: a folder, the exported variables of a shell, a Python that keeps its names."""

    folder: Path
    state: Path  # shell text that sets the variables
    log: Path
    limit: float
    port: int
    printed: bool
    rich: str  # PATH entry of the Python with extras
    blocks: list[Piece] = field(default_factory=list)  # those that ran without extras
    pythons: dict[bool, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self, piece: Piece) -> Outcome:
        extras = bool(piece.named("extra") or piece.named("cluster"))
        started = time.perf_counter()
        try:
            text = as_run(piece, printed=self.printed, port=self.port)
            good, said = self._shell(text, extras) if piece.kind == "sh" else self._python(piece, extras)
        except ValueError as e:
            good, said = False, str(e)
        return Outcome(piece, "ran" if good else "failed", time.perf_counter() - started, "" if good else said)

    def _entered(self, extras: bool) -> str:
        """Shell text that enters the reader's session, with the extras in reach or not."""
        path = f'base="$PATH"\nexport PATH={shlex.quote(self.rich)}:"$PATH" PYTHONPATH="$PWD"\n' if extras else ""
        return f'source {shlex.quote(str(self.state))}\ncd "$PWD" || exit 3\n{path}'

    def _shell(self, text: str, extras: bool) -> tuple[bool, str]:
        left = 'export PATH="$base"\nunset PYTHONPATH\n' if extras else ""
        keep = f"export -p > {shlex.quote(str(self.state))}"
        script = f"{self._entered(extras)}{text}\ncode=$?\n{left}{keep}\nexit $code"
        with self.log.open("w+b") as log:  # a file, not a pipe: daemons that a line starts may keep it open
            process = _bash(script, stdout=log)
            try:
                code: int | None = process.wait(self.limit)
            except subprocess.TimeoutExpired:
                code = None
                _end(process)
            said = self.log.read_text(errors="replace")
        if code is None:
            said += f"\nnot finished after {self.limit:.0f} s"
        return code == 0, said

    def _python(self, piece: Piece, extras: bool) -> tuple[bool, str]:
        if extras and True not in self.pythons:  # a second Python, which has to catch up
            for earlier in self.blocks:
                good, said = self._ask(earlier, extras)
                if not good:
                    return good, said
        good, said = self._ask(piece, extras)
        if not extras:
            self.blocks.append(piece)
        return good, said

    def _ask(self, piece: Piece, extras: bool) -> tuple[bool, str]:
        if extras not in self.pythons:
            strict = json.dumps(not extras)  # other people's packages may warn
            script = f"{self._entered(extras)}exec python -c {shlex.quote(DRIVER)} {strict}"
            with self.log.with_suffix(f".python-{int(extras)}").open("wb") as log:
                self.pythons[extras] = _bash(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        python, log_path = self.pythons[extras], self.log.with_suffix(f".python-{int(extras)}")
        before = log_path.stat().st_size
        assert python.stdin is not None
        assert python.stdout is not None
        answer = b""
        with contextlib.suppress(BrokenPipeError):
            python.stdin.write(json.dumps([piece.page, piece.line, piece.text]).encode() + b"\n")
            python.stdin.flush()
            if select.select([python.stdout], [], [], self.limit)[0]:
                answer = python.stdout.readline()
        said = log_path.read_bytes()[before:].decode(errors="replace")
        if not answer:
            _end(self.pythons.pop(extras))
            return False, f"{said}\nno answer from Python within {self.limit:.0f} s"
        return answer == b"true\n", said

    def close(self) -> None:
        for python in self.pythons.values():
            assert python.stdin is not None
            python.stdin.close()  # its loop ends
            with contextlib.suppress(subprocess.TimeoutExpired):
                python.wait(10)
            _end(python)


def _bash(script: str, **streams: object) -> subprocess.Popen[bytes]:
    options: dict[str, object] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, **streams}
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        ["bash", "--norc", "--noprofile", "-c", script], start_new_session=True, env={}, **options
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


# --- what there is ----------------------------------------------------------------------------------------------------


def _lacking(piece: Piece, session: Session, known: dict[str, str]) -> str:
    """Why a piece cannot be run here, "" if it can; `known` remembers answers."""
    needs = [f"{mark} {name}" for mark in ("extra", "data") for name in piece.named(mark)]
    needs += ["extra distributed"] if piece.named("cluster") and not piece.named("extra") else []
    for need in needs:
        if need not in known:
            kind, _, name = need.partition(" ")
            known[need] = _no_extra(name, session) if kind == "extra" else _no_data(name, session)
        if known[need]:
            return known[need]
    return ""


def _no_extra(name: str, session: Session) -> str:
    """Without the packages of an extra there is no running what is marked with it."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if name not in declared:
        raise ValueError(f"the mark 'extra: {name}' names no extra of pyproject.toml")
    packages = [re.split(r"[^\w-]", requirement)[0] for requirement in declared[name]]
    text = "import importlib.metadata, sys; [importlib.metadata.version(p) for p in sys.argv[1:]]"
    good, _ = session._shell(f"python -c {shlex.quote(text)} {' '.join(packages)}", extras=True)
    return "" if good else f"needs the extra '{name}', which is not installed"


def _no_data(name: str, session: Session) -> str:
    text = f"from netgrain.data import load; load({name!r}, limit=1)"
    good, _ = session._shell(f"python -c {shlex.quote(text)}", extras=False)
    return "" if good else f"needs the data set {name}, which was not found"


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _copy(source: Path, target: Path) -> None:
    """The files that a commit of this folder would have."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=source, capture_output=True
    )
    if listed.returncode:  # no checkout
        shutil.copytree(source, target, dirs_exist_ok=True)
        return
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)


def _home(folder: Path, name: str) -> dict[str, str]:
    """A home of one's own: Ray keeps its token and its sockets there."""
    (folder / name).mkdir()
    return {"HOME": str(folder / name), "RAY_TMPDIR": str(folder / name)}


def _clean_environment(mark: str) -> dict[str, str]:
    """What a fresh login has: no environment of Python; caches and mirrors stay in use."""
    ours = {str(Path(sys.prefix) / "bin"), str(Path(sys.executable).parent)} if sys.prefix != sys.base_prefix else set()
    kept = {
        key: value
        for key, value in os.environ.items()
        if key in ("LANG", "LC_ALL", "TZ", "NETGRAIN_DATA", "SSL_CERT_FILE", "PYTHON")
        or key.startswith(("PIP_", "UV_", "TORCH_CONSTRAINT"))
        or key.lower().endswith("_proxy")
    }
    if "NETGRAIN_DATA" in kept:
        kept["NETGRAIN_DATA"] = str(Path(kept["NETGRAIN_DATA"]).absolute())
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return {
        **kept,
        "PATH": os.pathsep.join(p for p in os.environ.get("PATH", "").split(os.pathsep) if p not in ours),
        "XDG_CACHE_HOME": cache,
        "OMP_NUM_THREADS": "1",  # two pages at a time
        "COLUMNS": "120",
        mark: "1",
    }


def _end_marked(mark: str) -> None:
    """End what lines have left running (Ray's daemons): the processes that carry our variable."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{mark}=1".encode() in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)


# --- the whole --------------------------------------------------------------------------------------------------------


def run(
    root: Path,
    pages: Sequence[str],
    folder: Path,
    *,
    printed: bool = False,
    limit: float = 150,
    workers: int = 2,
) -> list[Outcome]:
    """Run the README's set-up and then the pages; the outcomes in the order of the pages."""
    found = {page: pieces(page, (root / page).read_text()) for page in dict.fromkeys(("README.md", *pages))}
    setup = _setup(found["README.md"])
    shutil.rmtree(folder, ignore_errors=True)
    checkout = folder / "checkout"
    checkout.mkdir(parents=True)
    _copy(root, checkout)
    short = Path(tempfile.mkdtemp(prefix="dl-"))  # the path of a socket has at most 107 bytes
    mark = f"DOCS_LINES_{os.getpid()}_{_free_port()}"
    rich = str(Path(sys.executable).parent)
    first = Session(checkout, folder / "README.state", folder / "README.log", limit, _free_port(), printed, rich)
    variables = {**_clean_environment(mark), **_home(short, "0"), "PWD": str(checkout)}
    first.state.write_text(_exports(variables))
    try:
        begun = [_told(first.run(piece)) for piece in setup]
        if any(outcome.verdict == "failed" for outcome in begun):
            return begun
        sessions = {"README.md": first}
        for number, page in enumerate(found):
            if page != "README.md":
                sessions[page] = _another(first, folder, page, _home(short, str(number)))
        known: dict[str, str] = {}

        def on_page(page: str) -> list[Outcome]:
            session, left = sessions[page], [p for p in found[page] if p not in setup]
            outcomes = []
            try:
                for piece in left if page in pages else ():
                    why = _lacking(piece, session, known)
                    if not why and piece.named("cluster") and not piece.named("extra"):
                        _ray_here(session, left)
                    outcomes.append(_told(Outcome(piece, "not run", 0, why) if why else session.run(piece)))
            finally:
                session.close()
            return outcomes

        with ThreadPoolExecutor(workers) as pool:
            rest = list(pool.map(on_page, found))
        return begun + [outcome for outcomes in rest for outcome in outcomes]
    finally:
        _end_marked(mark)
        shutil.rmtree(short, ignore_errors=True)


def _setup(found: list[Piece]) -> list[Piece]:
    """The README's lines up to `make demo`, which makes files that other pages use, else its first block."""
    for number, piece in enumerate(found, 1):
        if piece.text == "make demo":
            return found[:number]
    setup: list[Piece] = []
    for piece in found:
        if piece.kind != "sh" or (setup and piece.line != setup[-1].line + 1):
            break
        setup.append(piece)
    return setup


def _another(first: Session, folder: Path, page: str, home: dict[str, str]) -> Session:
    """A reader of another page who has done the set-up, in a copy of the checkout as it is then."""
    name = Path(page).stem
    shutil.copytree(first.folder, folder / name, ignore=shutil.ignore_patterns(".venv", ".git"), symlinks=True)
    if (first.folder / ".venv").exists():
        (folder / name / ".venv").symlink_to(first.folder / ".venv")
    state = folder / f"{name}.state"
    own = {**home, "PWD": str(folder / name)}
    state.write_text(first.state.read_text() + _exports(own))
    log = folder / f"{name}.log"
    return Session(folder / name, state, log, first.limit, _free_port(), first.printed, first.rich)


def _exports(variables: dict[str, str]) -> str:
    return "".join(f"export {key}={shlex.quote(value)}\n" for key, value in variables.items())


def _ray_here(session: Session, on_page: list[Piece]) -> None:
    """A Ray to connect to, unless the page starts one itself."""
    if not any(piece.text.startswith("ray start --head") for piece in on_page) and session.port:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", session.port), 1):
            return
        command = f"ray start --head --node-ip-address=127.0.0.1 --port={session.port} --num-cpus=2"
        session._shell(f"{command} --include-dashboard=false --disable-usage-stats", extras=True)


def _told(outcome: Outcome) -> Outcome:
    piece = outcome.piece
    print(f"{outcome.verdict:8}{outcome.seconds:7.1f} s  {piece.page}:{piece.line}  {piece.first}", flush=True)
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", help="pages to run (default: README.md and docs/*.md)")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    parser.add_argument("--out", type=Path, default=Path("out/docs-lines"), help="folder to run in, made anew")
    parser.add_argument("--as-printed", action="store_true", help="run slow lines as they are printed")
    parser.add_argument("--limit", type=float, help="seconds for one line (default: 150, as printed 3600)")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    pages = options.pages or ["README.md", *sorted(f"docs/{path.name}" for path in (root / "docs").glob("*.md"))]
    limit = options.limit or (3600 if options.as_printed else 150)
    started = time.perf_counter()
    outcomes = run(root, pages, options.out.resolve(), printed=options.as_printed, limit=limit)
    failed = [outcome for outcome in outcomes if outcome.verdict == "failed"]
    for outcome in failed:
        print(
            f"\n{outcome.piece.page}:{outcome.piece.line} failed:\n{outcome.piece.text.rstrip()}\n---\n{outcome.said}"
        )
    skipped = [outcome for outcome in outcomes if outcome.verdict == "not run"]
    print()
    for outcome in skipped:
        print(f"not run: {outcome.piece.page}:{outcome.piece.line}  {outcome.piece.first} ({outcome.said})")
    ran = len(outcomes) - len(skipped)
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = used.ru_utime + used.ru_stime
    print(
        f"{ran} of {len(outcomes)} lines run in {seconds:.0f} s ({worked:.0f} s of processor time); "
        f"{len(failed)} failed"
    )
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
