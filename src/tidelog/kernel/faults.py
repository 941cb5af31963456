"""The faults inside a batch, with numbers and sentences, for the compiled and the plain kernels."""

from __future__ import annotations

import enum


class Fault(enum.IntEnum):
    """The first rule that the bytes broke; kernel/_faults.pxd has the same numbers."""

    NONE = 0
    CRC = 1
    HEADER = 2
    RECORD_COUNT = 3
    RECORD_LENGTH = 4
    TIMESTAMP = 5
    OFFSET = 6
    KEY = 7
    VALUE = 8
    HEADER_COUNT = 9
    HEADER_KEY = 10
    HEADER_VALUE = 11
    RECORD_END = 12
    BATCH_END = 13
    SIZE = 14
    MAGIC = 15

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]

    @property
    def is_of_a_record(self) -> bool:
        """True if a single record broke the rule, not the batch as a whole."""
        return Fault.RECORD_LENGTH <= self <= Fault.RECORD_END


_SENTENCES = {
    Fault.NONE: "nothing is wrong",
    Fault.CRC: "the checksum does not match the batch",
    Fault.HEADER: "the batch header's offsets and counts contradict each other",
    Fault.RECORD_COUNT: "the record count is negative or more than the batch has bytes for",
    Fault.RECORD_LENGTH: "a record's length is no varint, too small, or runs past the end of the batch",
    Fault.TIMESTAMP: "a record's timestamp delta is no varint",
    Fault.OFFSET: "a record's offset delta is no varint or lies outside its batch",
    Fault.KEY: "a record's key is truncated or runs past the end of the record",
    Fault.VALUE: "a record's value is truncated or runs past the end of the record",
    Fault.HEADER_COUNT: "a record's header count is no varint, negative, or more than the record has bytes for",
    Fault.HEADER_KEY: "a record header's key is null, truncated, or runs past the end of the record",
    Fault.HEADER_VALUE: "a record header's value is truncated or runs past the end of the record",
    Fault.RECORD_END: "a record's fields end before its length says",
    Fault.BATCH_END: "bytes are left after the last record of the batch",
    Fault.SIZE: "the length field is below the smallest batch of its format",
    Fault.MAGIC: "the format version is none of 0, 1, 2",
}
