"""The ``dump --kafka-format`` report: the text that ``kafka-dump-log`` prints for the same switches.

``dump_kafka_format`` yields the text for standard output in pieces of complete lines. It passes the lines for standard
error to ``complain``: mismatches (after all files, as in Kafka), files of unknown kinds, and every problem that ends
Kafka's tool with an exception. After that problem the dump goes on with the next batch or file.

The module only reads. Thread rule: one thread. Source: Kafka's ``DumpLogSegments``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from tidelog.inspect.dump.kafka_index import TimeIndexFindings, base_offset_of, offset_index_text, time_index_text
from tidelog.inspect.dump.kafka_log import Gap, KafkaLogText
from tidelog.inspect.dump.options import KafkaFormatOptions, ToolRelease
from tidelog.kernel import crc32c
from tidelog.model import CorruptRecordError, SnapshotCorruptError, TidelogError
from tidelog.storage.fs import BY_PATH, FileSystem, ReadOnlyFileSystem, path_of, read_whole
from tidelog.storage.index import TransactionIndexReader
from tidelog.storage.producer.snapshot import SNAPSHOT_VERSION, parse_snapshot

BOOTSTRAP_NAME = "bootstrap.checkpoint"
_SNAPSHOT_HEAD = Struct(">hI")
_METADATA_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


@dataclass(slots=True)
class _Findings:
    """The findings reported after the last file. Keys are absolute paths."""

    release: ToolRelease
    index_mismatches: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    time_indexes: dict[str, TimeIndexFindings] = field(default_factory=dict)
    gaps: dict[str, list[Gap]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        for path, mismatches in self.index_mismatches.items():
            if mismatches:
                yield f"Mismatches in :{path}"
            for index_offset, log_offset in self._ordered(mismatches, is_descending=True):
                yield f"  Index offset: {index_offset}, log offset: {log_offset}"
        yield from self._time_index_lines()
        for path, gaps in self.gaps.items():
            if gaps:
                yield f"Non-consecutive offsets in {path}"
            for offset, next_offset in self._ordered(gaps, is_descending=False):
                yield f"  {offset} is followed by {next_offset}"

    def _ordered(self, pairs: Sequence[tuple[int, int]], *, is_descending: bool) -> Iterable[tuple[int, int]]:
        """Return pairs in Kafka's order: latest first before 4.3. Since then a sorted map keeps one pair per first
        number."""
        if not self.release.is_rewritten:
            return reversed(pairs)
        return sorted(dict(pairs).items(), reverse=is_descending)

    def _time_index_lines(self) -> Iterator[str]:
        for path, findings in self.time_indexes.items():
            if findings.timestamp_mismatches:
                yield f"Found timestamp mismatch in :{path}"
            for in_index, in_log in findings.timestamp_mismatches:
                yield f"  Index timestamp: {in_index}, log timestamp: {in_log}"
        for path, findings in self.time_indexes.items():
            if findings.out_of_order:
                yield f"Found out of order timestamp in :{path}"
            for in_index, before in findings.out_of_order:
                yield f"  Index timestamp: {in_index}, Previously indexed timestamp: {before}"
        for path, findings in self.time_indexes.items():
            if findings.offsets_not_found:
                where = f":{path}" if self.release.is_rewritten else "the log."
                yield f"The following indexed offsets are not found in {where}"
            for in_index, in_log in findings.offsets_not_found:
                yield f"Indexed offset: {in_index}, found log offset: {in_log}"


def dump_kafka_format(
    paths: Iterable[str | os.PathLike[str]],
    options: KafkaFormatOptions,
    *,
    complain: Callable[[str], None],
    fs: FileSystem = BY_PATH,
) -> Iterator[str]:
    """Dump ``paths``, in the order given, as pieces of text for standard output, each of complete lines.

    Missing files and bad contents never raise: ``complain`` receives each line of standard error. Paths are printed as
    given.
    """
    reader = ReadOnlyFileSystem(fs)
    findings = _Findings(options.release)
    for given in paths:
        shown = _java_path(os.fspath(given))
        yield f"Dumping {shown}\n"
        try:
            yield from _file_text(reader, path_of(shown), shown, options, findings, complain)
        except TidelogError as error:
            complain(str(error))
    for line in findings.lines():
        complain(line)


def _file_text(
    fs: FileSystem,
    path: Path,
    shown: str,
    options: KafkaFormatOptions,
    findings: _Findings,
    complain: Callable[[str], None],
) -> Iterator[str]:
    absolute = str(path.absolute())
    match path.suffix:
        case ".log" | ".checkpoint":
            yield _log_head(path)
            with fs.open(path) as file:
                log = KafkaLogText(file, options, complain)
                yield from log.pieces()
                findings.gaps.setdefault(absolute, []).extend(log.gaps)
        case ".index":
            mismatches = findings.index_mismatches.setdefault(absolute, [])
            yield from offset_index_text(fs, path, shown, options, mismatches)
        case ".timeindex":
            found = findings.time_indexes.setdefault(absolute, TimeIndexFindings())
            yield from time_index_text(fs, path, shown, options, found)
        case ".snapshot":
            data = read_whole(fs, path)
            try:
                yield _snapshot_text(data, path, options.release)
            except SnapshotCorruptError as error:
                complain(_snapshot_complaint(data, error))
        case ".txnindex":
            yield _transaction_index_text(fs, path)
        case _:
            complain(f"Ignoring unknown file {shown}")


def _log_head(path: Path) -> str:
    if path.suffix == ".log":
        return f"Log starting offset: {base_offset_of(path)}\n"
    if path.name == BOOTSTRAP_NAME:
        return "KRaft bootstrap snapshot\n"
    match = _METADATA_SNAPSHOT.fullmatch(path.name)
    if match is None:
        raise CorruptRecordError("the name is not OFFSET-EPOCH.checkpoint of a metadata snapshot", path=path)
    return f"Snapshot end offset: {int(match[1])}, epoch: {int(match[2])}\n"


def _snapshot_text(data: bytes, path: Path, release: ToolRelease) -> str:
    lines = []
    end = "" if release.is_rewritten else " "
    for entry in parse_snapshot(data, path=path):
        first = entry.transaction_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {'OptionalLong.empty' if first is None else f'OptionalLong[{first}]'} "
            f"lastTimestamp: {entry.last_timestamp}"
        )
        if not entry.batches:
            line += end
        for batch in list(entry.batches)[:1]:
            line += (
                f" firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
                f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
            )
        lines.append(line + "\n")
    return "".join(lines)


def _snapshot_complaint(data: bytes, error: SnapshotCorruptError) -> str:
    """Return Kafka's own sentence if it has one for the error."""
    if len(data) >= _SNAPSHOT_HEAD.size:
        version, stored = _SNAPSHOT_HEAD.unpack_from(data)
        if version != SNAPSHOT_VERSION:
            return f"Snapshot failed schema validation: Snapshot contained an unknown file version {version}"
        computed = crc32c(memoryview(data)[_SNAPSHOT_HEAD.size :])
        if stored != computed:
            return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
    return str(error)


def _transaction_index_text(fs: FileSystem, path: Path) -> str:
    index = TransactionIndexReader(read_whole(fs, path), base_offset_of(path), path=path)
    return "".join(
        [
            f"version: 0 producerId: {aborted.producer_id} firstOffset: {aborted.first_offset} "
            f"lastOffset: {aborted.last_offset} lastStableOffset: {aborted.last_stable_offset}\n"
            for aborted in index
        ]
    )


def _java_path(path: str) -> str:
    """Return the path as ``java.io.File`` prints it: without doubled slashes or a slash at the end."""
    joined = re.sub("/+", "/", path)
    return joined if joined == "/" else joined.rstrip("/")
