"""What the crash tests share: the topics, who writes to them, and the directory that Kafka makes for it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import tidelog
from kafka.broker import Broker
from kafka.real_crashes.ledger import Judge, Ledger
from kafka.real_crashes.writer import MOST_FRESH, PARTITIONS
from tidelog.inspect.verify import Severity, verify_directory
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.fs import LOCAL

INDEXES = {"segment.index.bytes": "4096"}
"""Some segments roll since an index is full."""
TOPICS = {
    "plain": {"internal.segment.bytes": "131072", "index.interval.bytes": "512", **INDEXES},
    "once": {"internal.segment.bytes": "16384", "index.interval.bytes": "256", **INDEXES},
    "both": {"internal.segment.bytes": "32768", "index.interval.bytes": "0", **INDEXES},
}
WRITERS = [
    *("plain-0", "plain-1", "both-0", "both-1", "fresh", "keeper"),
    *(f"once-{number}-{partition}" for number in range(2) for partition in range(PARTITIONS)),
]
PRODUCER_IDS = {name: 1000 + number for number, name in enumerate(WRITERS)}


def made_by_kafka(broker: Broker, *, partitions: int = PARTITIONS) -> str:
    """The topics, with their settings, which tidelog takes from the metadata in the directory; the id of ``fresh``.

    That one's partitions are left to the writers. Without its id Kafka would take them for strays.
    """
    broker.start()
    for name, config in TOPICS.items():
        broker.create_topic(name, partitions=partitions, config=config)
    broker.create_topic("fresh", partitions=MOST_FRESH, config=TOPICS["once"])
    broker.stop()
    metadata = PartitionMetadata.read(LOCAL, broker.directory / "fresh-0" / PARTITION_METADATA_FILE)
    assert metadata is not None
    for partition in broker.directory.glob("fresh-*"):
        shutil.rmtree(partition)
    for checkpoint in broker.directory.glob("*-offset-checkpoint"):
        checkpoint.unlink()
    return str(metadata.topic_id)


def known_writers(ledger: Ledger, *, fresh_id: str) -> dict[str, dict[str, Any]]:
    """Every writer, and what it has to know of what was written before."""
    known: dict[str, dict[str, Any]] = {}
    for name in WRITERS:
        known[name] = {"next": ledger.next_number[name], "producer_id": PRODUCER_IDS[name]}
        if name.startswith("both"):
            known[name]["transactions"] = ledger.next_transaction[name]
        if name == "fresh":
            known[name] |= {"made": ledger.made, "topic_id": fresh_id}
        if name.startswith("once") and name in ledger.last_try:
            known[name]["repeat"] = ledger.last_try[name]
    return known


def settle(directory: Path, judge: Judge) -> None:
    """Opened by an owner that aborts what is open and stops in order; then nothing is left to find."""
    with tidelog.open_directory(directory) as opened:
        for name, producer_id in PRODUCER_IDS.items():
            if name.startswith("both"):
                opened.producer(producer_id)
        judge.settle(opened)
    verify_sound(directory)


def verify_sound(directory: Path, *, worst: Severity = Severity.NOTE) -> None:
    """`tidelog verify` finds nothing but what is normal after a crash; of one that was not settled, a cut off tail."""
    order = list(Severity)
    findings = verify_directory(LOCAL, directory).all_findings
    bad = [str(finding) for finding in findings if order.index(finding.severity) < order.index(worst)]
    assert not bad, bad
