"""The rows of ``tidelog metadata`` and of the inspector's metadata page, with the fields of each kind.

The rows come from the records of the metadata image, so that nothing is left out. The fields never contain keys of
SCRAM users, or values of broker settings that are passwords or unknown. This module is pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from tidelog.config.broker_keys import broker_key
from tidelog.config.value_text import KeyType
from tidelog.security.scram_credential import ScramMechanism
from tidelog.server.authorization.acl import Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.features import release_name
from tidelog.server.metadata.image import METADATA_VERSION, SkippedRecord
from tidelog.server.metadata.kraft.metadata_view import MetadataView
from tidelog.server.metadata.kraft.snapshot import image_records
from tidelog.server.metadata.metadata_record import NEWER_RECORD, MetadataRecord
from tidelog.storage.checkpoint import uuid_to_text

HIDDEN: Final = "[hidden]"
_EVERY: Final = "<default>"

Fields = dict[str, object]
KINDS: Final = ("quorum", "feature", "broker", "topic", "partition", "config", "user", "acl", "token", "quota", "newer")
"""The kinds in the order of the tables. ``newer`` rows are records of a later release, raw."""

_WITH_SECRETS: Final = frozenset({"UserScramCredentialRecord", "ConfigRecord", "DelegationTokenRecord"})


def metadata_rows(view: MetadataView) -> Iterator[tuple[str, str, Fields]]:
    """Yield the kind, name and fields of each row, in the order of ``KINDS``."""
    found: dict[str, list[tuple[str, Fields]]] = {kind: [] for kind in KINDS}
    found["quorum"] = list(_quorum(view))
    names = {uuid_to_text(topic.id): topic.name for topic in view.image.topics.values()}
    partitions = Counter(topic.name for topic, _, _ in view.image.partitions())
    for kind, name, fields in record_rows(image_records(view.image), names):
        found[kind].append((name, fields))
    found["newer"] = list(map(_newer, view.image.skipped_records))
    for name, fields in found["topic"]:
        fields["partitions"] = partitions[name]
    for kind, rows in found.items():
        for name, fields in rows:
            yield kind, name, fields


def record_rows(records: Iterable[MetadataRecord], names: Mapping[str, str]) -> Iterator[tuple[str, str, Fields]]:
    """Yield the kind, name and fields of each record that has a row. ``names`` are topics' names by their ids."""
    for record in records:
        maker = _MAKERS.get(record.name)
        if maker is not None:
            kind, make = maker
            yield kind, *make(record.fields, names)


def _newer(found: SkippedRecord) -> tuple[str, Fields]:
    fields = found.record.fields
    is_raw = found.record.name == NEWER_RECORD
    kind = str(fields["type"]) if is_raw else found.record.name
    value = fields["value"].hex() if is_raw else None
    return kind, {
        "offset": found.offset,
        "version": fields["version"] if is_raw else None,
        "reason": found.reason,
        "value": HIDDEN if value and kind in _WITH_SECRETS else value,
    }


def _quorum(view: MetadataView) -> Iterator[tuple[str, Fields]]:
    leader = None if view.state is None else view.state.leader_id
    about: Fields = {
        "kraft_version": view.voters.kraft_version,
        "leader_id": leader,
        "epoch": view.epoch,
        "end_offset": view.end_offset,
        "snapshot": None if view.snapshot is None else view.snapshot.file_name,
        "next_producer_id": view.image.next_producer_id,
    }
    for voter in view.voters.voters:
        directory = uuid_to_text(voter.directory_id) if view.voters.kraft_version else None
        endpoints = [f"{one.name}://{one.host}:{one.port}" for one in voter.endpoints]
        yield str(voter.id), {"directory_id": directory, "endpoints": endpoints, **about}
    if not view.voters.voters:
        yield "", {"directory_id": None, "endpoints": [], **about}


Made = tuple[str, Fields]
Source = Mapping[str, Any]
Names = Mapping[str, str]


def _feature(source: Source, _names: Names) -> Made:
    name, level = source["name"], source["featureLevel"]
    return name, {"level": level, "release": _release(level) if name == METADATA_VERSION else None}


def _release(level: int) -> str | None:
    try:
        return release_name(level)
    except ValueError:
        return None


def _broker(source: Source, _names: Names) -> Made:
    listeners = [f"{one['name']}://{one['host']}:{one['port']}" for one in source["endPoints"]]
    return str(source["brokerId"]), {
        "epoch": source["brokerEpoch"],
        "is_fenced": source["fenced"],
        "in_controlled_shutdown": source.get("inControlledShutdown", False),
        "rack": source["rack"],
        "listeners": listeners,
        "log_dirs": list(source.get("logDirs") or ()),
    }


def _topic(source: Source, _names: Names) -> Made:
    return source["name"], {"topic_id": source["topicId"], "partitions": 0}


def _partition(source: Source, names: Names) -> Made:
    topic, number = names[source["topicId"]], source["partitionId"]
    return f"{topic}-{number}", {
        "topic": topic,
        "partition": number,
        "leader": source["leader"],
        "leader_epoch": source["leaderEpoch"],
        "partition_epoch": source["partitionEpoch"],
        "replicas": source["replicas"],
        "isr": source["isr"],
        "elr": source.get("eligibleLeaderReplicas") or [],
        "adding": source["addingReplicas"],
        "removing": source["removingReplicas"],
        "directories": source.get("directories") or [],
    }


def _config(source: Source, _names: Names) -> Made:
    kind = ResourceType.of(source["resourceType"])
    value = HIDDEN if kind is ResourceType.BROKER and _is_secret(source["name"]) else source["value"]
    resource = f"{kind.name.lower().replace('_', '-')} {source['resourceName'] or _EVERY}"
    return resource, {"key": source["name"], "value": value}


def _is_secret(key_name: str) -> bool:
    key = broker_key(key_name)
    return key is None or key.type is KeyType.PASSWORD


def _user(source: Source, _names: Names) -> Made:
    mechanism = source["mechanism"]
    title = ScramMechanism(mechanism).title if mechanism in list(ScramMechanism) else f"mechanism {mechanism}"
    return source["name"], {"mechanism": title, "iterations": source["iterations"]}


def _acl(source: Source, _names: Names) -> Made:
    return source["principal"], {
        "permission": _named(Permission, source["permissionType"]),
        "operation": _named(Operation, source["operation"]),
        "host": source["host"],
        "resource_type": _named(AclResourceType, source["resourceType"]),
        "resource": source["resourceName"],
        "pattern": _named(PatternType, source["patternType"]),
        "id": source["id"],
    }


def _named(kind: type[Operation | Permission | AclResourceType | PatternType], number: int) -> str:
    """Return the name as Kafka's tools write it, in lower case."""
    name = kind.of(number).name.lower().replace("_", "-")
    return name if number in list(kind) else f"{name} {number}"


def _token(source: Source, _names: Names) -> Made:
    return source["tokenId"], {
        "owner": source["owner"],
        "requester": source["requester"],
        "renewers": list(source["renewers"]),
        "issued": source["issueTimestamp"],
        "expires": source["expirationTimestamp"],
        "max_time": source["maxTimestamp"],
    }


def _quota(source: Source, _names: Names) -> Made:
    parts = {one["entityType"]: one["entityName"] for one in source["entity"]}
    name = ", ".join(f"{kind} {_EVERY if one is None else one}" for kind, one in sorted(parts.items()))
    return name, {"entity": parts, "key": source["key"], "value": source["value"]}


_MAKERS: Final[Mapping[str, tuple[str, Callable[[Source, Names], Made]]]] = {
    "FeatureLevelRecord": ("feature", _feature),
    "RegisterBrokerRecord": ("broker", _broker),
    "TopicRecord": ("topic", _topic),
    "PartitionRecord": ("partition", _partition),
    "ConfigRecord": ("config", _config),
    "UserScramCredentialRecord": ("user", _user),
    "AccessControlEntryRecord": ("acl", _acl),
    "DelegationTokenRecord": ("token", _token),
    "ClientQuotaRecord": ("quota", _quota),
}
