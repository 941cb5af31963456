"""PEM text in a properties file, where line breaks may be spaces or missing. Pure.

Source: Kafka's ``PemStore``, which accepts the same.
"""

from __future__ import annotations

import re
import textwrap

_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=label)-----", re.DOTALL)
_CERTIFICATE = "CERTIFICATE"
_KEY = "PRIVATE KEY"
"""The end of every private key's label."""


def certificates(text: str) -> str:
    """Return the certificates in ``text``, with OpenSSL's line breaks; empty if there are none."""
    return "".join(_written(match) for match in _BLOCK.finditer(text) if match["label"] == _CERTIFICATE)


def private_key(text: str) -> str:
    """Return the first private key in ``text``; empty if there is none."""
    return next((_written(match) for match in _BLOCK.finditer(text) if match["label"].endswith(_KEY)), "")


def _written(match: re.Match[str]) -> str:
    label, body = match["label"], match["body"]
    if ":" not in body:  # a body with headers has its line breaks already
        body = "\n" + "\n".join(textwrap.wrap("".join(body.split()), 64)) + "\n"
    return f"-----BEGIN {label}-----{body}-----END {label}-----\n"
