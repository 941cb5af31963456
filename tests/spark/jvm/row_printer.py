"""The JVM reader without Spark: a task as the planner describes it becomes rows, in one process for all tests.

``RowPrinter.java`` has the other end. Rows are those of the Python reader: dictionaries with ``bytes``, ``datetime``
and lists of headers. An error has the class that the Python reader raises, if the JVM reader has the same sentence.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from spark_jvm import QUICK_START
from tidelog.model import CorruptRecordError, FileMissingError, OffsetOutOfRangeError, TidelogError
from tidelog.spark.jvm.jar import jar_path
from tidelog.spark.jvm.read_plan import settings_json, tasks_json
from tidelog.spark.read.split import LogSplit
from tidelog.spark.rows.reader import LogReader

SOURCE = Path(__file__).with_name("RowPrinter.java")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NO_LIMIT = 2**63 - 1


def jvm_rows(
    reader: LogReader, splits: Iterable[LogSplit], *, limit: int = _NO_LIMIT, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the splits as the JVM reader reads them."""
    for row in raw_rows(reader, splits, limit=limit, columns=columns):
        if row.get("timestamp") is not None:
            row["timestamp"] = _EPOCH + datetime.timedelta(microseconds=row["timestamp"])
        yield row


def raw_rows(
    reader: LogReader, splits: Iterable[LogSplit], *, limit: int = _NO_LIMIT, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the rows with timestamps in microseconds, which may be beyond Python's years."""
    for task in tasks_json(splits):
        yield from task_rows(reader, task, limit=limit, columns=columns)


def task_rows(
    reader: LogReader, task: dict[str, Any], *, limit: int = _NO_LIMIT, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a task as the planner describes it, with timestamps in microseconds."""
    settings = settings_json(reader.options, reader.pruning)
    names = reader.options.arrow_schema.names if columns is None else list(columns)
    yield from printer().rows({"task": task, "settings": settings, "columns": names, "limit": limit})


def partial_aggregates(
    reader: LogReader, splits: Iterable[LogSplit], aggregates: Sequence[str], groups: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the rows of aggregates like ``MIN(offset)``, by task or by piece. Timestamps are in microseconds."""
    settings = settings_json(reader.options, reader.pruning)
    for task in tasks_json(splits):
        request = {"task": task, "settings": settings, "aggregates": list(aggregates), "groups": list(groups)}
        yield from printer().rows(request)


@cache
def printer() -> RowPrinter:
    return RowPrinter()


class RowPrinter:
    """The process. It ends with this one, whose end closes its input."""

    def __init__(self) -> None:
        self.warnings = ""
        """The lines that all tasks logged."""
        self._classes = tempfile.TemporaryDirectory()
        path = ":".join([self._classes.name, jar_path(), f"{_pyspark() / 'jars'}/*"])
        subprocess.run(["javac", "-cp", path, "-d", self._classes.name, str(SOURCE)], check=True)
        self._process = subprocess.Popen(
            [
                "java",
                *QUICK_START.split(),
                "-Dorg.apache.logging.log4j.level=WARN",
                "-cp",
                path,
                "tidelog.spark.RowPrinter",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def rows(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Read one task. Raise the Python reader's error if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        lines: list[dict[str, Any]] = []
        for line in self._process.stdout:
            if line[0] not in "[{":
                self.warnings += line
                continue
            found = json.loads(line)
            if isinstance(found, list):
                yield from lines
                if found[0] == "failed":
                    raise _error(found[1:])
                return
            lines.append(_row(found))
        raise AssertionError("the JVM that reads has ended")


def _pyspark() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _row(found: dict[str, Any]) -> dict[str, Any]:
    for name in ("key", "value"):
        if found.get(name) is not None:
            found[name] = bytes.fromhex(found[name])
    for header in found.get("headers") or ():
        header["value"] = None if header["value"] is None else bytes.fromhex(header["value"])
    return found


def _error(failure: Sequence[str]) -> Exception:
    kind, sentence = failure
    if kind == "MissingFileException":
        return _placed(FileMissingError, sentence)
    if kind != "TidelogException":
        return AssertionError(f"the JVM reader failed: {kind}: {sentence}")
    lost = ("records were deleted", "the log was truncated", "the partition was deleted")
    return _placed(OffsetOutOfRangeError if sentence.startswith(lost) else CorruptRecordError, sentence)


def _placed(kind: type[TidelogError], sentence: str) -> TidelogError:
    """Return the error with the place that its sentence names."""
    message, _, where = sentence.rpartition(" (file ")
    place = dict(part.split(" ", 1) for part in f"file {where[:-1]}".split(", "))
    numbers = {name: int(place[name]) for name in ("position", "offset") if name in place}
    return kind(message, path=place["file"], **numbers)
