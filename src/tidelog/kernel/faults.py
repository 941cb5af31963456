"""The faults inside a batch, the faults of opening it for a clean, and their numbers, sentences and errors."""

from __future__ import annotations

import enum

from tidelog.model.errors import CorruptRecordError, InvalidRecordError


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
    Fault.RECORD_LENGTH: "a record's length is not a varint, too small, or runs past the end of the batch",
    Fault.TIMESTAMP: "a record's timestamp delta is not a varint",
    Fault.OFFSET: "a record's offset delta is not a varint or lies outside its batch",
    Fault.KEY: "a record's key is truncated or runs past the end of the record",
    Fault.VALUE: "a record's value is truncated or runs past the end of the record",
    Fault.HEADER_COUNT: "a record's header count is not a varint, negative, or more than the record has bytes for",
    Fault.HEADER_KEY: "a record header's key is null, truncated, or runs past the end of the record",
    Fault.HEADER_VALUE: "a record header's value is truncated or runs past the end of the record",
    Fault.RECORD_END: "a record's fields end before its length says",
    Fault.BATCH_END: "bytes are left after the last record of the batch",
    Fault.SIZE: "the length field is below the smallest batch of its format",
    Fault.MAGIC: "the format version is not 0, 1 or 2",
}


class OpenFault(enum.IntEnum):
    """The numbers of kernel/_open_batch.pxd, which differ from all of ``Fault``'s."""

    NO_MEMORY = 100
    NOT_IN_BUFFER = 101
    NOT_OPENED = 102
    NO_OPENED_BATCH = 103
    EMPTY_LEGACY = 104
    TOO_LARGE = 105


def open_error(fault: int, *, position: int, offset: int, record: int, count: int) -> Exception:
    """Return the error for a fault; ``record`` is the faulty one of ``count`` records, -1 for none."""
    batch = f"the batch at position {position}"
    match fault:
        case OpenFault.NO_MEMORY:
            return MemoryError()
        case OpenFault.NOT_IN_BUFFER:
            return ValueError(f"{batch} does not lie in this buffer")
        case OpenFault.NOT_OPENED:
            return ValueError(f"{batch} is compressed or legacy, and no opened batch was passed")
        case OpenFault.NO_OPENED_BATCH:
            return ValueError(f"the opened batch for {batch} is not a v2 batch")
        case OpenFault.TOO_LARGE:
            return OverflowError(f"{batch} would become larger than 2 GiB")
        case OpenFault.EMPTY_LEGACY:
            message = "a batch of format v0 or v1 cannot be kept without records"
            return InvalidRecordError(message, position=position, offset=offset)
    message = Fault(fault).sentence
    if Fault(fault).is_of_a_record:
        message = f"{message}: record {record} of {count}"
    return CorruptRecordError(message, position=position, offset=offset)
