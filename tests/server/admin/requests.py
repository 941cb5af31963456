"""Valid and invalid requests of administrators, in a fixed order: later requests build on earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from tidelog.protocol.api_key import VERSIONS, ApiKey

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
NODE = "1"
ELECT = ApiKey.ELECT_LEADERS
NOBODY = UUID("7d7c6c5c-1111-4222-8333-944455566677")
LONG_NAME = "n" * 250


class Asked(NamedTuple):
    name: str
    api: ApiKey
    version: int
    values: Mapping[str, Any]
    has_kafkas_words: bool = True
    """False if the broker's error messages differ from Kafka's. The error codes are the same."""

    @property
    def reads(self) -> bool:
        """The request changes nothing and may be repeated."""
        return self.api in READING


READING = (
    ApiKey.METADATA,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
)


def asked(name: str, api: ApiKey, version: int | None = None, **values: Any) -> Asked:
    return Asked(name, api, VERSIONS[api].latest if version is None else version, values)


def requests() -> Iterator[Asked]:
    yield from topics_made()
    yield from topics_described()
    yield from topics_changed()
    yield from settings_altered()
    yield from settings_described()
    yield from quotas()
    yield from users()
    yield from without_time()
    yield from topics_deleted()


# --- users ---


def password(user: str, mechanism: int = 1, iterations: int = 4096) -> dict[str, Any]:
    values = {"salt": b"salt", "salted_password": b"salted"}
    return {"name": user, "mechanism": mechanism, "iterations": iterations, **values}


def no_password(user: str, mechanism: int = 1) -> dict[str, Any]:
    return {"name": user, "mechanism": mechanism}


def users() -> Iterator[Asked]:
    api = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    changes: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
        "set": ([], [password("ann"), password("bob", 2, 16384)]),
        "another mechanism": ([], [password("ann", 2)]),
        "again": ([], [password("bob", 2, 8192)]),
        "nothing": ([], []),
        "twice": ([], [password("cid"), password("cid", 2), password("dan")]),
        "set and removed": ([no_password("ann")], [password("ann")]),
        "removed twice": ([no_password("ann"), no_password("ann", 2)], []),
        "of nobody": ([no_password("nobody"), no_password("bob")], []),
        "no name": ([no_password("")], [password("eve")]),
        "no mechanism": ([no_password("ann", 3)], [password("fay", 0), password("gil", -1)]),
        "too few": ([], [password("hal", 1, 4095), password("ida", 2, 0)]),
        "too many": ([], [password("hal", 1, 16385), password("ida", 2, 16384)]),
        "removed": ([no_password("ann")], []),
    }
    for name, (deletions, upsertions) in changes.items():
        yield asked(f"password {name}", api, deletions=deletions, upsertions=upsertions)
    api = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    asked_of = {"all": None, "none": [], "some": ["ann", "bob", "nobody"], "twice": ["ann", "ann", "bob", ""]}
    for name, wanted in asked_of.items():
        users = None if wanted is None else [{"name": user} for user in wanted]
        yield asked(f"passwords of {name}", api, users=users)
    for version in (0, 1):
        yield asked(f"handshake, version {version}", ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN")
    for version in (0, 1, 2):
        yield asked(f"log-in, version {version}", ApiKey.SASL_AUTHENTICATE, version, auth_bytes=b"\0ann\0secret")


# --- topics ---


def new_topic(name: str, **values: Any) -> dict[str, Any]:
    counts = {"num_partitions": -1, "replication_factor": -1}
    configs = [{"name": key, "value": text} for key, text in values.pop("configs", {}).items()]
    return {"name": name, **counts, "assignments": [], "configs": configs, **values}


def assigned(*brokers: list[int], first: int = 0) -> list[dict[str, Any]]:
    return [{"partition_index": number, "broker_ids": ids} for number, ids in enumerate(brokers, first)]


def topics_made() -> Iterator[Asked]:
    made = {
        "as the broker says": [new_topic("plain")],
        "with counts": [new_topic("counts.of", num_partitions=3, replication_factor=1)],
        "by hand": [new_topic("by-hand", assignments=assigned([1], [1]))],
        "with settings": [
            new_topic("set", configs={"retention.ms": "5000", "cleanup.policy": "compact,delete", "segment.ms": "9"})
        ],
        "two": [new_topic("two-a"), new_topic("two-b", num_partitions=2)],
        "again": [new_topic("plain"), new_topic("other")],
        "twice": [new_topic("twice"), new_topic("twice"), new_topic("once")],
        "the metadata's": [new_topic("__cluster_metadata")],
        "collides": [new_topic("counts_of")],
        "bad names": [new_topic(name) for name in ("", ".", "..", "a b", "käfer", LONG_NAME)],
        "no partitions": [new_topic("x1", num_partitions=0), new_topic("x2", num_partitions=-2)],
        "too many partitions": [new_topic("x3", num_partitions=10_001)],
        "no replicas": [new_topic("x4", replication_factor=0), new_topic("x5", replication_factor=-2)],
        "too many replicas": [new_topic("x6", replication_factor=2)],
        "counts and assignments": [
            new_topic("x7", num_partitions=1, assignments=assigned([1])),
            new_topic("x8", replication_factor=1, assignments=assigned([1])),
        ],
        "bad assignments": [
            new_topic("x9", assignments=assigned([])),
            new_topic("x10", assignments=assigned([9])),
            new_topic("x11", assignments=assigned([1, 1])),
            new_topic("x12", assignments=assigned([1], first=1)),
            new_topic("x13", assignments=assigned([1]) * 2),
            new_topic("x14", assignments=assigned([1], [1, 9])),
            new_topic("x15", assignments=assigned([-1])),
        ],
        "bad settings": [
            new_topic("x16", configs={"colour": "blue"}),
            new_topic("x17", configs={"retention.ms": "x"}),
            new_topic("x18", configs={"retention.ms": None}),
            new_topic("x19", configs={"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}),
            new_topic("x20", configs={"segment.bytes": "1"}),
            new_topic("x21", configs={"cleanup.policy": "keep"}),
        ],
    }
    for name, topics in made.items():
        yield asked(f"create {name}", ApiKey.CREATE_TOPICS, topics=topics, timeout=10_000)
    yield asked(
        "create only to see", ApiKey.CREATE_TOPICS, topics=[new_topic("seen")], timeout=10_000, validate_only=True
    )
    yield asked(
        "create, version 2",
        ApiKey.CREATE_TOPICS,
        2,
        topics=[new_topic("old", num_partitions=1, replication_factor=1)],
        timeout=10_000,
    )
    yield asked(
        "create, version 5", ApiKey.CREATE_TOPICS, 5, topics=[new_topic("five"), new_topic("plain")], timeout=10_000
    )
    yield asked("create none", ApiKey.CREATE_TOPICS, topics=[], timeout=10_000)


def names(*topics: str | None, topic_id: UUID | None = None) -> list[dict[str, Any]]:
    return [{"name": topic, "topic_id": topic_id} for topic in topics]


def topics_described() -> Iterator[Asked]:
    for version in range(14):
        everything: list[Any] | None = [] if version == 0 else None
        yield asked(f"metadata of all, version {version}", ApiKey.METADATA, version, topics=everything)
        yield asked(
            f"metadata of some, version {version}",
            ApiKey.METADATA,
            version,
            topics=names("plain", "by-hand", "none.such", "a b"),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
    yield asked("metadata of none", ApiKey.METADATA, topics=[])
    yield asked("metadata of no id", ApiKey.METADATA, 12, topics=names(None, topic_id=NOBODY))
    yield asked("metadata of an id too early", ApiKey.METADATA, 10, topics=names("plain", topic_id=NOBODY))
    yield asked("metadata of no name too early", ApiKey.METADATA, 11, topics=names(None))
    api = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    some = [{"name": name} for name in ("counts.of", "by-hand", "none.such", "a b", "set")]
    yield asked("partitions of all", api, topics=[], response_partition_limit=2000)
    for limit in (0, 1, 2, 3, 4, 5, 6, 2000):
        yield asked(f"partitions, {limit} at most", api, topics=some, response_partition_limit=limit)
    for topic, partition in [("counts.of", 0), ("counts.of", 2), ("counts.of", 3), ("none.such", 0), ("by-hand", 1)]:
        yield asked(
            f"partitions from {topic}-{partition}",
            api,
            topics=some,
            response_partition_limit=2,
            cursor={"topic_name": topic, "partition_index": partition},
        )
    for cursor in [("elsewhere", 0), ("set", -1)]:
        place = {"topic_name": cursor[0], "partition_index": cursor[1]}
        yield asked(f"partitions from {cursor}", api, topics=some, response_partition_limit=2, cursor=place)


def more(name: str, count: int, assignments: list[list[int]] | None = None) -> dict[str, Any]:
    brokers = None if assignments is None else [{"broker_ids": ids} for ids in assignments]
    return {"name": name, "count": count, "assignments": brokers}


def reassigned(name: str, partition: int, replicas: list[int] | None) -> dict[str, Any]:
    return {"name": name, "partitions": [{"partition_index": partition, "replicas": replicas}]}


def topics_changed() -> Iterator[Asked]:
    api = ApiKey.CREATE_PARTITIONS
    grown = {
        "more": [more("plain", 2), more("by-hand", 4, [[1], [1]])],
        "fewer": [more("plain", 1), more("counts.of", 3), more("counts.of ", 0)],
        "of nothing": [more("none.such", 2), more("a b", 2)],
        "negative": [more("plain", -1), more("set", 0)],
        "twice": [more("plain", 4), more("plain", 5), more("set", 2)],
        "by wrong hands": [
            more("plain", 4, [[1]]),
            more("two-a", 2, [[9]]),
            more("two-b", 3, [[]]),
            more("set", 3, [[1, 1]]),
            more("by-hand", 5, [[1], [1]]),
        ],
    }
    for name, topics in grown.items():
        yield asked(f"partitions {name}", api, topics=topics, timeout=10_000)
    yield asked("partitions only to see", api, topics=[more("plain", 9)], timeout=10_000, validate_only=True)
    yield asked("metadata of the grown", ApiKey.METADATA, topics=names("plain", "by-hand"))
    api = ELECT
    some = [{"topic": "plain", "partitions": [0, 99]}, {"topic": "none.such", "partitions": [0]}]
    some.append({"topic": "set", "partitions": []})
    for kind in (0, 1, 2, -1):
        yield asked(f"elect {kind}", api, election_type=kind, topic_partitions=some, timeout=10_000)
        yield asked(f"elect all {kind}", api, election_type=kind, topic_partitions=None, timeout=10_000)
        yield asked(f"elect none {kind}", api, election_type=kind, topic_partitions=[], timeout=10_000)
    yield asked("elect, version 0", api, 0, topic_partitions=some, timeout=10_000)
    api = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    moved = {
        "the same": [reassigned("plain", 0, [1])],
        "back": [reassigned("plain", 0, None)],
        "nowhere": [reassigned("plain", 0, []), reassigned("set", 0, [9]), reassigned("two-a", 0, [1, 1])],
        "nothing": [reassigned("none.such", 0, [1]), reassigned("counts.of", 99, [1]), reassigned("two-b", 99, None)],
    }
    for name, topics in moved.items():
        yield asked(f"reassign to {name}", api, topics=topics, timeout=10_000)
    yield asked("reassignments", ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=None, timeout=10_000)
    wanted = [{"name": "plain", "partition_indexes": [0, 99]}, {"name": "none.such", "partition_indexes": [0]}]
    yield asked("reassignments of some", ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=wanted, timeout=10_000)


def without_time() -> Iterator[Asked]:
    """Yield requests whose timeout expires before the controller processes them. Some never reach its queue."""
    same = {"topic": "plain", "partitions": [0, 99]}
    for name, wanted in {"all": None, "none": [], "some": [same, {"topic": "set", "partitions": []}]}.items():
        yield asked(f"too late: elect {name}", ELECT, election_type=0, topic_partitions=wanted, timeout=0)
    yield asked("too late: elect, version 0", ELECT, 0, topic_partitions=[same], timeout=-1)
    api = ApiKey.CREATE_TOPICS
    wanted = [new_topic("late"), new_topic("plain"), new_topic("a b"), new_topic("x"), new_topic("x")]
    yield asked("too late: create", api, topics=wanted, timeout=0)
    yield asked("too late: create only to see", api, topics=wanted, timeout=-1, validate_only=True)
    yield asked("too late: create none", api, topics=[], timeout=0)
    yield asked("too late: create what is refused", api, topics=[new_topic("x"), new_topic("x")], timeout=0)
    api = ApiKey.CREATE_PARTITIONS
    grown = [more("plain", 9), more("none.such", 2), more("set", 3), more("set", 3)]
    yield asked("too late: partitions", api, topics=grown, timeout=0)
    yield asked("too late: partitions of none", api, topics=[], timeout=0)
    api = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    yield asked("too late: reassign", api, topics=[reassigned("plain", 0, [1]), reassigned("no", 0, None)], timeout=0)
    yield asked("too late: reassignments", ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=None, timeout=0)
    feature = {"feature": "no.such", "max_version_level": 1, "upgrade_type": 1}
    yield asked("too late: a feature", ApiKey.UPDATE_FEATURES, feature_updates=[feature], timeout=0)
    api = ApiKey.DELETE_TOPICS
    wanted = [*names("plain", "none.such", "set", "set"), *names(None, topic_id=NOBODY)]
    yield asked("too late: delete", api, topics=wanted, timeout=0)
    yield asked("too late: delete, version 5", api, 5, topic_names=["plain", "none.such"], timeout=-1)
    yield asked("too late: delete none", api, topics=[], timeout=0)
    yield asked("metadata after all that was too late", ApiKey.METADATA, topics=None)


def topics_deleted() -> Iterator[Asked]:
    api = ApiKey.DELETE_TOPICS
    yield asked("delete old", api, 1, topic_names=["five", "none.such"], timeout=10_000)
    yield asked("delete, version 5", api, 5, topic_names=["old", "none.such", "a b"], timeout=10_000)
    yield asked("delete nothing", api, topics=names(None), timeout=10_000)
    yield asked("delete both", api, topics=names("plain", topic_id=NOBODY), timeout=10_000)
    yield asked("delete nobody", api, topics=names(None, topic_id=NOBODY), timeout=10_000)
    yield asked("delete nobody twice", api, topics=names(None, None, topic_id=NOBODY), timeout=10_000)
    yield asked("delete twice", api, topics=names("plain", "plain", "two-a", "none.such"), timeout=10_000)
    yield asked("metadata at the end", ApiKey.METADATA, topics=None)


# --- settings ---


def resource(kind: int, name: str, *keys: str) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}


def altered(kind: int, name: str, *changes: tuple[str, int, str | None]) -> dict[str, Any]:
    configs = [{"name": key, "config_operation": change, "value": value} for key, change, value in changes]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def replaced(kind: int, name: str, **texts: str | None) -> dict[str, Any]:
    configs = [{"name": key.replace("_", "."), "value": value} for key, value in texts.items()]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def settings_altered() -> Iterator[Asked]:
    for name, resources in incremental().items():
        yield asked(f"alter {name}", ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources, validate_only=False)
    seen = [altered(TOPIC, "plain", ("retention.ms", SET, "1")), altered(TOPIC, "set", ("retention.ms", SET, "x"))]
    yield asked("alter only to see", ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=seen, validate_only=True)
    old = {
        "topic": [replaced(TOPIC, "two-a", retention_ms="7", segment_ms="8")],
        "topic again": [replaced(TOPIC, "two-a", segment_ms="9")],
        "no topic": [replaced(TOPIC, "none.such", segment_ms="9"), replaced(TOPIC, "", segment_ms="9")],
        "badly": [replaced(TOPIC, "two-b", segment_ms="x"), replaced(TOPIC, "two-a", colour="blue")],
        "to null": [replaced(TOPIC, "two-b", segment_ms=None, segment_bytes=None)],
        "loggers": [replaced(LOGGER, NODE, root="INFO")],
        "brokers": [replaced(BROKER, "9", log_retention_ms="5"), replaced(BROKER, "x", log_retention_ms="5")],
        "broker badly": [replaced(BROKER, NODE, log_dirs="/x")],
    }
    for name, resources in old.items():
        yield asked(f"replace {name}", ApiKey.ALTER_CONFIGS, resources=resources, validate_only=False)


def incremental() -> dict[str, list[dict[str, Any]]]:
    same = ("retention.ms", SET, "1")
    return {
        "topic": [altered(TOPIC, "plain", ("retention.ms", SET, "77"), ("segment.ms", SET, "5"))],
        "topic back": [altered(TOPIC, "plain", ("segment.ms", DELETE, None), ("flush.ms", DELETE, None))],
        "list": [altered(TOPIC, "plain", ("cleanup.policy", APPEND, "compact"))],
        "list back": [altered(TOPIC, "plain", ("cleanup.policy", SUBTRACT, "delete"))],
        "no list": [
            altered(TOPIC, "plain", ("retention.ms", APPEND, "1")),
            altered(TOPIC, "set", ("colour", SUBTRACT, "1")),
        ],
        "no key": [altered(TOPIC, "plain", ("colour", SET, "blue"))],
        "no value": [
            altered(TOPIC, "plain", ("retention.ms", SET, "x")),
            altered(TOPIC, "set", ("segment.ms", SET, "0")),
        ],
        "null": [altered(TOPIC, "plain", ("retention.ms", SET, None), ("segment.ms", APPEND, None))],
        "no topic": [altered(TOPIC, "none.such", same), altered(TOPIC, "", same), altered(TOPIC, "a b", same)],
        "a key twice": [altered(TOPIC, "plain", same, same)],
        "a resource twice": [altered(TOPIC, "plain", same), altered(TOPIC, "plain", same), altered(TOPIC, "set", same)],
        "nothing": [altered(0, "x", same), altered(3, "x", same), altered(99, "", same)],
        "one of two": [altered(TOPIC, "set", same, ("colour", SET, "blue"))],
        "this broker": [altered(BROKER, NODE, ("log.retention.bytes", SET, "12345"))],
        "all brokers": [altered(BROKER, "", ("log.retention.bytes", SET, "777"), ("log.roll.ms", SET, "99999"))],
        "a rate": [altered(BROKER, NODE, ("leader.replication.throttled.rate", SET, "4096"))],
        "a custom key": [altered(BROKER, NODE, ("colour", SET, "blue"))],
        "other brokers": [
            altered(BROKER, "9", ("log.roll.ms", SET, "1")),
            altered(BROKER, "x", ("log.roll.ms", SET, "1")),
        ],
        "a fixed key": [altered(BROKER, NODE, ("log.dirs", SET, "/x"))],
        "a fixed key of all": [altered(BROKER, "", ("num.partitions", SET, "3"))],
        "security": [altered(BROKER, NODE, ("ssl.keystore.location", SET, "/x"))],
        "a listener of all": [altered(BROKER, "", ("listeners", SET, "PLAINTEXT://:1"))],
        "broker badly": [altered(BROKER, NODE, ("log.retention.bytes", SET, "x"))],
        "broker out of range": [altered(BROKER, "", ("log.segment.bytes", SET, "1"))],
        "broker contradicts": [altered(BROKER, NODE, ("log.roll.ms", SET, "0"))],
        "fewer threads": [altered(BROKER, NODE, ("background.threads", SET, "0"))],
        "broker no list": [altered(BROKER, NODE, ("log.roll.ms", APPEND, "1"))],
        "replicas of a broker": [altered(BROKER, NODE, ("min.insync.replicas", SET, "1"))],
        "replicas of none": [altered(BROKER, "", ("min.insync.replicas", DELETE, None))],
        "group": [altered(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))],
        "group badly": [altered(GROUP, "h", ("consumer.session.timeout.ms", SET, "1")), altered(GROUP, "", same)],
        "group no key": [altered(GROUP, "h", ("colour", SET, "blue"))],
        "metrics": [
            altered(CLIENT_METRICS, "m", ("metrics", SET, "a."), ("interval.ms", SET, "1000")),
            altered(CLIENT_METRICS, "n", ("match", APPEND, "client_id=x")),
        ],
        "metrics badly": [
            altered(CLIENT_METRICS, "o", ("interval.ms", SET, "1")),
            altered(CLIENT_METRICS, "p", ("match", SET, "client_id=[")),
            altered(CLIENT_METRICS, "", ("metrics", SET, "a")),
        ],
        "loggers": [altered(LOGGER, NODE, ("root", SET, "ERROR"))],
        "loggers badly": [altered(LOGGER, NODE, ("root", SET, "LOUD"))],
        "loggers to null": [altered(LOGGER, NODE, ("root", SET, None))],
        "no logger": [altered(LOGGER, NODE, ("no.such.logger", SET, "INFO"))],
        "no level": [altered(LOGGER, NODE, ("root", DELETE, None))],
        "loggers by list": [altered(LOGGER, NODE, ("root", APPEND, "INFO"))],
        "loggers of others": [
            altered(LOGGER, "9", ("root", SET, "INFO")),
            altered(LOGGER, "x", ("root", SET, "INFO")),
            altered(LOGGER, "", ("root", SET, "INFO")),
        ],
    }


def settings_described() -> Iterator[Asked]:
    api = ApiKey.DESCRIBE_CONFIGS
    whole = [
        resource(TOPIC, "plain"),
        resource(TOPIC, "set"),
        resource(BROKER, NODE),
        resource(BROKER, ""),
        resource(GROUP, "g"),
        resource(GROUP, "none.such"),
        resource(CLIENT_METRICS, "m"),
        resource(CLIENT_METRICS, "none.such"),
    ]
    for version in range(VERSIONS[api].oldest, VERSIONS[api].latest + 1):
        for synonyms in (False, True):
            yield asked(
                f"describe, version {version}, {synonyms=}", api, version, resources=whole, include_synonyms=synonyms
            )
    keys = [
        resource(TOPIC, "set", "retention.ms", "colour"),
        resource(BROKER, NODE, "log.retention.bytes", "colour", "leader.replication.throttled.rate"),
        resource(LOGGER, NODE, "root"),
    ]
    yield asked("describe some keys", api, resources=keys, include_synonyms=True)
    wrong = [
        resource(TOPIC, "none.such"),
        resource(TOPIC, ""),
        resource(TOPIC, "a b"),
        resource(BROKER, "9"),
        resource(BROKER, "x"),
        resource(LOGGER, ""),
        resource(LOGGER, "9"),
        resource(LOGGER, "x"),
        resource(GROUP, ""),
        resource(CLIENT_METRICS, ""),
    ]
    yield asked("describe what is not there", api, resources=wrong)
    nothing = asked("describe nothing", api, resources=[resource(0, "x"), resource(TOPIC, "plain")])
    something = asked("describe something", api, resources=[resource(3, "x")])
    yield from (one._replace(has_kafkas_words=False) for one in (nothing, something))
    api = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    for users in (None, [], ["ann"], ["ann", "ann", "bob"]):
        wanted = None if users is None else [{"name": user} for user in users]
        yield asked(f"passwords of {users}", api, users=wanted)
    api = ApiKey.LIST_CONFIG_RESOURCES
    yield asked("list metrics", api, 0)
    yield asked("list all", api, resource_types=[])
    for kind in (TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP):
        yield asked(f"list {kind}", api, resource_types=[kind])
    yield asked("list topics and groups", api, resource_types=[GROUP, TOPIC, GROUP])
    yield asked("list nothing", api, resource_types=[0])
    yield asked("list something", api, resource_types=[TOPIC, 3])


# --- quotas ---


def quota(*operations: tuple[str, float | None], **entity: str | None) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in entity.items()],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in operations],
    }


def component(kind: str, match_type: int, match: str | None = None) -> dict[str, Any]:
    return {"entity_type": kind, "match_type": match_type, "match": match}


def quotas() -> Iterator[Asked]:
    rate = ("producer_byte_rate", 1024.0)
    changes = {
        "of a user": [quota(rate, ("consumer_byte_rate", 2048.0), user="ann")],
        "of defaults": [quota(rate, user=None), quota(("request_percentage", 12.5), client_id=None)],
        "of both": [quota(rate, user="ann", client_id="c")],
        "of an address": [quota(("connection_creation_rate", 5.0), ip="127.0.0.1")],
        "taken back": [quota(("consumer_byte_rate", None), ("controller_mutation_rate", None), user="ann")],
        "no entity": [quota(rate)],
        "a strange entity": [quota(rate, planet="mars")],
        "an empty name": [quota(rate, user="")],
        "address and user": [quota(rate, ip="127.0.0.1", user="ann")],
        "no key": [quota(("colour", 1.0), user="ann"), quota(rate, ip="127.0.0.2")],
        "no number": [quota(("producer_byte_rate", 0.5), user="bob"), quota(("producer_byte_rate", -1.0), user="cid")],
        "too much": [
            quota(("connection_creation_rate", 1e10), ip="127.0.0.3"),
            quota(("consumer_byte_rate", 1e30), user="dan"),
        ],
    }
    for name, entries in changes.items():
        yield asked(f"quota {name}", ApiKey.ALTER_CLIENT_QUOTAS, entries=entries, validate_only=False)
    twice = asked(
        "quota a key twice", ApiKey.ALTER_CLIENT_QUOTAS, entries=[quota(rate, rate, user="eve")], validate_only=False
    )
    yield twice._replace(has_kafkas_words=False)
    yield asked("quota only to see", ApiKey.ALTER_CLIENT_QUOTAS, entries=[quota(rate, user="fay")], validate_only=True)
    api = ApiKey.DESCRIBE_CLIENT_QUOTAS
    filters = {
        "all": [],
        "a user": [component("user", 0, "ann")],
        "the default": [component("user", 1)],
        "any user": [component("user", 2)],
        "user and client": [component("user", 0, "ann"), component("client-id", 2)],
        "an address": [component("ip", 2)],
        "nobody": [component("user", 0, "zoe")],
        "empty": [component("", 2)],
        "twice": [component("user", 2), component("user", 2)],
        "strange": [component("planet", 2)],
        "null": [component("user", 0)],
        "a name for the default": [component("user", 1, "x")],
        "a name for any": [component("user", 2, "x")],
        "unknown": [component("user", 9)],
        "address and user": [component("ip", 2), component("user", 2)],
    }
    for name, components in filters.items():
        for strict in (False, True):
            yield asked(f"quotas of {name}, {strict=}", api, components=components, strict=strict)
