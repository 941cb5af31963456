"""Row compact: a round of a cleaner over a partition with repeated keys, after which each key is there once.

Kafka's side is its own ``Cleaner`` on a ``UnifiedLog``, ours ``clean_log`` on a ``PartitionLog``, both with a broker's
default map. Every run gets a new copy of the partition, rolled, so that all of it can be cleaned. Only the round is
timed, with its syncs. The first run compares the results. They are the same bytes, or the same batches and records if
two libraries have compressed them.
"""

from __future__ import annotations

import filecmp
import hashlib
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.bench import Bench
from benchmarks.datasets import COMPACTED, linked_copy
from benchmarks.measure import Case, MismatchError, Times
from benchmarks.memory import PeakMemory
from benchmarks.worker import Done, Worker
from tidelog.kernel import ColumnDecoder, OffsetMap
from tidelog.record.decode import decode_columns
from tidelog.runtime import SystemClock
from tidelog.storage.cleaner.clean.clean_log import clean_log
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.load.open_request import OpenRequest
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.segment.segment_reader import SegmentReader

MAP_BYTES = 128 * 1024 * 1024
KEY = bytes(range(16))
PARTITION = "bench-0"
MEMORY = "memory"
"""The mode that measures the largest memory of a round instead of the bytes of the log."""

_log: PartitionLog | None = None
_map: OffsetMap | None = None
_memory: PeakMemory | None = None


@dataclass(frozen=True, slots=True)
class Rounds:
    """A side's rounds, each on its own copy of ``source``. The last copy is kept."""

    side: Worker
    source: Path
    copy: Path

    def __call__(self, *more: str) -> Done:
        shutil.rmtree(self.copy, ignore_errors=True)
        linked_copy(self.source, self.copy)
        return self.side.do("compact", self.copy / PARTITION, COMPACTED.segment_bytes, MAP_BYTES, *more)


def cases(bench: Bench) -> Iterator[Case]:
    for keys, codec, target in (
        (1_000_000, "none", 10.0),
        (10_000, "none", 10.0),
        (1_000_000, "lz4", None),
        (10_000, "lz4", None),
        (1_000_000, "gzip", None),
        (1_000_000, "snappy", None),
        (1_000_000, "zstd", None),
    ):
        data_set = replace(COMPACTED, name=f"compacted-{keys}-{codec}", keys=keys, codec=codec)
        source, directory = bench.data.directory(data_set), bench.directory()
        ours = Rounds(bench.ours, source, directory / "tidelog")
        theirs = Rounds(bench.java, source, directory / "kafka")
        yield Case(
            name=f"{keys:,} keys, {codec}",
            peer=theirs,
            ours=ours,
            target=target,
            most_warm_ups=1,
            check=_checked(ours, theirs, same_bytes=codec == "none"),
            note=_noted(ours, has_codec=codec != "none"),
        )


def _checked(ours: Rounds, theirs: Rounds, *, same_bytes: bool) -> Callable[[], None]:
    return lambda: compare(ours.copy / PARTITION, theirs.copy / PARTITION, same_bytes=same_bytes)


def _noted(ours: Rounds, *, has_codec: bool) -> Callable[[Times], str]:
    """Note the memory above the worker's before the round, and the codec's share of the time."""

    def note(times: Times) -> str:
        text = f"{ours(MEMORY).bytes / 2**20:.0f} MiB at most, the map being {MAP_BYTES / 2**20:.0f}"
        if has_codec:
            codec = ours.side.do("codec_share", ours.source / PARTITION, ours.copy / PARTITION)
            text += f"; the codec {codec.seconds / times.median:.0%} of the time"
        return text

    return note


def compare(ours: Path, theirs: Path, *, same_bytes: bool) -> None:
    """Check that both sides left the same segments, except the empty active segment."""
    logs, their_logs = ([path.name for path in sorted(side.glob("*.log"))] for side in (ours, theirs))
    if logs != their_logs:
        raise MismatchError(f"cleaned to different segments: {logs}, {their_logs}")
    cleaned = [Path(name) for name in logs[:-1]]
    if same_bytes:
        files = [str(name.with_suffix(kind)) for name in cleaned for kind in (".log", ".index", ".timeindex")]
        _, different, missing = filecmp.cmpfiles(ours, theirs, files, shallow=False)
    else:
        different, missing = [name for name in cleaned if digest(ours / name) != digest(theirs / name)], []
    if different or missing:
        raise MismatchError(f"cleaned differently: {different + missing}")


def digest(log: Path) -> list[bytes]:
    """Return a digest of each column of the headers and records, except sizes and CRCs, across chunks and batches."""
    columns: dict[str, hashlib._Hash] = defaultdict(hashlib.sha256)
    with SegmentReader(LOCAL, log.parent, int(log.stem)) as reader:
        for buffer, table, base_position in reader.chunks():
            for name in ("base_offset", "last_offset", "record_count", "attributes"):
                columns[name].update(getattr(table, name).tobytes())
            for records in decode_columns(buffer, table, ColumnDecoder(), base_position=base_position):
                for name in ("offset", "timestamp", "key_data", "value_data"):
                    columns[name].update(getattr(records, name))
                for name in ("key_offsets", "value_offsets"):
                    columns[name].update(np.diff(getattr(records, name)).tobytes())
    return [columns[name].digest() for name in sorted(columns)]


# --- our worker's part ---


def prepare(directory: str, segment_bytes: str, map_bytes: str, *_mode: str) -> None:
    global _log, _map, _memory
    _memory = PeakMemory()
    _map = OffsetMap(int(map_bytes), key=KEY)
    _map.put(b"", 0)
    _map.clear()  # Linux allocates memory on the first write, and Kafka writes all of its map when it creates it
    config = LogConfig(segment_bytes=int(segment_bytes), cleanup_policy=frozenset({"compact"}))
    _log = PartitionLog.open(
        OpenRequest(fs=LOCAL, directory=Path(directory), clock=SystemClock(), config=config, clean_shutdown=True)
    )
    _log.roll()


def run(_directory: str, _segment_bytes: str, _map_bytes: str, *mode: str) -> tuple[int, int]:
    assert _log is not None
    assert _map is not None
    assert _memory is not None
    size = _log.size
    clean_log(_log, first_dirty=0, first_uncleanable=_log.base_offsets[-1], offset_map=_map)
    return _memory.growth() if mode == (MEMORY,) else size, _log.end_offset


def finish(*_arguments: str) -> None:
    global _log, _map
    assert _log is not None
    _log.close()
    _log = _map = None
