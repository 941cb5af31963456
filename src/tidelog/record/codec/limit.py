"""How much memory compressed input may claim.

Compressed bytes come from a disk or a socket. Everything they say about their own size is checked against what that
codec can reach at best and against the caller's limit before memory is taken for it.
"""

from __future__ import annotations

from typing import Final

from tidelog.model import CorruptRecordError

MAX_DECOMPRESSED_BYTES: Final = 1 << 30
"""Largest decompressed batch that is read (1 GiB). Kafka names no limit; its own buffers end at 2 GiB."""


class PayloadTooLargeError(CorruptRecordError):
    """More than the caller takes; whether the rest of it is sound nobody has looked."""


def too_large(codec: str, max_bytes: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(
        f"the {codec} data decompresses to more than {max_bytes:,} bytes, the most a batch may have"
    )
