"""Files from the network that arrive whole, checked and bounded, or not at all.

Why not pooch (1.9 was tried): it starts anew after an interruption, bounds neither what arrives nor what is unpacked,
and follows a redirect from https to open http.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import http.client
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import usual_mode
from netgrain.runtime.progress import Bar

CHUNK = 2**18
PATIENCE = 30.0  # seconds without a byte
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MOST = 2**30  # bytes of one download, and of one unpacked archive, unless told otherwise


@dataclass(frozen=True)
class Source:
    """One file at its official address; MD5 because that is what the authors publish."""

    url: str
    md5: str
    size: int

    @property
    def filename(self) -> str:
        return self.url.rsplit("/", 1)[1]


def _idx_files(base: str, *facts: tuple[str, int]) -> tuple[Source, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(Source(f"{base}{n}-ubyte.gz", md5, size) for n, (md5, size) in zip(names, facts, strict=True))


SOURCES: dict[str, tuple[Source, ...]] = {
    "cifar-10-batches-bin": (
        Source(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170_052_171
        ),
    ),
    "mnist": _idx_files(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
        ("d53e105ee54ea40749a09fcbcd1e9432", 28_881),
        ("9fb629c4189551a2d022fa330f9573f3", 1_648_877),
        ("ec29112dd5afa0611ce80d1b7f02629c", 4_542),
    ),
    "fashion-mnist": _idx_files(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
        ("25c81989df183df01b3e8a0aad5dffbe", 29_515),
        ("bef4ecab320f06d8554ea6380940ec79", 4_422_102),
        ("bb300cfdad3c16e7a12a480ee83cd310", 5_148),
    ),
}


def fetch(name: str, root: str | Path) -> Path:
    """Download the set `name` of SOURCES into the folder root/name, unpacked; single files already there are kept."""
    folder = Path(root) / name
    for source in SOURCES[name]:
        if not source.filename.endswith(".tar.gz"):
            download(source.url, folder / source.filename, md5=source.md5, size=source.size)
        elif folder.exists():
            raise NetgrainError(f"{folder} exists but files are missing in it; remove it and run it again.")
        else:
            archive = download(source.url, Path(root) / source.filename, md5=source.md5, size=source.size)
            extract(archive, folder, inside=name, most=2**28)
            archive.unlink()
    return folder


# --- one file -------------------------------------------------------------------------------------------------


def download(
    url: str,
    target: str | Path,
    *,
    md5: str | None = None,
    size: int | None = None,
    most: int = MOST,
) -> Path:
    """Bring a file to `target`, by way of `target.part`; it appears under its name only when size and checksum agree.

    An interrupted download goes on where it stopped when there is a checksum to prove that both halves belong
    together. A target that is there already and has the right checksum (or none is known) is left alone.
    """
    target = Path(target)
    _check_address(url)
    if target.is_file() and (md5 is None or _md5(target) == md5):
        return target
    if size is not None and size > most:
        raise NetgrainError(f"{url} has {size} bytes, at most {most} are allowed; raise most= to accept it.")
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if part.is_symlink():  # planted: what it points to is not ours to write
            part.unlink()
        start = part.stat().st_size if part.exists() and md5 else 0
        if start > (most if size is None else size):
            start = 0
        if size is None or start < size:
            _receive(url, part, start, size, most)
    except urllib.error.HTTPError as e:
        e.close()
        raise NetgrainError(f"{url} could not be downloaded: the server answered {e.code} ({e.reason}).") from e
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as e:
        reason = e.reason if isinstance(e, urllib.error.URLError) else e
        raise NetgrainError(
            f"{url} could not be reached ({reason or type(e).__name__}); check the connection and run it again, "
            "or download the file by hand."
        ) from e
    except OSError as e:
        raise NetgrainError(f"cannot write {part}: {_problem(e)}; free some space or choose another folder.") from e
    found = part.stat().st_size
    if size is not None and found != size:
        part.unlink()
        raise NetgrainError(f"{url} has the wrong size: expected {size} bytes, found {found}; it was removed.")
    if md5 is not None and (actual := _md5(part)) != md5:
        part.unlink()
        raise NetgrainError(
            f"{url} has the wrong md5: expected {md5}, found {actual}; it was removed. "
            "Run it again; if this repeats, the file at this address has changed."
        )
    part.chmod(usual_mode())
    part.replace(target)
    return target


def _check_address(url: str, before: str = "") -> None:
    """Only over TLS; plain http is for a server on this machine, and not on the way from an https address."""
    try:
        scheme, host = urlsplit(url).scheme, urlsplit(url).hostname
    except ValueError:  # brackets without an address in them
        scheme, host = "", None
    here = scheme == "http" and host in LOOPBACK and not before.startswith("https:")
    if not (host and (scheme == "https" or here)):
        led = f" ({before} leads there)" if before else ""
        raise NetgrainError(f"expected an https address, found '{url}'{led}; netgrain downloads only over https.")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows only where a download may begin."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _check_address(newurl, req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _private(path: str, flags: int) -> int:
    """Opens for the owner alone, and never through a link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _receive(url: str, part: Path, start: int, size: int | None, most: int) -> None:
    """Append to the part from byte `start` on, or write it anew when the server does not go along."""
    request = urllib.request.Request(url, headers={"User-Agent": "netgrain", "Accept-Encoding": "identity"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        response = urllib.request.build_opener(_Redirects).open(request, timeout=PATIENCE)
    except urllib.error.HTTPError as e:
        if e.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not start:
            raise
        e.close()
        if e.headers.get("Content-Range") != f"bytes */{start}":  # else: the part is the whole file
            _receive(url, part, 0, size, most)
        return
    with response:
        going_on = response.status == http.HTTPStatus.PARTIAL_CONTENT
        if going_on and not (response.headers.get("Content-Range") or "").startswith(f"bytes {start}-"):
            raise NetgrainError(f"{url} could not be resumed: the server sent another range; remove {part}.")
        done = start if going_on else 0
        announced = response.headers.get("Content-Length", "")
        total = done + int(announced) if announced.isdecimal() else None
        limit = most if size is None else min(size, most)
        _refuse_beyond(limit, total, url, part)
        with (
            open(part, "ab" if going_on else "wb", opener=_private) as f,
            Bar(f"{part.stem} (kB)", None if total is None else total // 1000) as bar,
        ):
            bar.advance(done // 1000)
            while chunk := response.read(CHUNK):
                bar.advance((done + len(chunk)) // 1000 - done // 1000)
                done += len(chunk)
                if done > limit:
                    break
                f.write(chunk)
            f.flush()
            os.fsync(f.fileno())
        _refuse_beyond(limit, done, url, part)
        whole = size if total is None else total
        if whole is not None and done < whole:
            raise NetgrainError(
                f"{url} ended after {done} of {whole} bytes; run it again, what has arrived is kept in {part}."
            )


def _refuse_beyond(limit: int, found: int | None, url: str, part: Path) -> None:
    if found is not None and found > limit:
        part.unlink(missing_ok=True)
        raise NetgrainError(f"{url} is too large: expected at most {limit} bytes, found {found} or more.")


def _md5(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def _problem(e: OSError) -> str:
    return "the disk is full" if e.errno in (errno.ENOSPC, errno.EDQUOT) else e.strerror or str(e)


# --- archives -------------------------------------------------------------------------------------------------


def extract(
    archive: str | Path, folder: str | Path, *, inside: str | None = None, most: int = MOST, most_members: int = 10_000
) -> Path:
    """Unpack a .tar.gz into a new folder that appears only when everything in it is there.

    Only plain files and folders below the target are accepted; `inside` names the folder of the archive that
    becomes `folder` (the rest is left out). Permissions and owners of the archive are ignored.
    """
    archive, folder = Path(archive), Path(folder)
    if folder.exists():
        raise NetgrainError(f"{folder} exists already; remove it or choose another folder.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
            content = Path(temporary) / "content"
            content.mkdir()
            # 64 MB beside the content: a header of 512 bytes and padding for each member, and the end of the file
            with archive.open("rb") as raw, _Bounded(raw, most + 2**26, archive) as stream:
                _unpack(stream, content, archive, most, most_members)
            chosen = content if inside is None else content / inside
            if not chosen.is_dir():
                raise NetgrainError(f"{archive} holds no folder '{inside}'.")
            chosen.rename(folder)
    except NetgrainError:
        raise
    except gzip.BadGzipFile as e:
        raise NetgrainError(f"{archive} is truncated or damaged ({e}); get it again.") from e
    except OSError as e:
        raise NetgrainError(
            f"cannot unpack {archive} into {folder}: {_problem(e)}. Nothing was left half-unpacked."
        ) from e
    except Exception as e:  # an archive and its compression raise many kinds
        raise NetgrainError(f"{archive} is truncated or damaged ({e}); get it again.") from e
    return folder


def _unpack(stream: gzip.GzipFile, content: Path, archive: Path, most: int, most_members: int) -> None:
    total = 0
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for count, member in enumerate(tar, start=1):
            if not (member.isreg() or member.isdir()) or member.issparse():
                raise NetgrainError(
                    f"{archive} has a member '{member.name}' that is a link or a device; it was not unpacked."
                )
            path = content / _safe(member.name, archive)
            if count > most_members:
                raise NetgrainError(f"{archive} has too many members: expected at most {most_members}.")
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            total += member.size
            if member.size < 0 or total > most:
                raise NetgrainError(f"{archive} is too large: expected at most {most} bytes unpacked, found {total}.")
            path.parent.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            assert source is not None, "a plain file has content"
            with path.open("xb") as target:
                shutil.copyfileobj(source, target)


def _safe(name: str, archive: Path) -> Path:
    """The member's path, if it stays below the folder on every system."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or any(c in name for c in "\\:\0"):
        raise NetgrainError(f"{archive} has a member '{name}' that leaves its folder; it was not unpacked.")
    return Path(path)


class _Bounded(gzip.GzipFile):
    """A stream that ends with a sentence instead of filling the memory: headers of a tar file count too."""

    def __init__(self, raw: IO[bytes], left: int, archive: Path) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self.left, self.archive = left, archive

    def read(self, size: int | None = -1) -> bytes:
        block = super().read(size)
        self.left -= len(block)
        if self.left < 0:
            raise NetgrainError(f"{self.archive} unpacks to more than is allowed; it was not unpacked.")
        return block
