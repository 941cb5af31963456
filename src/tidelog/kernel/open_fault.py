"""The faults of opening or cleaning a batch, in addition to ``Fault``, and the errors for both."""

from __future__ import annotations

import enum

from tidelog.kernel.faults import Fault
from tidelog.model.errors import CorruptRecordError, InvalidRecordError


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
            return ValueError(f"the opened batch for {batch} is no v2 batch")
        case OpenFault.TOO_LARGE:
            return OverflowError(f"{batch} would become larger than 2 GiB")
        case OpenFault.EMPTY_LEGACY:
            message = "a batch of format v0 or v1 cannot be kept without records"
            return InvalidRecordError(message, position=position, offset=offset)
    message = Fault(fault).sentence
    if Fault(fault).is_of_a_record:
        message = f"{message}: record {record} of {count}"
    return CorruptRecordError(message, position=position, offset=offset)
