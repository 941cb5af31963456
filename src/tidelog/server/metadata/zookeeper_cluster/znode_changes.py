"""The operations on znodes that carry out a decision's records. Pure.

==========================  ===========================================================================================
records                     operations
==========================  ===========================================================================================
a new topic                 its settings, its replicas, then the states of its partitions
new partitions              the topic's replicas, then the states
a changed partition         its state, whose version must be the image's partition epoch; then the topic's replicas if
                            they change. The in-sync replicas are so always among the replicas
a deleted topic             a znode in ``/admin/delete_topics``; the controller does the rest
settings, quotas, users     the complete settings of the resource or entity, and an announcement. An entity without
                            settings has no znode
ACLs                        the complete ACLs of the resource, and an announcement. A resource without ACLs has no znode
producer ids                the new block
==========================  ===========================================================================================

The image must be that of ``znodes``. Every znode is written on top of its data there and with its version, so nothing
of another program is lost: settings that are unknown here stay, and a newer version is a conflict. A large change may
be committed in parts, in the sequence of the operations. If only a part is committed, the controller creates the
missing states.
Source: Kafka's ``AdminZkClient``, ``ZkAdminManager``, ``AclAuthorizer``, ``KafkaZkClient``.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.model import ZnodeError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.security.scram_credential import ScramCredential, ScramMechanism
from tidelog.server.authorization.acl import Acl, Pattern
from tidelog.server.authorization.resource import PatternType
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.brokers import PRODUCER_ID_BLOCK
from tidelog.server.metadata.controller.quotas import USER
from tidelog.server.metadata.image import ConfigResource, MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.acl_znode import acl_path, decode_acls, encode_acls
from tidelog.server.metadata.zookeeper.image_znodes import config_path, entity_path, quota_text, state_znode
from tidelog.server.metadata.zookeeper.operations import Operation, ReadZnode
from tidelog.server.metadata.zookeeper.scram_text import encode_scram
from tidelog.server.metadata.zookeeper.znode_json import encode_json, shown
from tidelog.server.metadata.zookeeper.znodes import ConfigZnode, ProducerIdsZnode, TopicZnode
from tidelog.server.metadata.zookeeper_cluster.operation_list import OperationList
from tidelog.storage.checkpoint import uuid_from_text

_INVALID: Final = re.compile(r"/\.{1,2}(?=/|$)|[\x00-\x1e\x80-\x9e\ud801-\uf8fe\ufff1-\ufffe\U00010000-\U0010ffff]")
_ENTITY_ROOTS: Final = (paths.USER_CONFIGS, paths.CLIENT_CONFIGS, paths.ADDRESS_CONFIGS)


def znode_changes(
    image: MetadataImage,
    znodes: Mapping[str, ReadZnode],
    records: Sequence[MetadataRecord],
    *,
    controller_epoch: int,
) -> list[Operation]:
    """Return the operations for records of a decision on ``image``. ``znodes`` are all znodes of the image by path.

    Raise ApiError(TOPIC_ALREADY_EXISTS) if the znodes of a new topic's predecessor are not gone yet, and
    INVALID_REQUEST for a name that ZooKeeper does not allow. Raise ZnodeError if a znode to change is not valid.
    """
    drafts = _Drafts(image, znodes)
    for record in records:
        _APPLIERS[record.name](drafts, record.fields)
    return drafts.operations(controller_epoch)


@dataclass(slots=True)
class _TopicDraft:
    name: str
    id: uuid.UUID
    known: Mapping[int, PartitionState]
    """The partitions in the image."""
    is_new: bool = False
    states: dict[int, PartitionState] = field(default_factory=dict)
    """The states of new and changed partitions by number."""

    @property
    def path(self) -> str:
        return paths.topic(self.name)


class _Drafts:
    """The topics, settings and ACLs after the records so far."""

    def __init__(self, image: MetadataImage, znodes: Mapping[str, ReadZnode]) -> None:
        self.image = image
        self.znodes = znodes
        self.topics: dict[uuid.UUID, _TopicDraft] = {}
        self.deleted: list[str] = []
        self._settings: dict[str, dict[str, str]] = {}
        self._acls: dict[Pattern, set[Acl]] = {}
        self.producer_ids: ProducerIdsZnode | None = None

    def topic(self, topic_id: str) -> _TopicDraft:
        key = uuid_from_text(topic_id)
        if key not in self.topics:
            found = self.image.topics_by_id[key]
            self.topics[key] = _TopicDraft(found.name, key, found.partitions)
        return self.topics[key]

    def settings(self, path: str) -> dict[str, str]:
        """Return the settings of a znode, to be changed."""
        _require_valid(path)
        if path not in self._settings:
            self._settings[path] = self._known_settings(path)
        return self._settings[path]

    def acls(self, pattern: Pattern) -> set[Acl]:
        """Return the ACLs of a resource, to be changed."""
        if pattern not in self._acls:
            _require_valid(acl_path(pattern), pattern.name)
            self._acls[pattern] = self._known_acls(pattern)
        return self._acls[pattern]

    def add_topic(self, name: str, topic_id: str) -> None:
        path = paths.topic(name)
        if path in self.znodes:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        key = uuid_from_text(topic_id)
        self.topics[key] = _TopicDraft(name, key, {}, is_new=True)
        self._settings[_settings_path(name)] = {}  # not those of its predecessor

    def operations(self, controller_epoch: int) -> list[Operation]:
        out = OperationList(self.znodes)
        new = {_settings_path(draft.name) for draft in self.topics.values() if draft.is_new}
        changed = [path for path in self._settings if path not in new]
        written = [path for path in changed if self._settings[path]]
        emptied = [path for path in changed if not self._settings[path]]
        for path in (*sorted(written, key=_depth), *sorted(emptied, key=_depth, reverse=True)):
            self._write_settings(out, path)
        for draft in self.topics.values():
            if draft.is_new:
                path = _settings_path(draft.name)
                out.write(path, ConfigZnode(self._settings[path]).encode())
            _write_topic(out, draft, controller_epoch)
        for name in self.deleted:
            out.create_missing(f"{paths.DELETED_TOPICS}/{name}")
        for pattern in self._acls:
            self._write_acls(out, pattern)
        if self.producer_ids is not None:
            out.write(paths.PRODUCER_IDS, self.producer_ids.encode())
        return out.operations

    def _write_settings(self, out: OperationList, path: str) -> None:
        settings = self._settings[path]
        if settings == self._known_settings(path):
            return
        if settings or not path.startswith(_ENTITY_ROOTS) or out.has_children(path):
            out.write(path, ConfigZnode(settings).encode())
        else:
            out.delete(path)
            self._delete_empty_user(out, path)
        fields = {"version": 2, "entity_path": path.removeprefix(f"{paths.CONFIG}/")}
        out.announce(paths.CONFIG_CHANGE, encode_json(fields))

    def _delete_empty_user(self, out: OperationList, client: str) -> None:
        """Delete the parents of a user's last client, if nothing is in them."""
        clients = client.rpartition("/")[0]
        user = clients.rpartition("/")[0]
        if clients in _ENTITY_ROOTS or out.has_children(clients):
            return
        out.delete(clients)
        settings = self._settings[user] if user in self._settings else self._known_settings(user)
        if not settings and not out.has_children(user):
            out.delete(user)

    def _write_acls(self, out: OperationList, pattern: Pattern) -> None:
        acls = self._acls[pattern]
        if acls == self._known_acls(pattern):
            return
        if acls:
            out.write(acl_path(pattern), encode_acls(acls))
        else:
            out.delete(acl_path(pattern))
        out.announce(*_acl_announcement(pattern))

    def _known_settings(self, path: str) -> dict[str, str]:
        found = self.znodes.get(path)
        return {} if found is None else dict(ConfigZnode.decode(path, found.data).settings)

    def _known_acls(self, pattern: Pattern) -> set[Acl]:
        path = acl_path(pattern)
        found = self.znodes.get(path)
        return set() if found is None else set(decode_acls(path, found.data, pattern))


def _write_topic(out: OperationList, draft: _TopicDraft, controller_epoch: int) -> None:
    new = [number for number in draft.states if number not in draft.known]
    has_moved = False
    for number, state in draft.states.items():
        before = draft.known.get(number)
        if before is not None:
            data = state_znode(state, controller_epoch).encode()
            out.write(paths.state(draft.name, number), data, version=before.partition_epoch)
            has_moved |= _assignment(state) != _assignment(before)
    if draft.is_new or new or has_moved:
        out.write(draft.path, _topic_znode(out.znodes, draft).encode())
    for number in new:
        out.write(paths.state(draft.name, number), state_znode(draft.states[number], controller_epoch).encode())


def _topic_znode(znodes: Mapping[str, ReadZnode], draft: _TopicDraft) -> TopicZnode:
    """Return the topic's znode with the replicas of new and changed partitions."""
    states = draft.states.items()
    known = TopicZnode(topic_id=None, replicas={})
    if not draft.is_new:
        known = TopicZnode.decode(draft.path, znodes[draft.path].data)
    return TopicZnode(
        topic_id=draft.id,
        replicas={**known.replicas, **{number: state.replicas for number, state in states}},
        adding={**known.adding, **{number: state.adding for number, state in states}},
        removing={**known.removing, **{number: state.removing for number, state in states}},
    )


def _assignment(state: PartitionState) -> tuple[tuple[int, ...], ...]:
    return state.replicas, state.adding, state.removing


def _depth(path: str) -> int:
    return path.count("/")


def _settings_path(topic: str) -> str:
    return config_path(ConfigResource(ResourceType.TOPIC, topic))


def _acl_announcement(pattern: Pattern) -> tuple[str, bytes]:
    """Return the path and data of the announcement of changed ACLs."""
    kind = pattern.resource_type.name
    if pattern.type is PatternType.LITERAL:
        return paths.LITERAL_ACL_CHANGE, f"{kind}:{pattern.name}".encode()
    fields = {"version": 1, "resourceType": kind, "name": pattern.name, "patternType": pattern.type.name}
    return paths.PREFIXED_ACL_CHANGE, encode_json(fields)


def _require_valid(path: str, name: str = "") -> None:
    """Raise ApiError(INVALID_REQUEST) for a path that ZooKeeper does not allow. ``name`` is a part of it that must not
    have a slash. Source: ZooKeeper's ``PathUtils.validatePath``."""
    if "/" in name or _INVALID.search(path):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"ZooKeeper cannot keep {shown(path)}: a name in it is '.' or '..', or has a slash or a control character.",
        )


# --- records ---


def _topic(drafts: _Drafts, fields: Mapping[str, Any]) -> None:
    drafts.add_topic(fields["name"], fields["topicId"])


def _remove_topic(drafts: _Drafts, fields: Mapping[str, Any]) -> None:
    drafts.deleted.append(drafts.image.topics_by_id[uuid_from_text(fields["topicId"])].name)


def _partition(drafts: _Drafts, fields: Mapping[str, Any]) -> None:
    drafts.topic(fields["topicId"]).states[fields["partitionId"]] = PartitionState.of(fields)


def _partition_change(drafts: _Drafts, fields: Mapping[str, Any]) -> None:
    draft, number = drafts.topic(fields["topicId"]), fields["partitionId"]
    before = draft.states[number] if number in draft.states else draft.known[number]
    draft.states[number] = before.changed(fields)


def _config(drafts: _Drafts, fields: Mapping[str, Any]) -> None:
    resource = ConfigResource(ResourceType.of(fields["resourceType"]), fields["resourceName"])
    if resource.type not in (ResourceType.TOPIC, ResourceType.BROKER):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"ZooKeeper has no configs of the type {resource.type.name}.")
    _set(drafts.settings(config_path(resource)), fields["name"], fields["value"])


def _client_quota(drafts: _Drafts, fields: Mapping[str, Any]) -> None:
    path = entity_path(tuple((part["entityType"], part["entityName"]) for part in fields["entity"]))
    key = fields["key"]
    _set(drafts.settings(path), key, None if fields["remove"] else quota_text(key, fields["value"]))


def _credential(drafts: _Drafts, fields: Mapping[str, Any]) -> None:
    credential = ScramCredential.of_fields(fields)
    path = entity_path(((USER, fields["name"]),))
    _set(drafts.settings(path), credential.mechanism.title, encode_scram(credential))


def _remove_credential(drafts: _Drafts, fields: Mapping[str, Any]) -> None:
    path = entity_path(((USER, fields["name"]),))
    _set(drafts.settings(path), ScramMechanism(fields["mechanism"]).title, None)


def _acl(drafts: _Drafts, fields: Mapping[str, Any]) -> None:
    acl = Acl.of(fields)
    drafts.acls(acl.pattern).add(acl)


def _remove_acl(drafts: _Drafts, fields: Mapping[str, Any]) -> None:
    acl = drafts.image.acls[fields["id"]]
    drafts.acls(acl.pattern).discard(acl)


def _producer_ids(drafts: _Drafts, fields: Mapping[str, Any]) -> None:
    end = fields["nextProducerId"]
    known = drafts.znodes.get(paths.PRODUCER_IDS)
    newest = None if known is None else ProducerIdsZnode.decode(paths.PRODUCER_IDS, known.data)
    if newest is not None and newest.last >= end - PRODUCER_ID_BLOCK:
        raise ZnodeError(f"znode {paths.PRODUCER_IDS}: its block ends with {newest.last}, above the new block's begin")
    drafts.producer_ids = ProducerIdsZnode(broker_id=fields["brokerId"], first=end - PRODUCER_ID_BLOCK, last=end - 1)


def _set(settings: dict[str, str], key: str, value: str | None) -> None:
    if value is None:
        settings.pop(key, None)
    else:
        settings[key] = value


_APPLIERS: Final[Mapping[str, Callable[[_Drafts, Mapping[str, Any]], None]]] = {
    "TopicRecord": _topic,
    "RemoveTopicRecord": _remove_topic,
    "PartitionRecord": _partition,
    "PartitionChangeRecord": _partition_change,
    "ConfigRecord": _config,
    "ClientQuotaRecord": _client_quota,
    "UserScramCredentialRecord": _credential,
    "RemoveUserScramCredentialRecord": _remove_credential,
    "AccessControlEntryRecord": _acl,
    "RemoveAccessControlEntryRecord": _remove_acl,
    "ProducerIdsRecord": _producer_ids,
}
"""The records of decisions. A registration is not among them: it belongs to its broker's session."""
