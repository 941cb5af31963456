"""The records that lead from an image to the mirrored znodes of one unit. Pure.

A topic whose deletion is requested has no place in the image: every broker deletes its logs, and the controller deletes
the znodes. A topic without an id waits for the controller, which gives it one (KIP-516).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidelog.model import ZnodeError
from tidelog.server.metadata.controller.quotas import USER
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.acl_znode import pattern_of
from tidelog.server.metadata.zookeeper.translation import (
    broker_id_of,
    translate_acls,
    translate_entity,
    translate_settings,
    translate_topic,
)
from tidelog.server.metadata.zookeeper.znodes import BrokerZnode, ControllerZnode, ProducerIdsZnode
from tidelog.server.metadata.zookeeper_cluster import image_records
from tidelog.server.metadata.zookeeper_cluster.mirror import Unit, UnitKind, ZnodeMirror


def unit_records(image: MetadataImage, mirror: ZnodeMirror, unit: Unit) -> Sequence[MetadataRecord]:
    """Return the records of a unit; none if the image has it already. Raise ZnodeError if a znode is not valid."""
    return _RECORDS[unit.kind](image, mirror, unit.name)


def controller_id(mirror: ZnodeMirror) -> int:
    """Return the id of the controller, or -1 if there is none, or if its znode is not valid."""
    found = mirror.get(paths.CONTROLLER)
    try:
        return -1 if found is None else ControllerZnode.decode(paths.CONTROLLER, found.data).broker_id
    except ZnodeError:
        return -1


def _controller(image: MetadataImage, mirror: ZnodeMirror, _name: str) -> Sequence[MetadataRecord]:
    """Check the znode: the image has no record for it."""
    found = mirror.get(paths.CONTROLLER)
    if found is not None:
        ControllerZnode.decode(paths.CONTROLLER, found.data)
    return ()


def _broker(image: MetadataImage, mirror: ZnodeMirror, name: str) -> Sequence[MetadataRecord]:
    path = f"{paths.BROKER_IDS}/{name}"
    broker_id = broker_id_of(path, name)
    found = mirror.get(path)
    registered = None if found is None else (found.czxid, BrokerZnode.decode(path, found.data))
    return image_records.broker_records(image, broker_id, registered)


def _settings(image: MetadataImage, mirror: ZnodeMirror, path: str) -> Sequence[MetadataRecord]:
    return image_records.config_records(image, *translate_settings(path, _data(mirror, path)))


def _entity(image: MetadataImage, mirror: ZnodeMirror, path: str) -> Sequence[MetadataRecord]:
    found = translate_entity(path, _data(mirror, path))
    records = list(image_records.quota_records(image, found.entity, found.quotas))
    ((kind, user), *others) = found.entity
    if kind == USER and user is not None and not others:
        records += image_records.scram_records(image, user, found.credentials)
    return records


def _acls(image: MetadataImage, mirror: ZnodeMirror, path: str) -> Sequence[MetadataRecord]:
    return image_records.acl_records(image, pattern_of(path), translate_acls(path, _data(mirror, path)))


def _producer_ids(image: MetadataImage, mirror: ZnodeMirror, _name: str) -> Sequence[MetadataRecord]:
    block = ProducerIdsZnode.decode(paths.PRODUCER_IDS, _data(mirror, paths.PRODUCER_IDS))
    return image_records.producer_id_records(image, 0 if block is None else block.last + 1)


def _topic(image: MetadataImage, mirror: ZnodeMirror, name: str) -> Sequence[MetadataRecord]:
    topic = None if mirror.is_being_deleted(name) else translate_topic(mirror.topic_tree(name), name)
    return image_records.topic_records(image, name, topic)


def _data(mirror: ZnodeMirror, path: str) -> bytes:
    found = mirror.get(path)
    return b"" if found is None else found.data


_RECORDS: Final[Mapping[UnitKind, Callable[[MetadataImage, ZnodeMirror, str], Sequence[MetadataRecord]]]] = {
    UnitKind.CONTROLLER: _controller,
    UnitKind.BROKER: _broker,
    UnitKind.SETTINGS: _settings,
    UnitKind.ENTITY: _entity,
    UnitKind.ACLS: _acls,
    UnitKind.PRODUCER_IDS: _producer_ids,
    UnitKind.TOPIC: _topic,
}
