"""A broker restarts while many administrative requests are open: each change exists completely or not at all.

====================  ================================================
the client received   state after the broker's restart
====================  ================================================
success               the change exists
failure               the change exists completely, or not at all
====================  ================================================

A topic is complete if each of its partitions has a leader and accepts a record. If one request alters several settings,
either all of them changed or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from server.lasting_server import Lasting, LastingServer
from tidelog import open_directory
from tidelog.testing.broker.loop_thread import PATIENCE_S

OF_EACH_KIND = 6
BEFORE, AFTER = (
    {"retention.ms": "1000", "max.message.bytes": "2000"},
    {"retention.ms": "3000", "max.message.bytes": "4000"},
)


class State(NamedTuple):
    """A topic's number of partitions, and its values of the settings in ``BEFORE``."""

    partitions: int
    settings: dict[str, str]


class Change(NamedTuple):
    """A change of one topic from one state to another. ``None`` means that the topic does not exist."""

    topic: str
    before: State | None
    after: State | None
    ask: Callable[[AdminClient, str], dict[Any, Future[Any]]]


def create(admin: AdminClient, topic: str) -> dict[Any, Future[Any]]:
    return admin.create_topics([NewTopic(topic, 3, config=BEFORE)])


def grow(admin: AdminClient, topic: str) -> dict[Any, Future[Any]]:
    return admin.create_partitions([NewPartitions(topic, 6)])


def alter(admin: AdminClient, topic: str) -> dict[Any, Future[Any]]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    for key, value in AFTER.items():
        resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET))
    return admin.incremental_alter_configs([resource])


def delete(admin: AdminClient, topic: str) -> dict[Any, Future[Any]]:
    return admin.delete_topics([topic])


KINDS = (
    (create, None, State(3, BEFORE)),
    (grow, State(3, BEFORE), State(6, BEFORE)),
    (alter, State(3, BEFORE), State(3, AFTER)),
    (delete, State(3, BEFORE), None),
)


def changes(number: int) -> list[Change]:
    """Return the changes of one round, which alternate between the kinds."""
    return [
        Change(f"{ask.__name__}-{number}-{index}", before, after, ask)
        for index in range(OF_EACH_KIND)
        for ask, before, after in KINDS
    ]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LastingServer]:
    with LastingServer(tmp_path) as running:
        yield running


@pytest.mark.parametrize("rounds", [1, pytest.param(15, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_a_change_is_there_or_nothing_of_it(server: Lasting, rounds: int) -> None:
    bootstrap = server.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 100, "log_level": 0})
    for number, end in enumerate((server.kill, server.stop, server.kill) * rounds):
        asked = changes(number)
        make(admin, [change.topic for change in asked if change.before is not None])
        server.settle()
        answers = [next(iter(change.ask(admin, change.topic).values())) for change in asked]
        wait_for(answers, 1 + number * 7 % len(answers))
        end()
        server.start()
        successes = [succeeded(answer) for answer in answers]
        server.settle()
        states = topic_states(admin, server)
        for change, is_success in zip(asked, successes, strict=True):
            allowed = [change.after] if is_success else [change.before, change.after]
            assert states.get(change.topic) in allowed, change.topic
    server.stop()
    for directory in server.directories:
        with open_directory(directory, read_only=True) as logs:
            found = {topic: len(logs.partitions(topic)) for topic in logs.topics()}
        assert found == {topic: state.partitions for topic, state in states.items()} | {"__cluster_metadata": 1}


def make(admin: AdminClient, topics: list[str]) -> None:
    for future in admin.create_topics([NewTopic(topic, 3, config=BEFORE) for topic in topics]).values():
        future.result(PATIENCE_S)


def wait_for(answers: list[Future[Any]], count: int) -> None:
    """Wait until ``count`` of the responses have arrived."""
    open_answers = set(answers)
    while len(answers) - len(open_answers) < count:
        done, open_answers = wait(open_answers, PATIENCE_S, FIRST_COMPLETED)
        assert done, "the broker does not answer"


def succeeded(answer: Future[Any]) -> bool:
    """Wait for the response and return True if it is a success."""
    try:
        answer.result(2 * PATIENCE_S)  # the client times out after 60 s
    except KafkaException:
        return False
    return True


def topic_states(admin: AdminClient, server: Lasting) -> dict[str, State]:
    """Return the state of every topic, and check that each topic is complete."""
    listed = admin.list_topics(timeout=PATIENCE_S).topics
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in listed]
    states: dict[str, State] = {}
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "acks": "all", "log_level": 0})
    errors: list[KafkaError | None] = []
    for resource, future in (admin.describe_configs(resources) if resources else {}).items():
        described = future.result(PATIENCE_S)
        partitions = listed[resource.name].partitions
        assert sorted(partitions) == list(range(len(partitions)))
        assert {partition.leader for partition in partitions.values()} <= set(server.node_ids)
        for number in partitions:
            producer.produce(resource.name, b"x", partition=number, on_delivery=lambda error, _: errors.append(error))
        states[resource.name] = State(len(partitions), {key: described[key].value for key in BEFORE})
    assert producer.flush(PATIENCE_S) == 0
    assert all(error is None for error in errors)
    return states
