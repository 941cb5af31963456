"""Produce validation: every rule for appended batches, and the fields patched in a valid batch."""

from typing import Any

import pytest

from kernel.batch_bytes import batch, record
from kernel.twins import Twin, both, validation_value
from tidelog.kernel import Fault, Problem, scan_batches
from tidelog.kernel._validate import Validation

NOW = 1_000_000
GOOD = batch(
    [record(0), record(1, timestamp_delta=7), record(2, None, None, [(b"h", None)], timestamp_delta=7)],
    max_timestamp=1007,
)


def take(twin: Twin, data: bytes, next_offset: int = 100, **rules: Any) -> tuple[Validation, bytes]:
    buffer = bytearray(data)
    return twin.validate_batches(buffer, twin.ProduceRules(**rules), next_offset, 5, NOW), bytes(buffer)


@both
def test_a_good_batch_gets_offset_and_epoch(twin: Twin) -> None:
    found, patched = take(twin, GOOD)
    assert found
    assert validation_value(found) == {
        "first_offset": 100,
        "last_offset": 102,
        "record_count": 3,
        "batch_count": 1,
        "size": len(GOOD),
        "max_timestamp": 1007,
        "offset_of_max_timestamp": 101,
        "last_offset_of_max_batch": 102,
        "needs_decompression": False,
        "problem": Problem.NONE,
        "fault": Fault.NONE,
        "record_index": -1,
    }
    row = scan_batches(patched).row(0)
    assert (row.base_offset, row.leader_epoch, row.crc_ok) == (100, 5, True)
    assert patched[16:] == GOOD[16:]


@both
def test_a_wrong_max_timestamp_is_corrected(twin: Twin) -> None:
    """Kafka does the same: the records decide, and the checksum is computed again."""
    found, patched = take(twin, batch([record(0), record(1)], max_timestamp=77))
    row = scan_batches(patched).row(0)
    assert found.max_timestamp == row.max_timestamp == 1001
    assert row.crc_ok


@both
def test_log_append_time(twin: Twin) -> None:
    found, patched = take(twin, GOOD, log_append_time=True)
    row = scan_batches(patched).row(0)
    assert (row.attributes, row.max_timestamp, row.base_timestamp, row.crc_ok) == (8, NOW, 1000, True)
    assert (found.max_timestamp, found.offset_of_max_timestamp, found.last_offset_of_max_batch) == (NOW, 100, 102)


@both
def test_several_batches_and_a_cut_one(twin: Twin) -> None:
    second = batch([record(0, timestamp_delta=-900)], base_timestamp=1000, max_timestamp=100)
    found, patched = take(twin, GOOD + second + GOOD + GOOD[:-1])
    assert (found.problem, found.batch_count, found.record_count) == (Problem.NONE, 3, 7)
    assert found.size == 2 * len(GOOD) + len(second)
    assert found.last_offset_of_max_batch == 102
    table = scan_batches(patched)
    assert table.base_offset.tolist() == [100, 103, 104]
    assert table.crc_ok.all()


@both
def test_nothing(twin: Twin) -> None:
    found, _ = take(twin, b"")
    assert found
    assert (found.batch_count, found.last_offset, found.max_timestamp) == (0, 99, -1)


@both
def test_records_without_timestamps(twin: Twin) -> None:
    found, _ = take(twin, batch([record(0)], base_timestamp=-1, max_timestamp=-1), before_max_ms=5)
    assert found
    assert (found.max_timestamp, found.offset_of_max_timestamp, found.last_offset_of_max_batch) == (-1, -1, -1)


PROBLEMS = [
    (Problem.CORRUPT, {"crc": 5}, {}),
    (Problem.CORRUPT, {"length": 13}, {}),
    (Problem.CORRUPT, {"length": 48}, {}),
    (Problem.CORRUPT, {"magic": 3}, {}),
    (Problem.CORRUPT, {"magic": -1}, {}),
    (Problem.OLD_FORMAT, {"magic": 1}, {}),
    (Problem.TOO_LARGE, {}, {"max_batch_bytes": 60}),
    (Problem.BASE_OFFSET, {"base_offset": 3}, {}),
    (Problem.OFFSET_RANGE, {"record_count": 0}, {}),
    (Problem.OFFSET_RANGE, {"record_count": -3}, {}),
    (Problem.OFFSET_RANGE, {"record_count": 2**31 - 1}, {}),
    (Problem.OFFSET_RANGE, {"last_offset_delta": 4}, {}),
    (Problem.OFFSET_RANGE, {"last_offset_delta": -1}, {}),
    (Problem.OFFSET_RANGE, {"record_count": -(2**31), "last_offset_delta": 2**31 - 1}, {}),
    (Problem.CONTROL, {"attributes": 0x20}, {}),
    (Problem.SEQUENCE, {"producer_id": 7}, {}),
    (Problem.TIMESTAMP_TYPE, {"attributes": 8}, {"log_append_time": True}),
    (Problem.TIMESTAMP_TYPE, {"attributes": 8, "max_timestamp": -1}, {}),
    (Problem.TIMESTAMP, {}, {"before_max_ms": NOW - 1001}),
    (Problem.TIMESTAMP, {"base_timestamp": NOW + 50}, {"after_max_ms": 49}),
]


@both
@pytest.mark.parametrize(("problem", "fields", "rules"), PROBLEMS)
def test_problems(twin: Twin, problem: Problem, fields: dict[str, int], rules: dict[str, Any]) -> None:
    data = GOOD + batch([record(0), record(1)], **fields)
    found, _ = take(twin, data, **rules)
    first_is_bad = "max_batch_bytes" in rules or "before_max_ms" in rules
    assert not found
    assert found.problem is problem
    assert found.batch_count == (0 if first_is_bad else 1)
    assert found.size == (0 if first_is_bad else len(GOOD))
    assert (found.fault is not Fault.NONE) == (problem is Problem.CORRUPT)


@both
def test_what_only_clients_may_not(twin: Twin) -> None:
    data = batch([record(0)], base_offset=9, attributes=0x20, producer_id=7)
    assert take(twin, data)[0].problem is Problem.BASE_OFFSET
    assert take(twin, data, from_client=False)[0]


@both
def test_one_batch_only(twin: Twin) -> None:
    assert take(twin, GOOD + GOOD, single_batch=True)[0].problem is Problem.MANY_BATCHES
    assert take(twin, GOOD, single_batch=True)[0]


@both
@pytest.mark.parametrize(
    ("records", "rules", "problem", "index"),
    [
        ([record(0), record(0)], {}, Problem.RECORD_OFFSETS, 1),
        ([record(1), record(0)], {}, Problem.RECORD_OFFSETS, 0),
        ([record(0), record(1, None)], {"require_keys": True}, Problem.NO_KEY, 1),
        ([record(0), record(1, timestamp_delta=-500)], {"before_max_ms": NOW - 600}, Problem.TIMESTAMP, 1),
        ([record(0), record(1, timestamp_delta=2 * NOW)], {"after_max_ms": 3600}, Problem.TIMESTAMP, 1),
        ([record(0), record(1, extra=b"!")], {}, Problem.CORRUPT, 1),
        ([record(0), record(1, length=10**6)], {}, Problem.CORRUPT, 1),
        ([record(0), record(1) + b"\0"], {}, Problem.CORRUPT, -1),
    ],
)
def test_records_that_a_log_does_not_take(
    twin: Twin, records: list[bytes], rules: dict[str, Any], problem: Problem, index: int
) -> None:
    found, _ = take(twin, batch(records), **rules)
    assert (found.problem, found.record_index) == (problem, index)


@both
def test_an_empty_key_is_a_key(twin: Twin) -> None:
    assert take(twin, batch([record(0, b"")]), require_keys=True)[0]


@both
def test_timestamps_at_the_limits(twin: Twin) -> None:
    data = batch([record(0, timestamp_delta=-10), record(1, timestamp_delta=10)], base_timestamp=NOW)
    assert take(twin, data, before_max_ms=10, after_max_ms=10)[0]
    assert take(twin, data, before_max_ms=9, after_max_ms=10)[0].record_index == 0
    assert take(twin, data, before_max_ms=10, after_max_ms=9)[0].record_index == 1


@both
def test_a_timestamp_so_far_back_that_the_distance_wraps(twin: Twin) -> None:
    """The distance becomes negative, as in Java: the limit ahead refuses a timestamp that the limit behind accepts."""
    wild = batch([record(0, timestamp_delta=-(2**62))], base_timestamp=-(2**62))
    assert take(twin, wild, before_max_ms=10)[0]
    assert take(twin, wild, after_max_ms=10)[0].problem is Problem.TIMESTAMP


@both
def test_a_clients_log_append_time_on_a_topic_of_create_time(twin: Twin) -> None:
    """Kafka validates the batch by its max timestamp, then clears the bit."""
    found, patched = take(twin, batch([record(0), record(1)], attributes=8, max_timestamp=500))
    row = scan_batches(patched).row(0)
    assert (found.max_timestamp, row.attributes, row.max_timestamp, row.crc_ok) == (500, 0, 500, True)


@both
def test_compressed_batches_are_left_closed(twin: Twin) -> None:
    data = batch(b"whatever", attributes=1, record_count=5, last_offset_delta=4, max_timestamp=900)
    found, patched = take(twin, data)
    assert found
    assert found.needs_decompression
    assert (found.record_count, found.max_timestamp, found.offset_of_max_timestamp) == (5, 900, 104)
    assert patched[16:] == data[16:]
    appended, patched = take(twin, data, log_append_time=True)
    row = scan_batches(patched).row(0)
    assert (appended.max_timestamp, row.max_timestamp, row.attributes, row.crc_ok) == (NOW, NOW, 9, True)


@both
def test_offsets_that_would_pass_63_bits(twin: Twin) -> None:
    data = batch(b"", attributes=1, record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    assert take(twin, data, 2**63 - 2**31)[0]
    assert take(twin, data, 2**63 - 2**31 + 1)[0].problem is Problem.OFFSET_RANGE
    with pytest.raises(ValueError, match="negative"):
        take(twin, GOOD, -1)


@both
def test_a_read_only_buffer(twin: Twin) -> None:
    with pytest.raises(BufferError):
        twin.validate_batches(GOOD, twin.ProduceRules(), 0, 0, NOW)


HEADER = {"base_offset": 100, "base_timestamp": 1000, "max_timestamp": 1007, "attributes": 1, "record_count": 3}


@both
def test_decompressed_records(twin: Twin) -> None:
    found = twin.validate_records(GOOD[61:], twin.ProduceRules(), NOW, **HEADER)
    assert (found.problem, found.last_offset, found.max_timestamp) == (Problem.NONE, 102, 1007)
    assert (found.offset_of_max_timestamp, found.last_offset_of_max_batch) == (101, 102)


@both
@pytest.mark.parametrize(
    ("fields", "rules", "problem"),
    [
        ({}, {"require_keys": True}, Problem.NO_KEY),
        ({}, {"before_max_ms": 5}, Problem.TIMESTAMP),
        ({"record_count": 2}, {}, Problem.CORRUPT),
        ({"record_count": 4}, {}, Problem.CORRUPT),
        ({"record_count": 0}, {}, Problem.CORRUPT),
        ({"record_count": -1}, {}, Problem.CORRUPT),
        ({"record_count": 2**31 - 1}, {}, Problem.CORRUPT),
    ],
)
def test_decompressed_records_with_a_problem(
    twin: Twin, fields: dict[str, int], rules: dict[str, Any], problem: Problem
) -> None:
    found = twin.validate_records(GOOD[61:], twin.ProduceRules(**rules), NOW, **HEADER | fields)
    assert found.problem is problem
    assert found.record_count == 0


@both
def test_set_max_timestamp(twin: Twin) -> None:
    buffer = bytearray(GOOD)
    twin.set_max_timestamp(buffer, 55)
    row = scan_batches(buffer).row(0)
    assert (row.max_timestamp, row.attributes, row.crc_ok) == (55, 0, True)
    twin.set_max_timestamp(buffer, 66, log_append=True)
    row = scan_batches(buffer).row(0)
    assert (row.max_timestamp, row.attributes, row.crc_ok) == (66, 8, True)
    for wrong in (b"", GOOD[:60], bytes(100)):
        with pytest.raises(ValueError, match="does not hold a v2 batch"):
            twin.set_max_timestamp(bytearray(wrong), 1)


def test_every_problem_has_a_sentence_and_a_code() -> None:
    assert {problem.error_code for problem in Problem} == {0, 2, 10, 32, 87}
    assert all(problem.sentence for problem in Problem)
    assert all(fault.sentence for fault in Fault)


@both
def test_undefined_attribute_bits_go_where_the_timestamps_change(twin: Twin) -> None:
    data = batch([record(0)], attributes=0x0180)
    _, kept = take(twin, data)
    assert scan_batches(kept).row(0).attributes == 0x0180
    _, cleared = take(twin, data, log_append_time=True)
    assert (scan_batches(cleared).row(0).attributes, scan_batches(cleared).row(0).crc_ok) == (8, True)
