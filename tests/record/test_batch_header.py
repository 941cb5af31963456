"""The fields of a header as Python code reads them, compared with the bytes of the kernels and of the tests."""

from __future__ import annotations

from kernel.batch_bytes import batch, message, record
from tidelog.kernel import scan_batches, seal_batch
from tidelog.record.batch_header import (
    ATTRIBUTES_AT,
    CURRENT_MAGIC,
    LENGTH,
    LENGTH_AT,
    MAGIC_AT,
    PLACE,
    PREFIX_BYTES,
    PRODUCER,
    SHAPE,
    SMALLEST_LENGTHS,
    V2_HEADER,
    V2_HEADER_BYTES,
)


def sealed() -> bytes:
    return bytes(
        seal_batch(
            b"payload",
            last_offset_delta=11,
            record_count=12,
            base_timestamp=13,
            max_timestamp=14,
            attributes=0x10,
            producer_id=15,
            producer_epoch=16,
            base_sequence=17,
        )
    )


def test_a_kernel_writes_every_field_where_it_is_read() -> None:
    data = sealed()
    crc = int.from_bytes(data[17:21], "big")
    assert V2_HEADER.unpack_from(data) == (0, 49 + 7, -1, 2, crc, 0x10, 11, 13, 14, 15, 16, 17, 12)
    assert data[V2_HEADER_BYTES:] == b"payload"
    assert SHAPE.unpack_from(data) == (len(data) - PREFIX_BYTES, CURRENT_MAGIC)
    assert LENGTH.unpack_from(data) == (len(data) - PREFIX_BYTES,)
    assert PLACE.unpack_from(data) == (0, len(data) - PREFIX_BYTES, -1)
    assert PRODUCER.unpack_from(data) == (0x10, 15, 16, 17)
    assert (data[LENGTH_AT + 3], data[MAGIC_AT], data[ATTRIBUTES_AT + 1]) == (len(data) - PREFIX_BYTES, 2, 0x10)


def test_the_kernels_accept_the_smallest_batches_and_nothing_smaller() -> None:
    smallest = [message(0, magic=0, key=None, value=None), message(0, magic=1, key=None, value=None), batch(b"")]
    for magic, data in enumerate(smallest):
        assert len(data) == PREFIX_BYTES + SMALLEST_LENGTHS[magic]
        assert len(scan_batches(data)) == 1
        shorter = bytearray(data)
        LENGTH.pack_into(shorter, 0, SMALLEST_LENGTHS[magic] - 1)
        assert not len(scan_batches(shorter))


def test_a_header_ends_where_the_records_begin() -> None:
    assert batch([record(0)])[V2_HEADER_BYTES:] == record(0)
