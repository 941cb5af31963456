"""Kafka's text form of a 16-byte id: base64 with ``-`` and ``_``, without padding (22 characters). Pure.

Called by: partition metadata (topic ids) and meta.properties (directory ids). Source: Kafka's ``Uuid``.
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid

_TEXT = re.compile(r"[A-Za-z0-9_-]{22}(==)?")


def uuid_to_text(value: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> uuid.UUID:
    """ValueError for anything but 22 characters of base64 (padding may follow)."""
    if _TEXT.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not an id of 22 base64 characters")
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text[:22] + "=="))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not an id of 22 base64 characters: {error}") from None
