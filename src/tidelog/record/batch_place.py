"""The first fields of a batch, which give its place in a log; its CRC does not cover them.

::

    base offset   length           leader epoch   …
    8 bytes       4 bytes          4 bytes
                  of the rest

Source: Kafka's ``DefaultRecordBatch``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

PREFIX_BYTES: Final = 12
"""The bytes of base offset and length: the length counts the bytes after them."""
PLACE: Final = Struct(">qii")
"""The base offset, length and leader epoch."""
