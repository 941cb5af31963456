"""The transaction APIs over a socket, in every version: responses and error messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.harness import BrokerHome, WireClient, running_broker
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.record.build import build_batch
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch
from tidelog.record.rows import columns_from_lists
from tidelog.server.metadata.requests import NewTopic

TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerHome]:
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        make_topics(running)
        yield running


def make_topics(home: BrokerHome) -> None:
    state = NewTopic(name=TRANSACTION_STATE_TOPIC, partitions=2, replication_factor=1)
    topics = [state, *(NewTopic(name=name, partitions=1, replication_factor=1) for name in ("events", "audit"))]
    made = home.run(lambda: home.broker.controller.create_topics(topics))
    assert not any(topic.error for topic in made), made


def begin(client: WireClient, name: str, version: int | None = None, **named: int) -> Struct:
    """Repeat InitProducerId until the previous transaction is aborted."""
    while True:
        answer = client.call(
            ApiKey.INIT_PRODUCER_ID, version, transactional_id=name, transaction_timeout=TIMEOUT_MS, **named
        )
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            return answer


def initialized(client: WireClient, name: str) -> ProducerIdAndEpoch:
    answer = begin(client, name)
    assert answer.error_code == ErrorCode.NONE
    return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)


def topics(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [0]} for name in names]


def add(client: WireClient, name: str, producer: ProducerIdAndEpoch, *of: str, version: int = 3) -> dict[str, int]:
    """Return error codes by topic."""
    answer = client.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics(*of),
    )
    return {
        topic.name: result.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    }


def end(client: WireClient, name: str, producer: ProducerIdAndEpoch, committed: bool, version: int = 5) -> Struct:
    return client.call(
        ApiKey.END_TXN,
        version,
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=committed,
    )


def described(client: WireClient, name: str) -> Struct:
    (state,) = client.call(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[name]).transaction_states
    assert isinstance(state, Struct)
    return state


# --- producer ids ---


@pytest.mark.parametrize("version", range(6))
def test_idempotent_producers_get_an_id_each(client: WireClient, version: int) -> None:
    answers = [
        client.call(ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, transaction_timeout=0) for _ in range(2)
    ]
    assert [(answer.error_code, answer.producer_epoch) for answer in answers] == [(0, 0), (0, 0)]
    assert answers[0].producer_id + 1 == answers[1].producer_id


@pytest.mark.parametrize("version", range(6))
def test_a_producer_that_comes_back_gets_the_next_epoch(client: WireClient, version: int) -> None:
    name = f"back-{version}"
    first, second = (begin(client, name, version) for _ in range(2))
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert (second.error_code, second.producer_id, second.producer_epoch) == (0, first.producer_id, 1)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_producer_that_was_fenced_off_hears_it_in_its_own_words(client: WireClient, version: int) -> None:
    name = f"fenced-{version}"
    first = begin(client, name, version)
    begin(client, name, version)
    again = begin(client, name, version, producer_id=first.producer_id, producer_epoch=7)
    expected = ErrorCode.INVALID_PRODUCER_EPOCH if version < 4 else ErrorCode.PRODUCER_FENCED
    assert (again.error_code, again.producer_id, again.producer_epoch) == (expected, -1, -1)


def test_an_id_without_an_epoch_is_no_producer(client: WireClient) -> None:
    assert begin(client, "half", producer_id=5).error_code == ErrorCode.INVALID_REQUEST
    assert begin(client, "").error_code == ErrorCode.INVALID_REQUEST


# --- a transaction ---


@pytest.mark.parametrize("version", range(6))
def test_a_commit(client: WireClient, version: int) -> None:
    name = f"commit-{version}"
    producer = initialized(client, name)
    assert add(client, name, producer, "events", "audit", version=min(version, 3)) == {"events": 0, "audit": 0}
    state = described(client, name)
    assert (state.transaction_state, state.transaction_timeout) == ("Ongoing", TIMEOUT_MS)
    assert [topic.topic for topic in state.topics] == ["audit", "events"]
    answer = end(client, name, producer, True, version)
    assert answer.error_code == ErrorCode.NONE
    following = (producer.producer_id, producer.producer_epoch + 1) if version >= 5 else (-1, -1)
    assert (answer.producer_id, answer.producer_epoch) == following
    assert described(client, name).transaction_state in ("PrepareCommit", "CompleteCommit")


@pytest.mark.parametrize("version", range(6))
def test_nobody_ends_the_transaction_of_another(client: WireClient, version: int) -> None:
    name = f"another-{version}"
    producer = initialized(client, name)
    older = ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch - 1)
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    assert end(client, name, older, True, version).error_code == fenced
    assert add(client, name, older, "events", version=min(version, 3)) == {"events": fenced}
    stranger = ProducerIdAndEpoch(999, 0)
    assert end(client, name, stranger, True, version).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_partition_that_does_not_exist_fails_the_others_too(client: WireClient) -> None:
    producer = initialized(client, "unknown")
    assert add(client, "unknown", producer, "events", "nothing") == {
        "events": ErrorCode.OPERATION_NOT_ATTEMPTED,
        "nothing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert described(client, "unknown").transaction_state == "Empty"


def test_a_broker_adds_and_asks_for_many_transactions_at_once(client: WireClient) -> None:
    producers = {name: initialized(client, name) for name in ("batch-a", "batch-b", "batch-c")}
    wishes = [
        {
            "transactional_id": name,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "verify_only": name == "batch-b",
            "topics": topics("nothing" if name == "batch-c" else "events"),
        }
        for name, producer in producers.items()
    ]
    answer = client.call(ApiKey.ADD_PARTITIONS_TO_TXN, 5, transactions=wishes)
    assert answer.error_code == ErrorCode.NONE
    assert {
        result.transactional_id: result.topic_results[0].results_by_partition[0].partition_error_code
        for result in answer.results_by_transaction
    } == {
        "batch-a": ErrorCode.NONE,
        "batch-b": ErrorCode.TRANSACTION_ABORTABLE,
        "batch-c": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert described(client, "batch-a").transaction_state == "Ongoing"


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_a_group_join_a_transaction(client: WireClient, version: int) -> None:
    name = f"offsets-{version}"
    producer = initialized(client, name)

    def ask(epoch: int) -> int:
        answer = client.call(
            ApiKey.ADD_OFFSETS_TO_TXN,
            version,
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            group_id="readers",
        )
        return int(answer.error_code)

    assert ask(producer.producer_epoch) == ErrorCode.NONE
    assert [topic.topic for topic in described(client, name).topics] == [GROUP_METADATA_TOPIC]
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    assert ask(producer.producer_epoch + 1) == fenced


# --- markers of an operator ---


def test_an_operator_ends_a_transaction_in_a_partition(client: WireClient) -> None:
    marker = {
        "producer_id": 12345,
        "producer_epoch": 3,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": "events", "partition_indexes": [0, 9]}, {"name": "nothing", "partition_indexes": [0]}],
    }
    fenced = marker | {"producer_epoch": 2, "topics": [{"name": "audit", "partition_indexes": [0]}]}
    answer = client.call(ApiKey.WRITE_TXN_MARKERS, markers=[marker, fenced])
    (result,) = answer.markers
    assert result.producer_id == 12345
    assert {
        (topic.name, partition.partition_index): partition.error_code
        for topic in result.topics
        for partition in topic.partitions
    } == {
        ("audit", 0): ErrorCode.NONE,
        ("events", 0): ErrorCode.NONE,
        ("events", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert not client.call(ApiKey.WRITE_TXN_MARKERS, markers=[]).markers


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_says_under_which_transaction_version_it_is_written(client: WireClient, version: int) -> None:
    """The API has the field since version 2 (KIP-1228). A marker of transaction.version 2 has a higher epoch."""
    name = f"marked-{version}"
    producer = initialized(client, name)
    add(client, name, producer, "events")
    records = build_batch(
        columns_from_lists([b"v"]),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    produced = client.call(
        ApiKey.PRODUCE,
        11,
        transactional_id=name,
        acks=-1,
        topic_data=[{"name": "events", "partition_data": [{"index": 0, "records": records}]}],
    )
    assert produced.responses[0].partition_responses[0].error_code == 0, produced

    def mark(epoch: int) -> int:
        marker = {
            "producer_id": producer.producer_id,
            "producer_epoch": epoch,
            "transaction_result": False,
            "coordinator_epoch": 0,
            "topics": [{"name": "events", "partition_indexes": [0]}],
            "transaction_version": 2,
        }
        (result,) = client.call(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker]).markers
        return int(result.topics[0].partitions[0].error_code)

    late = ErrorCode.NONE if version == 1 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert mark(producer.producer_epoch) == late
    assert mark(producer.producer_epoch + 1) == ErrorCode.NONE


# --- describing and listing ---


def test_what_is_told_of_a_name_that_nobody_uses(client: WireClient) -> None:
    state = described(client, "nobody")
    assert (state.error_code, state.transactional_id) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "nobody")


@pytest.mark.parametrize("version", range(3))
def test_lists(client: WireClient, version: int) -> None:
    producer = initialized(client, f"listed-{version}")
    answer = client.call(
        ApiKey.LIST_TRANSACTIONS, version, producer_id_filters=[producer.producer_id], state_filters=["Empty", "Odd"]
    )
    assert answer.error_code == ErrorCode.NONE
    assert answer.unknown_state_filters == ("Odd",)
    (listed,) = answer.transaction_states
    assert (listed.transactional_id, listed.transaction_state) == (f"listed-{version}", "Empty")


def test_lists_by_pattern(client: WireClient) -> None:
    initialized(client, "pattern-1")
    listed = client.call(ApiKey.LIST_TRANSACTIONS, transactional_id_pattern="pattern-[0-9]").transaction_states
    assert [state.transactional_id for state in listed] == ["pattern-1"]
    bad = client.call(ApiKey.LIST_TRANSACTIONS, transactional_id_pattern="pattern-(")
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


# --- restarts ---


def test_transactions_go_on_after_a_restart(tmp_path: Path) -> None:
    with running_broker(tmp_path) as home:
        make_topics(home)
        with home.client() as client:
            producer = initialized(client, "orders")
            add(client, "orders", producer, "events")
        home.restart()
        with home.client() as client:
            while (state := described(client, "orders")).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                pass
            assert state.transaction_state == "Ongoing"
            assert end(client, "orders", producer, True).error_code == ErrorCode.NONE
            other = client.call(ApiKey.INIT_PRODUCER_ID, transactional_id=None, transaction_timeout=0)
            assert other.producer_id >= producer.producer_id + 1000, "a new block"


def test_every_version_that_is_advertised_is_tested() -> None:
    assert VERSIONS[ApiKey.INIT_PRODUCER_ID].latest == VERSIONS[ApiKey.END_TXN].latest == 5
    assert VERSIONS[ApiKey.ADD_PARTITIONS_TO_TXN].latest == 5
    assert VERSIONS[ApiKey.LIST_TRANSACTIONS].latest == 2
