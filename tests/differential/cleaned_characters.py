"""The characters of lists in which the log is compacted.

A log accepts a marker with a negative epoch, but it stops Kafka's cleaner, so there is none. A cleaner compresses
batches again, and two libraries give different bytes. Segment sizes therefore decide nothing in these lists, so that
both sides roll and group in the same way.
"""

from __future__ import annotations

from differential.characters import HOUR_MS, SMALL, WEIGHTS, Character

_COMPACTED = {**SMALL, "cleanup.policy": "compact", "delete.retention.ms": "60000"}
_IN_ONE = {key: value for key, value in _COMPACTED.items() if key != "internal.segment.bytes"}
_WEIGHTS = {
    **WEIGHTS,
    "clean": 12,
    "transactional": 3,
    "marker": 8,
    "clock": 8,
    "watermark": 5,
    "truncate": 1,
    "truncate_fully": 0,
    "retention": 1,
    "bad": 0,
    "end_of_epoch": 1,
    "timestamp": 2,
}
_TRANSACTIONS = {"transactional": 25, "marker": 20, "plain": 5, "idempotent": 4, "replicate": 2}


def _character(name: str, **given: object) -> Character:
    weights = given.pop("weights", {})
    settings = {
        "settings": _COMPACTED,
        "codecs": ("none",),
        "keyless": 0.02,
        "largest_value": 60,
        "lowest_epoch": 0,
    } | given
    return Character(name=name, weights={**_WEIGHTS, **weights}, **settings)  # type: ignore[arg-type, dict-item]


def _compressed(name: str, **given: object) -> Character:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    settings = {"settings": _IN_ONE, "codecs": codecs, "old_codecs": (0, 1, 2, 3), "exact": False} | given
    return _character(name, **settings)


CLEANED_CHARACTERS = (
    _character("compacted"),
    _character("transactions", weights=_TRANSACTIONS),
    _character("tombstones", weights={"clock": 16}, tombstones=0.4),
    _character("transactions and tombstones", weights={**_TRANSACTIONS, "clock": 20}, tombstones=0.3),
    _character("producers", weights={"idempotent": 30, "expire": 4, "reopen": 8, "producers": 8}),
    _character("follower", weights={"replicate": 45, "plain": 2, "idempotent": 1, "transactional": 1}, keyless=0.2),
    _character("old formats", weights={"replicate_old": 30, "replicate": 10}, tombstones=0.3, kills=False),
    _character(
        "a minimum of lag", settings={**_COMPACTED, "min.compaction.lag.ms": str(HOUR_MS)}, weights={"clock": 20}
    ),
    _character(
        "a maximum of lag",
        settings={**_COMPACTED, "internal.segment.bytes": "20000", "max.compaction.lag.ms": "60000"},
        weights={"clock": 20, "roll": 0},
    ),
    _character("small records", settings={**_COMPACTED, "max.decompressed.message.bytes": "150"}, weights={"clean": 8}),
    _character("other settings", weights={"configure": 12, "clock": 12}),
    _character(
        "compact and delete",
        settings={**_COMPACTED, "cleanup.policy": "compact,delete", "retention.bytes": "4000"},
        weights={"retention": 6, "log_start": 6},
    ),
    _character("deleted records", weights={"log_start": 12, "truncate": 6, "truncate_fully": 1, "reopen": 8}),
    _character("full indexes", settings={**_COMPACTED, "segment.index.bytes": "60"}, fills_indexes=True),
    _character("preallocated", settings={**_COMPACTED, "preallocate": "true"}, weights={"reopen": 8}),
    _compressed("compressed"),
    _compressed("compressed transactions", weights=_TRANSACTIONS, tombstones=0.2),
    _compressed("compressed old formats", weights={"replicate_old": 30}, tombstones=0.3, kills=False),
)
