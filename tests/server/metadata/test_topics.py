"""Topics are created, deleted and extended: Kafka's error messages, and the written records."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from server.metadata.images import TOPIC_ID, directory_of, image_of, partition_of, settings, with_topic
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.topic_name import metric_name
from tidelog.server.metadata.controller import topics
from tidelog.server.metadata.controller.brokers import begin_shutdown, cordon_directories
from tidelog.server.metadata.controller.decision import MAX_RECORDS
from tidelog.server.metadata.controller.placement import place_replicas
from tidelog.server.metadata.controller.topics import create_partitions, create_topics, delete_topics
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.requests import NewPartitions, NewTopic, TopicResult
from tidelog.storage.checkpoint import uuid_to_text


def result_of(image: MetadataImage, **topic: Any) -> TopicResult:
    (result,) = create_topics(image, settings(), [NewTopic(**topic)]).result
    return result


def refusal_of(image: MetadataImage, **topic: Any) -> tuple[ErrorCode, str | None]:
    result = result_of(image, **{"name": "new", **topic})
    return result.error, result.message


def shutting_down(image: MetadataImage, broker: int) -> MetadataImage:
    """Put a broker into controlled shutdown, and return the same image."""
    for record in begin_shutdown(image, settings(), broker).records:
        image.apply(record)
    return image


class TestNames:
    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("", "the empty string is not allowed"),
            (".", "'.' is not allowed"),
            ("..", "'..' is not allowed"),
            ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
            ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
            ("ä", "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ],
    )
    def test_that_are_not_legal(self, name: str, reason: str) -> None:
        expected = (ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
        assert refusal_of(image_of(), name=name) == expected

    def test_that_are_taken(self) -> None:
        image = with_topic(image_of(), partition_of((1,)))
        assert refusal_of(image, name="t") == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")

    def test_that_metrics_could_not_tell_apart(self) -> None:
        image = with_topic(image_of(), partition_of((1,)), name="a.b_c")
        assert refusal_of(image, name="a_b.c") == (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'a_b.c' collides with existing topic: a.b_c",
        )
        assert result_of(image, name="a-b.c").error is ErrorCode.NONE

    def test_each_name_is_compared_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The number of comparisons is linear in the existing and the new topics."""
        image = image_of()
        for number in range(100):
            with_topic(image, partition_of((1,)), name=f"a_{number}")
        compared: list[str] = []

        def counted(name: str) -> str:
            compared.append(name)
            return metric_name(name)

        monkeypatch.setattr(topics, "metric_name", counted)
        made = create_topics(image, settings(), [NewTopic(name=f"b_{number}") for number in range(100)]).result
        assert not any(result.error for result in made)
        assert len(compared) == 200

    def test_that_are_asked_for_twice(self) -> None:
        decision = create_topics(image_of(), settings(), [NewTopic(name="new"), NewTopic(name="new")])
        assert [result.message for result in decision.result] == ["Duplicate topic name."] * 2
        assert not decision.records


class TestCounts:
    def test_defaults_are_the_brokers(self) -> None:
        decision = create_topics(
            image_of((1, 2)), settings(num_partitions="3", default_replication_factor="2"), [NewTopic(name="new")]
        )
        assert (decision.result[0].partitions, decision.result[0].replication_factor) == (3, 2)

    @pytest.mark.parametrize("count", [0, -2])
    def test_of_partitions_that_are_not_positive(self, count: int) -> None:
        expected = (ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
        assert refusal_of(image_of(), partitions=count) == expected

    @pytest.mark.parametrize("count", [0, -2])
    def test_of_replicas_that_are_not_positive(self, count: int) -> None:
        expected = "Replication factor must be larger than 0, or -1 to use the default value."
        assert refusal_of(image_of(), replication_factor=count) == (ErrorCode.INVALID_REPLICATION_FACTOR, expected)

    def test_of_more_replicas_than_there_are_brokers(self) -> None:
        expected = (
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because"
            " only 1 broker(s) are registered or some brokers have all their log directories cordoned."
        )
        assert refusal_of(image_of(), replication_factor=2) == (ErrorCode.INVALID_REPLICATION_FACTOR, expected)

    def test_where_no_broker_is_alive(self) -> None:
        expected = (
            "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log"
            " directories cordoned."
        )
        assert refusal_of(image_of(fenced=(1,))) == (ErrorCode.INVALID_REPLICATION_FACTOR, expected)

    def test_that_are_too_large_refuse_the_whole_request(self) -> None:
        topics = [NewTopic(name="a", partitions=9_000), NewTopic(name="b", partitions=1_001)]
        with pytest.raises(ApiError, match="Excessively large number of partitions per request") as refused:
            create_topics(image_of(), settings(), topics)
        assert refused.value.code is ErrorCode.POLICY_VIOLATION

    @pytest.mark.parametrize("partitions", [0, -5, 1])
    def test_are_one_at_least(self, partitions: int) -> None:
        topics = [NewTopic(name=str(number), partitions=partitions) for number in range(MAX_RECORDS + 1)]
        with pytest.raises(ApiError, match="Excessively large number of partitions per request"):
            create_topics(image_of(), settings(), topics)

    def test_of_assignments_that_are_too_many(self) -> None:
        assignments = [(number, [1]) for number in range(MAX_RECORDS + 1)]
        with pytest.raises(ApiError, match="Excessively large number of partitions per request"):
            create_topics(image_of(), settings(), [NewTopic(name="a", assignments=assignments)])

    def test_of_records_that_are_too_many_refuse_what_is_too_much(self) -> None:
        decision = create_topics(
            image_of(), settings(), [NewTopic(name="a", partitions=9_999), NewTopic(name="b", partitions=1)]
        )
        assert [result.error for result in decision.result] == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
        assert len(decision.records) == 10_000


class TestAssignments:
    @pytest.mark.parametrize(
        ("assignments", "reason"),
        [
            ([(0, [1]), (0, [1])], "Found multiple manual partition assignments for partition 0"),
            ([(0, [])], "The manual partition assignment includes an empty replica list."),
            ([(0, [9])], "The manual partition assignment includes broker 9, but no such broker is registered."),
            (
                [(0, [1, 4])],
                "The manual partition assignment includes broker 4, but all its log directories are cordoned.",
            ),
            ([(0, [1, 1])], "The manual partition assignment includes the broker 1 more than once."),
            (
                [(0, [1]), (1, [1, 2])],
                "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent",
            ),
            ([(1, [1])], "partitions should be a consecutive 0-based integer sequence"),
            (
                [(0, [3])],
                "All brokers specified in the manual partition assignment for partition 0 are fenced",
            ),
        ],
    )
    def test_that_cannot_be(self, assignments: list[tuple[int, list[int]]], reason: str) -> None:
        image = image_of((1, 2, 3, 4), fenced=(3,))
        for record in cordon_directories(image, 4, [directory_of(4)]).records:
            image.apply(record)
        code, message = refusal_of(image, assignments=assignments)
        assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert message is not None
        assert message.startswith(reason)

    @pytest.mark.parametrize(
        ("name", "what"), [("partitions", "numPartitions"), ("replication_factor", "replication factor")]
    )
    def test_stand_alone(self, name: str, what: str) -> None:
        code, message = refusal_of(image_of(), assignments=[(0, [1])], **{name: 1})
        assert code is ErrorCode.INVALID_REQUEST
        assert message == f"A manual partition assignment was specified, but {what} was not set to -1."

    def test_are_taken_as_they_are_and_only_the_living_are_in_sync(self) -> None:
        image = image_of((1, 2, 3), fenced=(3,))
        decision = create_topics(image, settings(), [NewTopic(name="new", assignments=[(0, [3, 2, 1])])])
        fields = decision.records[-1].fields
        assert (fields["replicas"], fields["isr"], fields["leader"]) == ([3, 2, 1], [2, 1], 2)
        assert fields["directories"] == [uuid_to_text(directory_of(broker)) for broker in (3, 2, 1)]

    def test_a_broker_that_shuts_down_is_not_in_sync(self) -> None:
        image = shutting_down(image_of((1, 2, 3), fenced=(3,)), 2)
        decision = create_topics(image, settings(), [NewTopic(name="new", assignments=[(0, [1, 2, 3])])])
        fields = decision.records[-1].fields
        assert (fields["replicas"], fields["isr"], fields["leader"]) == ([1, 2, 3], [1], 1)
        with_topic(image, partition_of((1, 2, 3)))
        more = create_partitions(image, settings(), [NewPartitions(topic="t", total=2, assignments=[[2, 1, 3]])])
        fields = more.records[-1].fields
        assert (fields["replicas"], fields["isr"], fields["leader"]) == ([2, 1, 3], [1], 1)


class TestSettings:
    def test_that_are_not_allowed(self) -> None:
        assert refusal_of(image_of(), configs={"retention.ms": "x"})[0] is ErrorCode.INVALID_CONFIG
        assert refusal_of(image_of(), configs={"nonsense": "1"}) == (
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: nonsense",
        )
        assert refusal_of(image_of(), configs={"retention.ms": None, "segment.ms": None}) == (
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms,segment.ms",
        )

    def test_stand_between_topic_and_partitions(self) -> None:
        topic = NewTopic(name="new", partitions=2, configs={"retention.ms": "1"})
        records = create_topics(image_of(), settings(), [topic]).records
        names = [record.name for record in records]
        assert names == ["TopicRecord", "ConfigRecord", "PartitionRecord", "PartitionRecord"]


class TestDeletion:
    def test_by_name_and_by_id(self) -> None:
        image = with_topic(with_topic(image_of(), partition_of((1,))), partition_of((1,)), name="u")
        decision = delete_topics(image, ["t", image.topics["u"].id, "nothing", uuid.UUID(int=5), "t", TOPIC_ID])
        assert [(result.name, result.error) for result in decision.result] == [
            ("t", ErrorCode.NONE),
            ("u", ErrorCode.NONE),
            ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
            ("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        assert len(decision.records) == 2


class TestMorePartitions:
    def answer(self, image: MetadataImage, **request: Any) -> tuple[ErrorCode, str | None]:
        (result,) = create_partitions(image, settings(), [NewPartitions(**{"topic": "t", **request})]).result
        return result.error, result.message

    def test_that_cannot_be(self) -> None:
        image = with_topic(image_of((1, 2)), partition_of((1,)), partition_of((2,)))
        assert self.answer(image, total=2) == (ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s).")
        assert self.answer(image, total=1) == (
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        )
        assert self.answer(image, topic="u", total=1)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert self.answer(image, total=4, assignments=[[1]]) == (
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        )
        assert self.answer(image, total=3, assignments=[[1, 2]])[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert self.answer(image, total=20_000)[0] is ErrorCode.POLICY_VIOLATION

    def test_where_all_brokers_are_fenced_or_shut_down(self) -> None:
        image = with_topic(shutting_down(image_of((1, 2), fenced=(1,)), 2), partition_of((1, 2)))
        assert self.answer(image, total=2) == (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
        code, message = self.answer(image, total=2, assignments=[[1, 2]])
        assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert message is not None
        assert message.startswith("All brokers specified in the manual partition assignment for partition 1 are fenced")

    def test_that_are_asked_for_twice(self) -> None:
        image = with_topic(image_of(), partition_of((1,)))
        decision = create_partitions(image, settings(), [NewPartitions(topic="t", total=2)] * 2)
        assert [result.error for result in decision.result] == [ErrorCode.INVALID_REQUEST] * 2
        assert not decision.records

    def test_that_are_too_many_are_not_placed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        image, placed = image_of(), 0
        for name in "abc":
            with_topic(image, partition_of((1,)), name=name)

        def counted(brokers: Any, partitions: int, *rest: Any) -> Any:
            nonlocal placed
            placed += partitions
            return place_replicas(brokers, partitions, *rest)

        monkeypatch.setattr(topics, "place_replicas", counted)
        requests = [NewPartitions(topic=name, total=MAX_RECORDS + 1) for name in "abc"]
        results = create_partitions(image, settings(), requests).result
        violation = ErrorCode.POLICY_VIOLATION
        assert [result.error for result in results] == [ErrorCode.NONE, violation, violation]
        assert placed == MAX_RECORDS

    def test_are_numbered_on_with_as_many_replicas(self) -> None:
        image = with_topic(image_of((1, 2)), partition_of((1, 2)))
        decision = create_partitions(image, settings(), [NewPartitions(topic="t", total=3)])
        assert [record.fields["partitionId"] for record in decision.records] == [1, 2]
        assert all(sorted(record.fields["replicas"]) == [1, 2] for record in decision.records)
