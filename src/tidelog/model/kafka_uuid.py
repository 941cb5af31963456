"""Kafka's text form of a 16-byte id: base64 with ``-`` and ``_``, without padding (22 characters).

Topic ids and directory ids are written so. Source: Kafka's ``Uuid``.
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid

_TEXT = re.compile(r"[A-Za-z0-9_-]{22}(==)?")


def uuid_to_text(value: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def random_uuid() -> uuid.UUID:
    """Return a random id for a topic or a directory. As in Kafka, its text never begins with a dash."""
    while True:
        found = uuid.uuid4()
        if not uuid_to_text(found).startswith("-"):
            return found


def uuid_from_text(text: str) -> uuid.UUID:
    """Parse 22 characters of base64; padding may follow. Raise ValueError for any other text."""
    if _TEXT.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not an id of 22 base64 characters")
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text[:22] + "=="))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not an id of 22 base64 characters: {error}") from None
