"""The records that turn one metadata image into another. Pure.

A broker that installs a snapshot has no records of the changes in between. This module finds them by comparing the
images, so the broker's parts follow a snapshot like any other change. Source: Kafka's ``MetadataDelta.finishSnapshot``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.snapshot import image_records
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.storage.checkpoint import uuid_to_text

Key = tuple[object, ...]
Fields = Mapping[str, Any]


def image_difference(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    """Yield the records that turn ``before`` into ``after``. Neither image is changed."""
    base = before.copy()
    for topic_id in before.topics_by_id.keys() - after.topics_by_id.keys():
        removal = MetadataRecord("RemoveTopicRecord", {"topicId": uuid_to_text(topic_id)})
        base.apply(removal)
        yield removal
    old, new = _by_key(base), _by_key(after)
    for key, record in old.items():
        if key not in new and (remove := _REMOVALS.get(record.name)) is not None:
            yield remove(record.fields)
    for key, record in new.items():
        if old.get(key) != record:
            yield record


def _by_key(image: MetadataImage) -> dict[Key, MetadataRecord]:
    return {_key(record): record for record in image_records(image)}


def _key(record: MetadataRecord) -> Key:
    return (record.name, *(_hashable(record.fields[name]) for name in _KEYS[record.name]))


def _hashable(value: Any) -> object:
    return tuple((part["entityType"], part["entityName"]) for part in value) if isinstance(value, list) else value


_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "FeatureLevelRecord": ("name",),
    "RegisterBrokerRecord": ("brokerId",),
    "RegisterControllerRecord": ("controllerId",),
    "TopicRecord": ("topicId",),
    "PartitionRecord": ("topicId", "partitionId"),
    "ConfigRecord": ("resourceType", "resourceName", "name"),
    "ClientQuotaRecord": ("entity", "key"),
    "ProducerIdsRecord": (),
    "AccessControlEntryRecord": ("id",),
    "UserScramCredentialRecord": ("name", "mechanism"),
    "DelegationTokenRecord": ("tokenId",),
}
"""The fields that name the object of a record, for each record of a snapshot."""


def _removal(name: str, **changes: Any) -> Callable[[Fields], MetadataRecord]:
    """Return a maker of the record ``name`` with the fields of the removed one, under ``changes``."""
    return lambda fields: MetadataRecord(name, {**fields, **changes})


_REMOVALS: Final[Mapping[str, Callable[[Fields], MetadataRecord]]] = {
    "FeatureLevelRecord": _removal("FeatureLevelRecord", featureLevel=0),
    "RegisterBrokerRecord": _removal("UnregisterBrokerRecord"),
    "RegisterControllerRecord": _removal("UnregisterControllerRecord"),
    "ConfigRecord": _removal("ConfigRecord", value=None),
    "ClientQuotaRecord": _removal("ClientQuotaRecord", remove=True),
    "AccessControlEntryRecord": _removal("RemoveAccessControlEntryRecord"),
    "UserScramCredentialRecord": _removal("RemoveUserScramCredentialRecord"),
    "DelegationTokenRecord": _removal("RemoveDelegationTokenRecord"),
}
"""The record that removes an object. Topics are removed first, with their partitions and configs."""
