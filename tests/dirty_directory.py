"""Log directories with much to compact: repeated keys, tombstones, committed and aborted transactions, codecs.

They look as after a clean shutdown. Compaction must not change the last value that a reader finds for each key.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import tidelog
from log_maker import BASE_TIME
from tidelog import LogConfig
from tidelog.model import Isolation

CODECS = ("producer", "lz4", "gzip", "uncompressed", "zstd", "snappy")
TOPIC = "t"
EVERY_LOG = {"cleanup.policy": "compact"}


class Value(NamedTuple):
    """The last record of a key."""

    offset: int
    timestamp: int
    value: bytes


def make_dirty(
    path: Path, *, partitions: int = 2, batches: int = 60, keys: int = 40, segment_bytes: int = 4096, seed: int = 1
) -> Path:
    """Write ``t-0``, ``t-1`` and so on, with batches of 1 to 12 records. About a fifth are transactions; half of them
    abort.
    """
    for number in range(partitions):
        rng = random.Random(f"{seed} {number}")
        config = LogConfig(
            segment_bytes=segment_bytes,
            compression_type=CODECS[number % len(CODECS)],
            cleanup_policy=frozenset({"compact"}),
        )
        with tidelog.open_log(path / f"{TOPIC}-{number}", config=config) as log:
            _fill(log, rng, batches, keys)
    return path


def topic_settings(segment_bytes: int = 4096) -> list[str]:
    """Return command line options with the topic configs, which these directories have no metadata for."""
    settings = [*EVERY_LOG.items(), ("segment.bytes", str(segment_bytes)), ("min.cleanable.dirty.ratio", "0")]
    return [word for key, text in settings for word in ("--topic-config", f"{TOPIC}:{key}={text}")]


def last_values(path: Path, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> dict[str, dict[bytes, Value]]:
    """Return the last value of each key by partition directory, without keys whose last record is a tombstone."""
    found: dict[str, dict[bytes, Value]] = {}
    for directory in sorted(path.glob(f"{TOPIC}-*")):
        values = found[directory.name] = {}
        with tidelog.open_log(directory, read_only=True) as log:
            for record in log.records(isolation=isolation.value):
                assert record.key is not None
                if record.value is None:
                    values.pop(record.key, None)
                else:
                    values[record.key] = Value(record.offset, record.timestamp, record.value)
    return found


def record_offsets(path: Path) -> dict[str, list[int]]:
    """Return the offsets of all records by partition directory."""
    found = {}
    for directory in sorted(path.glob(f"{TOPIC}-*")):
        with tidelog.open_log(directory, read_only=True) as log:
            found[directory.name] = [record.offset for record in log.records()]
    return found


def _fill(log: tidelog.Log, rng: random.Random, batches: int, keys: int) -> None:
    for number in range(batches):
        count = rng.randint(1, 12)
        names = [b"key-%d" % rng.randrange(keys) for _ in range(count)]
        values = [None if rng.random() < 0.1 else b"%d-%d-%s" % (number, at, b"x" * 40) for at in range(count)]
        times = [BASE_TIME + 1000 * number + at for at in range(count)]
        if rng.random() < 0.2:
            _transact(log, names, values, times, commits=rng.random() < 0.5)
        else:
            log.append_batch(values, keys=names, timestamps=times)


def _transact(
    log: tidelog.Log, keys: Sequence[bytes], values: Sequence[bytes | None], times: Sequence[int], *, commits: bool
) -> None:
    with log.transaction() as transaction:
        transaction.append_batch(values, keys=keys, timestamps=times)
        if not commits:
            transaction.abort()
