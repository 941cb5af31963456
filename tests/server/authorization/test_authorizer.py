"""The authorizer: its settings, super users, host addresses in Java's format, and the audit log."""

from __future__ import annotations

import logging
import tracemalloc

import pytest

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.authorization.acl import ANY_PRINCIPAL, Acl, Pattern, Permission
from tidelog.server.authorization.authorizer import (
    STANDARD_AUTHORIZER,
    ZOOKEEPER_AUTHORIZER,
    Authorizer,
    AuthorizerSettings,
    java_host,
)
from tidelog.server.authorization.operation import SUPPORTED, Operation, operation_bits
from tidelog.server.authorization.resource import CLUSTER, WILDCARD, AclResourceType, group, topic
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.request_context import RequestContext
from tidelog.server.security.principal import Principal

KEYS = {"authorizer.class.name": STANDARD_AUTHORIZER}
AUDIT = "kafka.authorizer.logger"


def authorizer(*acls: Acl, **keys: str) -> Authorizer:
    settings = AuthorizerSettings.of(
        BrokerConfig.load(overrides=KEYS | {k.replace("_", "."): v for k, v in keys.items()})
    )
    made = Authorizer(settings)
    made.change(acls)
    return made


def asked_by(name: str, host: str = "10.0.0.1") -> RequestContext:
    client = ClientConnection(host=host, port=1, listener="L", connection_id="c", principal=Principal("User", name))
    return RequestContext(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 0, None, client, 0)


def read_of(name: str, permission: Permission = Permission.ALLOW, host: str = WILDCARD) -> Acl:
    return Acl(Pattern(AclResourceType.TOPIC, name), "User:ann", host, Operation.READ, permission)


class TestSettings:
    def test_without_an_authorizer_nothing_is_asked(self) -> None:
        assert AuthorizerSettings.of(BrokerConfig.load()) is None
        nobody = Authorizer(None)
        assert not nobody.is_on
        assert nobody.allows(asked_by("ann"), Operation.ALTER, CLUSTER)
        assert nobody.allowed(asked_by("ann"), Operation.READ, topic, ["a", "b"]) == {"a", "b"}
        assert nobody.allows_some(asked_by("ann"), Operation.WRITE, AclResourceType.TOPIC)
        assert nobody.operations(asked_by("ann"), group("g")) == operation_bits(SUPPORTED[AclResourceType.GROUP])

    def test_super_users_may_do_everything(self) -> None:
        made = authorizer(read_of("t", Permission.DENY), super_users=" User:ann ;; User:CN=a,O=b;Group:x")
        assert made.allows(asked_by("ann"), Operation.READ, topic("t"))
        assert made.allows(asked_by("CN=a,O=b"), Operation.ALTER, CLUSTER)
        assert made.allows_some(asked_by("ann"), Operation.WRITE, AclResourceType.TOPIC)
        assert not made.allows(asked_by("x"), Operation.READ, topic("t"))

    def test_what_no_entry_is_about(self) -> None:
        made = authorizer(read_of("t"), allow_everyone_if_no_acl_found="true")
        assert made.allows(asked_by("bob"), Operation.WRITE, topic("u"))
        assert not made.allows(asked_by("bob"), Operation.WRITE, topic("t"))
        assert not made.allows(asked_by("ann"), Operation.WRITE, topic("t"))
        assert not authorizer().allows(asked_by("bob"), Operation.WRITE, topic("u"))

    @pytest.mark.parametrize(
        ("keys", "reason"),
        [
            (
                {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"},
                "AclAuthorizer is not supported; use org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            ),
            (KEYS | {"super.users": "ann;User:bob"}, "super.users: ann is not a principal"),
        ],
    )
    def test_that_cannot_be(self, keys: dict[str, str], reason: str) -> None:
        with pytest.raises(ConfigError, match=reason):
            AuthorizerSettings.of(BrokerConfig.load(overrides=keys))


def test_kafkas_class_for_acls_in_zookeeper() -> None:
    with_zookeeper = {"zookeeper.connect": "localhost:2181"}
    kafkas = {"authorizer.class.name": ZOOKEEPER_AUTHORIZER, "super.users": "User:ann"}
    found = AuthorizerSettings.of(BrokerConfig.load(overrides=with_zookeeper | kafkas))
    assert found == AuthorizerSettings(super_users=frozenset({"User:ann"}), allows_by_default=False)
    with pytest.raises(ConfigError, match=f"StandardAuthorizer is not supported; use {ZOOKEEPER_AUTHORIZER}"):
        AuthorizerSettings.of(BrokerConfig.load(overrides=with_zookeeper | KEYS))


def test_who_is_called_as_everybody_is_may_do_nothing() -> None:
    """A user named ``*`` gets no permission from ACLs for everybody: each check raises UNKNOWN_SERVER_ERROR."""
    everything = [
        Acl(Pattern(kind, WILDCARD), ANY_PRINCIPAL, WILDCARD, Operation.ALL, Permission.ALLOW) for kind in SUPPORTED
    ]
    made = authorizer(*everything)
    nobody = asked_by("*")
    for ask in (
        lambda: made.allows(nobody, Operation.READ, topic("t")),
        lambda: made.allowed(nobody, Operation.READ, topic, ["t"]),
        lambda: made.allows_some(nobody, Operation.WRITE, AclResourceType.TOPIC),
        lambda: made.operations(nobody, group("g")),
        lambda: made.require(nobody, Operation.ALTER),
    ):
        with pytest.raises(ApiError) as refused:
            ask()
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert made.allows(asked_by("ann"), Operation.READ, topic("t"))
    assert authorizer(super_users="User:*").allows(nobody, Operation.READ, topic("t"))


def test_entries_come_and_go() -> None:
    made = authorizer(read_of("t"))
    assert made.allows(asked_by("ann"), Operation.DESCRIBE, topic("t"))
    made.change([], [read_of("t")])
    assert not made.allows(asked_by("ann"), Operation.DESCRIBE, topic("t"))


def test_a_refusal_has_its_resources_code() -> None:
    made = authorizer()
    with pytest.raises(ApiError, match="Group authorization failed") as refused:
        made.require(asked_by("ann"), Operation.READ, group("g"))
    assert refused.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(ApiError, match="Cluster authorization failed"):
        made.require(asked_by("ann"), Operation.ALTER)


def test_operations_are_those_that_are_allowed() -> None:
    made = authorizer(read_of("t"))
    assert made.operations(asked_by("ann"), topic("t")) == operation_bits([Operation.READ, Operation.DESCRIBE])
    assert made.operations(asked_by("bob"), topic("t")) == 0


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1:2%eth0", "fe80:0:0:0:0:0:1:2"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
    ],
)
def test_addresses_are_written_as_java_does(host: str, written: str) -> None:
    assert java_host(host) == written
    made = authorizer(read_of("t", host=written))
    assert made.allows(asked_by("ann", host), Operation.READ, topic("t"))
    assert not made.allows(asked_by("ann", "10.9.9.9"), Operation.READ, topic("t"))


class TestTheAuditLog:
    def test_says_who_was_denied_what(self, caplog: pytest.LogCaptureFixture) -> None:
        made = authorizer(read_of("t", Permission.DENY))
        with caplog.at_level(logging.INFO, AUDIT):
            made.allowed(asked_by("ann"), Operation.READ, topic, ["t", "t"])
            made.allows(asked_by("bob"), Operation.DESCRIBE_CONFIGS, CLUSTER)
        assert [record.getMessage() for record in caplog.records] == [
            (
                "Principal = User:ann is Denied operation = READ from host = 10.0.0.1 on resource = "
                "Topic:LITERAL:t for request = OffsetForLeaderEpoch with resourceRefCount = 2 based on rule "
                "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=t, patternType=LITERAL, "
                "principal=User:ann, host=*, operation=READ, "
                "permissionType=DENY))"
            ),
            (
                "Principal = User:bob is Denied operation = DESCRIBE_CONFIGS from host = 10.0.0.1 on resource = "
                "Cluster:LITERAL:kafka-cluster for request = OffsetForLeaderEpoch with resourceRefCount = 1 based on "
                "rule DefaultDeny"
            ),
        ]

    def test_says_other_things_more_quietly(self, caplog: pytest.LogCaptureFixture) -> None:
        made = authorizer(read_of("t"), super_users="User:root")
        with caplog.at_level(5, AUDIT):
            made.allows(asked_by("ann"), Operation.READ, topic("t"))
            made.allows(asked_by("root"), Operation.READ, topic("t"))
            made.allowed(asked_by("bob"), Operation.READ, topic, ["t"], log_denial=False)
            made.operations(asked_by("bob"), topic("t"))
        levels = [
            (record.levelno, record.getMessage().rpartition("rule ")[2].partition("(")[0]) for record in caplog.records
        ]
        assert levels == [(10, "MatchingAcl"), (10, "SuperUser"), (5, "DefaultDeny")]


def test_cached_decisions_are_those_of_the_present_entries() -> None:
    made = authorizer()
    for _ in range(2):
        assert not made.allows(asked_by("ann"), Operation.READ, topic("t"))
        made.change([read_of("t")])
        assert made.allows(asked_by("ann"), Operation.READ, topic("t"))
        assert not made.allows(asked_by("bob"), Operation.READ, topic("t"))
        made.change([], [read_of("t")])


def test_clients_that_ask_for_many_names_and_long_ones_take_no_memory() -> None:
    made = authorizer(read_of("t"))
    tracemalloc.start()
    for number in range(12_000):
        assert not made.allows(asked_by("ann"), Operation.READ, topic(str(number)), log_denial=False)
    for number in range(1000):
        assert not made.allows(asked_by("ann"), Operation.READ, group(f"{number:03}" * 10_000), log_denial=False)
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10_000_000
    assert made.allows(asked_by("ann"), Operation.READ, topic("t"))
