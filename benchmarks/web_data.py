"""The log directories of row web: one with very many segments and a log of very large ones, and one with very many
groups and transactional ids.

The many partitions are hard links to one template, so 300,000 files take seconds to make and little space: pages only
read. The large log repeats one batch with other base offsets, which its CRC does not cover. It is made once, in the
git-ignored .cache/benchmarks.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.datasets import CACHE
from group_maker import classic_group, commit, record_batch
from log_maker import BASE_TIME, batch, plain, write_segment
from tidelog.record.internal_records.transaction_record import TransactionRecord, TransactionState, key_of, value_of
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL
from tidelog.storage.producer.entry import CachedBatch, ProducerEntry
from tidelog.storage.producer.snapshot import format_snapshot

LARGE: Final = "large-0"
"""The log with large segments."""
_PARTITIONS_A_TOPIC: Final = 100
_SEGMENTS: Final = 10
_RECORDS: Final = 20
_LARGE_RECORDS: Final = 600
_VALUE_BYTES: Final = 100
_GROUPS_A_PARTITION: Final = 100
_INTERNAL_PARTITIONS: Final = 50
_PRODUCERS_A_LOG: Final = 5
_VERSION: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WebData:
    """A directory, and the numbers of its contents."""

    directory: Path
    partitions: int
    large_segments: int = 0
    large_bytes: int = 0
    groups: int = 0
    """The number of groups, which is also that of transactional ids."""

    @property
    def segments(self) -> int:
        return self.partitions * _SEGMENTS + self.large_segments


def web_data(scale: float) -> WebData:
    """Return the directory with many segments, and make it on first use."""
    partitions = max(_PARTITIONS_A_TOPIC, round(10_000 * scale))
    large_bytes = max(1_000_000, round(1_000_000_000 * scale))
    directory = CACHE / f"web-{_VERSION}-{partitions}"
    return _made(WebData(directory=directory, partitions=partitions, large_segments=2, large_bytes=large_bytes))


def coordinator_data(scale: float) -> WebData:
    """Return the directory with many groups, and make it on first use."""
    partitions = max(_PARTITIONS_A_TOPIC, round(1_000 * scale))
    directory = CACHE / f"web-{_VERSION}-{partitions}-coordinators"
    return _made(WebData(directory=directory, partitions=partitions, groups=partitions * _GROUPS_A_PARTITION))


def _made(data: WebData) -> WebData:
    directory, stamp = data.directory, data.directory.with_suffix(".stamp")
    if not stamp.exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        _make_many(data)
        if data.large_segments:
            _make_large(data)
        if data.groups:
            _make_groups(data)
            _make_transactional_ids(data)
        (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=benchmark\n")
        CleanShutdownFile(LOCAL, directory).write(0)
        stamp.touch()
    return data


def _make_many(data: WebData) -> None:
    first = data.directory / "topic-000-0"
    first.mkdir()
    for number in range(_SEGMENTS):
        write_segment(first, number * _RECORDS, [plain(number * _RECORDS, _RECORDS)])
    files = sorted(first.iterdir())
    for number in range(data.partitions):
        topic, partition = _topic_partition(number)
        directory = data.directory / f"{topic}-{partition}"
        if number:
            directory.mkdir()
            for file in files:
                os.link(file, directory / file.name)
        (directory / f"{_SEGMENTS * _RECORDS:020d}.snapshot").write_bytes(_snapshot(number))


def _topic_partition(number: int) -> tuple[str, int]:
    topic, partition = divmod(number, _PARTITIONS_A_TOPIC)
    return f"topic-{topic:03d}", partition


def _snapshot(number: int) -> bytes:
    last = CachedBatch(last_sequence=0, last_offset=_RECORDS - 1, offset_delta=0, timestamp=BASE_TIME)
    ids = range(number * _PRODUCERS_A_LOG, (number + 1) * _PRODUCERS_A_LOG)
    return format_snapshot(
        ProducerEntry(producer_id=id_, producer_epoch=0, last_timestamp=BASE_TIME, batches=deque([last])) for id_ in ids
    )


def _make_large(data: WebData) -> None:
    directory = data.directory / LARGE
    directory.mkdir()
    one = bytearray(batch(0, [b"%0*d" % (_VALUE_BYTES, number) for number in range(_LARGE_RECORDS)]))
    timestamp = int.from_bytes(one[35:43], "big")  # the batch's greatest one
    count, base = data.large_bytes // len(one), 0
    for _ in range(data.large_segments):
        index, times = bytearray(), bytearray()
        with (directory / f"{base:020d}.log").open("wb") as log:
            for number in range(count):
                offset = base + number * _LARGE_RECORDS
                one[:8] = struct.pack(">q", offset)
                log.write(one)
                if number:
                    index += struct.pack(">ii", offset + _LARGE_RECORDS - 1 - base, number * len(one))
        times += struct.pack(">qi", timestamp, _LARGE_RECORDS - 1)
        (directory / f"{base:020d}.index").write_bytes(index)
        (directory / f"{base:020d}.timeindex").write_bytes(times)
        base += count * _LARGE_RECORDS
    write_segment(directory, base, [plain(base)])


def _make_groups(data: WebData) -> None:
    """Make groups of one member and one offset each."""
    for internal in range(_INTERNAL_PARTITIONS):
        records = []
        for number in range(internal, data.groups, _INTERNAL_PARTITIONS):
            group, (topic, partition) = f"group-{number:06d}", _topic_partition(number % data.partitions)
            records.append(classic_group(group, members=[{}]))
            records.append(commit(group, number % (_SEGMENTS * _RECORDS), topic=topic, partition=partition))
        batches = [record_batch(at, record) for at, record in enumerate(records)]
        write_segment(data.directory / f"__consumer_offsets-{internal}", 0, batches)


def _make_transactional_ids(data: WebData) -> None:
    for internal in range(_INTERNAL_PARTITIONS):
        batches = []
        for at, number in enumerate(range(internal, data.groups, _INTERNAL_PARTITIONS)):
            record = TransactionRecord(
                state=TransactionState.COMPLETE_COMMIT,
                producer_id=number,
                producer_epoch=0,
                timeout_ms=60_000,
                last_update_ms=BASE_TIME + number,
                start_ms=BASE_TIME,
            )
            batches.append(batch(at, [value_of(record, 1)], key=key_of(f"transactional-id-{number:06d}")))
        write_segment(data.directory / f"__transaction_state-{internal}", 0, batches)
