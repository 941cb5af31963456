"""Consumer groups of real clients: members join, leave and die; commits; static members; broker restarts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Protocol

import confluent_kafka
import pytest

from server.clients.group_members import MAKERS, TOPIC, ConfluentMember, KafkaPythonMember, Member
from server.groups.group_broker import GroupBroker, group_broker
from server.harness import WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode

PARTITIONS = 4
PATIENCE_S = 120
QUICK = {
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "200",
    "group_min_session_timeout_ms": "500",
}
"""Members notice rebalances immediately. Sessions are long because a busy machine delays heartbeats."""
SHORT_SESSIONS = {"group_consumer_min_session_timeout_ms": "500", "group_consumer_session_timeout_ms": "3000"}
_numbers = count(1)


class Groups(Protocol):
    """The coordinators of groups: a broker, or a cluster."""

    @property
    def bootstrap_servers(self) -> str: ...

    def coordinator(self, group: str, /) -> WireClient:
        """Open a connection to a group's coordinator, which the caller closes."""
        ...

    def restart(self) -> None: ...


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[GroupBroker]:
    with group_broker(tmp_path / "data", **QUICK) as home:
        home.make_topic(TOPIC, PARTITIONS)
        yield home


@pytest.fixture
def groups_with_short_sessions(tmp_path: Path) -> Iterator[GroupBroker]:
    with group_broker(tmp_path / "data", **QUICK, **SHORT_SESSIONS) as home:
        home.make_topic(TOPIC, PARTITIONS)
        yield home


@pytest.fixture
def group() -> str:
    """Return the id of a new group."""
    return f"group-{next(_numbers)}"


def produce(groups: Groups, first: int, count: int) -> set[bytes]:
    """Produce values to all partitions in turn."""
    producer = confluent_kafka.Producer({"bootstrap.servers": groups.bootstrap_servers, "log_level": 0})
    values = [b"%d" % number for number in range(first, first + count)]
    for number, value in enumerate(values):
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return set(values)


def drive(members: list[Member], until: Callable[[], bool]) -> list[bytes]:
    """Poll all members in turn until the condition holds, and return the received values."""
    deadline = time.monotonic() + PATIENCE_S
    values: list[bytes] = []
    while not until():
        assert time.monotonic() < deadline, [member.partitions() for member in members]
        for member in members:
            values += [value for _, value in member.poll()]
    return values


def read(members: list[Member], wanted: set[bytes]) -> list[bytes]:
    """Poll until all of ``wanted`` have arrived."""
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while not wanted <= set(values):
        assert time.monotonic() < deadline, sorted(wanted - set(values))[:5]
        for member in members:
            values += [value for _, value in member.poll()]
    return values


def share(members: list[Member]) -> bool:
    """Return True if the members own all partitions, each partition once, evenly."""
    sizes = [len(member.partitions()) for member in members]
    everything = set().union(*(member.partitions() for member in members))
    return sum(sizes) == PARTITIONS == len(everything) and max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", MAKERS)
def test_members_come_and_go_and_offsets_go_on(groups: Groups, group: str, name: str) -> None:
    make = MAKERS[name]
    first = produce(groups, 0, 40)
    one = make(groups.bootstrap_servers, group)
    assert sorted(read([one], first)) == sorted(first), "each once"
    one.commit()
    two = make(groups.bootstrap_servers, group)
    assert drive([one, two], lambda: share([one, two])) == [], "what was committed does not come again"
    second = produce(groups, 100, 40)
    assert sorted(read([one, two], second)) == sorted(second)
    one.commit()
    two.commit()
    one.close()
    drive([two], lambda: share([two]))
    third = produce(groups, 200, 8)
    assert sorted(read([two], third)) == sorted(third)
    two.close()


def test_one_member_after_the_other_with_kafka_python(groups: Groups, group: str) -> None:
    for number in range(2):
        values = produce(groups, 100 * number, 20)
        member = KafkaPythonMember(groups.bootstrap_servers, group)
        assert sorted(read([member], values)) == sorted(values)
        member.commit()
        member.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_partitions_of_a_member_that_was_killed_are_taken_over(
    groups_with_short_sessions: Groups, group: str, protocol: str
) -> None:
    bootstrap = groups_with_short_sessions.bootstrap_servers
    survivor = ConfluentMember(bootstrap, group, **{"group.protocol": protocol})
    drive([survivor], lambda: share([survivor]))
    script = Path(__file__).with_name("dying_member.py")
    command = [sys.executable, str(script), bootstrap, group, protocol]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as dying:
        drive([survivor], lambda: len(survivor.partitions()) == PARTITIONS // 2)
        dying.kill()
    drive([survivor], lambda: share([survivor]))
    survivor.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_is_back_without_a_rebalance(groups: Groups, group: str, protocol: str) -> None:
    def member(instance_id: str) -> ConfluentMember:
        settings = {"group.protocol": protocol, "group.instance.id": instance_id}
        return ConfluentMember(groups.bootstrap_servers, group, **settings)

    one, two = member("one"), member("two")
    drive([one, two], lambda: share([one, two]))
    before = two.partitions()
    epoch = epoch_of(groups, group, protocol)
    two.close()
    two = member("two")
    drive([one, two], lambda: two.partitions() == before)
    assert epoch_of(groups, group, protocol) == epoch
    one.close()
    two.close()


@pytest.mark.parametrize("name", ["confluent, range", "confluent, consumer protocol"])
def test_members_go_on_after_a_restart_of_the_broker(groups: Groups, group: str, name: str) -> None:
    member = MAKERS[name](groups.bootstrap_servers, group)
    first = produce(groups, 0, 20)
    assert sorted(read([member], first)) == sorted(first)
    member.commit()
    groups.restart()
    second = produce(groups, 100, 20)
    assert sorted(read([member], second)) == sorted(second)
    member.close()


def test_a_group_moves_to_the_new_protocol_member_by_member(groups: Groups, group: str) -> None:
    old = ConfluentMember(groups.bootstrap_servers, group)
    drive([old], lambda: share([old]))
    new = ConfluentMember(groups.bootstrap_servers, group, **{"group.protocol": "consumer"})
    drive([old, new], lambda: share([old, new]))
    assert type_of(groups, group) == "consumer"
    values = produce(groups, 0, 20)
    assert sorted(read([old, new], values)) == sorted(values)
    new.close()
    drive([old], lambda: share([old]))
    assert type_of(groups, group) == "classic"
    old.close()


def test_topics_by_regular_expression(groups: Groups, group: str) -> None:
    member = ConfluentMember(groups.bootstrap_servers, group, **{"group.protocol": "consumer"})
    member.consumer.subscribe(["^t.*"])
    drive([member], lambda: share([member]))
    member.close()


def type_of(groups: Groups, group: str) -> str:
    with groups.coordinator(group) as client:
        (found,) = (one for one in client.call(ApiKey.LIST_GROUPS).groups if one.group_id == group)
        return str(found.group_type)


def epoch_of(groups: Groups, group: str, protocol: str) -> int:
    """Return a group's epoch. No response contains a classic group's, but heartbeats of its members must have it."""
    with groups.coordinator(group) as client:
        if protocol == "consumer":
            (described,) = client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=[group]).groups
            return int(described.group_epoch)
        (described,) = client.call(ApiKey.DESCRIBE_GROUPS, groups=[group]).groups
        member = described.members[0]
        who = {"group_id": group, "member_id": member.member_id, "group_instance_id": member.group_instance_id}
        errors = (client.call(ApiKey.HEARTBEAT, generation_id=one, **who).error_code for one in range(1, 100))
        return 1 + next(one for one, error in enumerate(errors) if error != ErrorCode.ILLEGAL_GENERATION)
