"""What a handler hands back.

==================  ===================================================================================================
answer              meaning
==================  ===================================================================================================
a mapping           fields of the response by name; see ``protocol.messages.write_response``
``EncodedAnswer``   the response's bytes, all that follows the header: for those that have a codec of their own
None                no response is sent: the request asked for none (``acks=0``)
==================  ===================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.server.network.file_slice import Part


class EncodedAnswer(NamedTuple):
    parts: list[Part]


Answer = Mapping[str, Any] | EncodedAnswer | None
