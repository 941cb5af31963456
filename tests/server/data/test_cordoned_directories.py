"""Cordoned log directories (KIP-1066): placement of partitions, refused requests, and the metadata about them.

The last test compares the broker with Kafka's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from real_kafka.broker import PATIENCE_S, Broker
from server.configs.test_dynamic_settings import BROKER, alter
from server.data.data_home import DataHome, data_home, eventually
from server.data.test_log_dirs import alter as move
from server.data.test_log_dirs import describe, places
from server.harness import WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.features import new_cluster
from tidelog.server.metadata.kraft.formatting import FormatRequest, format_directories
from tidelog.server.metadata.requests import FeatureUpdate
from tidelog.server.metadata.requests import NewTopic as WantedTopic
from tidelog.storage.fs import LOCAL

KEY = "cordoned.log.dirs"
SCALA_REQUIRE = "requirement failed: "
"""The prefix that Scala's ``require`` adds to a message. tidelog omits it from all messages."""
DONE = "done"
REFUSED = "All brokers are currently fenced, or have all their log directories cordoned."


@pytest.fixture
def two(tmp_path: Path) -> Iterator[DataHome]:
    """Yield a broker with two log directories."""
    with data_home(tmp_path / "data", log_dirs=f"{tmp_path / 'one'},{tmp_path / 'two'}") as made:
        yield made


def cordon(data: DataHome, *paths: Path | str) -> None:
    """Change the setting of the running broker, or remove the change if there is no path."""
    alter(data.client, BROKER, "1", KEY, ",".join(map(str, paths)) or None)


def reported(data: DataHome) -> set[str] | None:
    """Return the names of the directories that the controller regards as cordoned."""

    def names() -> set[str] | None:
        (broker,) = data.home.broker.metadata.image.brokers.values()
        online = {directory.id: directory.path.name for directory in data.home.broker.logs.online}
        return None if broker.cordoned_log_dirs is None else {online[one] for one in broker.cordoned_log_dirs}

    found: set[str] | None = data.home.call(names)
    return found


def homes_of(data: DataHome, topic: str, partitions: int = 4) -> set[str]:
    """Create a topic and return the directories of its partitions."""
    data.create(topic, partitions=partitions)
    names = [f"{topic}-{number}" for number in range(partitions)]
    eventually(lambda: set(names) <= set(places(data)))
    return {places(data)[name] for name in names}


def test_new_partitions_are_put_elsewhere(two: DataHome, tmp_path: Path) -> None:
    assert homes_of(two, "before") == {"one", "two"}
    assert reported(two) == set()
    cordon(two, tmp_path / "one")
    assert reported(two) == {"one"}
    told = describe(two, version=5)
    assert {name: result.is_cordoned for name, result in told.items()} == {"one": True, "two": False}
    assert homes_of(two, "after") == {"two"}
    assert {places(two)[f"before-{number}"] for number in range(4)} == {"one", "two"}
    cordon(two)
    assert reported(two) == set()
    assert homes_of(two, "again", 1) == {"one"}


def test_the_properties_file_says_it_too_and_a_change_goes_before_it(two: DataHome, tmp_path: Path) -> None:
    two.home.restart({KEY: str(tmp_path / "one")})
    with two.home.client() as two.client:
        assert reported(two) == {"one"}
        assert homes_of(two, "file") == {"two"}
        cordon(two, tmp_path / "two")
        assert homes_of(two, "change") == {"one"}
    two.home.restart()
    with two.home.client() as two.client:
        assert reported(two) == {"two"}
        assert homes_of(two, "restarted", 1) == {"one"}


def test_nothing_is_moved_to_a_cordoned_directory(two: DataHome, tmp_path: Path) -> None:
    two.create()
    eventually(lambda: "t-0" in places(two))
    other = "two" if places(two)["t-0"] == "one" else "one"
    cordon(two, tmp_path / other)
    assert move(two, str(tmp_path / other)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cordon(two)
    assert move(two, str(tmp_path / other)) == 0
    eventually(lambda: places(two).get("t-0") == other)


def test_a_broker_of_cordoned_directories_gets_no_partition(two: DataHome) -> None:
    cordon(two, "*")
    assert reported(two) == {"one", "two"}
    for assignments in ((), [(0, [1])]):
        new = WantedTopic(name="t", assignments=assignments)
        (result,) = two.home.run(partial(two.home.broker.controller.create_topics, [new]))
        assert result.message is not None
        assert "all their log directories cordoned" in result.message or "are cordoned" in result.message


def test_the_cluster_learns_of_them_once_its_metadata_has_a_field_for_them(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("one", "two")]
    older = FormatRequest(
        node_id=1,
        directories=directories,
        metadata_directory=directories[0],
        controller=BrokerEndpoint("CONTROLLER", "localhost", 9093),
        first_records=[feature_record(name, level) for name, level in new_cluster(29).items()],
    )
    format_directories(LOCAL, older, SYSTEM_CLOCK)
    paths = {"log_dirs": ",".join(map(str, directories)), "cordoned_log_dirs": str(directories[0])}
    with data_home(tmp_path / "data", **paths) as data:
        assert reported(data) is None
        assert homes_of(data, "t") == {"two"}
        data.home.run(lambda: data.home.broker.controller.update_features([FeatureUpdate("metadata.version", 30)]))
        assert reported(data) == {"one"}


# --- compared with Kafka ---


class _Client:
    """A client of a broker with two log directories. Its methods return the outcomes."""

    def __init__(self, bootstrap: str, directories: Sequence[Path], cordoned: Callable[[], set[str]]) -> None:
        """Take ``cordoned``, which returns the names of the directories that the broker regards as cordoned."""
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        self._directories = directories
        self._cordoned = cordoned

    def tell_all(self) -> Iterator[object]:
        """Yield the directories of new partitions, and the error messages of refused requests."""
        one, two = self._directories
        yield self._create("file")
        yield self._cordon(str(one), {"one"}), self._create("changed")
        yield self._cordon(None, {"two"}), self._create("as before")
        yield self._cordon("*", {"one", "two"})
        numbers = itertools.count()
        eventually(lambda: self._create(f"refused-{next(numbers)}") != DONE)  # until the controller applies the change
        yield self._create("refused"), self._create("named", replica_assignment=[[1]])
        yield self._outcome(self._admin.create_partitions([NewPartitions("file", 6)])["file"])
        yield self._alter("/nowhere"), self._alter(f"{one},*")
        yield self._cordon(str(two), {"two"})

    def _cordon(self, value: str | None, expected: set[str]) -> object:
        """Set the value and wait: Kafka's broker applies the change after its response."""
        outcome = self._alter(value)
        eventually(lambda: self._cordoned() == expected)
        return outcome

    def _alter(self, value: str | None) -> object:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(KEY, value or "", incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        return self._outcome(self._admin.incremental_alter_configs([resource])[resource])

    def _create(self, topic: str, **options: Any) -> object:
        """Return the number of new partitions in each directory, or the error message."""
        topic = topic.replace(" ", "-")
        new = NewTopic(topic, 1 if options else 4, **options)
        outcome = self._outcome(self._admin.create_topics([new])[topic])
        if outcome != DONE:
            return outcome
        eventually(lambda: sum(self._counts(topic)) == new.num_partitions)
        return self._counts(topic)

    def _counts(self, topic: str) -> list[int]:
        return [len(list(directory.glob(f"{topic}-[0-9]"))) for directory in self._directories]

    @staticmethod
    def _outcome(future: Any) -> object:
        try:
            future.result(PATIENCE_S)
        except KafkaException as error:
            return error.args[0].code(), error.args[0].str()
        return DONE


@pytest.mark.kafka
def test_a_client_sees_what_it_sees_of_a_kafka(tmp_path: Path) -> None:
    seen = []
    for side, run in (("kafka", _kafka), ("ours", _ours)):
        directories = [tmp_path / side / name for name in ("one", "two")]
        with run(tmp_path / side, directories) as client:
            told = str(list(client.tell_all()))
            seen.append(told.replace(str(tmp_path / side), "…"))
    assert seen[1] == seen[0].replace(SCALA_REQUIRE, "")
    assert REFUSED in seen[0]


@contextmanager
def _kafka(work: Path, directories: Sequence[Path]) -> Iterator[_Client]:
    first, *more = directories
    properties = {KEY: str(directories[1])}
    with Broker(first, work=work / "work", properties=properties, more_directories=more) as broker:
        broker.format()
        broker.start()
        with WireClient(int(broker.bootstrap.split(":")[1])) as wire:

            def cordoned() -> set[str]:
                results = wire.call(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=None).results
                return {Path(result.log_dir).name for result in results if result.is_cordoned}

            yield _Client(broker.bootstrap, directories, cordoned)


@contextmanager
def _ours(work: Path, directories: Sequence[Path]) -> Iterator[_Client]:
    settings = {"log_dirs": ",".join(map(str, directories)), "cordoned_log_dirs": str(directories[1])}
    with data_home(work / "work", auto_create_topics_enable="false", **settings) as data:
        yield _Client(data.home.bootstrap, directories, lambda: reported(data) or set())
