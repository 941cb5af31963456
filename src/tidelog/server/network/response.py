"""The return types of a request handler.

===================  ===============================================================================================
return value         meaning
===================  ===============================================================================================
a mapping            the response's fields by name; see ``protocol.messages.write_response``
``EncodedResponse``  the response's bytes after the header, from handlers with their own codec
None                 no response is sent, because the request asked for none (``acks=0``)
===================  ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.server.network.send_queue import Part


class EncodedResponse(NamedTuple):
    parts: list[Part]


Response = Mapping[str, Any] | EncodedResponse | None
