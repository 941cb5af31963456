"""Kafka's text form of a 16-byte id: base64 with ``-`` and ``_``, without padding (22 characters).

Called by: partition metadata (topic ids), meta.properties (directory ids), the cluster metadata.
Source: Kafka's ``Uuid``.
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
    """For a topic or a directory: random, and its text does not begin with a dash, as that of none of Kafka's."""
    while True:
        found = uuid.uuid4()
        if not uuid_to_text(found).startswith("-"):
            return found


def uuid_from_text(text: str) -> uuid.UUID:
    """ValueError for anything but 22 characters of base64 (padding may follow)."""
    if _TEXT.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not an id of 22 base64 characters")
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text[:22] + "=="))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not an id of 22 base64 characters: {error}") from None
