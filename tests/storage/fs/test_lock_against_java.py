"""A JVM's FileLock and ours exclude each other in both directions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from real_kafka.java import java_command
from tidelog.model import LockedError
from tidelog.storage.fs import LOCAL

pytestmark = pytest.mark.kafka


def java(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        java_command("HoldLock", path, heap_mib=32), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_java_holds_it(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with java(path) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "locked\n"
        assert LOCAL.lock_holder(path) == other.pid
        with pytest.raises(LockedError, match=f"process {other.pid}"):
            LOCAL.lock(path)
        other.stdin.close()
        assert other.wait(timeout=60) == 0
    LOCAL.lock(path).release()


def test_we_hold_it(tmp_path: Path) -> None:
    lock = LOCAL.lock(tmp_path / ".lock")
    for expected in ("refused\n", "locked\n"):
        with java(lock.path) as other:
            assert other.stdout is not None
            assert other.stdin is not None
            assert other.stdout.readline() == expected
            other.stdin.close()
            assert other.wait(timeout=60) == 0
        lock.release()
