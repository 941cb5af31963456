"""Each record of the metadata log as a change in a short sentence, with topics' names in place of their ids.

``ChangeWriter`` takes the records in the sequence of the log and remembers the state before each of them, so that a
sentence has the earlier value too: ``leader 1 → 2 (epoch 4 → 5), ISR [1, 2] → [2]``. It never fails: a record that
contradicts the state before it, or that a later release wrote, has a sentence about that. Secrets are hidden first
(``metadata_secrets``). The records of an aborted transaction do not change the state (KIP-868).

The log does not have the name of the user or of the client that asked for a change. The leader of the quorum at that
time is all that it has. Pure. Thread rule: one thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tidelog.inspect.dump.json_payload import json_value
from tidelog.inspect.dump.metadata_secrets import without_secrets
from tidelog.security.scram_credential import ScramMechanism
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.features import release_name
from tidelog.server.metadata.image import METADATA_VERSION
from tidelog.server.metadata.kraft.metadata_rows import record_rows
from tidelog.server.metadata.metadata_record import NEWER_RECORD, MetadataRecord
from tidelog.server.metadata.partition_state import PartitionState

LONGEST_SENTENCE: Final = 400
_NOBODY: Final = "none"
_DEFAULT: Final = "<default>"

Fields = Mapping[str, Any]


class Change(NamedTuple):
    """A change, and the things that it is about. ``topic`` is a name, or the id of a topic without a known name."""

    sentence: str
    topic: str | None = None
    partition: int | None = None
    brokers: tuple[int, ...] = ()


@dataclass(slots=True)
class _State:
    topics: dict[str, str] = field(default_factory=dict)
    """The names by id."""
    partitions: dict[str, dict[int, PartitionState]] = field(default_factory=dict)
    """The partitions of each topic id, by number."""
    settings: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    """The settings of each resource, by type and name."""
    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, tuple[bool, bool]] = field(default_factory=dict)
    """Fenced, and in controlled shutdown, by broker."""
    acls: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """The sentence and the topic of each ACL by its id."""
    quotas: dict[tuple[str, str], float] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(
            topics=dict(self.topics),
            partitions={topic_id: dict(own) for topic_id, own in self.partitions.items()},
            settings={resource: dict(own) for resource, own in self.settings.items()},
            features=dict(self.features),
            brokers=dict(self.brokers),
            acls=dict(self.acls),
            quotas=dict(self.quotas),
        )


class ChangeWriter:
    def __init__(self) -> None:
        self._state = _State()
        self._names: dict[str, str] = {}
        """The names of all topics by id, those of deleted topics included."""
        self._before: _State | None = None
        """The state before the open transaction."""

    def load(self, records: Iterable[MetadataRecord]) -> None:
        """Take the records of a snapshot as the state before the log."""
        for record in records:
            self.write(record)

    def write(self, record: MetadataRecord) -> Change:
        """Take the next record, and return its change."""
        try:
            fields = without_secrets(record.name, record.fields)
            maker = _MAKERS.get(record.name)
            change = _unknown(record.name, fields) if maker is None else maker(self, fields)
        except Exception as error:  # any program may have written the log
            change = Change(f"{record.name} does not fit the records before it ({type(error).__name__})")
        if len(change.sentence) > LONGEST_SENTENCE:
            size = len(change.sentence)
            return change._replace(sentence=f"{change.sentence[:LONGEST_SENTENCE]}… ({size:,} characters in all)")
        return change

    # --- topics and partitions ---

    def _topic_name(self, topic_id: str) -> str:
        return self._state.topics.get(topic_id) or self._names.get(topic_id) or topic_id

    def topic(self, fields: Fields) -> Change:
        name, topic_id = fields["name"], fields["topicId"]
        self._state.topics[topic_id] = self._names[topic_id] = name
        return Change(f"topic {name} is created (id {topic_id})", name)

    def remove_topic(self, fields: Fields) -> Change:
        topic_id = fields["topicId"]
        name = self._topic_name(topic_id)
        self._state.topics.pop(topic_id, None)
        self._state.settings.pop((ResourceType.TOPIC, name), None)
        own = self._state.partitions.pop(topic_id, {})
        count = f", with {len(own):,} partition{'' if len(own) == 1 else 's'}" if own else ""
        return Change(f"topic {name} is deleted{count} (id {topic_id})", name)

    def partition(self, fields: Fields) -> Change:
        state = PartitionState.of(fields)
        topic_id, number = fields["topicId"], fields["partitionId"]
        own = self._state.partitions.setdefault(topic_id, {})
        before = own.get(number)
        own[number] = state
        name = self._topic_name(topic_id)
        if before is not None:
            return self._moved(name, number, before, state)
        sentence = (
            f"{name}-{number} is created: leader {_leader(state.leader)} (epoch {state.leader_epoch}),"
            f" replicas {_numbers(state.replicas)}, ISR {_numbers(state.isr)}"
        )
        return Change(sentence, name, number, state.replicas)

    def partition_change(self, fields: Fields) -> Change:
        topic_id, number = fields["topicId"], fields["partitionId"]
        name = self._topic_name(topic_id)
        own = self._state.partitions.get(topic_id, {})
        before = own.get(number)
        if before is None:
            return Change(f"{name}-{number} changes, but no record before has this partition", name, number)
        after = own[number] = before.changed(fields)
        return self._moved(name, number, before, after)

    def _moved(self, name: str, number: int, before: PartitionState, after: PartitionState) -> Change:
        parts, touched = [], set[int]()
        if (before.leader, before.leader_epoch) != (after.leader, after.leader_epoch):
            touched |= {before.leader, after.leader} - {-1}
            leaders = (
                f"leader {_leader(before.leader)} → {_leader(after.leader)}"
                if before.leader != after.leader
                else f"leader stays {_leader(after.leader)}"
            )
            parts.append(f"{leaders} (epoch {before.leader_epoch} → {after.leader_epoch})")
        for title, one, other in (
            ("ISR", before.isr, after.isr),
            ("replicas", before.replicas, after.replicas),
            ("adding", before.adding, after.adding),
            ("removing", before.removing, after.removing),
            ("ELR", before.elr, after.elr),
            ("last known ELR", before.last_known_elr, after.last_known_elr),
        ):
            if one != other:
                touched |= set(one) ^ set(other)
                parts.append(f"{title} {_numbers(one)} → {_numbers(other)}")
        if before.is_recovering != after.is_recovering:
            parts.append("unclean election" if after.is_recovering else "recovered from the unclean election")
        if before.directories != after.directories:
            moved = {
                broker
                for broker in after.replicas
                if broker in before.replicas and before.directory_of(broker) != after.directory_of(broker)
            }
            touched |= moved
            if moved:
                parts.append(f"another log directory on {_numbers(sorted(moved))}")
        sentence = f"{name}-{number}: {', '.join(parts) or 'nothing changes'}"
        return Change(sentence, name, number, tuple(sorted(touched)))

    def clear_elr(self, fields: Fields) -> Change:
        name = fields["topicName"]
        whose = f"topic {name}" if name else "all topics"
        return Change(f"{whose}: no eligible leader replicas any more", name or None)

    # --- settings, features, quotas, security ---

    def config(self, fields: Fields) -> Change:
        number, resource, key, value = (fields[name] for name in ("resourceType", "resourceName", "name", "value"))
        kind = ResourceType.of(number)
        title = kind.name.lower().replace("_", " ") if kind is not ResourceType.UNKNOWN else f"resource type {number}"
        own = self._state.settings.setdefault((number, resource), {})
        before = own.pop(key, None)
        if value is not None:
            own[key] = value
        was = "" if before is None else f" (was {before})"
        result = f"{key} is reset{was}" if value is None else f"{key} = {value}{was}"
        brokers = (int(resource),) if kind is ResourceType.BROKER and resource.isdecimal() else ()
        topic = resource if kind is ResourceType.TOPIC else None
        return Change(f"{title} {resource or _DEFAULT}: {result}", topic, None, brokers)

    def feature(self, fields: Fields) -> Change:
        name, level = fields["name"], fields["featureLevel"]
        before = self._state.features.get(name, 0)
        self._state.features[name] = level
        return Change(f"{name}: level {_level(name, before)} → {_level(name, level)}")

    def quota(self, fields: Fields) -> Change:
        (_, name, _), key = next(iter(record_rows([MetadataRecord("ClientQuotaRecord", fields)], {}))), fields["key"]
        before = self._state.quotas.pop((name, key), None)
        was = "" if before is None else f" (was {before:,g})"
        if fields["remove"]:
            return Change(f"quota of {name}: {key} is removed{was}")
        self._state.quotas[name, key] = fields["value"]
        return Change(f"quota of {name}: {key} = {fields['value']:,g}{was}")

    def user(self, fields: Fields) -> Change:
        return Change(
            f"user {fields['name']}: {_mechanism(fields)} credential is set ({fields['iterations']:,} iterations)"
        )

    def remove_user(self, fields: Fields) -> Change:
        return Change(f"user {fields['name']}: {_mechanism(fields)} credential is removed")

    def acl(self, fields: Fields) -> Change:
        _, principal, row = next(iter(record_rows([MetadataRecord("AccessControlEntryRecord", fields)], {})))
        sentence = (
            f"{row['permission']} {principal} from host {row['host']}: {row['operation']} on"
            f" {row['resource_type']} {row['resource']} ({row['pattern']})"
        )
        topic = str(row["resource"]) if (row["resource_type"], row["pattern"]) == ("topic", "literal") else None
        self._state.acls[fields["id"]] = (sentence, topic)
        return Change(f"ACL is added: {sentence}", topic)

    def remove_acl(self, fields: Fields) -> Change:
        sentence, topic = self._state.acls.pop(fields["id"], (f"id {fields['id']}", None))
        return Change(f"ACL is removed: {sentence}", topic)

    def token(self, fields: Fields) -> Change:
        return Change(f"delegation token {fields['tokenId']} of {fields['owner']} is set")

    def remove_token(self, fields: Fields) -> Change:
        return Change(f"delegation token {fields['tokenId']} is removed")

    # --- brokers and controllers ---

    def register_broker(self, fields: Fields) -> Change:
        broker = fields["brokerId"]
        state = self._state.brokers[broker] = (fields["fenced"], fields.get("inControlledShutdown", False))
        rack = f", rack {fields['rack']}" if fields["rack"] else ""
        sentence = (
            f"broker {broker} registers (epoch {fields['brokerEpoch']}): {_listeners(fields)}{rack},"
            f" {_in_words(*state)}"
        )
        return Change(sentence, brokers=(broker,))

    def unregister_broker(self, fields: Fields) -> Change:
        broker = fields["brokerId"]
        self._state.brokers.pop(broker, None)
        return Change(f"broker {broker} is unregistered (epoch {fields['brokerEpoch']})", brokers=(broker,))

    def change_broker(self, fields: Fields) -> Change:
        broker = fields["brokerId"]
        before = self._state.brokers.get(broker, (False, False))
        fenced = fields.get("fenced", 0)
        is_stopping = before[1] or fields.get("inControlledShutdown", 0) == 1
        after = self._state.brokers[broker] = (before[0] if fenced == 0 else fenced == 1, is_stopping)
        parts = []
        if fenced:
            parts.append("is fenced" if after[0] else "is unfenced")
        if after[1] and not before[1]:
            parts.append("begins a controlled shutdown")
        if fields.get("logDirs"):
            count = len(fields["logDirs"])
            parts.append(f"has {count:,} online log director{'y' if count == 1 else 'ies'}")
        if fields.get("cordonedLogDirs") is not None:
            parts.append(f"has {len(fields['cordonedLogDirs']) or 'no'} cordoned log directories")
        sentence = f"broker {broker} {' and '.join(parts) or 'is registered as before'} (epoch {fields['brokerEpoch']})"
        return Change(sentence, brokers=(broker,))

    def fence_broker(self, fields: Fields) -> Change:
        return self.change_broker({"brokerId": fields["id"], "brokerEpoch": fields["epoch"], "fenced": 1})

    def unfence_broker(self, fields: Fields) -> Change:
        return self.change_broker({"brokerId": fields["id"], "brokerEpoch": fields["epoch"], "fenced": -1})

    def register_controller(self, fields: Fields) -> Change:
        return Change(f"controller {fields['controllerId']} registers: {_listeners(fields)}")

    def unregister_controller(self, fields: Fields) -> Change:
        return Change(f"controller {fields['controllerId']} is unregistered")

    def producer_ids(self, fields: Fields) -> Change:
        broker = fields["brokerId"]
        return Change(f"broker {broker} gets producer ids below {fields['nextProducerId']:,}", brokers=(broker,))

    # --- transactions, and records without an effect ---

    def begin(self, fields: Fields) -> Change:
        self._before = self._state.copy()
        return Change(f"a transaction begins{_named(fields.get('name'))}")

    def end(self, _fields: Fields) -> Change:
        self._before = None
        return Change("the transaction ends: its records take effect")

    def abort(self, fields: Fields) -> Change:
        if self._before is not None:
            self._state, self._before = self._before, None
        return Change(f"the transaction is aborted{_named(fields.get('reason'))}: its records have no effect")

    def no_op(self, _fields: Fields) -> Change:
        return Change("no change: the controller is alive")

    def migration(self, fields: Fields) -> Change:
        return Change(f"the migration from ZooKeeper is in state {fields['zkMigrationState']}")

    def newer(self, fields: Fields) -> Change:
        return Change(f"a record of a later release ({fields['type']}, version {fields['version']})")


_MAKERS: Final[Mapping[str, Callable[[ChangeWriter, Fields], Change]]] = {
    "TopicRecord": ChangeWriter.topic,
    "RemoveTopicRecord": ChangeWriter.remove_topic,
    "PartitionRecord": ChangeWriter.partition,
    "PartitionChangeRecord": ChangeWriter.partition_change,
    "ClearElrRecord": ChangeWriter.clear_elr,
    "ConfigRecord": ChangeWriter.config,
    "FeatureLevelRecord": ChangeWriter.feature,
    "ClientQuotaRecord": ChangeWriter.quota,
    "UserScramCredentialRecord": ChangeWriter.user,
    "RemoveUserScramCredentialRecord": ChangeWriter.remove_user,
    "AccessControlEntryRecord": ChangeWriter.acl,
    "RemoveAccessControlEntryRecord": ChangeWriter.remove_acl,
    "DelegationTokenRecord": ChangeWriter.token,
    "RemoveDelegationTokenRecord": ChangeWriter.remove_token,
    "RegisterBrokerRecord": ChangeWriter.register_broker,
    "UnregisterBrokerRecord": ChangeWriter.unregister_broker,
    "BrokerRegistrationChangeRecord": ChangeWriter.change_broker,
    "FenceBrokerRecord": ChangeWriter.fence_broker,
    "UnfenceBrokerRecord": ChangeWriter.unfence_broker,
    "RegisterControllerRecord": ChangeWriter.register_controller,
    "UnregisterControllerRecord": ChangeWriter.unregister_controller,
    "ProducerIdsRecord": ChangeWriter.producer_ids,
    "BeginTransactionRecord": ChangeWriter.begin,
    "EndTransactionRecord": ChangeWriter.end,
    "AbortTransactionRecord": ChangeWriter.abort,
    "NoOpRecord": ChangeWriter.no_op,
    "ZkMigrationStateRecord": ChangeWriter.migration,
    NEWER_RECORD: ChangeWriter.newer,
}


def _unknown(name: str, fields: Fields) -> Change:
    return Change(f"{name}: {json.dumps(json_value(dict(fields)), default=str)}")


def _leader(number: int) -> str:
    return _NOBODY if number == -1 else str(number)


def _numbers(numbers: Sequence[int]) -> str:
    return f"[{', '.join(map(str, numbers))}]"


def _level(name: str, level: int) -> str:
    if name != METADATA_VERSION or not level:
        return str(level)
    try:
        return f"{level} ({release_name(level)})"
    except ValueError:
        return str(level)


def _mechanism(fields: Fields) -> str:
    number = fields["mechanism"]
    return ScramMechanism(number).title if number in list(ScramMechanism) else f"mechanism {number}"


def _listeners(fields: Fields) -> str:
    return ", ".join(f"{one['name']}://{one['host']}:{one['port']}" for one in fields["endPoints"]) or "no listener"


def _in_words(is_fenced: bool, is_stopping: bool) -> str:
    return ("fenced" if is_fenced else "not fenced") + (", in a controlled shutdown" if is_stopping else "")


def _named(text: str | None) -> str:
    return f" ({text})" if text else ""
