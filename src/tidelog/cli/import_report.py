"""The report of ``tidelog import``: the topics, and with ZooKeeper everything else that comes along or stays behind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from tidelog.cli.report import Report, Row, Table
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.server.metadata.controller.configs import MIN_ISR
from tidelog.server.metadata.kraft.metadata_rows import record_rows
from tidelog.server.metadata.zookeeper_import.found_topics import FoundTopic
from tidelog.server.metadata.zookeeper_import.survey import Survey
from tidelog.storage.checkpoint import uuid_to_text

COLUMNS = ("topic", "topic_id", "partitions", "leader_epoch", "settings")
OWN_TOPICS = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
_TITLES: Final = {
    "config": ("broker settings", "broker"),
    "user": ("SCRAM users", "user"),
    "acl": ("ACLs", "principal"),
    "quota": ("quotas", "entity"),
    "left_out": ("not imported", "what"),
}
"""The title of a kind's table and of the column with its names, in the order of the tables."""
_NOT_SHOWN: Final = frozenset({"id", "entity"})
"""Fields that are random until the import, or repeat the name."""


def import_report(survey: Survey, given: Collection[str], *, from_zookeeper: bool, is_applied: bool) -> Report:
    """Return the report. ``given`` are the topics with given settings. Without ZooKeeper each row is a topic. With it
    each row has a kind, a name and fields, as those of ``tidelog metadata``."""
    topics = [_topic_row(topic) for topic in survey.topics]
    tables = [Table(rows=topics, columns=COLUMNS, show={"settings": _shown})]
    notes = list(_notes(survey, given, from_zookeeper=from_zookeeper, is_applied=is_applied))
    if not from_zookeeper:
        return Report(rows=topics, tables=tables, notes=notes)
    others = list(_other_rows(survey))
    rows = [{"kind": "topic", "name": row["topic"], "fields": row} for row in topics]
    return Report(rows=[*rows, *others], tables=[*tables, *_other_tables(others)], notes=notes)


def _topic_row(topic: FoundTopic) -> Row:
    return {
        "topic": topic.name,
        "topic_id": None if topic.topic_id is None else uuid_to_text(topic.topic_id),
        "partitions": len(topic.partitions),
        "leader_epoch": max(found.leader_epoch for found in topic.partitions.values()),
        "settings": dict(topic.settings),
    }


def _other_rows(survey: Survey) -> Iterator[Row]:
    for kind, name, fields in record_rows(survey.more_records, {}):
        yield {"kind": kind, "name": name, "fields": {k: v for k, v in fields.items() if k not in _NOT_SHOWN}}
    for one in survey.left_out:
        for name in one.names:
            yield {"kind": "left_out", "name": one.what, "fields": {"name": name}}


def _other_tables(rows: Sequence[Row]) -> Iterator[Table]:
    for kind, (title, column) in _TITLES.items():
        found = [{column: row["name"], **_fields(row)} for row in rows if row["kind"] == kind]
        if found:
            yield Table(rows=found, columns=list(found[0]), title=title)


def _fields(row: Row) -> Mapping[str, object]:
    fields = row["fields"]
    assert isinstance(fields, dict)
    return fields


def _shown(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def _notes(survey: Survey, given: Collection[str], *, from_zookeeper: bool, is_applied: bool) -> Iterator[str]:
    cluster = survey.cluster_id or "with a new id"
    yield (
        f"Node {survey.node_id} of the cluster {cluster}: {len(survey.topics)} topics; producer ids continue from"
        f" {survey.next_producer_id:,}. The metadata log is in {survey.metadata_directory}."
    )
    if not from_zookeeper and any(topic.name not in (*given, *OWN_TOPICS) for topic in survey.topics):
        yield (
            "Settings were in ZooKeeper: topics without --topic-config keep all of their records (retention.ms=-1)"
            " until you change that. --zookeeper reads them."
        )
    if survey.left_out:
        count = sum(len(one.names) for one in survey.left_out)
        yield f"{count:,} entries are not imported: the last table lists them."
    if from_zookeeper and (few := list(_short_of_replicas(survey))):
        yield (
            f"Writes with acks=all to {', '.join(few)} will fail until other brokers have replicas: their"
            " min.insync.replicas is above 1. Use --topic-config to change it."
        )
    if survey.live_brokers:
        numbers = ", ".join(map(str, survey.live_brokers))
        yield f"Brokers {numbers} are running: stop all brokers of the cluster before you use --apply."
    yield (
        "Done."
        if is_applied
        else "Nothing was written. Use --apply to import. Keep a copy if you may need ZooKeeper again."
    )


def _short_of_replicas(survey: Survey) -> Iterator[str]:
    """Yield the topics that need more in-sync replicas than this broker's."""
    everywhere = "1"
    for record in survey.more_records:
        if record.name == "ConfigRecord" and not record.fields["resourceName"] and record.fields["name"] == MIN_ISR:
            everywhere = record.fields["value"]
    for topic in survey.topics:
        if int(topic.settings.get(MIN_ISR, everywhere)) > 1:
            yield topic.name
