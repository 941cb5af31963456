"""The page for those who test with tidelog: its example runs, its names exist."""

from __future__ import annotations

import re
import subprocess
import sys

import tidelog.testing
from project.tree import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text()


def test_the_example_runs() -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    states = re.match(r"(\d+) states after a crash", done.stdout)
    assert states
    assert int(states[1]) > 20


def test_the_names_exist() -> None:
    for name in re.findall(r"\bdisk\.(\w+)", PAGE):
        assert hasattr(tidelog.testing.SimulatedDisk, name) or name == "simulated_disk", name


def test_tidelog_does_not_import_it() -> None:
    script = "import sys, tidelog; print([one for one in ('tidelog.testing', 'hypothesis') if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    script = "import sys, tidelog.testing; print('hypothesis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
