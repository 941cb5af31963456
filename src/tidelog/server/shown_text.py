"""Text that clients choose, as messages and the log have it: up to a length. Pure.

A request names a topic or a directory once, and its answer may have a message about each of 100,000 partitions in it.
"""

from __future__ import annotations

from typing import Final

MOST_OF_A_NAME: Final = 300
"""Characters: more than any legal name of a topic has."""
MOST_OF_A_MESSAGE: Final = 1000


def shown(text: str, most: int = MOST_OF_A_NAME) -> str:
    """``text``, or its beginning and how long it is."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"
