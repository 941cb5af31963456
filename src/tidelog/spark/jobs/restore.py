"""The restore of a table's records, such as an export, into a log directory.

Each record gets its offset, time and headers back.

=============  =======================================================================================================
on the driver  checks the table for rows that no log can hold; with ``apply`` it first completes a decided commit and
               takes the directory's ``.lock``; afterwards it swaps in the tasks' logs, writes checkpoints and marker
one task       writes the logs of some partitions, one after the other, by ascending offset (``restored_log``)
=============  =======================================================================================================

A partition is restored if the directory has none of that name, or an empty one, which is removed. It is staged in the
log directory (``staging``) and swapped in by a rename. So a killed job leaves each partition absent or complete, and a
broker removes the staged files when it starts. Without ``apply`` nothing is written. A missing directory is created. It
must be visible under the same path to the driver and to every executor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.model import TopicPartition
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.spark.jobs.progress import OnProgress, stage_progress
from tidelog.spark.jobs.record_table import TablePartition, normalized, partitions_of
from tidelog.spark.jobs.restoring_task import WRITTEN, Target, write_logs
from tidelog.spark.jobs.staging import new_job_id, remove_staging, swap_in
from tidelog.spark.read.schema import spark_schema
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.fs import LOCAL, path_of, require_disk
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.view.directory_state import DirectoryState, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import require_log_directory
from tidelog.storage.manager.directory.log_directory import LogDirectory
from tidelog.storage.manager.metadata.topic_metadata import read_topic_metadata
from tidelog.storage.manager.writable.commit import complete_commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SCHEMA = (
    "directory string, topic string, partition int, records bigint, firstOffset bigint, lastOffset bigint,"
    " dataBytes bigint, replacesEmpty boolean, logEndOffset bigint, segments int, logBytes bigint, error string"
)
"""``logEndOffset`` and later columns are null in a plan and for a partition that was not restored. ``error`` is the
reason why it was not, or will not be, restored. ``dataBytes`` counts keys and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    found: TablePartition
    replaces_empty: bool
    error: str | None


def restore(
    spark: SparkSession,
    table: DataFrame,
    directory: str | Path,
    *,
    topics: Collection[str] | None = None,
    settings: Mapping[str, Mapping[str, str]] | None = None,
    apply: bool = False,
    on_progress: OnProgress | None = None,
) -> DataFrame:
    """Return a row per partition: its plan, and with ``apply`` the outcome.

    For ``table`` see ``record_table``, ``read_table``.

    ``settings`` are by topic and Kafka's keys, and override the cluster metadata in the directory. Raise ConfigError
    for a table without the columns, DirectoryError for a path that holds other files, LockedError with ``apply``, and
    ReadOnlyError for object storage.
    """
    from pyspark.sql import functions as f

    path = path_of(directory).absolute()
    require_disk([path])
    if LOCAL.exists(path) and LOCAL.list_names(path):
        require_log_directory(LOCAL, path)
    rows = normalized(table)
    if topics is not None:
        rows = rows.where(f.col("topic").isin(*topics))
    if not apply:
        planned = _planned(path, partitions_of(rows), held_here=False)
        return spark.createDataFrame([_row(path, one) for one in planned], SCHEMA)
    complete_commits(LOCAL, path, clock=SYSTEM_CLOCK)
    log_directory = LogDirectory(LOCAL, path)
    try:
        planned = _planned(path, partitions_of(rows), held_here=True)
        wanted = [one for one in planned if one.error is None]
        written = _restored(spark, rows, log_directory, wanted, settings or {}, on_progress)
    finally:
        log_directory.stop()
    done = [_row(path, one, written.get(one.found.topic_partition)) for one in wanted]
    refused = [_row(path, one) for one in planned if one.error is not None]
    return spark.createDataFrame([*done, *refused], SCHEMA)


def read_table(spark: SparkSession, path: str, format_name: str = "parquet") -> DataFrame:
    """Read the table under ``path``. Topics stay strings: Spark would infer numbers from directories named like
    numbers."""
    from pyspark.sql.types import StringType, StructField, StructType

    schema = spark.read.format(format_name).load(path).schema
    fields = [StructField("topic", StringType()) if field.name == "topic" else field for field in schema]
    return spark.read.format(format_name).schema(StructType(fields)).load(path)


def _planned(path: Path, partitions: Sequence[TablePartition], *, held_here: bool) -> list[_Planned]:
    state = read_directory_state(LOCAL, path, held_here=held_here) if LOCAL.exists(path) else None
    return [_plan(path, found, state) for found in partitions]


def _plan(path: Path, found: TablePartition, state: DirectoryState | None) -> _Planned:
    error = found.refusal
    if error is None and state is not None:
        there = path / found.topic_partition.directory_name
        if LOCAL.exists(there):
            view = LogView(LOCAL, there, directory_state=state)
            if view.log_end > view.log_start:
                error = f"the log in {there} has records: offsets {view.log_start} to {view.log_end - 1}"
            return _Planned(found=found, replaces_empty=error is None, error=error)
    return _Planned(found=found, replaces_empty=False, error=error)


def _restored(
    spark: SparkSession,
    rows: DataFrame,
    log_directory: LogDirectory,
    planned: Sequence[_Planned],
    settings: Mapping[str, Mapping[str, str]],
    on_progress: OnProgress | None,
) -> dict[TopicPartition, Row]:
    """Run the tasks, swap in the logs they wrote, and return their rows."""
    from pyspark.sql.functions import broadcast

    if not planned:
        return {}
    target = _target(log_directory, [one.found.topic_partition for one in planned], settings)
    names = spark.createDataFrame([tuple(one.found.topic_partition) for one in planned], "topic string, partition int")
    logs = rows.join(broadcast(names), ["topic", "partition"]).repartition(len(planned), "topic", "partition")
    logs = logs.sortWithinPartitions("topic", "partition", "offset")
    writing = logs.mapInArrow(partial(write_logs, target), spark_schema(WRITTEN))  # PySpark needs pandas for mapInArrow
    log_directory.mark_open()
    try:
        with stage_progress(spark, sum(one.found.size for one in planned), on_progress):
            written = writing.collect()
        logs_of = {TopicPartition(one.topic, one.partition): one for one in written}
        for partition, one in logs_of.items():
            if one.error is None:
                swap_in(log_directory, partition, Path(one.staging), end_offset=one.endOffset, job_id=target.job_id)
        return logs_of
    finally:
        remove_staging(log_directory.path, target.job_id)


def _target(
    log_directory: LogDirectory, partitions: Sequence[TopicPartition], settings: Mapping[str, Mapping[str, str]]
) -> Target:
    metadata = read_topic_metadata(LOCAL, log_directory.path)
    configs, topic_ids = {}, {}
    for partition in partitions:
        topic = partition.topic
        known = LogConfig.from_properties(metadata.settings_of(topic, log_directory.node_id), ignore_unknown=True)
        configs[topic] = known.with_properties(settings.get(topic, {}))
        # An empty log may have the topic id if the metadata lie in another of the broker's log directories.
        there = PartitionMetadata.read(LOCAL, log_directory.path / partition.directory_name / PARTITION_METADATA_FILE)
        topic_id = metadata.topic_id(topic) or (None if there is None else there.topic_id)
        if topic_id is not None:
            topic_ids[partition] = topic_id
    return Target(log_dir=log_directory.path, job_id=new_job_id(), configs=configs, topic_ids=topic_ids)


def _row(path: Path, planned: _Planned, written: Row | None = None) -> tuple[Any, ...]:
    found = planned.found
    done: tuple[int | None, ...] = (None,) * 3
    error = planned.error
    if written is not None:
        done, error = (written.endOffset, written.segments, written.logBytes), written.error
    name = (found.topic, found.partition)
    offsets = (found.first_offset, found.last_offset)
    return (str(path), *name, found.records, *offsets, found.size, planned.replaces_empty, *done, error)
