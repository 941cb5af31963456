"""The ``groups`` table: a row for every committed offset of a group, from ``__consumer_offsets``.

``topic`` and ``partition`` name the consumed partition, and the read's subscription selects by them.
``sourcePartition`` and ``sourceOffset`` name the commit's place in ``__consumer_offsets``. Undecodable keys and values,
such as those of a newer Kafka, are skipped, as Kafka does. With ``onCorrupt`` = ``report`` their number is reported.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidelog.inspect.committed_offsets import CommittedOffset, partition_offsets
from tidelog.model import CorruptRecordError, TidelogError
from tidelog.spark.read.options import OnCorrupt, ReadOptions, Until
from tidelog.spark.read.whole_partition import WholePartition
from tidelog.spark.rows.storage_rows import microseconds
from tidelog.spark.schema import GROUPS
from tidelog.storage.log.view.log_view import Until as ViewUntil


def group_rows(whole: WholePartition, options: ReadOptions) -> Iterator[pa.RecordBatch | TidelogError]:
    until = None if options.until is Until.AUTO else ViewUntil(options.until.value)
    found = partition_offsets(whole.view(), whole.partition, until=until)
    rows = [
        _row(whole, commit)
        for (_group, partition), commit in sorted(found.offsets.items())
        if options.subscription.covers(partition)
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=GROUPS)
    if found.error is not None:
        raise found.error
    if found.undecoded and options.on_corrupt is OnCorrupt.REPORT:
        yield CorruptRecordError(f"{found.undecoded} keys or values were not decoded", path=whole.directory)


def _row(whole: WholePartition, commit: CommittedOffset) -> dict[str, object]:
    return {
        "group": commit.group,
        "topic": commit.partition.topic,
        "partition": commit.partition.partition,
        "offset": commit.offset,
        "leaderEpoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "commitTimestamp": microseconds(commit.commit_timestamp),
        "sourcePartition": commit.source.partition,
        "sourceOffset": commit.source_offset,
        "logDir": whole.log_dir,
    }
