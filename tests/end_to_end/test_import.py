"""What `import netgrain` loads."""

import subprocess
import sys


def test_import_stays_light() -> None:
    code = "import sys, netgrain; print([m for m in ('matplotlib', 'scipy', 'rich', 'typer') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
