"""Every record that a real consumer read from the reference directories is read again, read-only."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import tidelog
from conftest import GoldenFactory
from golden_sets import KRAFT_SETS, SCENARIOS, manifest, manifest_entries
from record_lines import manifest_entry
from tidelog import Record, TimestampType, TopicPartition

CASES = [
    (set_name, kind, partition, isolation)
    for set_name, partition, isolation in manifest_entries()
    for kind in (("clean", "unclean") if set_name in KRAFT_SETS else ("clean",))
]


def read_entry(log: tidelog.Log, isolation: str) -> dict[str, Any]:
    offsets = log.offsets()
    high = offsets.last_stable if isolation == "read_committed" else offsets.high_watermark
    return manifest_entry(
        log.records(isolation=tidelog.Isolation(isolation)), low=offsets.log_start, high=high.message_offset
    )


@pytest.mark.parametrize(("set_name", "kind", "partition", "isolation"), CASES)
def test_records_are_those_of_the_manifest(
    golden: GoldenFactory, set_name: str, kind: str, partition: str, isolation: str
) -> None:
    with tidelog.open_log(golden(set_name, kind) / partition, read_only=True) as log:
        assert read_entry(log, isolation) == manifest(set_name)[partition][isolation]


def records_of(batches: Iterator[Any]) -> Iterator[Record]:
    for batch in batches:
        for row in batch.to_pylist():
            headers = tuple((header["key"], header["value"]) for header in row["headers"])
            kind = TimestampType(row["timestamp_type"])
            yield Record(row["offset"], row["timestamp"], kind, row["key"], row["value"], headers)  # type: ignore[arg-type]


@pytest.mark.parametrize(("set_name", "kind", "partition", "isolation"), CASES)
def test_arrow_has_the_same_records(
    golden: GoldenFactory, set_name: str, kind: str, partition: str, isolation: str
) -> None:
    with tidelog.open_directory(golden(set_name, kind), read_only=True) as directory:
        log = directory.log(*TopicPartition.from_directory_name(partition))
        wanted = manifest(set_name)[partition][isolation]
        batches = log.to_arrow(isolation=tidelog.Isolation(isolation), timestamps="int64", max_rows=1000)
        read = manifest_entry(records_of(batches), low=wanted["low"], high=wanted["high"])
        assert read == wanted


def everything(directory: Path) -> Mapping[str, tuple[int, int, int, str]]:
    """Return mode, times and contents of every file and directory."""
    found = {}
    for path in sorted([directory, *directory.rglob("*")]):
        status = path.stat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(directory))] = (status.st_mode, status.st_mtime_ns, status.st_ctime_ns, digest)
    return found


READ_ALL = """
import json, os, sys
import numpy, pyarrow
import tidelog, tidelog.api, tidelog.record.arrow
from tidelog.record.codec import gzip, lz4, snappy, zstd  # what comes when it is needed, that user may not be let to
from tidelog.storage.fs import local_file
from tidelog.storage.log.view import time_lookup
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
root, result = sys.argv[1], {}
assert not os.access(root, os.W_OK)
with tidelog.open_directory(root, read_only=True) as directory:
    for partition in directory.partitions():
        log = directory.log(*partition)
        log.offset_for_timestamp(0)
        counts = [sum(1 for _ in log.records(isolation=level)) for level in ("read_uncommitted", "read_committed")]
        assert sum(batch.num_rows for batch in log.to_arrow()) == counts[0]
        result[str(partition)] = counts
print(json.dumps(result))
"""


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """Make a directory that any user can reach. pytest's own is not accessible to others."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    for directory in [path, *path.rglob("*")]:
        if directory.is_dir():
            directory.chmod(0o755)
    shutil.rmtree(path)


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_reading_changes_nothing_not_even_where_it_may_not(golden: GoldenFactory, open_to_all: Path, kind: str) -> None:
    """Directories have mode 0555, files have mode 0444, and a different user reads them if the tests run as root."""
    root = Path(shutil.copytree(golden(SCENARIOS, kind), open_to_all / "data"))
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = everything(root)
    done = subprocess.run([sys.executable, "-c", READ_ALL, root], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert everything(root) == before
    counts = json.loads(done.stdout)
    for partition, levels in manifest(SCENARIOS).items():
        assert counts[partition] == [entry["count"] for entry in levels.values()]


def test_reading_takes_no_lock(golden: GoldenFactory) -> None:
    root = golden(SCENARIOS, "unclean")
    with tidelog.open_directory(root, read_only=True) as directory:
        records = directory.log("plain", 0).records()
        next(records)
        taking = (
            "import fcntl, sys\n"
            "with open(sys.argv[1], 'r+b') as file: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        )
        before = os.stat(root / ".lock")
        subprocess.run([sys.executable, "-c", taking, root / ".lock"], check=True, timeout=200)
        assert os.stat(root / ".lock").st_mtime_ns == before.st_mtime_ns
        with (root / ".lock").open("rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_the_open_transaction_bounds_what_is_committed(golden: GoldenFactory) -> None:
    for kind in ("clean", "unclean"):
        with tidelog.open_log(golden(SCENARIOS, kind) / "txn-0", read_only=True) as log:
            offsets = log.offsets()
            assert offsets.last_stable.message_offset == 516
            assert offsets.high_watermark.message_offset == offsets.log_end.message_offset == 561
