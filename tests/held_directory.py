"""A log directory whose lock another process holds. A process does not see its own lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.storage.log.view.directory_state import LOCK_FILE

_SCRIPT = (
    "import fcntl, sys\n"
    "file = open(sys.argv[1], 'w')\n"
    "fcntl.lockf(file, fcntl.LOCK_EX)\n"
    "print('locked', flush=True)\n"
    "sys.stdin.read()\n"
)


@contextmanager
def held(root: Path) -> Iterator[None]:
    """Lock the log directory as a running broker does."""
    command = [sys.executable, "-c", _SCRIPT, str(root / LOCK_FILE)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"locked\n"
        yield
    finally:
        process.stdin.close()
        process.wait(timeout=200)
        process.stdout.close()
