"""The limits of open files and mappings: raised if the system permits it, and reported by name if they are too low."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.model import StorageError
from tidelog.storage.fs import LOCAL, DescriptorCache
from tidelog.storage.fs.limits import mapping_limit, open_file_limits

OPEN_TOO_MANY = """
import logging, resource, sys
from pathlib import Path
from tidelog.storage.fs import LOCAL, raise_open_file_limit
logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 96))
held = []
def fill():
    try:
        while True:
            held.append(LOCAL.open(Path(sys.argv[1])))
    except Exception as error:
        print(type(error).__name__, error.message)
fill()
lock = LOCAL.lock(Path(sys.argv[1]).with_name(".lock")) if held.pop() else None
print(raise_open_file_limit())
fill()
"""


def test_the_limit_of_open_files_is_raised_and_named(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-c", OPEN_TOO_MANY, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    where = "in limits.conf, or with LimitNOFILE= for a service"
    refused = "StorageError cannot open: this process has too many open files: it may open"
    assert done.stdout.splitlines() == [
        f"{refused} 64 (ulimit -n), and the hard limit is 96: raise it with 'ulimit -n 96' before the start",
        "This process may open 96 files instead of 64 (ulimit -n)",
        "96",
        f"{refused} 96 (ulimit -n, which is its hard limit too): raise that {where}",
    ]


def test_the_limit_of_mappings_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    path = tmp_path / "a"
    path.write_bytes(b"12345678")
    monkeypatch.setattr(mmap, "mmap", refuse)
    with LOCAL.open(path) as file, pytest.raises(StorageError, match=r"vm\.max_map_count") as caught:
        file.map(8)
    assert f"this process may have {mapping_limit():,}" in caught.value.message


def test_the_limits_are_those_of_the_system() -> None:
    soft, hard = open_file_limits()
    assert 0 < soft <= hard
    assert mapping_limit() > 0


class Thing:
    def __init__(self) -> None:
        self.times_closed = 0

    def close_cached(self) -> None:
        self.times_closed += 1


def test_what_was_opened_first_is_let_go_of_first() -> None:
    kept = DescriptorCache(limit=3)
    things = [Thing() for _ in range(5)]
    for thing in things:
        kept.register(thing)
    assert [thing.times_closed for thing in things] == [1, 1, 0, 0, 0]
    kept.close(things[3])
    kept.register(things[0])
    kept.register(things[0])
    assert [thing.times_closed for thing in things] == [1, 1, 0, 1, 0]
    assert len(kept) == 3


def test_what_is_gone_need_not_be_let_go_of() -> None:
    kept = DescriptorCache(limit=2)
    kept.register(Thing())
    thing = Thing()
    for _ in range(4):
        kept.register(Thing())
    kept.register(thing)
    assert (len(kept), thing.times_closed) == (2, 0)


def test_usually_a_quarter_of_what_the_process_may_have() -> None:
    kept = DescriptorCache()
    most = min(open_file_limits()[0], mapping_limit()) // 4
    things = [Thing() for _ in range(most + 1)]
    for thing in things:
        kept.register(thing)
    assert [thing.times_closed for thing in things[:2]] == [1, 0]
