"""The shared parts of the crash tests: topics, writers, and the log directory that Kafka creates for them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import tidelog
from real_kafka.broker import Broker
from real_kafka.real_crashes.ledger import SHORT_BYTES, Judge, Ledger
from real_kafka.real_crashes.writer import MOST_FRESH, PARTITIONS
from tidelog.inspect.verify import Severity, verify_directory
from tidelog.storage.fs import LOCAL

INDEXES = {"segment.index.bytes": "4096"}
"""Small indexes, so that some segments roll because an index is full."""
TOPICS = {
    "plain": {"internal.segment.bytes": "131072", "index.interval.bytes": "512", **INDEXES},
    "short": {
        "internal.segment.bytes": "16384",
        "retention.bytes": str(SHORT_BYTES),
        "file.delete.delay.ms": "30",
        "flush.ms": "20",
        **INDEXES,
    },
    "once": {"internal.segment.bytes": "16384", "index.interval.bytes": "256", **INDEXES},
    "both": {"internal.segment.bytes": "32768", "index.interval.bytes": "0", **INDEXES},
}
WRITERS = [
    *("plain-0", "plain-1", "short-0", "both-0", "both-1", "fresh", "keeper"),
    *(f"once-{number}-{partition}" for number in range(2) for partition in range(PARTITIONS)),
]
HURRIED = {
    "log.initial.task.delay.ms": "10",
    "log.retention.check.interval.ms": "30",
    "log.flush.scheduler.interval.ms": "20",
    "log.flush.offset.checkpoint.interval.ms": "25",
    "log.flush.start.offset.checkpoint.interval.ms": "25",
    "replica.high.watermark.checkpoint.interval.ms": "25",
    "producer.id.expiration.check.interval.ms": "50",
}
"""Broker properties that keep housekeeping busy all the time."""
PRODUCER_IDS = {name: 1000 + number for number, name in enumerate(WRITERS)}


def made_by_kafka(broker: Broker, *, partitions: int = PARTITIONS) -> None:
    """Create the topics. tidelog takes their settings and ids from the metadata in the log directory.

    The writers create the partitions of ``fresh`` themselves, so Kafka's are removed.
    """
    broker.start()
    for name, config in TOPICS.items():
        broker.create_topic(name, partitions=partitions, config=config)
    broker.create_topic("fresh", partitions=MOST_FRESH, config=TOPICS["once"])
    broker.stop()
    for partition in broker.directory.glob("fresh-*"):
        shutil.rmtree(partition)
    for checkpoint in broker.directory.glob("*-offset-checkpoint"):
        checkpoint.unlink()


def hurried_properties(work: Path) -> Path:
    path = work / "hurried.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in HURRIED.items()))
    return path


def known_writers(ledger: Ledger) -> dict[str, dict[str, Any]]:
    """Return every writer with the facts it needs about earlier writes."""
    known: dict[str, dict[str, Any]] = {}
    for name in WRITERS:
        known[name] = {"next": ledger.next_number[name], "producer_id": PRODUCER_IDS[name]}
        if name.startswith("both"):
            known[name]["transactions"] = ledger.next_transaction[name]
        if name == "fresh":
            known[name]["made"] = ledger.made
        if name.startswith("once") and name in ledger.last_try:
            known[name]["repeat"] = ledger.last_try[name]
    return known


def settle(directory: Path, judge: Judge) -> None:
    """Let an owner open the directory, abort open transactions and shut down cleanly. No finding may remain."""
    with tidelog.open_directory(directory) as opened:
        for name, producer_id in PRODUCER_IDS.items():
            if name.startswith("both"):
                opened.producer(producer_id)
        judge.settle(opened)
    verify_sound(directory)


def verify_sound(directory: Path, *, worst: Severity = Severity.NOTE) -> None:
    """Check that `tidelog verify` reports only normal results of a crash, such as a torn tail before ``settle``."""
    order = list(Severity)
    findings = verify_directory(LOCAL, directory).all_findings
    bad = [str(finding) for finding in findings if order.index(finding.severity) < order.index(worst)]
    assert not bad, bad
