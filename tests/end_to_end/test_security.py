"""Files and names from elsewhere run nothing, reach nothing outside their folder, and come over closed lines only."""

import ast
import http.server
import io
import json
import os
import pickle
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import nn

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.pages import page
from netgrain.cli.parsing import parse_probe
from netgrain.data import download as downloads
from netgrain.data.arrays import read_tensors
from netgrain.data.download import download, extract
from netgrain.data.image_files import read_cifar_binary, read_cifar_python, read_idx
from netgrain.data.sources import load
from netgrain.geometry.golden import assert_same_grain
from netgrain.models import load_model
from netgrain.models.checkpoints import read_weights
from netgrain.runtime.files import csv_cell
from netgrain.runtime.packed import read_packed
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.units import Unit
from tests.runtime.test_files import CELLS

PACKAGE = Path(ng.__file__).parent

# --- the package runs no code from files ----------------------------------------------------------------------

UNPICKLERS = ("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal", "joblib")
ALLOWED = {  # file, what it uses → why that is right
    (
        "data/image_files.py",
        "pickle",
    ): "CIFAR-10's python layout; its Unpickler makes stand-ins and refuses every other name",
    ("models/user_code.py", "exec"): "runs the one file that the user named as MODEL",
    ("runtime/on_ray.py", "cloudpickle"): "Ray's own transport between processes that the user started",
    ("runtime/on_slurm.py", "cloudpickle"): "submitit's own transport between jobs that the user started",
}


def suspicious(source: str) -> set[str]:
    """What in a file could run code that comes from data."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = []
        found |= {part for name in names for part in name.split(".") if part in UNPICKLERS}
        if isinstance(node, ast.Call):
            found |= _suspicious_call(node)
    return found


def _suspicious_call(call: ast.Call) -> set[str]:
    options = {k.arg: k.value.value if isinstance(k.value, ast.Constant) else "?" for k in call.keywords}
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    found = set()
    if name in ("eval", "exec", "__import__", "os.system", "os.popen", "builtins.eval", "builtins.exec"):
        found.add(last)
    if name == "torch.load" and options.get("weights_only") is not True:
        found.add("torch.load")
    if name in ("np.load", "numpy.load") and options.get("allow_pickle") is not False:
        found.add("np.load")
    if name in ("yaml.load", "yaml.unsafe_load", "torch.hub.load", "pandas.read_pickle"):
        found.add(name)
    if options.get("shell", False) is not False and last in ("run", "Popen", "call", "check_call", "check_output"):
        found.add("shell")
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nothing_is_unpickled_or_evaluated(path: Path) -> None:
    here = path.relative_to(PACKAGE).as_posix()
    assert {what for what in suspicious(path.read_text()) if (here, what) not in ALLOWED} == set()


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import pickle", "pickle"),
        ("def f():\n    from pickle import loads", "pickle"),
        ("import ray.cloudpickle as c", "cloudpickle"),
        ("from ray import cloudpickle", "cloudpickle"),
        ("import marshal, json", "marshal"),
        ("torch.load(f)", "torch.load"),
        ("torch.load(f, weights_only=False)", "torch.load"),
        ("torch.load(f, weights_only=maybe)", "torch.load"),
        ("np.load(f)", "np.load"),
        ("np.load(f, allow_pickle=True)", "np.load"),
        ("yaml.load(f)", "yaml.load"),
        ("eval('1')", "eval"),
        ("exec(code)", "exec"),
        ("os.system('ls')", "system"),
        ("subprocess.run('ls', shell=True)", "shell"),
    ],
)
def test_the_scan_sees(source: str, what: str) -> None:
    assert suspicious(source) == {what}


def test_the_scan_lets_pass() -> None:
    source = (
        "np.load(f, allow_pickle=False); torch.load(f, weights_only=True); ast.literal_eval(t); model.eval(); run(a)"
    )
    assert suspicious(source) == set()


# --- a malicious file of every kind is refused, and what it wants does not happen -----------------------------


class Payload:
    """What a pickle of this does when it is loaded: it makes a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def npy(payload: Payload) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([payload], object), allow_pickle=True)
    return buffer.getvalue()


def npz(payload: Payload) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, X=np.array([[payload]], object), y=np.array([payload], object), signal=np.array([payload], object))
    return buffer.getvalue()


def state_dict(payload: Payload) -> bytes:
    buffer = io.BytesIO()
    torch.save({"weight": torch.zeros(2), "extra": payload}, buffer)
    return buffer.getvalue()


def old_state_dict(payload: Payload) -> bytes:
    buffer = io.BytesIO()
    torch.save({"weight": payload}, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def plain_pickle(payload: Payload) -> bytes:
    return pickle.dumps({b"data": payload, b"labels": [0]}, protocol=2)


def in_metadata(payload: Payload) -> bytes:
    """A header that a reader who unpickles it would run."""
    text = pickle.dumps(payload, protocol=0).decode("latin1")
    return save({"t": torch.zeros(1)}, metadata={"netgrain": json.dumps({"kind": "geometry", "form": text})})


def stored_unit(file: Path) -> None:
    unit = Unit({"a": 1})
    place = file.parent / "run" / "units" / f"{unit.id}.safetensors"
    place.parent.mkdir(parents=True)
    place.write_bytes(file.read_bytes())
    (file.parent / "run" / "run.json").write_text("{}")
    with pytest.warns(ng.GrainWarning, match="counts as missing"):
        assert RunFolder.open(file.parent / "run").stored(unit) is None
    raise NetgrainError("the unit counts as missing.")


READERS: dict[str, tuple[Callable[[Path], object], Callable[[Payload], bytes]]] = {
    "npz of samples": (load, npz),
    "npz of arrays": (lambda file: read_tensors(file, "X", "y"), npz),
    "npy": (lambda file: read_tensors(file, "signal"), npy),
    "npy that is a pickle": (lambda file: read_tensors(file, "signal"), plain_pickle),
    "npz that is a pickle": (load, plain_pickle),
    "probe": (lambda file: parse_probe(f"data:{file}"), npy),
    "weights for audit": (read_weights, state_dict),
    "old weights for audit": (read_weights, old_state_dict),
    "weights for audit that are a pickle": (read_weights, plain_pickle),
    "CIFAR-10 python": (read_cifar_python, plain_pickle),
    "CIFAR-10 binary": (read_cifar_binary, plain_pickle),
    "idx": (lambda file: read_idx(file, dimensions=1), plain_pickle),
    "geometry": (ng.Geometry.load, in_metadata),
    "geometry that is a pickle": (ng.Geometry.load, plain_pickle),
    "packed": (lambda file: read_packed(file, "geometry"), in_metadata),
    "golden": (lambda file: assert_same_grain(nn.Identity, file), in_metadata),
    "run folder": (stored_unit, in_metadata),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_malicious_file_is_refused_and_runs_nothing(kind: str, tmp_path: Path) -> None:
    reader, make = READERS[kind]
    payload = Payload(tmp_path / "ran")
    content = make(payload)
    suffix = ".npz" if make is npz or "npz" in kind else ".safetensors" if make is in_metadata else ".pt"
    file = tmp_path / f"file{suffix}"
    file.write_bytes(content)
    with pytest.raises(NetgrainError) as caught:
        reader(file)
    assert "\n" not in str(caught.value)
    assert not payload.marker.exists()


def test_the_payload_works(tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    marker = tmp_path / "ran"
    pickle.loads(pickle.dumps(Payload(marker)))  # noqa: S301
    assert marker.is_dir()
    marker.rmdir()
    torch.load(io.BytesIO(state_dict(Payload(marker))), weights_only=False)
    assert marker.is_dir()
    marker.rmdir()
    np.load(io.BytesIO(npy(Payload(marker))), allow_pickle=True)
    assert marker.is_dir()


def test_a_few_bytes_of_a_pickle_do_not_claim_gigabytes(tmp_path: Path) -> None:
    """Python sets memory aside for every number below the one under which something is remembered."""
    file = tmp_path / "data_batch_1"
    file.write_bytes(b"\x80\x02}r" + struct.pack("<I", 2**31) + b".")
    code = (
        "import resource, sys\nfrom netgrain.data.image_files import read_cifar_python\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))\n"
        "try:\n    read_cifar_python(sys.argv[1])\nexcept ValueError as e:\n    print(e)\n"
        "assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    assert "damaged CIFAR-10 batch (ValueError)" in done.stdout


# --- archives: what tests/data/test_images.py does not have ----------------------------------------------------------


def test_more_members_that_could_do_harm(tmp_path: Path) -> None:
    kinds = {"character": tarfile.CHRTYPE, "block": tarfile.BLKTYPE, "sparse": tarfile.GNUTYPE_SPARSE}
    for name, kind in kinds.items():
        with tarfile.open(tmp_path / name, "w:gz") as tar:
            info = tarfile.TarInfo("member")
            info.type = kind
            tar.addfile(info)
        with pytest.raises(NetgrainError):
            extract(tmp_path / name, tmp_path / "out")
    for name, inner in (("drive", "C:evil"), ("backslash", "..\\up"), ("both", "a/..\\..\\b")):
        with tarfile.open(tmp_path / name, "w:gz") as tar:
            tar.addfile(tarfile.TarInfo(inner))
        with pytest.raises(NetgrainError, match="leaves its folder"):
            extract(tmp_path / name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_member_is_not_written_through_a_link_made_by_another(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    with tarfile.open(tmp_path / "a", "w:gz") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "outside")
        tar.addfile(link)
        member = tarfile.TarInfo("link/file")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(NetgrainError, match="is a link or a device"):
        extract(tmp_path / "a", tmp_path / "out")
    assert list((tmp_path / "outside").iterdir()) == []


def test_an_array_that_unpacks_to_too_much_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netgrain.data.arrays.MOST_BYTES", 10**5)
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((10**5, 2)), y=np.zeros(10**5, int))
    assert (tmp_path / "bomb.npz").stat().st_size < 10**4
    for reader in (load, lambda file: read_tensors(file, "X", "y")):
        with pytest.raises(NetgrainError, match=r"has an array 'X' of .* GiB; expected at most"):
            reader(tmp_path / "bomb.npz")


# --- downloads ------------------------------------------------------------------------------------------------


class Elsewhere:
    """A server on this machine that sends everybody to another address."""

    def __init__(self) -> None:
        outer = self
        self.address, self.seen = "", 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen += 1
                self.send_response(302 if outer.address else 200)
                self.send_header("Location", outer.address)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/file"


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    running = Elsewhere()
    yield running
    running.http.shutdown()
    running.thread.join()
    running.http.server_close()


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/file",
        "ftp://example.com/file",
        "file:///etc/passwd",
        "data:text/plain,hello",
        "http://127.0.0.1.example.com/file",
        "http://127.0.0.1@example.com/file",
        "http://[/file",
        "https:///file",
        "/etc/passwd",
        "",
    ],
)
def test_only_closed_lines(url: str, tmp_path: Path, elsewhere: Elsewhere) -> None:
    with pytest.raises(NetgrainError, match="expected an https address"):
        download(url, tmp_path / "file")
    if url.partition(":")[0] in ("http", "ftp") and "[" not in url:  # Python itself refuses the others
        elsewhere.address = url
        with pytest.raises(NetgrainError, match=r"expected an https address, .*127\.0\.0\.1:\d+/file leads there"):
            download(elsewhere.url, tmp_path / "file")
        assert elsewhere.seen == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["http://example.com/x", "http://127.0.0.1/x", "ftp://example.com/x"])
def test_an_https_address_does_not_lead_to_open_lines(to: str) -> None:
    request = urllib.request.Request("https://example.com/file")
    with pytest.raises(NetgrainError, match=r"expected an https address, .*https://example\.com/file leads there"):
        downloads._Redirects().redirect_request(request, io.BytesIO(), 302, "", {}, to)
    followed = downloads._Redirects().redirect_request(request, io.BytesIO(), 302, "", {}, "https://example.org/x")
    assert followed is not None
    assert followed.full_url == "https://example.org/x"


def test_a_part_is_private_and_not_written_through_a_link(elsewhere: Elsewhere, tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "file.part").symlink_to(tmp_path / "precious")
    assert download(elsewhere.url, tmp_path / "file").read_bytes() == b""
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not (tmp_path / "file").is_symlink()
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"), open(tmp_path / "link", "wb", opener=downloads._private):
        pass
    with open(tmp_path / "new", "wb", opener=downloads._private) as new:
        assert stat.S_IMODE(os.fstat(new.fileno()).st_mode) == 0o600


# --- files that are written -----------------------------------------------------------------------------------


def test_cells_that_the_page_writes_are_those_of_the_package() -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("needs node, to run the page's JavaScript")
    script = (PACKAGE / "auditing" / "templates" / "frame.js").read_text()
    start = script.index("function cell(")
    function = script[start : script.index("\n}\n", start) + 3]
    values = [*CELLS, -1, 2.5]
    code = f"{function}; console.log(JSON.stringify({json.dumps(values)}.map(cell)))"
    done = subprocess.run([node, "-e", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [csv_cell(v) for v in values]


def test_a_model_s_name_stays_text_on_the_page() -> None:
    hostile = 'net.py:<script>alert(1)</script>"onload="x'
    html = page({"model": hostile, "data": {"name": hostile, "classes": [hostile]}})
    assert hostile not in html
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html


# --- MODEL runs what it names and nothing else ----------------------------------------------------------------

NET = "from torch import nn\n{}\ndef make(): return nn.Linear(2, 1)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    modules = dict(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]


def plant(file: Path) -> Path:
    """A file that says when it is run."""
    file.write_text(
        f"import os\nos.mkdir({str(file.with_suffix('.ran'))!r})\nfrom torch import nn\nmake = nn.Flatten\n"
    )
    return file.with_suffix(".ran")


@pytest.mark.parametrize("name", ["json", "torch", "numpy", "colorsys", "wave"])
def test_a_file_beside_the_model_does_not_stand_in_for_a_package(name: str, folder: Path) -> None:
    ran = plant(folder / f"{name}.py")
    (folder / "net.py").write_text(NET.format(f"import sys; sys.modules.pop('colorsys', None)\nimport {name}"))
    load_model("net.py:make")()
    load_model("net:make")()
    assert not ran.exists()


def test_a_helper_beside_the_model_is_still_found(folder: Path) -> None:
    ran = plant(folder / "my_own_helper.py")
    (folder / "net.py").write_text(NET.format("import my_own_helper"))
    path = list(sys.path)
    load_model("net.py:make")()
    assert ran.exists()
    assert sys.path == path


@pytest.mark.parametrize("spec", ["lenet", "LeNet", "mlp:width=0.1", "vit"])
def test_a_built_in_name_does_not_run_a_file_of_that_name(spec: str, folder: Path) -> None:
    rans = [plant(folder / f"{name}.py") for name in ("lenet", "mlp", "vit", "models", "sitecustomize")]
    load_model(spec)
    assert not any(ran.exists() for ran in rans)


@pytest.mark.parametrize("spec", ["lenett", "lenet.py", "net", "net.py", "net.py:", "other.py:make", "net.make"])
def test_a_name_that_is_refused_runs_nothing(spec: str, folder: Path) -> None:
    rans = [plant(folder / f"{name}.py") for name in ("lenet", "lenett", "net")]
    with pytest.raises(NetgrainError):
        load_model(spec)
    assert not any(ran.exists() for ran in rans)


def test_a_file_that_is_named_runs_alone(folder: Path) -> None:
    rans = [plant(folder / f"{name}.py") for name in ("a", "b", "conftest", "setup")]
    load_model("a.py:make")
    assert [ran.exists() for ran in rans] == [True, False, False, False]
