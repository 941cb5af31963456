"""The comparison of one list on both sides: results and files must be the same.

Each operation's result and the offsets after it are compared, then the names of the files and their bytes. After a
clean shutdown, kafka-dump-log's output for our files is compared with ours for Kafka's. Exceptions are:

==============================================  ========================================================================
not compared                                    reason
==============================================  ========================================================================
bytes of indexes that were not closed: indexes  Kafka leaves truncated entries in the mapped file, after the valid ones;
of ``.deleted`` segments, and after a kill all  loading rebuilds these indexes or deletes them
of segments at or above the recovery point
existence of these indexes                      Kafka creates the file when it first reads the index
sizes, positions, CRCs and index entries if     two libraries compress differently; records, offsets, attributes and
the log, or its cleaner, compresses batches     batch boundaries are compared instead
.deleted files that loading leaves              ours removes at once the files that Kafka renames for a while
the record of a lookup by time that finds none  Kafka searches one segment only, and ignores the log start when it looks
in Kafka, or one below the log start            for the largest timestamp (see ``time_lookup``)
the last stable offset except its position, if  Kafka 4.1 moves it to the beginning of the batch at this position when
it is the log start, or in a cleaned log        it resolves the position: below the log start, or after a gap
aborted transactions that begin after the       Kafka's bound comes from a search that may skip an entry that
records read                                    fits exactly (``AbstractIndex.binarySearch``)
the leader epoch of a record found by time      Kafka takes it from the batch, ours from the epoch cache; a list may
                                                make them disagree
==============================================  ========================================================================
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from differential.kafka_side import KafkaSide
from differential.operations import Clean, OffsetForTimestamp, Operation, Read, Reopen, Scenario, TruncateTo, source
from differential.our_side import OurSide
from tidelog.inspect.dump import dump_kafka_format
from tidelog.inspect.dump.options import KafkaFormatOptions
from tidelog.kernel import ColumnDecoder
from tidelog.record.decode import decode_columns, iter_records
from tidelog.storage.fs import LOCAL
from tidelog.storage.segment.segment_reader import SegmentReader

_INDEXES = (".index", ".timeindex")
_DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_SIZES = re.compile(r"(?<=@)(-?\d+)\+-?\d+| bytes=\d+ sha256=\w+ incomplete=\w+| (?:planned|sizes)=\d+/\d+")
_STABLE = re.compile(r" stable=\d+")
_CLEANED = re.compile(r"^from=\d+ to=\d+")
_STABLE_AT_LOG_START = re.compile(r" start=(\d+) stable=\1@")
_UNSETTLED = ("none |", "gone |", "-1 at 0 ")
"""Results of a time lookup that may differ. The last is Kafka's largest timestamp of records without any."""
_ABORTED = re.compile(r" aborted=\[([0-9:,]*)\]")
_RECOVERY_POINT = re.compile(r" recovery=(\d+) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference. ``kind`` identifies it while the list is shortened."""

    kind: str
    text: str


def run_both(scenario: Scenario, kafka: KafkaSide, directory: Path, *, dump: bool = True) -> Difference | None:
    """Run both sides, and return the first difference. ``directory`` is new, and keeps both logs."""
    theirs, ours = (directory / side / "t-0" for side in ("kafka", "tidelog"))
    for log in (theirs, ours):
        if scenario.start is None:
            log.mkdir(parents=True)
        else:
            shutil.copytree(scenario.start, log)
    lines = kafka.run(scenario, theirs)
    scenario = _until_it_cannot_go_on(scenario, lines)
    side = OurSide(scenario, ours)
    try:
        our_lines = side.run()
    finally:
        side.forget()
    scenario = _until_stable_offsets_decide(scenario, lines, our_lines)
    if len(scenario.operations) + 2 < len(lines):
        return _different_line(scenario, lines, our_lines)
    return (
        _different_line(scenario, lines, our_lines)
        or _different_file(scenario, theirs, ours, lines)
        or (_different_dump(scenario, theirs, ours, kafka) if dump else None)
    )


def _until_it_cannot_go_on(scenario: Scenario, lines: list[str]) -> Scenario:
    """End the list where a follower received data that a leader would refuse, because its log is then unusable.

    Loading refuses the log. Or the refused set rolled the log, and the next append finds the active segment above the
    log end: Kafka's log refuses that append, ours also every later one until it is loaded again. Kafka's cleaner fails
    if a batch of an old format would stay without records. A truncation below the high watermark fails halfway if the
    cleaner left too little of a transaction to load the producers.
    """
    for number, (operation, line) in enumerate(zip(scenario.operations, lines[1:], strict=False)):
        if isinstance(operation, Reopen) and line.startswith("error"):
            return replace(scenario, operations=scenario.operations[: number + 1], ends_cleanly=False)
        fails_half_way = isinstance(operation, TruncateTo) and line.startswith("error InvalidTxnStateException")
        cannot_clean = isinstance(operation, Clean) and line.startswith("error")
        if line.startswith("error KafkaException") or fails_half_way or cannot_clean:
            return replace(scenario, operations=scenario.operations[:number])
    return scenario


def _until_stable_offsets_decide(scenario: Scenario, theirs: list[str], ours: list[str]) -> Scenario:
    """End the list before a clean that goes further on Kafka's side because it moved the last stable offset."""
    for number, (operation, their_line, our_line) in enumerate(
        zip(scenario.operations, theirs[1:], ours[1:], strict=False)
    ):
        if isinstance(operation, Clean) and all(
            pattern.findall(their_line) != pattern.findall(our_line) for pattern in (_STABLE, _CLEANED)
        ):
            return replace(scenario, operations=scenario.operations[:number])
    return scenario


def _different_line(scenario: Scenario, theirs: list[str], ours: list[str]) -> Difference | None:
    steps = [None, *scenario.operations]
    for number, (step, their_line, our_line) in enumerate(zip(steps, theirs, ours, strict=False)):
        if scenario.recompresses:
            their_line, our_line = (_SIZES.sub(r"\1", line) for line in (their_line, our_line))
        their_line, our_line = _settled(scenario, step, their_line, our_line)
        if their_line != our_line:
            fields = _different_words(their_line, our_line)
            text = f"operation {number}: {source(step)}\n  Kafka:   {their_line}\n  tidelog: {our_line}"
            return Difference(kind=f"{type(step).__name__} {fields}", text=text)
    return None


def _settled(scenario: Scenario, step: Operation | None, theirs: str, ours: str) -> tuple[str, str]:
    """Return both lines without the parts that may differ."""
    if scenario.cleans or _STABLE_AT_LOG_START.search(ours):
        theirs, ours = (_STABLE.sub(" stable=", line) for line in (theirs, ours))
    if isinstance(step, OffsetForTimestamp) and theirs.startswith(_UNSETTLED):
        return "", ""
    if isinstance(step, Read):
        needed, listed = _aborted(ours), _aborted(theirs)
        if needed <= listed and all(offset > step.offset for _, offset in listed - needed):
            theirs, ours = (_ABORTED.sub("", line) for line in (theirs, ours))
    return theirs, ours


def _aborted(line: str) -> set[tuple[int, int]]:
    """Return producer and first offset of the transactions that a read reports as aborted."""
    found = _ABORTED.search(line)
    pairs = (pair.split(":") for pair in found[1].split(",")) if found and found[1] else ()
    return {(int(producer_id), int(offset)) for producer_id, offset in pairs}


def _different_words(one: str, other: str) -> list[str]:
    """Return the fields that differ, as ``name=``. A result counts by its first word."""
    result, _, state = one.partition(" | ")
    other_result, _, other_state = other.partition(" | ")
    words = [] if result == other_result else [result if result.startswith("error") else "result"]
    pairs = zip(state.split(" "), other_state.split(" "), strict=False)
    return words + [field.partition("=")[0] for field, other_field in pairs if field != other_field]


def _different_file(scenario: Scenario, theirs: Path, ours: Path, lines: list[str]) -> Difference | None:
    recovery_point = max((int(found[1]) for found in map(_RECOVERY_POINT.search, lines[-2:]) if found), default=0)
    unclosed = None if scenario.ends_cleanly else recovery_point
    names = [_compared_names(directory, unclosed) for directory in (theirs, ours)]
    if names[0] != names[1]:
        text = f"files only of Kafka: {sorted(names[0] - names[1])}, of tidelog: {sorted(names[1] - names[0])}"
        return Difference(kind=f"names {sorted({_kind(name) for name in names[0] ^ names[1]})}", text=text)
    for name in sorted(names[0]):
        kind = _kind(name)
        if kind.startswith(_INDEXES) and (scenario.recompresses or kind.endswith(".deleted")):
            continue
        content: Callable[[Path], object] = Path.read_bytes
        if kind.startswith(".log"):
            content = _records if scenario.recompresses else Path.read_bytes
        if content(theirs / name) != content(ours / name):
            return Difference(kind=f"bytes {kind}", text=f"{name} differs")
    return None


def _compared_names(directory: Path, unclosed: int | None) -> set[str]:
    """Return the names without unclosed indexes: after a kill those of segments with records above ``unclosed``."""
    names = {path.name for path in directory.iterdir()}
    logs = sorted(name for name in names if name.endswith(".log"))
    open_bases = set()
    if unclosed is not None:
        ends = [*(int(name[:20]) for name in logs[1:]), None]
        open_bases = {name[:20] for name, end in zip(logs, ends, strict=True) if end is None or end > unclosed}
    return {
        name
        for name in names
        if not (_kind(name) in _INDEXES and name[:20] in open_bases)
        and not (_kind(name).startswith(_INDEXES) and name.endswith(".deleted"))
    }


def _kind(name: str) -> str:
    """Return the suffixes, or the full name of a file that belongs to no segment."""
    return name[20:] if name[:20].isdigit() else name


def _records(path: Path) -> list[object]:
    """Return each batch's header, without sizes and CRC, and its records."""
    found: list[object] = []
    state = path.name[len(path.stem) :]
    assert state in (".log", ".deleted")
    if state == ".deleted":
        return found
    with SegmentReader(LOCAL, path.parent, int(path.stem)) as reader:
        for buffer, table, base_position in reader.chunks():
            for row in range(len(table)):
                batch = table.row(row)
                found.append(batch._replace(position=0, size=0, crc=0))
                for columns in decode_columns(
                    buffer, table.take(slice(row, row + 1)), ColumnDecoder(), base_position=base_position
                ):
                    found.extend(iter_records(columns))
    return found


def _different_dump(scenario: Scenario, theirs: Path, ours: Path, kafka: KafkaSide) -> Difference | None:
    """Compare Kafka's tool on our files with our dump of Kafka's files."""
    if not scenario.ends_cleanly or scenario.recompresses:
        return None
    names = sorted(path.name for path in ours.iterdir() if path.suffix in _DUMPED)
    switches = ("--deep-iteration", "--print-data-log")
    options = KafkaFormatOptions(deep_iteration=True, print_data_log=True)
    printed = [line.replace(str(ours), "") for line in kafka.dump([ours / name for name in names], *switches)]
    text = "".join(dump_kafka_format([str(theirs / name) for name in names], options, complain=lambda _: None))
    for their_line, our_line in zip(printed, _lines(text.replace(str(theirs), "")), strict=False):
        if their_line != our_line:
            return Difference(kind="dump", text=f"dump\n  Kafka:   {their_line}\n  tidelog: {our_line}")
    return None


def _lines(text: str) -> Iterator[str]:
    return iter(text.split("\n"))
