"""The user's own code: found in files and packages, with its siblings, and what is said where it fails."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from netgrain.models import load_model
from netgrain.runtime.errors import NetgrainError

WITH_SIBLINGS = """
    import helper
    from torch import nn

    def make():
        import late

        linear = nn.Linear(helper.N, late.N)
        linear.late = late
        return linear
"""


def test_absolute_path_with_odd_characters(write: Callable[..., Path]) -> None:
    file = write("my runs/lr=0.1/net-v1.2.py")
    assert type(load_model(f"{file}:Net")()).__name__ == "Net"


def test_package_in_the_current_folder(write: Callable[..., Path]) -> None:
    write("pack/__init__.py", "")
    write("pack/inner.py", "from .sizes import SIZE\nfrom torch import nn\ndef make(): return nn.Linear(SIZE, 1)\n")
    write("pack/sizes.py", "SIZE = 5\n")
    assert load_model("pack.inner:make")().in_features == 5


def test_file_sees_its_siblings_also_when_called(write: Callable[..., Path]) -> None:
    write("a/net.py", WITH_SIBLINGS)
    write("a/helper.py", "N = 2\n")
    write("a/late.py", "N = 3\n")
    family = load_model("a/net.py:make")
    assert (family().in_features, family().out_features) == (2, 3)


@pytest.mark.parametrize("spec", ["net.py:make", "net:make"])
def test_two_folders_may_have_modules_of_the_same_name(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    families = []
    for folder, n in (("a", 2), ("b", 3)):
        monkeypatch.chdir(write(f"{folder}/net.py", WITH_SIBLINGS).parent)
        write(f"{folder}/helper.py", f"N = {n}\n")
        write(f"{folder}/late.py", f"N = 10 * {n}\n")
        families.append(load_model(spec))
    once, again = ([family() for family in families] for _ in range(2))
    for modules in (once, again):
        assert [(m.in_features, m.out_features) for m in modules] == [(2, 20), (3, 30)]
    assert [m.late for m in once] == [m.late for m in again], "a sibling was run twice"


def test_a_folder_does_not_take_installed_modules_away(write: Callable[..., Path]) -> None:
    for folder in ("a", "b"):  # each with a folder of data called like a package of Python's own
        write(f"{folder}/net.py", "import wsgiref.util, netgrain.models\ndef make(): pass\n")
        write(f"{folder}/wsgiref/data.txt", "")
    assert "wsgiref" not in sys.modules
    load_model("a/net.py:make")
    loaded = {name: sys.modules[name] for name in ("wsgiref", "wsgiref.util", "netgrain.models")}
    load_model("b/net.py:make")
    assert all(sys.modules[name] is module for name, module in loaded.items())


def test_an_edited_file_is_loaded_anew_and_an_unchanged_one_is_not(write: Callable[..., Path]) -> None:
    text = "from torch import nn\nclass Net(nn.Module):\n    n = 1\n"
    write("net.py", text)
    first = load_model("net.py:Net").make
    assert load_model("net.py:Net").make is first
    write("net.py", text.replace("1", "2"))
    assert (first.n, load_model("net.py:Net").make.n) == (1, 2)


def test_dataclasses_work_in_a_loaded_file(write: Callable[..., Path]) -> None:
    write(
        "net.py",
        """
        from __future__ import annotations
        from dataclasses import dataclass
        from torch import nn

        @dataclass
        class Config:
            size: int = 3

        def make(): return nn.Linear(Config().size, 1)
        """,
    )
    assert load_model("net.py:make")().in_features == 3


@pytest.mark.parametrize("spec", ["broken.py:Net", "broken:Net"])
@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("import torch\n1 / 0\n", ZeroDivisionError, "ZeroDivisionError: division by zero"),
        ("def f(:\n", SyntaxError, "SyntaxError: "),
        ("import no_such_thing\n", ModuleNotFoundError, "No module named 'no_such_thing'"),
        ("raise SystemExit('usage: broken')\n", SystemExit, "SystemExit: usage: broken"),
        ("raise NotImplementedError('later')\n", NotImplementedError, "NotImplementedError: later"),
    ],
)
def test_code_that_fails_keeps_the_users_exception(
    write: Callable[..., Path], spec: str, text: str, kind: type[BaseException], words: str
) -> None:
    write("broken.py", text)
    modules = set(sys.modules)
    source = spec.partition(":")[0]
    with pytest.raises(NetgrainError, match=f"'{source}' could not be imported") as caught:
        load_model(spec)
    assert isinstance(caught.value.__cause__, kind)
    assert words in str(caught.value)
    assert {name for name in sys.modules.keys() - modules if "broken" in name} == set()
    if kind is ZeroDivisionError and spec == "broken.py:Net":
        assert ", line 2)" in str(caught.value)


def test_relative_import_points_to_the_other_form(write: Callable[..., Path]) -> None:
    write("pack/net.py", "from . import sizes\n")
    with pytest.raises(NetgrainError, match=r"A file inside a package is written package\.module:name"):
        load_model("pack/net.py:Net")


def test_interrupt_is_not_turned_into_a_sentence(write: Callable[..., Path]) -> None:
    write("net.py", "raise KeyboardInterrupt\n")
    modules = set(sys.modules)
    with pytest.raises(KeyboardInterrupt):
        load_model("net.py:Net")
    assert set(sys.modules) == modules
