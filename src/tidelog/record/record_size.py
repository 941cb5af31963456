"""The size limit for a decompressed record: ``max.decompressed.message.bytes``.

A record counts without the varint of its length, a message of format v0 or v1 without its offset and size. The limit
applies to the log's own work; readers accept any size. Source: Kafka's ``DefaultRecord.readFrom`` (4.4),
``AbstractLegacyRecordBatch``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tidelog.model import InvalidRecordError
from tidelog.record.batch_header import SMALLEST_LENGTHS
from tidelog.record.legacy import LegacyMessage

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_RECORD_BYTES: Final = 2_147_483_639
"""No limit: the largest allocation that Kafka can make."""
_LONGEST_VARINT: Final = 5


def require_records(payload: Buffer, max_bytes: int) -> None:
    """Raise InvalidRecordError if a record of a decompressed v2 ``payload`` is larger."""
    found = first_larger(payload, max_bytes)
    if found is not None:
        raise too_large(f"record {found} of its batch", max_bytes)


def require_messages(messages: Iterable[LegacyMessage], max_bytes: int) -> None:
    """Raise InvalidRecordError if a message of a wrapper is larger."""
    for number, message in enumerate(messages):
        parts = sum(len(part) for part in (message.key, message.value) if part is not None)
        if SMALLEST_LENGTHS[message.magic] + parts > max_bytes:
            raise too_large(f"message {number} of its wrapper", max_bytes)


def first_larger(payload: Buffer, max_bytes: int) -> int | None:
    """Return the number of the first larger record, or None; also None if the payload is malformed before it."""
    view = memoryview(payload).cast("B")
    if len(view) <= max_bytes:
        return None
    position = number = 0
    while position < len(view):
        encoded = shift = 0
        for byte in view[position : position + _LONGEST_VARINT]:
            position += 1
            encoded |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        else:
            return None
        length = (encoded >> 1) ^ -(encoded & 1)
        if length < 0:
            return None
        if length > max_bytes:
            return number
        position += length
        number += 1
    return None


def too_large(which: str, max_bytes: int) -> InvalidRecordError:
    """Return the error for a record, which ``which`` names."""
    return InvalidRecordError(
        f"{which} is larger than {max_bytes:,} bytes, which max.decompressed.message.bytes allows it"
    )
