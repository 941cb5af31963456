"""Records of ``__transaction_state`` are encoded byte for byte as Kafka does, and decoded."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog
from conftest import GoldenFactory
from golden_sets import EVERYTHING, KRAFT_SETS
from server.transactions.transaction_cases import EPOCH, NOW, PARTITIONS, PRODUCER_ID, record
from tidelog.model import CorruptRecordError, TopicPartition, UnsupportedFormatError
from tidelog.record.internal_records.transaction_record import (
    MAX_TIMEOUT_MS,
    NO_PRODUCER,
    STATES_BY_LABEL,
    TransactionRecord,
    key_of,
    record_of,
    transactional_id_of,
    value_of,
)
from tidelog.record.internal_records.transaction_record import TransactionState as State
from tidelog.server.transactions.rules.transaction import PREVIOUS_STATES

WRITTEN = tuple(state for state in State if state not in (State.DEAD, State.PREPARE_EPOCH_FENCE))
INT64 = st.integers(0, 2**63 - 1)
PARTITION = st.builds(TopicPartition, st.sampled_from(["a", "b.c", "é"]), st.integers(0, 2**31 - 1))


def test_names_of_states_are_kafkas() -> None:
    assert list(STATES_BY_LABEL) == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_a_key() -> None:
    assert key_of("orders").hex() == "0000" + "0006" + b"orders".hex()
    assert transactional_id_of(key_of("orders")) == "orders"
    assert transactional_id_of(b"\x00\x63what is this") is None


def test_a_value_of_version_1() -> None:
    """Kafka 4.3 and newer write it so: flexible, previous producer id as tag 0, client's version as tag 2."""
    ongoing = record(State.ONGOING, partitions=frozenset({TopicPartition("t", 1)}), start_ms=2, last_update_ms=3)
    assert value_of(ongoing, 2).hex() == (
        "0001"
         "0000000000000007"  # producer id
         "0005"  # epoch
         "0000ea60"  # timeout
         "01"  # Ongoing
         "02" + "0274" + "02" + "00000001" + "00"  # one topic, one partition
        + "0000000000000003"  # last update
        + "0000000000000002"  # start
        + "02"  # two tags
        + "00" + "08" + "0000000000000007"  # the previous producer id
        + "02" + "02" + "0002"  # the client's version
    )  # fmt: skip


def test_a_value_of_version_0_has_no_room_for_what_came_later() -> None:
    prepared = record(State.PREPARE_COMMIT, partitions=frozenset(), next_producer_id=9, previous_producer_id=8)
    assert value_of(prepared, 0).hex() == (
        "0000" + "0000000000000007" + "0005" + "0000ea60" + "02" + "00000000" + 2 * "0000018bcfe56418"
    )
    read = record_of(value_of(prepared, 0))
    assert (read.client_version, read.next_producer_id, read.previous_producer_id) == (0, -1, PRODUCER_ID)


def test_empty_has_no_list_of_partitions() -> None:
    empty = record_of(value_of(record(State.EMPTY), 2))
    assert empty.partitions == frozenset()
    assert value_of(record(State.EMPTY, start_ms=-1), 0)[17:21] == b"\xff\xff\xff\xff"


def test_partitions_come_in_order() -> None:
    assert record_of(value_of(record(State.ONGOING), 2)).partitions == PARTITIONS
    value = value_of(record(State.ONGOING), 2)
    assert value.index(b"audit") < value.index(b"events")


@pytest.mark.parametrize("golden_set", KRAFT_SETS)
def test_records_of_real_brokers(golden: GoldenFactory, golden_set: str) -> None:
    """Each record is read, written as it was, and follows its predecessor as the table of states allows."""
    histories: dict[str, list[TransactionRecord]] = {}
    for path in sorted(golden(golden_set, "unclean").glob("__transaction_state-*")):
        with tidelog.open_log(path, read_only=True) as log:
            for written in log.records(until="log_end"):
                assert written.key is not None
                assert written.value is not None
                name = transactional_id_of(written.key)
                assert name is not None
                read = record_of(written.value)
                assert key_of(name) == written.key
                assert record_of(value_of(read, 2)) == read
                if golden_set in (EVERYTHING["4.3"], EVERYTHING["4.4"]):  # older versions omit ids
                    assert value_of(read, 2) == written.value
                histories.setdefault(name, []).append(read)
    assert histories
    for before, after in chain.from_iterable(map(pairwise, histories.values())):
        assert before.state in PREVIOUS_STATES[after.state]


@given(
    st.builds(
        TransactionRecord,
        state=st.sampled_from([state for state in WRITTEN if state is not State.EMPTY]),
        producer_id=INT64,
        producer_epoch=st.integers(0, 2**15 - 1),
        timeout_ms=st.integers(1, 2**31 - 1),
        last_update_ms=INT64,
        start_ms=st.integers(-1, 2**63 - 1),
        partitions=st.frozensets(PARTITION, max_size=5),
        client_version=st.sampled_from([0, 2]),
        previous_producer_id=INT64,
        next_producer_id=st.integers(-1, 2**63 - 1),
    )
)
def test_what_is_written_is_read(written: TransactionRecord) -> None:
    """Records do not contain ``last_producer_epoch``, which has its default value here."""
    assert record_of(value_of(written, 2)) == written


@given(st.binary(max_size=60))
def test_hostile_bytes(data: bytes) -> None:
    for read in (record_of, transactional_id_of):
        try:
            read(data)
        except (CorruptRecordError, UnsupportedFormatError):
            pass


def test_a_later_release_is_not_guessed_at() -> None:
    value = bytearray(value_of(record(State.ONGOING), 2))
    value[1] = 2
    with pytest.raises(UnsupportedFormatError, match="version 2"):
        record_of(bytes(value))
    value[1], value[16] = 1, 8
    with pytest.raises(UnsupportedFormatError, match="state 8"):
        record_of(bytes(value))
    unknown = record_of(bytes(value), allow_unknown_state=True).state
    assert (unknown, unknown.label, unknown.is_known) == (8, "unknown (8)", False)
    assert all(state.is_known for state in State)


@pytest.mark.parametrize(("later_ms", "expected"), [(60_000, False), (60_001, True)])
def test_a_transaction_times_out_after_its_timeout(later_ms: int, expected: bool) -> None:
    ongoing = record(State.ONGOING, start_ms=NOW, timeout_ms=60_000)
    assert ongoing.is_timed_out(NOW + later_ms) is expected
    for other in (
        record(State.PREPARE_ABORT, start_ms=NOW, timeout_ms=60_000),
        replace(ongoing, timeout_ms=MAX_TIMEOUT_MS, start_ms=NOW - 2**32),
    ):
        assert not other.is_timed_out(NOW + later_ms)


def test_states_that_are_decided_and_states_at_rest() -> None:
    assert {state for state in State if record(state).is_prepared} == {State.PREPARE_COMMIT, State.PREPARE_ABORT}
    assert {state for state in State if record(state).is_idle} == {
        State.EMPTY,
        State.COMPLETE_COMMIT,
        State.COMPLETE_ABORT,
    }


def test_a_producer_and_none() -> None:
    assert record(State.EMPTY).producer == (PRODUCER_ID, EPOCH)
    assert NO_PRODUCER == (-1, -1)
