"""UTF-8 text as Java reads it.

Owns one function. Ill-formed bytes become U+FFFD the way ``new String(bytes, UTF_8)`` does it, because
``kafka-dump-log`` and every string of a storage record are read so. Python's ``errors="replace"`` follows the same
rule (one replacement for the longest prefix that could still begin a character) with one exception: Java takes an
encoded surrogate half, ``ED A0..BF 80..BF``, as one unit and prints one replacement, Python prints one for each
byte. Pure; any thread.
"""

from __future__ import annotations

import re

_SURROGATE_HALF = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


def java_text(data: bytes) -> str:
    """Decode as ``new String(data, UTF_8)`` of Java does; never raises."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        # The byte ED is never a continuation byte, so it always begins a sequence and the pattern cannot match out
        # of step.
        return _SURROGATE_HALF.sub(_REPLACEMENT, data).decode(errors="replace")
