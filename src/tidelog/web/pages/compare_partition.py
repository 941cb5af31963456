"""The page of one partition's replicas side by side: offsets, epochs, and the first difference down to the byte."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Final

from tidelog.inspect.compare import (
    ComparedPartition,
    ComparedReplica,
    Difference,
    DifferenceKind,
    Placement,
    ReplicaState,
    compare_cluster,
    pair_bytes,
)
from tidelog.inspect.compare.broker_directory import Replica, unknown_nodes
from tidelog.inspect.compare.comparison_rows import (
    difference_fields,
    epoch_starts,
    readable_replicas,
    replica_names,
    replica_rows,
)
from tidelog.inspect.compare.difference_bytes import ByteLine, difference_bytes
from tidelog.model import DirectoryError, TidelogError, TopicPartition
from tidelog.storage.fs import BY_PATH
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName
from tidelog.web import urls
from tidelog.web.jobs import LIVE_AGE_MS, Finished, JobProgress
from tidelog.web.page import Column, Fact, FormField, Kind, Link, Page, Row, Section, Table
from tidelog.web.pages.compare import owners, several_clusters
from tidelog.web.pages.replica_picture import (
    MOST_LANES,
    Window,
    close_window,
    difference_section,
    replica_picture,
    whole_window,
)
from tidelog.web.reports.cluster_facts import known_metadata
from tidelog.web.reports.file_places import FilePlace
from tidelog.web.request import PageRequest
from tidelog.web.sources import LogDir, NotFoundError

_BYTES_TEXT: Final = (
    "The bytes of both batches around the first different byte, counted from the start of the batch. Brackets enclose"
    " different bytes."
)


def compare_partition_page(request: PageRequest) -> Page:
    """Return the page. Raise NotFoundError if no given directory has the partition."""
    partition = _partition(request.path["partition"])
    name = partition.directory_name
    trail = [Link("Cluster", urls.CLUSTER), Link("Compare", urls.COMPARE)]
    directories = owners(request.sources)
    several = several_clusters(directories)
    if several is not None:
        return Page(title=name, trail=trail, notes=[several])
    holders = request.sources.holders(partition)
    if not holders:
        raise NotFoundError(f"no given log directory has the partition {name}")
    metadata = known_metadata(request)
    made = _compared(request, partition, holders, metadata.placements.get(partition))
    compared = made.value
    window, links = _window(request, compared)
    notes = list(compared.problems)
    if len(holders) == 1:
        notes.append("Only one given directory has this partition, so there is nothing to compare it with.")
    names = replica_names(compared)
    return Page(
        title=name,
        trail=[*trail[:1], Link(partition.topic, urls.topic_url(partition.topic)), *trail[1:]],
        facts=_facts(compared, made, names),
        form=[
            FormField(name="start", title="Picture from offset", value=request.query.text("start")),
            FormField(name="end", title="To offset (exclusive)", value=request.query.text("end")),
        ],
        notes=[*notes, *metadata.warnings, *unknown_nodes(directories)],
        sections=[
            _replicas_section(request, compared, names, window, links, metadata.note),
            *_difference_sections(request, compared, names),
            _epochs_section(request, compared, names),
        ],
    )


def _partition(text: str) -> TopicPartition:
    try:
        parsed = PartitionDirectoryName.parse(text)
    except DirectoryError as error:
        raise NotFoundError(error.message) from None
    if parsed.purpose is not DirectoryPurpose.LIVE:
        raise NotFoundError(f"{text} is a log that is being added or removed, and has no replicas")
    return parsed.topic_partition


def _compared(
    request: PageRequest, partition: TopicPartition, holders: Sequence[LogDir], placement: Placement | None
) -> Finished[ComparedPartition]:
    placements = {} if placement is None else {partition: placement}

    def work(progress: JobProgress) -> ComparedPartition:
        directories = [one.broker_directory() for one in request.sources.log_dirs]
        progress.expect(pair_bytes(BY_PATH, directories, partition))
        return compare_cluster(BY_PATH, directories, [partition], placements, advance=progress.advance)[0]

    name = partition.directory_name
    held = [one.is_held for one in holders]
    files = tuple(None if is_held else one.signature(name) for one, is_held in zip(holders, held, strict=True))
    return request.job(
        ("compare", name),
        work,
        title=f"comparing the replicas of {name}",
        signature=(files, _placement_signature(placement)),
        is_repeatable=True,
        max_age_ms=LIVE_AGE_MS if any(held) else None,
    )


def _placement_signature(placement: Placement | None) -> Hashable:
    if placement is None:
        return None
    return (placement.leader, placement.leader_epoch, placement.replicas, placement.isr, placement.elr)


def _window(request: PageRequest, compared: ComparedPartition) -> tuple[Window, list[Link]]:
    """Return the shown offsets, and links to other ranges of offsets."""
    whole, close = whole_window(compared), close_window(compared)
    start = request.query.integer("start", -1, minimum=-1)
    end = request.query.integer("end", -1, minimum=-1)
    window = Window(whole.start if start < 0 else start, whole.end if end < 0 else end)
    if window.end <= window.start:
        window = whole
    own = urls.compare_url(compared.partition.directory_name)
    links = []
    if close is not None and close != window:
        links.append(Link("Enlarge the ends", urls.with_query(own, {"start": close.start, "end": close.end})))
    if window != whole:
        links.append(Link("Whole logs", own))
    return window, links


def _facts(compared: ComparedPartition, made: Finished[ComparedPartition], names: dict[int, str]) -> list[Fact]:
    placement, reference = compared.placement, compared.reference
    return [
        Fact(
            name="reference",
            value=None if reference is None else names[id(reference)],
            help="The replica that the others are compared with: the leader's, or else the best one",
        ),
        Fact(
            name="leader",
            value=None if placement is None or placement.leader < 0 else placement.leader,
            kind=Kind.NUMBER,
            url=urls.with_query(
                urls.METADATA_LOG,
                {"topic": compared.partition.topic, "partition": compared.partition.partition},
            )
            if placement is not None
            else None,
            help="By the newest metadata; the link leads to its changes",
        ),
        Fact(name="isr", title="ISR", value=None if placement is None else list(placement.isr)),
        Fact(name="replicas", value=None if placement is None else list(placement.replicas)),
        Fact(
            name="committed_end",
            title="committed records end at",
            value=compared.committed_end,
            kind=Kind.NUMBER,
            help="The highest checkpointed high watermark that the reference has",
        ),
        Fact(name="is_compacted", title="compacted", value=compared.is_compacted),
        Fact(name="problems", value=len(compared.problems), kind=Kind.NUMBER),
        Fact(name="compared_at", value=made.made_at_ms, kind=Kind.TIME),
    ]


def _log_url(request: PageRequest, replica: Replica) -> str:
    key = next(one.key for one in request.sources.log_dirs if one.path == replica.directory.path)
    return urls.log_url(key, replica.partition.directory_name)


def _replicas_section(
    request: PageRequest,
    compared: ComparedPartition,
    names: dict[int, str],
    window: Window,
    links: Sequence[Link],
    source: str,
) -> Section:
    keys = {one.path: one.key for one in request.sources.log_dirs}
    rows: list[Row] = []
    for one, row in zip(compared.replicas, replica_rows(compared), strict=True):
        url = None if one.replica is None else _log_url(request, one.replica)
        name = f"node {one.node_id}" if one.replica is None else names[id(one.replica)]
        rows.append({"name": name, **row, "url": url})
    return Section(
        name="replicas",
        title="Replicas",
        text=(
            "A bar reaches from the log start to the log end, with leader epochs as bands. Lag, and records that a"
            f" replica would truncate to follow the reference, are normal; problems stand above. {source}"
        ),
        picture=replica_picture(compared, keys, window),
        links=links,
        table=Table(
            columns=[
                Column(name="name", title="replica", link=lambda row: str(row["url"]) if row["url"] else None),
                Column(name="role"),
                Column(name="state"),
                Column(name="log_start", kind=Kind.NUMBER),
                Column(name="high_watermark", kind=Kind.NUMBER, help="The checkpointed one"),
                Column(name="log_end", kind=Kind.NUMBER),
                Column(name="lag", kind=Kind.NUMBER, help="The distance to the reference's log end"),
                Column(name="leader_epoch", kind=Kind.NUMBER),
                Column(name="truncated_to", kind=Kind.NUMBER, help="The offset from which it removes records"),
                Column(name="truncated_records", kind=Kind.NUMBER),
                Column(
                    name="reference_truncated_to",
                    kind=Kind.NUMBER,
                    help="The offset to which the reference would truncate if this replica became the leader",
                ),
            ],
            rows=rows,
        ),
    )


def _difference_sections(request: PageRequest, compared: ComparedPartition, names: dict[int, str]) -> Iterator[Section]:
    """Yield the sections about each replica's first difference: the batches' fields, and their bytes."""
    readable = [one for one in compared.replicas if one.replica is not None and one.replica.is_readable]
    for number, one in enumerate(readable[:MOST_LANES]):
        found = one.difference
        if found is None or compared.reference is None:
            continue
        titles = names[id(compared.reference)], names[id(one.replica)]
        yield Section(
            name=difference_section(number),
            title=f"First difference of {titles[0]} and {titles[1]}: offset {found.offset:,}",
            text=_difference_text(compared, one, found),
            links=_batch_links(request, found, titles),
            table=_fields_table(found, titles) if found.kind is not DifferenceKind.UNREADABLE else None,
        )
        if found.kind is not DifferenceKind.UNREADABLE:
            yield _bytes_section(number, found, titles)


def _difference_text(compared: ComparedPartition, one: ComparedReplica, found: Difference) -> str:
    end = compared.committed_end
    where = "" if end is None else f", {'below' if found.offset < end else 'at or above'} the high watermark {end:,}"
    repair = (
        "Following the reference truncates these records."
        if one.state is ReplicaState.DIVERGED
        else "No truncation repairs it."
    )
    match found.kind:
        case DifferenceKind.HEADER:
            kind = f"The headers of the batches differ ({', '.join(found.fields)})"
        case DifferenceKind.RECORDS if found.fields:
            kind = f"A record differs ({', '.join(found.fields)})"
        case DifferenceKind.RECORDS:
            kind = f"The headers are equal, and byte {found.byte:,} of the batch differs"
        case DifferenceKind.MISSING:
            kind = "Only one of the replicas has these records"
        case DifferenceKind.UNREADABLE:
            kind = f"One of the replicas cannot be read there: {found.reason}"
    return f"{kind}{where}. {repair}"


def _batch_links(request: PageRequest, found: Difference, titles: tuple[str, str]) -> list[Link]:
    links = []
    for title, batch in zip(titles, (found.left, found.right), strict=True):
        place = None if batch is None else FilePlace.of(request.sources, batch.path)
        url = None if place is None or batch is None else place.batch_url(batch.row.position)
        if url is not None:
            links.append(Link(f"Batch in {title}", url))
    return links


def _fields_table(found: Difference, titles: tuple[str, str]) -> Table:
    return Table(
        columns=[
            Column(name="field"),
            Column(name="reference", title=titles[0], kind=Kind.CODE),
            Column(name="replica", title=titles[1], kind=Kind.CODE),
            Column(name="differs"),
        ],
        rows=[
            {
                "field": pair.name.replace("_", " "),
                "reference": pair.reference,
                "replica": pair.replica,
                "differs": pair.differs,
            }
            for pair in difference_fields(found)
        ],
    )


def _bytes_section(number: int, found: Difference, titles: tuple[str, str]) -> Section:
    lines: Sequence[ByteLine] = ()
    try:
        made = difference_bytes(BY_PATH, found)
    except TidelogError as error:
        text = f"The bytes cannot be read: {error}."
    else:
        first = "" if made.byte is None else f" The first one is byte {made.byte:,}."
        text, lines = _BYTES_TEXT + first, made.lines
    return Section(
        name=f"bytes_{number}",
        title=f"Bytes of the batches in {titles[0]} and {titles[1]}",
        text=text,
        table=Table(
            columns=[
                Column(name="byte", kind=Kind.NUMBER),
                Column(name="reference", title=titles[0], kind=Kind.DATA),
                Column(name="replica", title=titles[1], kind=Kind.DATA),
                Column(name="reference_text", title=f"text in {titles[0]}", kind=Kind.DATA),
                Column(name="replica_text", title=f"text in {titles[1]}", kind=Kind.DATA),
            ],
            rows=[_byte_row(line) for line in lines],
        ),
    )


def _byte_row(line: ByteLine) -> Row:
    return {
        "byte": line.position,
        "reference": _hex(line.reference, line.different),
        "replica": _hex(line.replica, line.different),
        "reference_text": _ascii(line.reference),
        "replica_text": _ascii(line.replica),
        "different": [line.position + at for at in sorted(line.different)],
    }


def _hex(data: bytes, different: Collection[int]) -> str:
    """Return the bytes in hex, with brackets around the different bytes."""
    out = []
    for at, byte in enumerate(data):
        differs, did = at in different, at - 1 in different
        out.append(f"{'[' if differs and not did else ']' if did and not differs else ' '}{byte:02x}")
    return "".join(out) + ("]" if len(data) - 1 in different else "")


def _ascii(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in data)


def _epochs_section(request: PageRequest, compared: ComparedPartition, names: dict[int, str]) -> Section:
    readable = readable_replicas(compared)
    rows: list[Row] = [
        {"epoch": epoch, "differs": len(set(starts)) > 1, "starts": starts, **_start_cells(starts)}
        for epoch, starts in epoch_starts(compared)
    ]
    shown, paging = request.query.paged("epochs", rows[::-1], size=50)
    return Section(
        name="epochs",
        title="Leader epochs side by side",
        text=(
            "The start offset of each leader epoch in each replica's leader-epoch-checkpoint. Replicas with different"
            " epochs diverged there, or one has truncated or deleted the records."
        ),
        table=Table(
            columns=[
                Column(name="epoch", kind=Kind.NUMBER),
                *(
                    Column(name=f"replica_{number}", title=names[id(replica)], kind=Kind.NUMBER)
                    for number, replica in enumerate(readable)
                ),
                Column(name="differs"),
            ],
            rows=shown,
            paging=paging,
            empty="No replica has leader epochs.",
        ),
    )


def _start_cells(starts: Sequence[int | None]) -> dict[str, object]:
    return {f"replica_{number}": start for number, start in enumerate(starts)}
