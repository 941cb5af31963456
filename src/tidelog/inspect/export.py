"""The ``export`` command: the records of partitions as files, streamed in bounded memory.

There is one file per partition (``DIRECTORY/topic-partition.format``), several written at once, or one file for all. A
file appears only when it is complete: see ``export_files``. An existing file is an error before anything is read,
unless it may be replaced. An error, a crash or a cancelled run leaves the finished files, and a crash perhaps a
``.tmp``.

The log directories are only read, and the output may not lie in them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from tidelog.inspect.bounds import EARLIEST, LATEST, USUAL_LIMITS, Bound, ReadLimits, resolve_bound
from tidelog.inspect.export_files import ExportFile, ExportFormat
from tidelog.inspect.record_rows import PLAIN_ROWS, BytesFormat, RowShape
from tidelog.model import CancelledError, ConfigError, StorageError, TidelogError, TopicPartition
from tidelog.runtime.parallel import run_parallel
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.view.column_stream import ColumnChoice, column_chunks
from tidelog.storage.log.view.directory_state import read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import CorruptPolicy, Rows, RowStream


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """``output`` is the directory for one file per partition. With ``one_file`` it is the file."""

    output: Path
    format: ExportFormat
    one_file: bool = False
    replace_files: bool = False
    start: Bound = EARLIEST
    end: Bound = LATEST
    limits: ReadLimits = USUAL_LIMITS
    shape: RowShape = PLAIN_ROWS
    on_corrupt: CorruptPolicy = CorruptPolicy.FAIL
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedPartition:
    """The records written, with offsets in ``[start, end)``. ``file_bytes`` is the size of the whole file.

    ``skipped_bytes`` were left out as corrupt. With ``error``, the file was not made.
    """

    partition: TopicPartition
    directory: Path
    file: Path
    start: int = 0
    end: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    file_bytes: int = 0
    skipped_ranges: int = 0
    skipped_bytes: int = 0
    error: TidelogError | None = None


def export_partitions(
    fs: FileSystem,
    sources: Sequence[tuple[Path, Sequence[TopicPartition]]],
    options: ExportOptions,
    *,
    advance: Advance = lambda _bytes: None,
    cancelled: threading.Event | None = None,
) -> list[ExportedPartition]:
    """Export the partitions of log directories. Raise ConfigError, before any write, if an output is not allowed.

    ``advance`` receives the bytes read, from several threads. Setting ``cancelled`` ends the run with CancelledError.
    An error in a partition appears in its result, and in the results of the other partitions of the same file.
    """
    files = _plan(ReadOnlyFileSystem(fs), sources, options)
    run = _Run(options, advance, cancelled or threading.Event())
    (options.output.parent if options.one_file else options.output).mkdir(parents=True, exist_ok=True)
    written = run_parallel(
        lambda file: run.write_file(*file),
        files.items(),
        name="export",
        threads=options.threads,
        stop=run.cancelled.set,
    )
    return sorted(chain.from_iterable(written), key=lambda result: (result.directory.parent, result.partition))


def _plan(
    fs: FileSystem, sources: Sequence[tuple[Path, Sequence[TopicPartition]]], options: ExportOptions
) -> dict[Path, list[LogView]]:
    files: dict[Path, list[LogView]] = {}
    suffix = f".{options.format}"
    target = options.output.resolve()
    for path, partitions in sources:
        if target.is_relative_to(path.resolve()):
            raise ConfigError(
                f"the output lies inside the log directory {path}: choose another path", path=options.output
            )
        state = read_directory_state(fs, path)
        for partition in partitions:
            file = options.output if options.one_file else options.output / (partition.directory_name + suffix)
            views = files.setdefault(file, [])
            if views and not options.one_file:
                twice = f"{partition} lies in {views[0].directory.parent} and in {path}: export them separately"
                raise ConfigError(twice, path=file)
            views.append(LogView(fs, path / partition.directory_name, directory_state=state))
    if options.one_file and target.is_dir():
        raise ConfigError("it is a directory, but one output file was requested", path=options.output)
    there = [file for file in files if file.exists()]
    if there and not options.replace_files:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise ConfigError(f"the file already exists{more}; --force replaces it", path=there[0])
    return files


class _Run:
    """The state that all files of an export share."""

    def __init__(self, options: ExportOptions, advance: Advance, cancelled: threading.Event) -> None:
        self.cancelled = cancelled
        self._options = options
        self._advance = advance

    def write_file(self, path: Path, views: Sequence[LogView]) -> list[ExportedPartition]:
        try:
            file = ExportFile(path, self._options.format, self._options.shape)
            try:
                results = [self._write_partition(file, view) for view in views]
                size = file.finish()
            except BaseException:
                file.abandon()
                raise
        except CancelledError:
            raise
        except TidelogError as error:
            return [_result(view, path, error=error) for view in views]
        except OSError as error:
            failed = StorageError(f"cannot write the file: {error.strerror or error}", path=path)
            return [_result(view, path, error=failed) for view in views]
        return [replace(result, file_bytes=size) for result in results]

    def _write_partition(self, file: ExportFile, view: LogView) -> ExportedPartition:
        options = self._options
        start = resolve_bound(view, options.start, options.limits)
        end = resolve_bound(view, options.end, options.limits)
        isolation, until = options.limits.isolation, options.limits.until
        wanted = view.range(start, max(start, end), isolation=isolation, until=until)
        stream = view.batches(wanted, on_corrupt=options.on_corrupt)
        records, first, last = 0, None, None
        on_skipped = stream.stats.count if options.on_corrupt is CorruptPolicy.SKIP else None
        rows = self._watched(stream, view)
        for chunk in column_chunks(rows, self._choice(), wanted.start, wanted.end, on_skipped=on_skipped):
            file.write(_partition_of(view), chunk.columns)
            records += len(chunk.columns)
            first = int(chunk.columns.offset[0]) if first is None else first
            last = int(chunk.columns.offset[-1])
        return _result(
            view,
            file.path,
            start=wanted.start,
            end=wanted.end,
            records=records,
            first_offset=first,
            last_offset=last,
            skipped_ranges=stream.stats.skipped_ranges,
            skipped_bytes=stream.stats.skipped_bytes,
        )

    def _choice(self) -> ColumnChoice:
        if self._options.format not in (ExportFormat.JSONL, ExportFormat.CSV):
            return ColumnChoice()
        shape = self._options.shape
        return ColumnChoice(
            keys=shape.key_format is not BytesFormat.NONE, values=shape.value_format is not BytesFormat.NONE
        )

    def _watched(self, stream: RowStream, view: LogView) -> Iterator[Rows]:
        for rows in stream:
            if self.cancelled.is_set():
                raise CancelledError("the export was cancelled", path=view.directory)
            self._advance(int(rows.table.size.sum()))
            yield rows


def _partition_of(view: LogView) -> TopicPartition:
    assert view.topic_partition is not None, "only directories named TOPIC-PARTITION are listed"
    return view.topic_partition


def _result(view: LogView, file: Path, **rest: object) -> ExportedPartition:
    return ExportedPartition(partition=_partition_of(view), directory=view.directory, file=file, **rest)  # type: ignore[arg-type]
