"""A mirror with few permissions copies the readable parts, and names the other parts."""

from __future__ import annotations

from pathlib import Path

from mirroring.source_and_copy import KEEPING, options
from tidelog.mirroring.blocking import plan_mirror, run_mirror
from tidelog.server.authorization.acl import Acl, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.kraft.metadata_view import read_metadata
from tidelog.storage.fs import LOCAL
from tidelog.testing import Broker

AUTHORIZED = {
    **KEEPING,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def allowed(operation: Operation, topic: str) -> Acl:
    pattern = Pattern(AclResourceType.TOPIC, topic, PatternType.LITERAL)
    return Acl(pattern, "User:ANONYMOUS", "*", operation, Permission.ALLOW)


def on_cluster(operation: Operation) -> Acl:
    pattern = Pattern(AclResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)
    return Acl(pattern, "User:ANONYMOUS", "*", operation, Permission.ALLOW)


def allow(broker: Broker, *acls: Acl) -> None:
    outcomes = broker.run(lambda: broker.server.controller.create_acls(acls))
    assert not any(outcome.is_failure for outcome in outcomes)


def test_read_and_describe_are_enough_and_the_rest_is_named(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with Broker(tmp_path / "source", configs=AUTHORIZED) as broker:
        for topic in ("orders", "described", "hidden"):
            broker.create_topic(topic, configs={"retention.ms": "86400000"})
        allow(broker, allowed(Operation.READ, "orders"), allowed(Operation.DESCRIBE, "described"))
        plan = plan_mirror(options(broker, copy))
        assert {str(one.partition): one.state for one in plan.partitions} == {
            "described-0": "unreadable",
            "orders-0": "new",
        }
        assert plan.denials.keys() == {"sizes", "settings", "ACLs"}
        result = run_mirror(options(broker, copy))
    assert [str(one.partition) for one in result.partitions] == ["orders-0"]
    assert result.notes[0] == "Topic described is left out: this client may not read it."
    assert len([note for note in result.notes if "of the source are not copied" in note]) == 2
    view = read_metadata(LOCAL, copy)
    assert view is not None
    assert view.image.topics.keys() == {"orders"}
    assert view.image.settings_of(ResourceType.TOPIC, "orders") == {"retention.ms": "-1"}
    assert not view.image.acls


def test_acls_are_copied_and_follow_the_source(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    acls = [allowed(Operation.READ, "orders"), on_cluster(Operation.DESCRIBE)]
    with Broker(tmp_path / "source", configs=AUTHORIZED) as broker:
        broker.create_topic("orders")
        allow(broker, *acls)
        run_mirror(options(broker, copy))
        assert acls_of(copy) == set(acls)
        allow(broker, allowed(Operation.WRITE, "orders"))
        run_mirror(options(broker, copy))
        assert acls_of(copy) == {*acls, allowed(Operation.WRITE, "orders")}


def acls_of(copy: Path) -> set[Acl]:
    view = read_metadata(LOCAL, copy)
    assert view is not None
    return set(view.image.acls.values())
