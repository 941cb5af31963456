"""The sections of a log's page about its offsets, open transactions, epochs, snapshots, settings and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.value_text import format_value
from tidelog.inspect.log.report import LogReport
from tidelog.inspect.retention import PartitionRetention
from tidelog.inspect.retention.sentences import limit_text
from tidelog.inspect.transaction_rows import FIELDS
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.manager.metadata.cluster_metadata_log import SnapshotId
from tidelog.storage.manager.survey.log_survey import HighWatermarkFrom
from tidelog.storage.segment.file_names import FileKind, SegmentFileName
from tidelog.web import urls
from tidelog.web.page import Column, Kind, Row, Section, Table
from tidelog.web.pages.log_ribbon import mark_offsets
from tidelog.web.request import PageRequest
from tidelog.web.shown import size_text

_SETTINGS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "segment.ms",
    "file.delete.delay.ms",
    "index.interval.bytes",
    "segment.index.bytes",
    "max.message.bytes",
    "compression.type",
    "message.timestamp.type",
    "min.insync.replicas",
    "flush.messages",
    "flush.ms",
    "preallocate",
)
_COMPACTION_SETTINGS = (
    "delete.retention.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
)
_UNBOUNDED_MS = 2**63 - 1


def offsets_section(request: PageRequest, report: LogReport) -> Section:
    key, name = request.log_dir.key, request.log_name
    sources = _offset_sources(report)
    rows: list[Row] = []
    for mark, offset in mark_offsets(report).items():
        segment = None if offset is None else report.state.segments.floor(offset)
        rows.append(
            {
                "name": mark,
                "offset": offset,
                "before_end": None if offset is None else report.log_end - offset,
                "segment": None if segment is None else segment.base_offset,
                "source": sources[mark],
            }
        )
    return Section(
        name="offsets",
        title="Offsets",
        text="The offsets that bound reading and deletion. Each has a source: a checkpoint of the log directory, or"
        " the log itself.",
        table=Table(
            columns=[
                Column(name="name"),
                Column(name="offset", kind=Kind.NUMBER, link=_records_link(request, report, "offset")),
                Column(name="before_end", title="before log end", kind=Kind.NUMBER),
                Column(
                    name="segment",
                    kind=Kind.NUMBER,
                    link=lambda row: (
                        None if row["segment"] is None else urls.segment_url(key, name, int(str(row["segment"])))
                    ),
                ),
                Column(name="source"),
            ],
            rows=rows,
        ),
    )


def _records_link(request: PageRequest, report: LogReport, column: str) -> Callable[[Row], str | None]:
    """Return the link of an offset to its records, for offsets that the log has."""
    key, name = request.log_dir.key, request.log_name

    def link(row: Row) -> str | None:
        offset = row[column]
        is_known = isinstance(offset, int) and report.state.log_start <= offset < report.log_end
        return urls.records_url(key, name, start=offset) if is_known else None

    return link


def _offset_sources(report: LogReport) -> dict[str, str]:
    state, checkpoints = report.state, report.directory_state
    checkpointed = checkpoints.log_start_offsets.get(report.partition)
    if checkpointed == state.log_start:
        start = "log-start-offset-checkpoint"
    elif checkpointed is None:
        start = "the first segment: log-start-offset-checkpoint has no entry"
    else:
        start = f"the first segment: log-start-offset-checkpoint has {checkpointed:,}"
    recovery = "recovery-point-offset-checkpoint"
    if report.recovery_point is None:
        recovery += " has no entry: recovery starts at the first segment"
    transactions = report.transactions.open
    stable = "no transaction is open: the log end"
    if transactions:
        stable = f"the start of the open transaction of producer {transactions[0].producer_id}"
    elif report.transactions.last_stable != report.log_end:
        stable = "not known" if report.transactions.last_stable is None else "the log's transactional batches"
    end = "no segments: the log start"
    if len(state.segments):
        end = f"after the last valid batch of segment {state.log_end.segment_base_offset:,}"
        if report.condition is DirectoryCondition.UNCLEAN:
            end += ", as recovery finds it"
    return {
        "log start": start,
        "recovery point": recovery,
        "last stable offset": stable,
        "high watermark": _high_watermark_source(report),
        "log end": end,
    }


def _high_watermark_source(report: LogReport) -> str:
    known = report.checkpointed_high_watermark
    checkpoint = "replication-offset-checkpoint"
    entry = f"{checkpoint} has no entry" if known is None else f"{checkpoint} has {known:,}"
    match report.retention.high_watermark_from:
        case HighWatermarkFrom.ONLY_REPLICA:
            return f"this broker has the only replica: the log end; {entry}"
        case HighWatermarkFrom.LOG_END:
            return f"the log end, because {entry}"
        case HighWatermarkFrom.CHECKPOINT:
            return checkpoint if known == report.high_watermark else f"{entry}, which lies outside of the log"


def transactions_section(request: PageRequest, report: LogReport, now_ms: int) -> Section:
    key, name = request.log_dir.key, request.log_name
    rows: list[Row] = [
        {
            **{name: getattr(one, name) for name in FIELDS},
            "age_ms": None if one.start_timestamp is None else now_ms - one.start_timestamp,
        }
        for one in report.transactions.open
    ]
    shown, paging = request.query.paged("open_transactions", rows)
    return Section(
        name="open_transactions",
        title="Open transactions",
        text="A transaction without a marker blocks everything after its start for read_committed consumers, also"
        " the records of other producers. The page of transactions shows whether it hangs.",
        table=Table(
            columns=[
                Column(
                    name="producer_id",
                    title="producer",
                    kind=Kind.CODE,
                    link=lambda _row: urls.log_part_url(key, name, "transactions"),
                ),
                Column(name="producer_epoch", title="epoch", kind=Kind.NUMBER),
                Column(name="start_offset", kind=Kind.NUMBER, link=_records_link(request, report, "start_offset")),
                Column(name="start_timestamp", title="since", kind=Kind.TIME),
                Column(name="age_ms", title="age", kind=Kind.DURATION),
                Column(name="last_timestamp", title="last append", kind=Kind.TIME),
                Column(name="records", kind=Kind.NUMBER),
                Column(name="bytes", kind=Kind.BYTES),
                Column(name="held_back_records", title="blocked records", kind=Kind.NUMBER),
                Column(name="held_back_bytes", title="blocked bytes", kind=Kind.BYTES),
            ],
            rows=shown,
            paging=paging,
            empty="No transaction is open.",
        ),
    )


def epochs_section(request: PageRequest, report: LogReport) -> Section:
    ends = [*(entry.start_offset for entry in report.epochs), report.log_end][1:]
    rows: list[Row] = []
    for entry, end in zip(report.epochs, ends, strict=True):
        is_beyond = entry.start_offset > report.log_end
        first = max(entry.start_offset, report.state.log_start)
        rows.append(
            {
                "epoch": entry.epoch,
                "start_offset": entry.start_offset,
                "end_offset": None if is_beyond else min(end, report.log_end),
                "offsets": 0 if is_beyond else max(0, min(end, report.log_end) - first),
                "start": report.positions.of(entry.start_offset),
                "note": "beyond the log end: a start removes the entry" if is_beyond else None,
            }
        )
    shown, paging = request.query.paged("epochs", rows)
    return Section(
        name="epochs",
        title="Leader epochs",
        text="Each batch carries the epoch of the leader that appended it. Replicas find their first difference by the"
        " offsets at which epochs begin. The file leader-epoch-checkpoint has these lines.",
        table=Table(
            columns=[
                Column(name="epoch", kind=Kind.NUMBER),
                Column(name="start_offset", kind=Kind.NUMBER, link=_records_link(request, report, "start_offset")),
                Column(name="end_offset", kind=Kind.NUMBER, help="The start of the next epoch, or the log end"),
                Column(name="offsets", kind=Kind.NUMBER, help="Offsets of this epoch from the log start on"),
                Column(
                    name="start", title="begins at byte", kind=Kind.NUMBER, help="From the first segment's start on"
                ),
                Column(name="note"),
            ],
            rows=shown,
            paging=paging,
            empty="The checkpoint has no epochs.",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    of: str
    offset: int
    file: str


def _all_snapshots(report: LogReport) -> Iterator[_Snapshot]:
    for offset in report.state.listing.snapshots:
        yield _Snapshot(of="producers", offset=offset, file=str(SegmentFileName(offset, FileKind.SNAPSHOT)))
    for name in report.state.listing.others:
        found = SnapshotId.parse(name)
        if found is not None:
            yield _Snapshot(of="cluster metadata", offset=found.offset, file=name)


def snapshots_section(request: PageRequest, report: LogReport) -> Section:
    key, name = request.log_dir.key, request.log_name
    rows: list[Row] = [
        {"file": one.file, "of": one.of, "offset": one.offset, "bytes": report.sizes.get(one.file)}
        for one in _all_snapshots(report)
    ]
    shown, paging = request.query.paged("snapshots", rows, size=20)
    return Section(
        name="snapshots",
        title="Snapshots",
        text="A producer snapshot has the producers and open transactions of all records below its offset. A start"
        " reads the newest usable one, and then only the records after it.",
        table=Table(
            columns=[
                Column(name="file", kind=Kind.CODE),
                Column(
                    name="of",
                    link=lambda row: (
                        urls.log_part_url(key, name, "producers") if row["of"] == "producers" else urls.METADATA
                    ),
                ),
                Column(name="offset", kind=Kind.NUMBER, link=_records_link(request, report, "offset")),
                Column(name="bytes", kind=Kind.BYTES),
            ],
            rows=shown,
            paging=paging,
            empty="The log has no snapshots.",
        ),
    )


def settings_section(retention: PartitionRetention) -> Section:
    config, origins = retention.settings.config, retention.settings.origins
    keys = (*_SETTINGS, *(_COMPACTION_SETTINGS if config.is_compacted else ()))
    rows: list[Row] = []
    for key in keys:
        value = getattr(config, key.replace(".", "_"))
        plain = sorted(value) if isinstance(value, frozenset) else value
        rows.append(
            {
                "key": key,
                "value": plain,
                "text": _setting_text(key, value),
                "source": origins.get(key, "default"),
                "meaning": TOPIC_KEYS[key].doc,
            }
        )
    return Section(
        name="settings",
        title="Settings",
        text="The settings of the topic that decide about its segments, each with its source: the topic, the broker, or"
        " Kafka's default.",
        table=Table(
            columns=[
                Column(name="key", kind=Kind.CODE),
                Column(name="text", title="value"),
                Column(name="source"),
                Column(name="meaning", kind=Kind.SENTENCE),
            ],
            rows=rows,
        ),
    )


def _setting_text(key: str, value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(value)) or "empty"
    if isinstance(value, bool) or not isinstance(value, int):
        return format_value(value)  # type: ignore[arg-type]
    if value == _UNBOUNDED_MS:
        return "no limit"
    if key.startswith("retention.") and value < 0:
        return f"{value} (no limit)"
    if key.endswith(".ms"):
        return limit_text(value)
    return f"{value:,} ({size_text(value)})" if key.endswith(".bytes") and value >= 1024 else f"{value:,}"


def files_section(request: PageRequest, report: LogReport) -> Section:
    rows: list[Row] = [
        {
            "name": file.name,
            "bytes": file.size,
            "meaning": file.meaning,
            "is_leftover": file.is_leftover,
            "next_start": file.next_start,
        }
        for file in sorted(report.files, key=lambda file: (file.is_leftover, file.name))
    ]
    shown, paging = request.query.paged("files", rows, size=50)
    return Section(
        name="files",
        title="Other files in the directory",
        text="Files that belong to no segment, with what happens to them at the next start.",
        table=Table(
            columns=[
                Column(name="name", kind=Kind.CODE),
                Column(name="bytes", kind=Kind.BYTES),
                Column(name="meaning", kind=Kind.SENTENCE),
                Column(name="next_start"),
            ],
            rows=shown,
            paging=paging,
            empty="All files belong to segments.",
        ),
    )
