"""Everything that clients can see of a cluster: the same function asks Kafka with and without ZooKeeper, and tidelog.

The facts are topics with ids and settings, users, ACLs, quotas, committed offsets, records, and the outcome of each
user's attempts to authenticate, read and write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
)
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from real_kafka.broker import PATIENCE_S
from real_kafka.copied_cluster import partitions_of
from real_kafka.kafka_tools import KafkaTools
from real_kafka.zookeeper_cluster import COMMITTED, MECHANISMS, TOPICS, USERS
from served_records import served_entries

Client = dict[str, str | int | float | bool]
"""The settings of a client."""
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
GONE: Final = frozenset({"message.format.version", "message.downconversion.enable"})
"""Settings of topics that Kafka 4 does not have."""
URL_SAFE: Final = str.maketrans("+/", "-_")
"""The characters of Kafka's base64 for those of librdkafka."""
PATIENCE_MS: Final = 20_000
"""The timeout of an attempt."""
TOO_LARGE: Final = 4_000_000
"""More bytes than any topic accepts."""


def facts_of(
    bootstrap: str, scram_bootstrap: str, topics: Sequence[str] = tuple(TOPICS), *, with_attempts: bool = True
) -> dict[str, Any]:
    """Return everything that clients can see of ``topics`` and of the cluster. Attempts take most of the time."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    with KafkaTools(bootstrap) as tools:
        quotas = [
            line
            for kinds in (["users"], ["clients"], ["users", "clients"], ["ips"])
            for line in tools.told(
                "kafka-configs", "--describe", *(word for kind in kinds for word in ("--entity-type", kind))
            )
        ]
    any_name: Any = None
    everything = AclBindingFilter(
        ResourceType.ANY,
        any_name,
        ResourcePatternType.ANY,
        any_name,
        any_name,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    described: Any = admin.describe_user_scram_credentials()
    users = described.result(PATIENCE_S)
    return {
        "topics": topic_facts(admin, [*topics, *INTERNAL]),
        "users": {
            user: sorted((one.mechanism.name, one.iterations) for one in found.scram_credential_infos)
            for user, found in users.items()
        },
        "acls": sorted(map(str, admin.describe_acls(everything).result(PATIENCE_S))),
        "quotas": sorted(" ".join(sorted(line.replace("=", " ").replace(",", " ").split())) for line in quotas),
        "offsets": {group: offsets_of(admin, group) for group in COMMITTED},
        "records": served_entries(bootstrap, partitions_of(admin, topics)),
        "committed records": served_entries(bootstrap, partitions_of(admin, topics), isolation="read_committed"),
        "attempts": dict(attempts(scram_bootstrap)) if with_attempts else {},
    }


def fact_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the facts that are not the same, a line each."""

    def items(facts: Mapping[str, Any]) -> set[str]:
        return {
            json.dumps([kind, item], sort_keys=True)
            for kind, found in facts.items()
            for item in (found.items() if isinstance(found, Mapping) else found)
        }

    one, other = items(before), items(after)
    return [
        *(f"only before: {line}" for line in sorted(one - other)),
        *(f"new: {line}" for line in sorted(other - one)),
    ]


def topic_facts(admin: AdminClient, names: Sequence[str]) -> dict[str, Any]:
    described = admin.describe_topics(TopicCollection(list(names)))
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    configs = {one.name: found.result(PATIENCE_S) for one, found in admin.describe_configs(resources).items()}
    return {
        name: {
            "id": str(found.result(PATIENCE_S).topic_id).translate(URL_SAFE),
            "partitions": len(found.result(PATIENCE_S).partitions),
            "settings": {
                key: entry.value
                for key, entry in configs[name].items()
                if not entry.is_default and entry.source == 1 and key not in GONE
            },
        }
        for name, found in described.items()
    }


def offsets_of(admin: AdminClient, group: str) -> dict[str, int]:
    wanted = ConsumerGroupTopicPartitions(group)
    found = admin.list_consumer_group_offsets([wanted])[group].result(PATIENCE_S)
    return {f"{one.topic}-{one.partition}": one.offset for one in found.topic_partitions}


def attempts(bootstrap: str) -> Iterator[tuple[str, str]]:
    """Yield each attempt and its outcome: ``done``, or the name of librdkafka's error."""
    for user, password in {**USERS, "mallory": "x"}.items():
        for mechanism in MECHANISMS:
            for given in (password, "wrong") if user in USERS else (password,):
                client: Client = {
                    "bootstrap.servers": bootstrap,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": mechanism,
                    "sasl.username": user,
                    "sasl.password": given,
                    "log_level": 0,
                }
                is_right = given == password and user in USERS
                name = f"{user} {mechanism} {'right' if is_right else given}"
                yield f"{name} authenticates", outcome(lambda client=client: list_topics(client))
                if is_right and mechanism == MECHANISMS[0]:
                    for topic in TOPICS:
                        yield f"{name} writes {topic}", outcome(lambda c=client, topic=topic: write(c, topic))
                        yield f"{name} reads {topic}", outcome(lambda c=client, topic=topic: read(c, topic))
                    for group in COMMITTED:
                        yield f"{name} asks {group}", outcome(lambda c=client, g=group: offsets_of(AdminClient(c), g))


def outcome(attempt: Any) -> str:
    try:
        attempt()
    except KafkaException as error:
        return str(error.args[0].name())
    return "done"


def list_topics(client: Client) -> None:
    AdminClient(client).list_topics(timeout=3)


def write(client: Client, topic: str) -> None:
    """Write a record that is too large: a broker checks the authorization first, and nothing is written."""
    errors: list[KafkaException] = []
    producer = Producer({**client, "message.max.bytes": 10_000_000, "message.timeout.ms": PATIENCE_MS, "retries": 0})
    producer.produce(
        topic, bytes(TOO_LARGE), partition=0, on_delivery=lambda error, _message: errors.append(KafkaException(error))
    )
    producer.flush(PATIENCE_S)
    raise errors[0]


def read(client: Client, topic: str) -> None:
    """Wait for the first record, or a moment if there is none. A denied group does not end a read."""
    consumer = Consumer({**client, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([KafkaPartition(topic, 0, 0)])
    try:
        for _ in range(8):
            message = consumer.poll(0.5)
            error = None if message is None else message.error()
            if error is not None and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise KafkaException(error)
            if message is not None and error is None:
                return
    finally:
        consumer.close()
