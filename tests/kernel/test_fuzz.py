"""Hostile bytes: the compiled kernels do exactly the same as the plain ones, and neither crashes.

Every example is a small valid log that is then damaged: truncated, with flipped bits, with an extreme number in a
header's field, or with overwritten varints. Half of the examples get correct checksums again, so that the damage
reaches the record parsers. ``TIDELOG_FUZZ_EXAMPLES`` sets the number of seeded examples.
"""

import os
import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.batch_bytes import V2, batch, message, record
from kernel.twins import (
    COMPILED,
    PLAIN,
    Twin,
    columns_value,
    filtered_value,
    memory_file,
    outcome,
    table_value,
    validation_value,
)
from tidelog.kernel import BatchRetention, CleaningRules, FilteredBatches, crc32c
from tidelog.kernel.table import BatchRow, BatchTable
from tidelog.model import CorruptRecordError

EXAMPLES = int(os.environ.get("TIDELOG_FUZZ_EXAMPLES", "1500"))
INTS = [
    -(2**31),
    -(2**31) + 1,
    -2,
    -1,
    0,
    1,
    6,
    7,
    13,
    14,
    48,
    49,
    50,
    127,
    128,
    2**20,
    2**31 - 62,
    2**31 - 13,
    2**31 - 1,
]
LONGS = [*INTS, -(2**63), -(2**63) + 1, 2**31, 2**32, 2**63 - 2**31, 2**63 - 2, 2**63 - 1]
VARINTS = [b"\xff" * n + end for n in (1, 4, 5, 9, 10, 11) for end in (b"\x00", b"\x01", b"\x7f", b"\x0f")]
FIELDS = {0: "q", 8: "i", 12: "i", 21: "h", 23: "i", 27: "q", 35: "q", 43: "q", 51: "h", 53: "i", 57: "i"}


def some_bytes(chance: random.Random) -> bytes | None:
    return None if chance.random() < 0.2 else chance.randbytes(chance.choice([0, 1, 3, 20, 130]))


def some_record(chance: random.Random, number: int) -> bytes:
    headers = [
        (chance.randbytes(chance.randrange(4)), some_bytes(chance)) for _ in range(chance.choice([0, 0, 0, 1, 3]))
    ]
    delta = chance.choice([0, number, -1, 2**35, -(2**62)])
    return record(number, some_bytes(chance), some_bytes(chance), headers, timestamp_delta=delta)


def some_batch(chance: random.Random, base_offset: int) -> bytes:
    if chance.random() < 0.1:
        return message(base_offset, magic=chance.randrange(2), attributes=chance.randrange(4))
    count = chance.choice([0, 1, 1, 2, 5, 9])
    return batch(
        [some_record(chance, number) for number in range(count)],
        base_offset=base_offset,
        attributes=chance.choice([0, 0, 0, 8, 16, 32, 64, 1, 4]),
        producer_id=chance.choice([-1, 5]),
        base_sequence=chance.choice([-1, 0, 2**31 - 2]),
    )


def damage(chance: random.Random, data: bytearray) -> None:
    """Make one to three changes in the batch."""
    for _ in range(chance.choice([1, 1, 2, 3])):
        if not data:
            return
        at = chance.randrange(len(data))
        kind = chance.randrange(6)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind == 2:
            del data[at : at + chance.choice([1, 2, 30, 10**6])]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.choice([1, 2, 9]))
        elif kind == 4:
            varint = chance.choice(VARINTS)
            data[at : at + chance.choice([1, len(varint)])] = varint
        elif len(data) >= V2.size:
            start, code = chance.choice(list(FIELDS.items()))
            numbers = {"q": LONGS, "i": INTS, "h": [-1, 0, 1, 8, 15, 32767]}[code]
            struct.pack_into(f">{code}", data, start, chance.choice(numbers))


def repair(chance: random.Random, data: bytearray) -> None:
    """Correct length and checksum, so that the other damage is reached."""
    if len(data) >= V2.size and data[16] == 2:
        if chance.random() < 0.8:
            struct.pack_into(">i", data, 8, len(data) - 12)
        struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))


def some_log(chance: random.Random) -> bytes:
    whole = bytearray()
    offset = 0
    for _ in range(chance.choice([1, 1, 2, 4])):
        one = bytearray(some_batch(chance, chance.choice([offset, 0])))
        if chance.random() < 0.7:
            damage(chance, one)
            if chance.random() < 0.6:
                repair(chance, one)
        whole += one
        offset += 10
    return bytes(whole)


def decoded(twin: Twin, data: bytes, chance_seed: int) -> list[object]:
    """Decode the rows and skip bad batches. The result includes every error."""
    chance = random.Random(chance_seed)
    options: dict[str, Any] = {name: chance.random() < 0.8 for name in ("keys", "values", "headers", "sequences")}
    if chance.random() < 0.3:
        options |= {"start_offset": chance.choice([0, 3, 10]), "end_offset": chance.choice([5, 11, 2**63 - 1])}
    if chance.random() < 0.3:
        options |= {"limit_bytes": chance.choice([1, 50, 400]), "max_rows": chance.choice([1, 3, 100])}
    decoder = twin.ColumnDecoder(**options)
    table = twin.scan_batches(data)
    events: list[object] = []
    row = 0
    while row < len(table):
        try:
            stop = decoder.add_batches(data, table, row)
        except (CorruptRecordError, OverflowError) as error:
            events.append((type(error).__name__, str(error), decoder.stopped_at))
            row = decoder.stopped_at + 1
            continue
        events.append((stop, decoder.rows, decoder.full, decoder.data_bytes))
        if decoder.full and decoder.rows:
            events.append(columns_value(decoder.finish()))
            row = stop
        else:
            row = stop + 1
    events.append(columns_value(decoder.finish()))
    return events


def validated(twin: Twin, data: bytes, chance_seed: int) -> tuple[dict[str, Any], bytes | None]:
    chance = random.Random(chance_seed)
    rules = twin.ProduceRules(
        log_append_time=chance.random() < 0.2,
        require_keys=chance.random() < 0.2,
        from_client=chance.random() < 0.5,
        single_batch=chance.random() < 0.1,
        before_max_ms=chance.choice([2**63 - 1, 10**6, 0]),
        after_max_ms=chance.choice([2**63 - 1, 10**6, 0]),
        max_batch_bytes=chance.choice([2**31 - 1, 200]),
    )
    buffer = bytearray(data)
    next_offset = chance.choice([0, 10**6, 2**63 - 5])
    found = twin.validate_batches(buffer, rules, next_offset, 3, 10**6)
    return validation_value(found), bytes(buffer) if found else None


def payload_of(twin: Twin, data: bytes, chance_seed: int) -> tuple[object, dict[str, Any], dict[str, Any]]:
    """Decode the bytes as the records of one batch, with header fields that may be wrong."""
    chance = random.Random(chance_seed)
    header = {
        "base_offset": chance.choice([0, 5, 2**63 - 3, -1]),
        "base_timestamp": chance.choice(LONGS),
        "max_timestamp": chance.choice(LONGS),
        "attributes": chance.choice([0, 8]),
        "record_count": chance.choice([0, 1, 2, 5, 9, *INTS]),
    }
    decoder = twin.ColumnDecoder(sequences=True)
    last = chance.choice([{}, {"last_offset": 20}, {"last_offset": 2**63 - 1}])
    sequence = chance.choice([-1, 0, 2**31 - 1])
    added = outcome(lambda: decoder.add_payload(data, **header, **last, base_sequence=sequence, position=1))
    found = twin.validate_records(data, twin.ProduceRules(), 0, **header)
    return added, columns_value(decoder.finish()), validation_value(found)


def some_opened(chance: random.Random, data: bytes, row: BatchRow) -> bytes | None:
    """Return a row's decompressed bytes, other bytes, or None."""
    whole = data[row.position : row.position + row.size]
    right = whole[V2.size :] if row.magic == 2 else batch([some_record(chance, number) for number in range(3)])
    return chance.choice([right, right, right, whole, chance.randbytes(20), None])


def cleaned(twin: Twin, data: bytes, chance_seed: int) -> list[object]:
    """Put each batch, then all batches, into a map and through the filter."""
    chance = random.Random(chance_seed)
    table = twin.scan_batches(data)
    offset_map = twin.OffsetMap(24 * chance.choice([2, 5, 50]), key=bytes(16))
    rules = CleaningRules(chance.choice([0, 1000, *LONGS]), chance.choice([0, *LONGS]), chance.random() < 0.5)
    opened = chance.choice([None, *[[some_opened(chance, data, row) for row in table.rows()]] * 4])
    count = len(table)
    wanted = np.array([chance.random() < 0.8 for _ in range(count)], np.bool_)
    decisions = BatchRetention(
        retention=np.array([chance.randrange(3) for _ in range(count)], np.uint8),
        discard=np.array([chance.random() < 0.2 for _ in range(count)], np.bool_),
        ends_empty_transaction=np.array([chance.random() < 0.2 for _ in range(count)], np.bool_),
    )
    start_offset = chance.choice([0, 0, 1, 10])

    def put(
        part: BatchTable, chosen: npt.NDArray[np.bool_], given: list[bytes | None] | None
    ) -> tuple[bool, bytes, list[int], list[int]]:
        hashed = twin.hash_batch_keys(offset_map, data, part, wanted=chosen, start_offset=start_offset, opened=given)
        all_in = twin.put_hashed_keys(offset_map, hashed, start_offset=start_offset)
        return all_in, bytes(hashed.entries), hashed.row_ends.tolist(), hashed.last_offsets.tolist()

    def put_and_filter(rows: slice) -> Iterator[object]:
        part = table.take(rows)
        chosen = decisions.take(rows)
        given = None if opened is None else opened[rows]
        yield outcome(lambda: put(part, wanted[rows], given)), len(offset_map), offset_map.latest_offset
        yield outcome(lambda: packed(twin, twin.filter_batches(data, part, chosen, offset_map, rules, opened=given)))

    parts = [slice(row, row + 1) for row in range(count)] + [slice(0, count)]
    return [event for rows in parts for event in put_and_filter(rows)]


def packed(twin: Twin, filtered: FilteredBatches) -> tuple[object, bytes]:
    payloads = [bytes([number]) * 7 for number in range(len(filtered.unpacked))]
    return filtered_value(filtered), bytes(twin.pack_batches(filtered, payloads))


def check(data: bytes, seed: int) -> None:
    tables = [table_value(twin.scan_batches(data, base_position=7)) for twin in (COMPILED, PLAIN)]
    assert tables[0] == tables[1]
    with memory_file(data) as descriptor:
        headers = table_value(COMPILED.scan_headers(descriptor, 0, len(data)))
    assert headers == table_value(PLAIN.scan_batches(data, verify_crc=False))
    assert decoded(COMPILED, data, seed) == decoded(PLAIN, data, seed)
    assert validated(COMPILED, data, seed) == validated(PLAIN, data, seed)
    assert cleaned(COMPILED, data, seed) == cleaned(PLAIN, data, seed)
    assert payload_of(COMPILED, data[V2.size :], seed) == payload_of(PLAIN, data[V2.size :], seed)


@pytest.mark.parametrize("part", range(8))
def test_damaged_logs(part: int) -> None:
    for number in range(part, EXAMPLES, 8):
        chance = random.Random(number)
        data = some_log(chance)
        try:
            check(data, number)
        except AssertionError as error:
            raise AssertionError(f"example {number}: {data.hex()}") from error


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_many_damaged_logs(part: int) -> None:
    for number in range(10**6 + part, 10**6 + 200_000, 40):
        check(some_log(random.Random(number)), number)


@given(st.binary(max_size=200), st.integers(0, 1000))
@settings(max_examples=300)
def test_any_bytes(data: bytes, seed: int) -> None:
    check(data, seed)


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(0, 1000))
@settings(max_examples=300)
def test_any_record_bodies_under_a_right_checksum(bodies: list[bytes], seed: int) -> None:
    count = len(bodies)
    records = b"".join(bytes([2 * len(body)]) + body for body in bodies)
    check(batch(records, record_count=count, last_offset_delta=max(count - 1, 0)), seed)


@given(st.binary(min_size=1, max_size=14), st.integers(0, 60))
def test_any_varint_anywhere_in_a_record(varint: bytes, at: int) -> None:
    one = bytearray(record(0, b"key", b"value", [(b"name", b"part")]))
    one[at % len(one) : at % len(one) + len(varint)] = varint
    check(batch(bytes(one), record_count=1), at)


def test_every_cut_and_every_flip_of_a_small_log() -> None:
    data = batch([record(0, None, b"v"), record(1, b"k", None, [(b"h", b"x")])]) + message(2)
    for cut in range(len(data)):
        check(data[:cut], cut)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        check(bytes(flipped), bit)
        repaired = flipped[: len(data) - len(message(2))]
        repair(random.Random(bit), repaired)
        check(bytes(repaired), bit)
