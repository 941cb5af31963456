"""The limit for the memory that compressed input may take.

Compressed bytes come from a disk or a socket. Before memory is allocated, each declared size is checked against the
best ratio of the codec and against the caller's limit.
"""

from __future__ import annotations

from typing import Final

from tidelog.model import CorruptRecordError

MAX_DECOMPRESSED_BYTES: Final = 1 << 30
"""The largest decompressed batch that is read (1 GiB). Kafka sets no limit; its own buffers end at 2 GiB."""


class PayloadTooLargeError(CorruptRecordError):
    """The data exceeds the caller's limit; the rest of it was not validated."""


def too_large(codec: str, max_bytes: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(
        f"the {codec} data decompresses to more than {max_bytes:,} bytes, the most a batch may have"
    )
