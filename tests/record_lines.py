"""A record's line in the SHA-256 of a manifest (see tests/golden/README.md), and the entry of a series of records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from tidelog.model import Record, TimestampType


def record_line(record: Record) -> bytes:
    untimed = record.timestamp_type is TimestampType.NONE
    fields = [
        record.offset,
        int(record.timestamp_type) + 1,
        0 if untimed else record.timestamp,
        None if record.key is None else record.key.hex(),
        None if record.value is None else record.value.hex(),
        [[key, None if value is None else value.hex()] for key, value in record.headers],
    ]
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def manifest_entry(records: Iterable[Record], *, low: int, high: int) -> dict[str, Any]:
    digest = hashlib.sha256()
    offsets = []
    for record in records:
        digest.update(record_line(record))
        offsets.append(record.offset)
    return {
        "low": low,
        "high": high,
        "count": len(offsets),
        "first": offsets[0] if offsets else None,
        "last": offsets[-1] if offsets else None,
        "sha256": digest.hexdigest(),
    }
