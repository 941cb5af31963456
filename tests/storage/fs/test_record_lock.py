"""The lock on a log directory: between processes, inside one process, and while its holder is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.model import LockedError
from tidelog.storage.fs import LOCAL

TRY = """
import sys, pathlib
from tidelog.storage.fs import LOCAL
path = pathlib.Path(sys.argv[1])
print(LOCAL.lock_holder(path))
try:
    LOCAL.lock(path)
    print("locked")
except Exception as error:
    print(type(error).__name__, error)
if len(sys.argv) > 2:
    print(flush=True)
    sys.stdin.read()
"""


def another_process(path: Path) -> list[str]:
    done = subprocess.run([sys.executable, "-c", TRY, path], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


def test_processes_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    lock = LOCAL.lock(path)
    assert lock.path == path
    holder, outcome = another_process(path)
    assert holder == str(os.getpid())
    assert outcome.startswith("LockedError")
    assert f"process {os.getpid()}" in outcome
    assert str(path) in outcome
    lock.release()
    lock.release()
    assert path.exists()
    assert another_process(path) == ["None", "locked"]


def test_the_holder_of_another_process_is_named(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    assert LOCAL.lock_holder(path) is None
    assert not path.exists()
    with subprocess.Popen(
        [sys.executable, "-c", TRY, path, "stay"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert [other.stdout.readline().strip() for _ in range(3)] == ["None", "locked", ""]
        assert LOCAL.lock_holder(path) == other.pid
        with pytest.raises(LockedError, match=f"process {other.pid}"):
            LOCAL.lock(path)
        other.stdin.close()
        other.wait(timeout=60)
    assert LOCAL.lock_holder(path) is None
    LOCAL.lock(path).release()


def test_once_in_a_process(tmp_path: Path) -> None:
    """POSIX would grant the second request, and would drop the lock when either descriptor is closed."""
    path = tmp_path / ".lock"
    first = LOCAL.lock(path)
    (tmp_path / "other-name").symlink_to(path)
    for name in (path, tmp_path / "other-name"):
        with pytest.raises(LockedError, match="this process"):
            LOCAL.lock(name)
        with pytest.raises(LockedError, match="opening and closing the file would release it"):
            LOCAL.open(name)
        assert LOCAL.lock_holder(name) == os.getpid()
    assert another_process(path)[0] == str(os.getpid())
    first.release()
    second = LOCAL.lock(path)
    first.release()
    assert another_process(path)[0] == str(os.getpid())
    second.release()


def test_a_forked_child_does_not_hold_its_parents_lock(tmp_path: Path) -> None:
    lock = LOCAL.lock(tmp_path / ".lock")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            LOCAL.lock(tmp_path / ".lock")
        except LockedError as error:
            status = 0 if f"process {os.getppid()}" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert another_process(tmp_path / ".lock")[0] == str(os.getpid())
    lock.release()
