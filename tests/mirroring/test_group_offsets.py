"""A source that forbids reading ``__consumer_offsets``: committed offsets come from the groups' coordinators."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from mirroring.source_and_copy import KEEPING, PATIENCE_S, Following, options, produce
from mirroring.test_authorization import AUTHORIZED, allow, allowed
from tidelog.mirroring.blocking import run_mirror
from tidelog.server.authorization.acl import Acl, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.testing import Broker


def on_group(operation: Operation, group: str) -> Acl:
    pattern = Pattern(AclResourceType.GROUP, group, PatternType.LITERAL)
    return Acl(pattern, "User:ANONYMOUS", "*", operation, Permission.ALLOW)


def commit(broker: Broker, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset, f"at {offset}")], asynchronous=False)
    consumer.close()


def committed(copy: Path, group: str) -> tuple[int, str | None]:
    with Broker(copy, configs=KEEPING) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0})
        (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=PATIENCE_S)
        consumer.close()
    return found.offset, found.metadata


def authorized(directory: Path) -> Broker:
    broker = Broker(directory, configs=AUTHORIZED)
    broker.start()
    broker.create_topic("orders")
    groups = [on_group(Operation.READ, group) for group in ("readers", "others")]
    allow(broker, allowed(Operation.READ, "orders"), allowed(Operation.WRITE, "orders"), *groups)
    produce(broker, "orders", [b"a", b"b", b"c"])
    return broker


def test_offsets_are_written_as_new_records(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    broker = authorized(tmp_path / "source")
    try:
        commit(broker, "readers", 2)
        commit(broker, "others", 3)
        allow(broker, allowed(Operation.DESCRIBE, "__consumer_offsets"))
        result = run_mirror(options(broker, copy))
        assert [str(one.partition) for one in result.partitions] == ["orders-0"]
        assert "Committed offsets of groups come from their coordinators instead." in result.notes
    finally:
        broker.close()
    assert committed(copy, "readers") == (2, "at 2")


def test_offsets_follow_and_the_sources_records_take_their_place(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    broker = authorized(tmp_path / "source")
    try:
        commit(broker, "readers", 1)
        with Following(options(broker, copy, follows=True)) as mirror:
            mirror.wait(lambda: _size(copy) > 0)
            before = _size(copy)
            commit(broker, "readers", 3)
            mirror.wait(lambda: _size(copy) > before)
        allow(broker, allowed(Operation.READ, "__consumer_offsets"))
        result = run_mirror(options(broker, copy))
        assert sum(one.partition.topic == "__consumer_offsets" for one in result.partitions) == 4
    finally:
        broker.close()
    assert [path for path in copy.iterdir() if path.name.endswith("-stray")]
    assert committed(copy, "readers") == (3, "at 3")


def _size(copy: Path) -> int:
    return sum(path.stat().st_size for path in copy.glob("__consumer_offsets-*/*.log"))
