"""Shortened forms of text from clients, for messages and the log. Pure.

A request names a topic or directory once, but its response may repeat it in a message for each of 100,000 partitions.
"""

from __future__ import annotations

from typing import Final

MOST_OF_A_NAME: Final = 300
"""The maximum in characters. Every legal topic name is shorter."""
MOST_OF_A_MESSAGE: Final = 1000


def shown(text: str, most: int = MOST_OF_A_NAME) -> str:
    """Return ``text``, or its beginning and its length if it is too long."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"
