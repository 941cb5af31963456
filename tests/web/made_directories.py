"""Log directories with a topic for each rule of the cleaner and of retention, and with cluster metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cluster_maker import ClusterMaker, MadeReplica, state_of, write_metadata
from log_maker import batch, data, write_checkpoint
from tidelog.server.metadata.metadata_record import MetadataRecord

DAY = 86_400_000
HOUR = 3_600_000
_TOPIC, _BROKER = 2, 4


def setting(topic: str, key: str, value: str) -> MetadataRecord:
    return MetadataRecord("ConfigRecord", {"resourceType": _TOPIC, "resourceName": topic, "name": key, "value": value})


def broker_setting(node_id: str, key: str, value: str) -> MetadataRecord:
    """Return a dynamic setting of a broker, or with an empty id of all brokers."""
    return MetadataRecord(
        "ConfigRecord", {"resourceType": _BROKER, "resourceName": node_id, "name": key, "value": value}
    )


def keyed(base_offset: int, time_ms: int, count: int = 10) -> bytes:
    """Build batches of one record each, whose seven keys repeat."""
    offsets = range(base_offset, base_offset + count)
    return b"".join(batch(at, [b"v-%d" % at * 10], key=b"k%d" % (at % 7), timestamp=time_ms) for at in offsets)


def segments(count: int, time_ms: int) -> dict[int, list[bytes]]:
    return {10 * number: [keyed(10 * number, time_ms)] for number in range(count)}


def cleaner_directory(root: Path, now_ms: int) -> Path:
    """Write logs of a broker after an unclean shutdown. Of ``damaged``, everything is flushed."""
    recent = now_ms - HOUR
    fresh = {30 + 10 * at: [keyed(30 + 10 * at, now_ms - 60_000 * (9 - at))] for at in range(3)}
    logs = {
        "due": segments(12, recent),
        "half": segments(8, recent),
        "young": segments(3, now_ms - 2 * HOUR) | fresh,
        "old": segments(6, now_ms - 10 * DAY),
        "open": {0: [keyed(0, recent)], 10: [data(10, 5)], 15: [keyed(15, recent)], 25: [keyed(25, recent)]},
        "behind": segments(5, recent),
        "damaged": segments(4, recent),
        "active": segments(1, recent),
        "empty": {0: list[bytes]()},
        "plain": segments(3, recent),
    }
    behind = {"behind": 15}
    replicas = {
        f"{topic}_0": MadeReplica(segments=of_topic, high_watermark=behind.get(topic))
        for topic, of_topic in logs.items()
    }
    path = ClusterMaker(root).add(1, is_clean=False, **replicas)
    damaged = path / "damaged-0" / f"{10:020d}.log"
    content = bytearray(damaged.read_bytes())
    content[80] ^= 1
    damaged.write_bytes(content)
    write_metadata(
        path,
        {topic: {0: state_of(1, 2) if topic in behind else state_of(1)} for topic in logs},
        changes=[
            *(setting(topic, "cleanup.policy", "compact") for topic in logs if topic != "plain"),
            setting("young", "min.compaction.lag.ms", str(HOUR // 2)),
            setting("old", "min.cleanable.dirty.ratio", "0.9"),
            setting("old", "max.compaction.lag.ms", str(7 * DAY)),
        ],
    )
    write_checkpoint(path, "cleaner-offset-checkpoint", {"half-0": 50, "old-0": 40, "open-0": 10, "behind-0": 10})
    write_checkpoint(path, "recovery-point-offset-checkpoint", {"damaged-0": 40})
    return path


def dated(times: list[int], size: int = 500) -> dict[int, list[bytes]]:
    """Build a segment of ten records for each time."""
    return {10 * number: [batch(10 * number, [b"x" * size] * 10, timestamp=time)] for number, time in enumerate(times)}


def retention_directory(root: Path, now_ms: int) -> Path:
    """Write logs of a broker after a clean shutdown, with files and directories that no rule keeps."""
    logs: Mapping[str, dict[int, list[bytes]]] = {
        "orders": dated([now_ms - (8 - number) * DAY for number in range(8)]),
        "dated": dated([now_ms - 9 * DAY, now_ms + 400 * DAY, now_ms - 8 * DAY, now_ms - DAY]),
        "audit": dated([now_ms - 900 * DAY + 30 * number * DAY for number in range(4)]),
        "sized": dated([now_ms - (9 - number) * DAY for number in range(5)]),
        "state": dated([now_ms - (9 - number) * DAY for number in range(3)]),
        "behind": dated([now_ms - (20 - number) * DAY for number in range(4)]),
        "empty": {0: []},
    }
    behind = {"behind": 10}
    replicas = {
        f"{topic}_0": MadeReplica(segments=of_topic, high_watermark=behind.get(topic))
        for topic, of_topic in logs.items()
    }
    path = ClusterMaker(root).add(1, is_clean=True, **replicas)
    write_metadata(
        path,
        {topic: {0: state_of(1, 2) if topic in behind else state_of(1)} for topic in logs},
        changes=[
            setting("audit", "retention.ms", "-1"),
            setting("sized", "retention.ms", "-1"),
            setting("sized", "retention.bytes", "12000"),
            setting("state", "cleanup.policy", "compact"),
        ],
    )
    (path / "orders-0" / f"{0:020d}.log.deleted").write_bytes(bytes(30_000))
    (path / "orders-0" / f"{9:020d}.log.cleaned").write_bytes(bytes(3000))
    for topic, suffix, size in (("gone", "delete", 50_000), ("odd", "stray", 70_000)):
        leaving = path / f"{topic}-0.0123456789abcdef0123456789abcdef-{suffix}"
        leaving.mkdir()
        (leaving / f"{0:020d}.log").write_bytes(bytes(size))
    return path
