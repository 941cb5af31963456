"""Shortened forms of text from clients, for messages and the log. Pure.

A request names a topic or directory once, but its response may repeat it in a message for each of 100,000 partitions.
"""

from __future__ import annotations

from typing import Final

MAX_NAME_CHARS: Final = 300
"""The maximum in characters. Every legal topic name is shorter."""
MAX_MESSAGE_CHARS: Final = 1000


def shortened(text: str, most: int = MAX_NAME_CHARS) -> str:
    """Return ``text``, or its beginning and its length if it is too long."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"
