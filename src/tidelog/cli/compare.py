"""``tidelog compare``: a row for each replica, the first differences side by side, and the problems."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tidelog.cli.compare_report import notes_of, tables_of
from tidelog.cli.options import output_options, selection, threads_option
from tidelog.cli.progress import progress
from tidelog.cli.report import FINDINGS, UNREADABLE, ExitCode, Report
from tidelog.cli.targets import select_among
from tidelog.inspect.compare import ReplicaState, compare_cluster, pair_bytes, read_broker_directories
from tidelog.inspect.compare.broker_directory import unknown_nodes
from tidelog.inspect.compare.comparison_rows import replica_rows
from tidelog.server.metadata.kraft.newest_metadata import read_newest_metadata
from tidelog.storage.fs import BY_PATH


@click.command()
@selection
@threads_option
@output_options
def compare(arguments: Sequence[str], topics: Sequence[str], threads: int | None) -> Report:
    """Compare the replicas of a cluster, from the log directories of several brokers.

    Each DIR is a log directory of one broker; brokers may be stopped or running, Kafka's or tidelog's. The newest
    cluster metadata among them tells leaders and in-sync replicas. Each replica is compared with the leader's, or if
    that is not given, with the replica of the newest epoch and the highest log end.

    The output has each replica's offsets, lag and leader epochs, and the first batch in which it differs. The column
    truncated_to is the offset from which it would remove records to follow the leader, by the rule of Kafka's
    followers. Lag and records that would be removed are normal. Problems are: records that differ below that offset,
    committed records that the leader lost, and an in-sync replica that lacks committed records.

    Replicas of a compacted topic may differ, since each broker cleans its own. There a record may be missing if a later
    one has its key; a tombstone, a marker or an aborted record may be missing too.

    Only bytes that differ are found. To check CRCs and indexes, use verify. If running brokers cause a problem, compare
    again: the logs are read one after the other.

    Exit codes: 0 no problem, 1 problems, 2 wrong usage or several clusters, 3 a replica or directory cannot be read.

    \b
    Examples:
      tidelog compare /mnt/disk1/kafka /mnt/disk2/kafka /mnt/disk3/kafka
      tidelog compare '/mnt/disk*/kafka' orders --jsonl | jq 'select(.problems != [])'
    """
    exit_code = ExitCode()
    targets, paths = select_among(arguments, topics, exit_code)
    directories = read_broker_directories(BY_PATH, paths)
    metadata = read_newest_metadata(paths)
    partitions = sorted({partition for target in targets for partition in target.partitions()})
    total = sum(pair_bytes(BY_PATH, directories, partition) for partition in partitions)
    with progress("Comparing", total) as advance:
        compared = compare_cluster(
            BY_PATH,
            directories,
            partitions,
            metadata.placements,
            threads=threads,
            advance=advance,
            stop=advance.cancel,
        )
    if any(one.problems for one in compared):
        exit_code.at_least(FINDINGS)
    if any(one.state is ReplicaState.UNREADABLE for partition in compared for one in partition.replicas):
        exit_code.at_least(UNREADABLE)
    return Report(
        rows=[row for one in compared for row in replica_rows(one)],
        tables=tables_of(compared),
        notes=[
            metadata.note,
            *metadata.warnings,
            *(f"Warning: {note}" for note in unknown_nodes(directories)),
            *notes_of(compared),
        ],
        exit_code=exit_code,
    )
