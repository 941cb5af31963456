"""The page of a cluster's replicas: a first look without reading any log, and the comparison of everything on demand.

The first look has the checkpointed high watermarks, the leader epochs and the missing replicas. Comparing all records
reads every log, so it runs when the URL has ``run=1``. Its report is kept, and shown with the time of its making.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from tidelog.inspect.compare import BrokerDirectory, ComparedPartition, ReplicaState, compare_cluster, pair_bytes
from tidelog.inspect.compare.broker_directory import require_one_cluster, unknown_nodes
from tidelog.inspect.compare.comparison_rows import replica_rows
from tidelog.inspect.compare.replica_survey import SurveyedPartition, latest_epoch, survey_replicas
from tidelog.model import ConfigError
from tidelog.server.metadata.kraft.newest_metadata import NewestMetadata
from tidelog.storage.fs import BY_PATH
from tidelog.storage.segment.file_names import DirectoryPurpose
from tidelog.web import urls
from tidelog.web.jobs import LIVE_AGE_MS, Finished, JobProgress, StillRunningError
from tidelog.web.page import Choice, Column, Fact, FormField, Kind, Link, Page, Row, Section, Table
from tidelog.web.pages.cluster import space_of_all
from tidelog.web.reports.cluster_facts import known_metadata
from tidelog.web.request import PageRequest
from tidelog.web.shown import size_text
from tidelog.web.sources import Sources

_KEY: Final = "compare"
_FRESH_MS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    compared: Sequence[ComparedPartition]
    bytes: int


def owners(sources: Sources) -> list[BrokerDirectory]:
    """Return the log directories with their nodes and checkpoints, but without their partitions."""
    return [
        BrokerDirectory(path=one.path, meta=one.meta(), state=one.state(), partitions=frozenset())
        for one in sources.log_dirs
    ]


def several_clusters(directories: Sequence[BrokerDirectory]) -> str | None:
    """Return a sentence if the log directories belong to several clusters, or None."""
    try:
        require_one_cluster(directories)
    except ConfigError as error:
        return f"{error.message[0].upper()}{error.message[1:]}."
    return None


def compare_page(request: PageRequest) -> Page:
    """Return the first look, and below it the report of the last comparison of everything if there is one."""
    directories = owners(request.sources)
    several = several_clusters(directories)
    if several is not None:
        return Page(title="Compare", trail=_TRAIL, notes=[several])
    is_wanted = request.query.flag("run")
    made = _compared(request) if is_wanted else cast("Finished[_Report] | None", request.jobs.kept(_KEY))
    if made is None:
        request.query.integer("newer", -1, minimum=-1)
    metadata = known_metadata(request)
    surveyed = _surveyed(request, metadata)
    wanted, only = request.query.text("topic"), request.query.choice("only", _ONLY, "")
    shown = [one for one in surveyed if wanted in one.partition.topic and _ONLY[only](one)]
    return Page(
        title="Compare",
        trail=_TRAIL,
        links=[] if made is None else _again(request, made),
        facts=_facts(directories, surveyed, made),
        form=[
            FormField(name="topic", title="Topic", value=wanted, hint="part of a name"),
            FormField(
                name="only",
                title="Partitions",
                value=only,
                choices=[
                    Choice(value="", title="all"),
                    Choice(value="missing", title="with a missing replica"),
                    Choice(value="behind", title="with different high watermarks"),
                ],
            ),
        ],
        notes=[*metadata.warnings, *unknown_nodes(directories), *([] if surveyed else [_NO_REPLICAS])],
        sections=[
            *([] if made is None else _report_sections(request, made.value, wanted)),
            _survey_section(request, shown, metadata.note, is_compared=made is not None),
        ],
    )


def _surveyed(request: PageRequest, metadata: NewestMetadata) -> list[SurveyedPartition]:
    def work(_progress: JobProgress) -> list[SurveyedPartition]:
        known = [
            replace(one, partitions=frozenset(log_dir.partitions()))
            for one, log_dir in zip(owners(request.sources), request.sources.log_dirs, strict=True)
        ]
        return survey_replicas(known, metadata.placements)

    title = "looking for the replicas of each partition"
    return request.job("replicas", work, title=title, max_age_ms=LIVE_AGE_MS).value


_TRAIL: Final = (Link("Cluster", urls.CLUSTER),)
_NO_REPLICAS: Final = (
    "No partition is in several of the given directories. Give the log directories of several brokers of one cluster."
)
_ONLY: Final[Mapping[str, Callable[[SurveyedPartition], bool]]] = {
    "": lambda _one: True,
    "missing": lambda one: bool(one.missing),
    "behind": lambda one: bool(one.behind),
}


def _again(request: PageRequest, made: Finished[_Report]) -> list[Link]:
    if request.now_ms - made.made_at_ms - made.took_ms < _FRESH_MS:
        return []
    return [Link("Compare again", urls.with_query(urls.COMPARE, {"run": 1, "newer": made.made_at_ms}))]


def _compared(request: PageRequest) -> Finished[_Report]:
    metadata = known_metadata(request)

    def work(progress: JobProgress) -> _Report:
        directories = [one.broker_directory() for one in request.sources.log_dirs]
        partitions = sorted({partition for one in directories for partition in one.partitions})
        total = sum(pair_bytes(BY_PATH, directories, partition) for partition in partitions)
        progress.expect(total)
        compared = compare_cluster(BY_PATH, directories, partitions, metadata.placements, advance=progress.advance)
        return _Report(compared=compared, bytes=total)

    return request.job(_KEY, work, title="comparing all replicas", is_repeatable=True)


def _facts(
    directories: Sequence[BrokerDirectory], surveyed: Sequence[SurveyedPartition], made: Finished[_Report] | None
) -> list[Fact]:
    nodes = sorted({one.node_id for one in directories if one.node_id is not None})
    facts = [
        Fact(name="nodes", title="given nodes", value=list(nodes)),
        Fact(name="partitions", title="partitions with replicas", value=len(surveyed), kind=Kind.NUMBER),
        Fact(
            name="missing",
            title="missing replicas",
            value=sum(len(one.missing) for one in surveyed),
            kind=Kind.NUMBER,
            help="Replicas that must have all committed records, but their node's directories lack the partition",
        ),
    ]
    if made is not None:
        problems = sum(len(one.problems) for one in made.value.compared)
        facts += [
            Fact(name="problems", value=problems, kind=Kind.NUMBER),
            Fact(name="bytes_read", value=made.value.bytes, kind=Kind.BYTES),
            Fact(name="compared_at", value=made.made_at_ms, kind=Kind.TIME),
            Fact(name="took", value=made.took_ms, kind=Kind.DURATION),
        ]
    return facts


def _survey_section(
    request: PageRequest, surveyed: Sequence[SurveyedPartition], source: str, *, is_compared: bool
) -> Section:
    keys: dict[str, Callable[[SurveyedPartition], Any]] = {
        "partition": lambda one: one.partition,
        "high_watermark": lambda one: one.high_watermark,
        "behind": lambda one: one.behind,
        "missing": lambda one: len(one.missing),
    }
    shown, paging = request.query.paged("partitions", surveyed, keys=keys)
    return Section(
        name="partitions",
        title="First look",
        text=(
            "From checkpoints, leader epochs and the metadata, without reading a log. High watermarks are checkpointed"
            f" every few seconds, so a small distance is normal. A partition's page compares its records. {source}"
        ),
        links=[] if is_compared or not surveyed else [_run_link(request)],
        table=Table(
            columns=[
                Column(name="partition", kind=Kind.CODE, link=lambda row: urls.compare_url(str(row["partition"]))),
                Column(name="nodes", help="The nodes whose given directories have a replica"),
                Column(name="leader", kind=Kind.NUMBER),
                Column(name="isr", title="ISR"),
                Column(name="missing", title="missing on nodes"),
                Column(name="high_watermark", kind=Kind.NUMBER, help="The highest one among the checkpoints"),
                Column(name="behind", kind=Kind.NUMBER, help="The distance of the lowest high watermark to it"),
                Column(name="epochs", title="leader epochs", help="The latest one of each replica, as the nodes"),
                Column(name="first_look"),
            ],
            rows=[_survey_row(one) for one in shown],
            paging=paging,
            empty="No partition matches.",
        ),
    )


def _run_link(request: PageRequest) -> Link:
    try:
        spaces = space_of_all(request)
    except StillRunningError:
        return Link("Compare all records", urls.with_query(urls.COMPARE, {"run": 1}))
    total = sum(one.log_bytes for found in spaces.values() for one in found if one.purpose is DirectoryPurpose.LIVE)
    return Link(f"Compare all records: read about {size_text(total)}", urls.with_query(urls.COMPARE, {"run": 1}))


def _survey_row(one: SurveyedPartition) -> Row:
    placement = one.placement
    epochs = [latest_epoch(BY_PATH, replica.directory, one.partition) for replica in one.replicas]
    return {
        "partition": str(one.partition),
        "nodes": [_node(replica.directory) for replica in one.replicas],
        "leader": None if placement is None or placement.leader < 0 else placement.leader,
        "isr": None if placement is None else list(placement.isr),
        "missing": list(one.missing),
        "high_watermarks": [replica.high_watermark for replica in one.replicas],
        "high_watermark": one.high_watermark,
        "behind": one.behind,
        "roles": [replica.role.value for replica in one.replicas],
        "epochs": ["none" if epoch is None else epoch for epoch in epochs],
        "first_look": "; ".join(_in_words(one, epochs)) or "as equal as checkpoints tell",
    }


def _node(directory: BrokerDirectory) -> int | str:
    return directory.path.name if directory.node_id is None else directory.node_id


def _in_words(one: SurveyedPartition, epochs: Sequence[int | None]) -> Iterator[str]:
    if one.missing:
        yield f"missing on node {', '.join(map(str, one.missing))}"
    if one.placement is not None and one.placement.leader < 0:
        yield "no leader"
    if len(set(epochs)) > 1:
        yield "different leader epochs"
    if one.behind:
        yield f"high watermarks {one.behind:,} apart"


def _report_sections(request: PageRequest, report: _Report, wanted: str) -> list[Section]:
    rows = [
        {"name": str(one.partition), **row}
        for one in report.compared
        if wanted in one.partition.topic
        for row in replica_rows(one)
    ]
    problems: list[Row] = [
        {"partition": str(one.partition), "problem": problem} for one in report.compared for problem in one.problems
    ]
    states = Counter(row["state"] for row in rows)
    keys: dict[str, Callable[[dict[str, object]], Any]] = {
        "partition": lambda row: (row["topic"], row["partition"]),
        "state": lambda row: _STATES.index(str(row["state"])),
        "lag": lambda row: row["lag"],
        "log_end": lambda row: row["log_end"],
        "high_watermark": lambda row: row["high_watermark"],
        "problem_count": lambda row: len(cast(Sequence[str], row["problems"])),
    }
    for row in rows:
        row["problem_count"] = len(cast(Sequence[str], row["problems"]))
    shown, paging = request.query.paged("replicas", rows, keys=keys, sort="state")
    shown_problems, problem_paging = request.query.paged("problems", problems)
    return [
        Section(
            name="problems",
            title="Problems",
            table=Table(
                columns=[
                    Column(name="partition", kind=Kind.CODE, link=lambda row: urls.compare_url(str(row["partition"]))),
                    Column(name="problem"),
                ],
                rows=shown_problems,
                paging=problem_paging,
                empty="No problem was found.",
            ),
        ),
        Section(
            name="replicas",
            title="Compared replicas",
            text=", ".join(f"{count:,} {state}" for state, count in states.items()) + ".",
            table=Table(
                columns=[
                    Column(name="name", title="partition", kind=Kind.CODE, link=_report_url),
                    Column(name="node_id", title="node", kind=Kind.NUMBER),
                    Column(name="role"),
                    Column(name="state"),
                    Column(name="log_start", kind=Kind.NUMBER),
                    Column(name="high_watermark", kind=Kind.NUMBER),
                    Column(name="log_end", kind=Kind.NUMBER),
                    Column(name="lag", kind=Kind.NUMBER),
                    Column(name="leader_epoch", kind=Kind.NUMBER),
                    Column(name="truncated_to", kind=Kind.NUMBER),
                    Column(name="truncated_records", kind=Kind.NUMBER),
                    Column(name="problem_count", title="problems", kind=Kind.NUMBER),
                ],
                rows=shown,
                paging=paging,
            ),
        ),
    ]


_STATES: Final = [
    state.value
    for state in (
        ReplicaState.UNREADABLE,
        ReplicaState.DIFFERENT,
        ReplicaState.DIVERGED,
        ReplicaState.OTHER_TOPIC,
        ReplicaState.MISSING,
        ReplicaState.AHEAD,
        ReplicaState.BEHIND,
        ReplicaState.EQUAL,
        ReplicaState.REFERENCE,
        ReplicaState.NOT_GIVEN,
    )
]
"""The states from the most remarkable one on."""


def _report_url(row: Row) -> str:
    return urls.compare_url(str(row["name"]))
