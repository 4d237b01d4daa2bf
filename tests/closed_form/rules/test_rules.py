"""Files of rules are found by being there."""

import pkgutil
import subprocess
import sys

import pytest

from netgrain.closed_form import rules


@pytest.mark.quick
def test_every_file_of_the_folder_brings_rules() -> None:
    shared = {f"{rules.__name__}.{name}" for name in ("sums", "token_mixing")}  # what rules of other files are made of
    files = {f"{rules.__name__}.{found.name}" for found in pkgutil.iter_modules(rules.__path__)}
    assert {function.__module__ for function in rules.RULES.values()} == files - shared


def test_a_file_that_is_added_is_found() -> None:
    code = """
import sys, pathlib, tempfile
import importlib.util
folder = tempfile.mkdtemp()
pathlib.Path(folder, "added.py").write_text(
    "from netgrain.closed_form.rules import rule\\n"
    "@rule('a function of your own')\\n"
    "def _own(step, values, run):\\n"
    "    return values[0]\\n"
)
spec = importlib.util.find_spec("netgrain.closed_form.rules")
spec.submodule_search_locations.append(folder)
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)
assert "a function of your own" in module.RULES
assert "conv2d" in module.RULES
"""
    subprocess.run([sys.executable, "-c", code], check=True)
