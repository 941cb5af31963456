"""``ssl.cipher.suites``: the mapping from Java's names to OpenSSL's, and the security level. Pure.

``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`` is ``ECDHE-RSA-AES128-GCM-SHA256``. The suites of TLS 1.3 have the same names
everywhere. Python's ssl cannot choose among them: it offers all or none. An entry ``@SECLEVEL=1`` is OpenSSL's notation
of a security level, which sets the minimum strength of keys and signatures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

TLS_13_SUITES: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})

_SECURITY_LEVEL: Final = "@SECLEVEL="
_NAME = re.compile(r"TLS_(?P<exchange>[A-Z_]+)_WITH_(?P<cipher>[A-Z0-9_]+)_(?P<hash>SHA(?:256|384)?)")


def split_security_level(entries: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the last security level, None if there is none, and the names of suites."""
    levels = [entry for entry in entries if entry.startswith(_SECURITY_LEVEL)]
    return levels[-1] if levels else None, [entry for entry in entries if entry not in levels]


def openssl_name(suite: str) -> str | None:
    """Return OpenSSL's name of a TLS 1.2 suite, or None if ``suite`` is not the name of one."""
    match = _NAME.fullmatch(suite)
    if match is None:
        return None
    exchange = "" if match["exchange"] == "RSA" else match["exchange"].replace("_", "-") + "-"
    cipher = re.sub(r"AES_(\d+)", r"AES\1", match["cipher"]).removesuffix("_CBC").replace("_", "-")
    digest = "" if cipher.startswith("CHACHA20") else f"-{match['hash']}"
    return exchange + cipher + digest
