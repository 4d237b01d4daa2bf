"""The code shown in the documents runs, block after block in one session."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    "README.md",
    "docs/tour.md",
    "docs/closed_form.md",
    "docs/complexity.md",
    "docs/audit.md",
    "docs/reliability.md",
]


def _blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_code_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = _blocks(name)
    assert blocks, f"{name} shows no code"
    session: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), session)


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/tour.md",
        "docs/notation.md",
        "docs/complexity.md",
        "docs/audit.md",
        "docs/reliability.md",
        "docs/reproduction.md",
        "docs/tracking.md",
        "docs/equivariant.md",
    ],
)
def test_links_lead_somewhere(name: str) -> None:
    document = ROOT / name
    for target in re.findall(r"\]\(([^)#]+)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), f"{name} points to {target}"
