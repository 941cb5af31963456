"""The conversion of UTF-8 text as Java does it.

Ill-formed bytes become U+FFFD as in Java's ``new String(bytes, UTF_8)``, since ``kafka-dump-log`` and every string of a
storage record are read so. Python's ``errors="replace"`` follows the same rule (one replacement for the longest prefix
that could still begin a character) with one exception. Java prints one replacement for an encoded surrogate half,
``ED A0..BF 80..BF``; Python prints one for each byte. Pure. Thread rule: any thread.
"""

from __future__ import annotations

import re

_SURROGATE_HALF = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


def java_text(data: bytes) -> str:
    """Decode like Java's ``new String(data, UTF_8)``; never raise."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        # The byte ED is never a continuation byte. So it always begins a sequence, and the pattern cannot match inside
        # another one.
        return _SURROGATE_HALF.sub(_REPLACEMENT, data).decode(errors="replace")
