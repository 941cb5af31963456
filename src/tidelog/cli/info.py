"""``tidelog info``: a table for each directory. Each row repeats its directory's facts for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from tidelog.cli.options import output_options, selection, threads_option
from tidelog.cli.replicas import TargetReplicas
from tidelog.cli.report import UNREADABLE, ExitCode, Report, Row, Table, count_of_files
from tidelog.cli.targets import each_target, select
from tidelog.cli.zookeeper_options import read_cluster, zookeeper_options
from tidelog.inspect.info import DirectoryInfo, PartitionInfo, describe_directory
from tidelog.inspect.record_rows import iso_time
from tidelog.model import TopicPartition
from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.storage.fs import BY_PATH
from tidelog.storage.log.view.directory_state import DirectoryCondition

OFFSETS = ("log_start", "high_watermark", "last_stable", "log_end")
TIMES = ("first_timestamp", "last_timestamp")
COLUMNS = ("topic", "partition", "segments", "bytes", *OFFSETS, *TIMES, "formats", "leader_epoch", "topic_id")
LogEnds = Mapping[tuple[Path, TopicPartition], int | None]


@click.command()
@selection
@zookeeper_options(
    "Take leaders and in-sync replicas from ZooKeeper, for the directories of several brokers before Kafka 4. The"
    " address is that in zookeeper.connect."
)
@threads_option
@output_options
def info(
    arguments: Sequence[str],
    topics: Sequence[str],
    zookeeper: str | None,
    zookeeper_config: Path | None,
    threads: int | None,
) -> Report:
    """Show the contents of a data directory, partition by partition.

    The output has the ids of cluster, broker and directory, and the last shutdown: clean, killed, or held by a running
    process. For each partition it has offsets, sizes, first and last timestamp, formats (of each segment's first
    batch), leader epoch and leftover files of a crash. The command is cheap, because it hardly reads log files.

    The directories of several brokers of one cluster have two more columns. The role is that in the newest cluster
    metadata among them or in ZooKeeper, and lag is the distance to the leader's log end. To compare the records, use
    compare.

    Exit codes: 0 shown, 2 wrong usage, 3 a partition or directory cannot be read.

    \b
    Examples:
      tidelog info /var/lib/kafka
      tidelog info '/mnt/disk*/kafka' orders --jsonl
    """
    exit_code = ExitCode()
    cluster = read_cluster(zookeeper, zookeeper_config)
    targets = select(arguments, topics, exit_code)
    found = each_target(
        targets, lambda target: describe_directory(BY_PATH, target.path, only=target.only, threads=threads), exit_code
    )
    replicas = TargetReplicas.of(targets, cluster)
    described = [directory for _, directory in found]
    ends = {(one.path, part.partition): part.log_end for one in described for part in one.partitions}
    if any(part.error is not None for directory in described for part in directory.partitions):
        exit_code.at_least(UNREADABLE)
    return Report(
        rows=[row for directory in described for row in _rows(directory, replicas, ends)],
        tables=[_table(directory, replicas, ends) for directory in described],
        notes=[*(note for directory in described for note in _notes(directory)), *_lags(replicas, ends)],
        exit_code=exit_code,
    )


def _lag(replicas: TargetReplicas, ends: LogEnds, path: Path, partition: TopicPartition) -> int | None:
    """Return the distance to the log end of the leader's replica, or None if the partition has no other replicas."""
    chosen = replicas.chosen_path(path, partition)
    leaders, own = None if chosen is None else ends.get((chosen, partition)), ends.get((path, partition))
    return None if leaders is None or own is None else leaders - own


def _lags(replicas: TargetReplicas, ends: LogEnds) -> Iterator[str]:
    if not replicas.chosen:
        return
    lags = {place: _lag(replicas, ends, *place) for place in ends}
    behind = {place: lag for place, lag in lags.items() if lag}
    yield replicas.note
    yield (
        f"{len(replicas.chosen):,} partitions lie in the directories of several brokers; {len(behind):,} replicas end"
        " at another offset than the leader's."
    )


def _rows(directory: DirectoryInfo, replicas: TargetReplicas, ends: LogEnds) -> Iterator[Row]:
    """Yield a row for each partition, or a single row if the directory has none."""
    meta = directory.meta
    head = {
        "directory": str(directory.path),
        "condition": directory.condition.value,
        "cluster_id": None if meta is None else meta.cluster_id,
        "node_id": None if meta is None else meta.node_id,
        "directory_id": None if meta is None or meta.directory_id is None else uuid_to_text(meta.directory_id),
    }
    for partition in directory.partitions or (None,):
        yield head | _partition_row(partition) | _role(directory, partition, replicas, ends)


def _role(
    directory: DirectoryInfo, part: PartitionInfo | None, replicas: TargetReplicas, ends: LogEnds
) -> dict[str, object]:
    role = None if part is None else replicas.role_of(directory.path, part.partition)
    lag = None if part is None else _lag(replicas, ends, directory.path, part.partition)
    return {"role": None if role is None else role.value, "lag": lag}


def _partition_row(part: PartitionInfo | None) -> dict[str, object]:
    names = ("topic_id", "segments", "log_bytes", "bytes", *OFFSETS, *TIMES, "leader_epoch")
    known = part is not None and part.error is None
    row: dict[str, object] = {
        "topic": None if part is None else part.partition.topic,
        "partition": None if part is None else part.partition.partition,
    }
    row |= {name: getattr(part, name) if known else None for name in names}
    row["formats"] = [] if part is None else list(part.formats)
    row["leftovers"] = [] if part is None else list(part.leftovers)
    row["error"] = None if part is None or part.error is None else str(part.error)
    return row


def _table(directory: DirectoryInfo, replicas: TargetReplicas, ends: LogEnds) -> Table:
    rows = [_partition_row(part) | _role(directory, part, replicas, ends) for part in directory.partitions]
    has_roles = any(row["role"] for row in rows)
    columns = [*COLUMNS[:2], *(["role", "lag"] if has_roles else []), *COLUMNS[2:]]
    columns += [name for name in ("leftovers", "error") if any(row[name] for row in rows)]
    shown = dict.fromkeys(TIMES, iso_time)
    lists = {"formats": ", ".join, "leftovers": count_of_files}
    return Table(rows=rows, columns=columns, title=str(directory.path), show=shown | lists)


def _notes(directory: DirectoryInfo) -> Iterator[str]:
    parts = directory.partitions
    topics = len({part.partition.topic for part in parts})
    segments, size = sum(part.segments for part in parts), sum(part.bytes for part in parts)
    yield (
        f"{directory.path}: {_condition(directory)}; {_identity(directory)}; {len(parts):,} partitions of {topics:,}"
        f" topics, {segments:,} segments, {size:,} bytes."
    )
    if directory.passing:
        yield f"Directories that are being added or removed: {', '.join(directory.passing)}."
    for warning in directory.warnings:
        yield f"Warning: {warning}."


def _condition(directory: DirectoryInfo) -> str:
    match directory.condition:
        case DirectoryCondition.HELD:
            return f"held by process {directory.state.holder}"
        case DirectoryCondition.CLEAN:
            epoch = directory.broker_epoch
            return "clean shutdown" + ("" if epoch is None else f" (broker epoch {epoch})")
        case DirectoryCondition.UNCLEAN:
            return "unclean shutdown"


def _identity(directory: DirectoryInfo) -> str:
    meta = directory.meta
    if meta is None:
        return "no meta.properties"
    parts = [f"cluster {meta.cluster_id}", f"node {meta.node_id}"]
    if meta.directory_id is not None:
        parts.append(f"directory {uuid_to_text(meta.directory_id)}")
    return ", ".join(parts)
