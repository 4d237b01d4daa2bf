"""Files from the network and their archives: whole, checked, bounded."""

import contextlib
import hashlib
import io
import re
import socket
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from netgrain import data
from netgrain.data import download as downloads
from netgrain.data.download import Source, download, extract
from netgrain.runtime.errors import NetgrainError
from tests.data.image_set_files import write_binary, write_idx

CONTENT = bytes(range(256)) * 4096  # a million bytes

MD5 = hashlib.md5(CONTENT).hexdigest()


class Server:
    """A web server of our own; what it saw is in `ranges`, how it misbehaves in the address."""

    def __init__(self) -> None:
        self.files = {"file": CONTENT}
        self.ranges: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mode, _, name = self.path.strip("/").partition("/")
                wanted = self.headers.get("Range")
                outer.ranges.append(wanted)
                if name not in outer.files:
                    self.send_error(404)
                    return
                content = outer.files[name]
                start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and mode != "norange" else 0
                if start >= len(content):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(content)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(206 if start else 200)
                if start:
                    shown = start + 1 if mode == "shifted" else start
                    self.send_header("Content-Range", f"bytes {shown}-{len(content) - 1}/{len(content)}")
                if mode != "nolength":
                    self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                body = content[start:]
                with contextlib.suppress(ConnectionError):  # a client that has seen enough
                    self.wfile.write(body[: len(body) // 2] if mode == "cut" else body)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def url(self, mode: str = "plain", name: str = "file") -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/{mode}/{name}"

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.mark.parametrize("mode", ["plain", "nolength"])
def test_a_download_arrives_whole(mode: str, server: Server, tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    assert download(server.url(mode), target, md5=MD5, size=len(CONTENT)) == target
    assert target.read_bytes() == CONTENT
    assert [p.name for p in target.parent.iterdir()] == ["file"]
    download(server.url(mode), target, md5=MD5)
    assert server.ranges == [None]  # the second call found it there


@pytest.mark.parametrize(("mode", "ranges"), [("plain", ["bytes=1000-"]), ("norange", ["bytes=1000-"])])
def test_an_interrupted_download_goes_on(mode: str, ranges: list[str], server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    download(server.url(mode), tmp_path / "file", md5=MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.ranges == ranges


def test_a_cut_connection_keeps_the_part_and_the_next_call_resumes(server: Server, tmp_path: Path) -> None:
    half = len(CONTENT) // 2
    with pytest.raises(NetgrainError, match=f"ended after {half} of {len(CONTENT)} bytes; run it again"):
        download(server.url("cut"), tmp_path / "file", md5=MD5)
    assert (tmp_path / "file.part").stat().st_size == half
    assert not (tmp_path / "file").exists()
    download(server.url(), tmp_path / "file", md5=MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={half}-"]


def test_without_a_checksum_nothing_is_resumed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"something else")
    download(server.url(), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.ranges == [None]


def test_a_part_that_is_whole_or_too_long(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT)
    download(server.url(), tmp_path / "a", md5=MD5)
    (tmp_path / "b.part").write_bytes(CONTENT + b"x")
    download(server.url(), tmp_path / "b", md5=MD5)
    (tmp_path / "c.part").write_bytes(CONTENT + b"x")
    download(server.url(), tmp_path / "c", md5=MD5, size=len(CONTENT))
    (tmp_path / "d.part").write_bytes(CONTENT)
    download(server.url(), tmp_path / "d", md5=MD5, size=len(CONTENT))
    assert all((tmp_path / name).read_bytes() == CONTENT for name in "abcd")
    size = len(CONTENT)
    assert server.ranges == [f"bytes={size}-", f"bytes={size + 1}-", None, None]


def test_a_wrong_range_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    with pytest.raises(NetgrainError, match="the server sent another range"):
        download(server.url("shifted"), tmp_path / "file", md5=MD5)


@pytest.mark.parametrize("start", [0, 1000])
def test_a_wrong_checksum_leaves_nothing(start: int, server: Server, tmp_path: Path) -> None:
    if start:
        (tmp_path / "file.part").write_bytes(b"?" * start)
    with pytest.raises(NetgrainError, match=r"wrong md5: expected .*, found .*; it was removed"):
        download(server.url(), tmp_path / "file", md5=MD5 if start else "0" * 32)
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_with_another_checksum_is_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    download(server.url(), tmp_path / "file", md5=MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("mode", ["plain", "nolength"])
@pytest.mark.parametrize("limit", [{"most": 1000}, {"size": 1000}, {"size": 10**12}])
def test_too_large_is_refused(mode: str, limit: dict[str, int], server: Server, tmp_path: Path) -> None:
    words = "at most 1073741824 are allowed" if limit.get("size") == 10**12 else "expected at most 1000 bytes"
    with pytest.raises(NetgrainError, match=words):
        download(server.url(mode), tmp_path / "file", md5=MD5, **limit)
    assert list(tmp_path.iterdir()) == []


def test_too_short_is_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(NetgrainError, match="wrong size: expected 2000000 bytes, found 1048576"):
        download(server.url(), tmp_path / "file", size=2_000_000)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NetgrainError, match="ended after 1048576 of 2000000 bytes"):
        download(server.url("nolength"), tmp_path / "file", size=2_000_000)


def test_errors_of_the_network_are_sentences(server: Server, tmp_path: Path) -> None:
    with pytest.raises(NetgrainError, match=r"the server answered 404 \(Not Found\)"):
        download(server.url(name="other"), tmp_path / "file")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file"  # bound, but nobody listens
        with pytest.raises(NetgrainError, match=r"could not be reached .*refused.* check the connection"):
            download(url, tmp_path / "file")
    with pytest.raises(NetgrainError, match="expected an https address, found 'file:///etc/passwd'"):
        download("file:///etc/passwd", tmp_path / "file")
    (tmp_path / "blocked").write_bytes(b"")
    with pytest.raises(NetgrainError, match="cannot write"):
        download(url, tmp_path / "blocked" / "file")


def test_download_true_brings_cifar_and_mnist(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_binary(tmp_path / "pack" / "cifar-10-batches-bin", n=2)
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "pack" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    write_idx(tmp_path / "pack" / "mnist")
    files = {p.name: p.read_bytes() for p in (tmp_path / "pack" / "mnist").iterdir()}
    files["cifar.tar.gz"] = (tmp_path / "cifar.tar.gz").read_bytes()
    server.files |= files

    def source(name: str) -> Source:
        return Source(server.url(name=name), hashlib.md5(files[name]).hexdigest(), len(files[name]))

    sources = {"cifar-10-batches-bin": ("cifar.tar.gz",), "mnist": sorted(n for n in files if "ubyte" in n)}
    monkeypatch.setattr(downloads, "SOURCES", {k: tuple(map(source, names)) for k, names in sources.items()})
    assert len(data.cifar10(download=True, official=False).test) == 2
    assert len(data.cifar10(download=True, official=False).test) == 2
    assert len(data.mnist(tmp_path / "chosen", download=True, official=False).train) == 14
    assert len(server.ranges) == 5
    assert [p.name for p in (tmp_path / "cache" / "netgrain").iterdir()] == ["cifar-10-batches-bin"]
    (tmp_path / "chosen" / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    data.mnist(tmp_path / "chosen", download=True, official=False)
    assert len(server.ranges) == 6  # only what was missing
    broken = tmp_path / "cache" / "netgrain" / "cifar-10-batches-bin"
    (broken / "test_batch.bin").unlink()
    with pytest.raises(NetgrainError, match="cifar-10-batches-bin exists but files are missing in it; remove it"):
        data.cifar10(download=True, official=False)
    assert len(server.ranges) == 6


def test_the_table_of_sources_is_complete() -> None:
    for name, sources in downloads.SOURCES.items():
        for source in sources:
            assert source.url.startswith("https://"), name
            assert re.fullmatch("[0-9a-f]{32}", source.md5), name
            assert 1000 < source.size < 2**28, name


Entry = tuple[str, bytes | str]  # content, or the kind of something that is not a file


def make_tar(path: Path, *entries: Entry) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size, info.mode = len(content), 0o4777
                tar.addfile(info, io.BytesIO(content))
                continue
            kinds = {"link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "fifo": tarfile.FIFOTYPE, "dir": tarfile.DIRTYPE}
            info.type, info.linkname = kinds[content], "/etc/passwd"
            tar.addfile(info)
    return path


def test_extract_unpacks_files_and_folders(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "a", ("top", "dir"), ("top/x", b"one"), ("top/in/y", b"two" * 10**6), ("z", b""))
    folder = extract(archive, tmp_path / "out" / "here")
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert found == {"top/x": b"one", "top/in/y": b"two" * 10**6, "z": b""}
    assert not (folder / "top" / "x").stat().st_mode & 0o4000
    inner = extract(archive, tmp_path / "inner", inside="top")
    assert sorted(p.name for p in inner.iterdir()) == ["in", "x"]
    with pytest.raises(NetgrainError, match="exists already"):
        extract(archive, folder)
    with pytest.raises(NetgrainError, match="holds no folder 'other'"):
        extract(archive, tmp_path / "missing", inside="other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "inner", "out"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (("/absolute", b"x"), "'/absolute' that leaves its folder"),
        (("../up", b"x"), "leaves its folder"),
        (("a/../../up", b"x"), "leaves its folder"),
        (("..", "dir"), "leaves its folder"),
        (("c:\\windows", b"x"), "leaves its folder"),
        (("link", "link"), "'link' that is a link or a device"),
        (("hard", "hard"), "is a link or a device"),
        (("fifo", "fifo"), "is a link or a device"),
        (("good", b"again"), "cannot unpack"),
        (("n" * 300, b"x"), "cannot unpack"),
    ],
)
def test_members_that_could_do_harm_are_refused(entry: Entry, words: str, tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "archive", ("good", b"x"), entry)
    with pytest.raises(NetgrainError, match=re.escape(words)):
        extract(archive, tmp_path / "deep" / "out")
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")] in (["archive", "deep"], ["deep", "archive"])


def test_bombs_are_refused(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "archive", *((f"f{i}", bytes(10**6)) for i in range(5)))
    assert archive.stat().st_size < 10**5
    with pytest.raises(NetgrainError, match="expected at most 4000000 bytes unpacked, found 5000000"):
        extract(archive, tmp_path / "out", most=4_000_000)
    with pytest.raises(NetgrainError, match="too many members: expected at most 4"):
        extract(archive, tmp_path / "out", most_members=4)
    assert [p.name for p in tmp_path.iterdir()] == ["archive"]
    extract(archive, tmp_path / "out", most=5_000_000, most_members=5)


def test_a_bomb_in_the_headers_of_a_tar_file_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "archive", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("x")
        info.pax_headers = {"comment": "a" * 80_000_000}
        tar.addfile(info)
    with pytest.raises(NetgrainError, match="unpacks to more than is allowed"):
        extract(tmp_path / "archive", tmp_path / "out", most=1000)


def test_damaged_archives_leave_nothing(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).bytes(200_000)
    whole = make_tar(tmp_path / "archive", ("x", noise), ("y", noise)).read_bytes()
    (tmp_path / "archive").write_bytes(whole[: len(whole) // 3])
    with pytest.raises(NetgrainError, match=r"truncated|damaged"):
        extract(tmp_path / "archive", tmp_path / "out")
    (tmp_path / "archive").write_bytes(b"hello")
    with pytest.raises(NetgrainError, match="damaged"):
        extract(tmp_path / "archive", tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["archive"]
