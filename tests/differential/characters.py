"""The characters of generated lists: a topic's settings, and the weight of each kind of operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Character:
    """The character of a list. ``weights`` override ``WEIGHTS`` by operation."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    largest_value: int = 200
    exact: bool = True
    """True if both sides have batches of the same sizes, so that a size may limit reads."""
    keyless: float = 0.1
    """The share of batches without keys."""
    fills_indexes: bool = False
    """True leaves out kills and sets of batches. Kafka writes a set, then fails if it fills an index. Its recovery
    fails too, because it adds an entry for the first batch after an opening."""
    old_codecs: tuple[int, ...] = (0,)
    """The codecs of messages in old formats, which are compressed again."""
    kills: bool = True
    """True allows an end by a kill. Kafka's recovery leaves an unneeded snapshot before old formats."""
    verifies: bool = False
    """True verifies most transactions with their coordinator (KIP-890)."""
    lowest_epoch: int = -1
    """The lowest epoch of a producer's marker."""
    wild_epochs: bool = False
    """True lets epochs begin within the log, or past its end."""
    codecs: tuple[str, ...] = ("none", "none", "none", "gzip", "snappy", "lz4", "zstd")
    tombstones: float = 0.05
    """The share of records without a value. Appended records of old formats always have one."""
    latest_ms: int = HOUR_MS // 2
    """The largest lead of timestamps over the clock. More than an hour is refused."""


SMALL = {"internal.segment.bytes": "2000", "index.interval.bytes": "150", "segment.index.bytes": "4096"}
WEIGHTS = {
    "plain": 14,
    "idempotent": 8,
    "transactional": 8,
    "marker": 5,
    "replicate": 8,
    "bad": 4,
    "old": 0,
    "watermark": 12,
    "read": 12,
    "timestamp": 4,
    "roll": 3,
    "flush": 3,
    "truncate": 3,
    "truncate_fully": 1,
    "log_start": 3,
    "retention": 3,
    "remove_deleted": 2,
    "epoch": 3,
    "end_of_epoch": 3,
    "producers": 4,
    "expire": 1,
    "clock": 5,
    "reopen": 4,
    "clean": 0,
    "replicate_old": 0,
    "configure": 0,
}

CHARACTERS = (
    Character(name="small segments", settings=SMALL),
    Character(name="one segment", settings={"index.interval.bytes": "100"}),
    Character(
        name="transactions",
        settings=SMALL,
        weights={"transactional": 25, "marker": 15, "plain": 4, "read": 16},
    ),
    Character(
        name="follower",
        settings=SMALL,
        weights={
            "replicate": 45,
            "plain": 2,
            "idempotent": 1,
            "transactional": 1,
            "marker": 1,
            "truncate": 8,
            "epoch": 6,
        },
    ),
    Character(
        name="retention",
        settings={**SMALL, "retention.bytes": "4000", "retention.ms": str(HOUR_MS), "file.delete.delay.ms": "1000"},
        weights={"retention": 12, "remove_deleted": 6, "clock": 10, "log_start": 8},
    ),
    Character(
        name="log append time",
        settings={**SMALL, "message.timestamp.type": "LogAppendTime"},
        weights={"clock": 12, "timestamp": 8},
    ),
    Character(
        name="roll by time",
        settings={**SMALL, "internal.segment.bytes": "20000", "segment.ms": str(HOUR_MS)},
        weights={"clock": 14},
    ),
    Character(
        name="a jitter above segment.ms",
        settings={**SMALL, "segment.ms": "1", "segment.jitter.ms": str(7 * 24 * HOUR_MS)},
        weights={"clock": 14},
    ),
    Character(
        name="a jitter",
        settings={
            **SMALL,
            "internal.segment.bytes": "20000",
            "segment.ms": str(HOUR_MS),
            "segment.jitter.ms": str(HOUR_MS // 2),
        },
        weights={"clock": 14, "roll": 6},
    ),
    Character(name="segments of a second", settings={**SMALL, "segment.ms": "1000"}, weights={"clock": 8}),
    Character(
        name="segments of a compaction lag",
        settings={
            **SMALL,
            "cleanup.policy": "compact",
            "segment.ms": str(HOUR_MS),
            "max.compaction.lag.ms": "60000",
        },
        weights={"clock": 14},
        keyless=0.02,
    ),
    Character(name="other settings", settings=SMALL, weights={"configure": 15, "clock": 10}),
    Character(
        name="full indexes",
        settings={**SMALL, "segment.index.bytes": "40", "index.interval.bytes": "0"},
        fills_indexes=True,
    ),
    Character(
        name="compacted",
        settings={**SMALL, "cleanup.policy": "compact"},
        weights={"retention": 8, "log_start": 8},
        keyless=0.02,
    ),
    Character(
        name="strict times and sizes",
        settings={
            **SMALL,
            "max.message.bytes": "600",
            "message.timestamp.before.max.ms": str(HOUR_MS),
            "message.timestamp.after.max.ms": str(HOUR_MS),
        },
        weights={"plain": 25},
        largest_value=900,
        latest_ms=HOUR_MS + 5,
    ),
    Character(
        name="small records",
        settings={**SMALL, "max.decompressed.message.bytes": "130"},
        weights={"plain": 25, "timestamp": 15},
    ),
    Character(name="flush by messages", settings={**SMALL, "flush.messages": "7"}, weights={"reopen": 10}),
    Character(name="preallocated", settings={**SMALL, "preallocate": "true"}, weights={"reopen": 8}),
    Character(
        name="wild epochs",
        settings=SMALL,
        weights={"epoch": 15, "end_of_epoch": 15, "truncate": 10, "replicate": 20, "timestamp": 0},
        wild_epochs=True,
    ),
    Character(
        name="verified transactions",
        settings={**SMALL, "transaction.partition.verification.enable": "true"},
        weights={"transactional": 25, "marker": 15, "plain": 4, "producers": 8},
        verifies=True,
    ),
    Character(name="old formats", settings=SMALL, weights={"old": 20, "bad": 2}),
    Character(
        name="old formats, compressed", weights={"old": 20, "retention": 0}, old_codecs=(0, 1, 2, 3), exact=False
    ),
    Character(name="uncompressed", settings={**SMALL, "compression.type": "uncompressed"}, weights={"plain": 30}),
    *(
        Character(
            name=f"compressed anew by {codec}",
            settings={"compression.type": codec},
            weights={"plain": 30, "old": 5, "retention": 0},
            old_codecs=(0, 0, 1, 2, 3),
            exact=False,
        )
        for codec in ("gzip", "snappy", "lz4", "zstd")
    ),
)
