"""The paths of Kafka's znodes, all of them below the chroot, and the names in them. Pure.

============================================  ==========================================================================
path                                          contents
============================================  ==========================================================================
/brokers/ids/N                                the registration of a live broker; it ends with the broker's session
/brokers/topics/T                             the id of a topic, and the replicas of its partitions
/brokers/topics/T/partitions/P/state          leader and in-sync replicas; the znode's version is the partition epoch
/config/TYPE/NAME, …/users/U/clients/C        settings, SCRAM credentials and quotas
/kafka-acl/TYPE/NAME                          the ACLs of a resource with a literal name
/kafka-acl-extended/prefixed/TYPE/NAME        the ACLs of the resources with a prefix
/latest_producer_id_block                     the newest block of producer ids
/feature                                      finalized features (KIP-584)
/config/changes/config_change_SEQUENCE        the announcement of changed settings
/kafka-acl-changes/acl_changes_SEQUENCE       the announcement of changed ACLs; /kafka-acl-extended-changes for prefixes
/admin/delete_topics/T                        a topic whose deletion is not complete
/admin/reassign_partitions, …                 requests of old tools
/delegation_token/tokens/ID                   a delegation token
/migration                                    the state of a migration to KRaft (KIP-866)
/consumers/GROUP                              the offsets of consumers before 0.9
============================================  ==========================================================================

Names of users, clients and addresses are percent-encoded, and ``<default>`` stands for all entities of a type.
Source: Kafka's ``ZkData``, ``Sanitizer``, ``ZooKeeperInternals``.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKERS: Final = "/brokers"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CONFIG: Final = "/config"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
CLIENT_CONFIGS: Final = "/config/clients"
USER_CONFIGS: Final = "/config/users"
ADDRESS_CONFIGS: Final = "/config/ips"
LITERAL_ACLS: Final = "/kafka-acl"
EXTENDED_ACLS: Final = "/kafka-acl-extended"
PREFIXED_ACLS: Final = "/kafka-acl-extended/prefixed"
CONFIG_CHANGE: Final = "/config/changes/config_change_"
LITERAL_ACL_CHANGE: Final = "/kafka-acl-changes/acl_changes_"
PREFIXED_ACL_CHANGE: Final = "/kafka-acl-extended-changes/acl_changes_"
PRODUCER_IDS: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"
DELETED_TOPICS: Final = "/admin/delete_topics"
REASSIGNMENT: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
DELEGATION_TOKENS: Final = "/delegation_token/tokens"
MIGRATION: Final = "/migration"
OLD_CONSUMERS: Final = "/consumers"

OF_KAFKA: Final = frozenset(
    {
        "admin",
        "brokers",
        "cluster",
        "config",
        "consumers",
        "controller",
        "controller_epoch",
        "delegation_token",
        "feature",
        "isr_change_notification",
        "kafka-acl",
        "kafka-acl-changes",
        "kafka-acl-extended",
        "kafka-acl-extended-changes",
        "latest_producer_id_block",
        "log_dir_event_notification",
        "migration",
        "zookeeper",  # ZooKeeper's own, if there is no chroot
    }
)
"""The names of Kafka's znodes in the chroot."""

DEFAULT: Final = "<default>"
_UNQUOTED: Final = "-_."
"""The punctuation that Kafka leaves. Python's ``quote`` would leave a tilde too."""


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def state(name: str, partition: int) -> str:
    return f"{TOPICS}/{name}/partitions/{partition}/state"


def user_clients(user_path: str) -> str:
    return f"{user_path}/clients"


def encoded_name(name: str | None) -> str:
    """Return the name of an entity in a path; None is the default of its type. Source: ``Sanitizer.sanitize``."""
    return DEFAULT if name is None else quote(name, safe=_UNQUOTED).replace("~", "%7E")


def decoded_name(text: str) -> str | None:
    """Return the entity of a name in a path. Raise ValueError if it is not percent-encoded UTF-8."""
    return None if text == DEFAULT else unquote(text, errors="strict")
