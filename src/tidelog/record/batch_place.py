"""How a batch begins: the fields that say where it stands in a log, which its CRC does not cover.

::

    base offset   length           leader epoch   …
    8 bytes       4 bytes          4 bytes
                  of what follows

Source: Kafka's ``DefaultRecordBatch``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

PREFIX_BYTES: Final = 12
"""Base offset and length: the length counts what follows them."""
PLACE: Final = Struct(">qii")
"""Base offset, length, leader epoch."""
