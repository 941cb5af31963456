"""A read in this process as Spark's workers do it: options become splits, splits are pickled, then give rows.

With ``CHOICE.jvm`` the rows are those of the JVM reader, which then has a process of its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidelog.spark.read.options import ReadOptions
from tidelog.spark.read.pruning import Pruning
from tidelog.spark.read.split import LogSplit
from tidelog.spark.read.table_columns import Mode
from tidelog.spark.rows.reader import LogReader


@dataclass
class ReaderChoice:
    """The choice of the reader for this process's tests."""

    jvm: bool = False


CHOICE = ReaderChoice()


def options_of(log_dir: Path | str, **given: object) -> dict[str, str]:
    """Return options as Spark passes them. They subscribe to topic ``t`` unless a subscription is given."""
    options = {"logDirs": str(log_dir)} | {name.replace("__", "."): str(value) for name, value in given.items()}
    if not options.keys() & {"assign", "subscribe", "subscribePattern"}:
        options["subscribe"] = "t"
    return options


def reader_of(log_dir: Path | str, *, pruning: Pruning | None = None, **given: Any) -> LogReader:
    return LogReader(ReadOptions.parse(options_of(log_dir, **given)), pruning)


def splits_of(reader: LogReader) -> list[LogSplit]:
    splits = pickle.loads(pickle.dumps(reader.partitions()))
    assert all(isinstance(split, LogSplit) for split in splits)
    return [split for split in splits if split.pieces or split.whole]


def rows_of(reader: LogReader, splits: Iterable[LogSplit] | None = None) -> list[dict[str, Any]]:
    splits = splits_of(reader) if splits is None else splits
    if CHOICE.jvm and reader.options.mode is Mode.RECORDS:
        from spark.jvm.row_printer import jvm_rows

        return list(jvm_rows(reader, splits))
    return [row for split in splits for batch in reader.read(split) for row in batch.to_pylist()]


def rows(log_dir: Path | str, **given: Any) -> list[dict[str, Any]]:
    return rows_of(reader_of(log_dir, **given))


def offsets(log_dir: Path | str, **given: Any) -> list[int]:
    return [row["offset"] for row in rows(log_dir, **given)]
