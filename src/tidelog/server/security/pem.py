"""PEM text, as properties files carry it: lines may have become spaces, or run together. Pure.

Source: Kafka's ``PemStore``, which reads the same.
"""

from __future__ import annotations

import re
import textwrap

_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=label)-----", re.DOTALL)
_CERTIFICATE = "CERTIFICATE"
_KEY = "PRIVATE KEY"
"""How the labels of all kinds of them end."""


def certificates(text: str) -> str:
    """Those in ``text``, in order, with lines as OpenSSL wants them; empty where there are none."""
    return "".join(_written(match) for match in _BLOCK.finditer(text) if match["label"] == _CERTIFICATE)


def private_key(text: str) -> str:
    """The first one in ``text``; empty where there is none."""
    return next((_written(match) for match in _BLOCK.finditer(text) if match["label"].endswith(_KEY)), "")


def _written(match: re.Match[str]) -> str:
    label, body = match["label"], match["body"]
    if ":" not in body:  # else it has headers, and so lines
        body = "\n" + "\n".join(textwrap.wrap("".join(body.split()), 64)) + "\n"
    return f"-----BEGIN {label}-----{body}-----END {label}-----\n"
