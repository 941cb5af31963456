"""A broker's directory while it runs: tidelog reads it during rolls, deletions and compaction, and never changes it.

A second test shows that the lock keeps tidelog and the broker from writing in the same directory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TypedDict

import pytest
from confluent_kafka import Producer

from golden_sets import footprint
from real_kafka.broker import Broker, BrokerError
from real_kafka.conftest import BrokerFactory
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.recovery.directory_recovery import recover_directory
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions

pytestmark = pytest.mark.kafka

READING_SECONDS, MOST_SECONDS = 5, 100
"""A busy machine needs more time until every kind of change has happened."""
BUSY = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
}
SMALL_SEGMENTS = {"internal.segment.bytes": "16384", "file.delete.delay.ms": "100", "index.interval.bytes": "512"}
ROLLING = {**SMALL_SEGMENTS, "retention.bytes": "65536"}
COMPACTED = {**SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


class Writer(threading.Thread):
    """A thread that writes to both topics until ``over`` is set. A record's value begins with its offset."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.written = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, "linger.ms": "0"})

    def run(self) -> None:
        while not self.over.is_set():
            for _ in range(50):
                value = b"%012d" % self.written + b"v" * 200
                self._producer.produce("rolling", value=value)
                self._producer.produce("compacted", key=b"%d" % (self.written % 97), value=value)
                self.written += 1
            self._producer.flush(60)


class Met(TypedDict):
    """The counts of the process that reads."""

    conditions: list[str]
    reads: int
    segments: int
    gaps: int


def read_in_another_process(seconds: float, most_seconds: float, *partitions: Path) -> Met:
    program = Path(__file__).with_name("live_reader.py")
    command = [sys.executable, str(program), str(seconds), str(most_seconds), *map(str, partitions)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=most_seconds + 60)
    assert done.returncode == 0, done.stderr
    met: Met = json.loads(done.stdout)
    return met


def test_a_live_directory_is_read_and_not_touched(new_broker: BrokerFactory) -> None:
    broker: Broker = new_broker(properties=BUSY)
    broker.start()
    broker.create_topic("rolling", config=ROLLING)
    broker.create_topic("compacted", config=COMPACTED)
    partitions = [broker.directory / "rolling-0", broker.directory / "compacted-0"]
    writer = Writer(broker.bootstrap)
    writer.start()
    try:
        met = read_in_another_process(READING_SECONDS, MOST_SECONDS, *partitions)
    finally:
        writer.over.set()
        writer.join(60)
    print(met, "written", writer.written)
    assert met["conditions"] == ["held"]
    assert met["reads"] > 20
    assert met["segments"] > 20  # it rolled
    assert met["gaps"] > 0  # it was compacted
    deadline = time.monotonic() + 60
    while (partitions[0] / f"{0:020d}.log").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert min(int(log.stem) for log in partitions[0].glob("*.log")) > 0  # it was deleted

    broker.stop()
    before = footprint(broker.directory)
    met = read_in_another_process(1, 1, *partitions)
    assert met["conditions"] == ["clean"]
    assert footprint(broker.directory) == before


def test_neither_writes_where_the_other_does(new_broker: BrokerFactory) -> None:
    """Each door of tidelog fails while the broker runs, and names it. The broker does not start while one is open."""
    import tidelog

    broker: Broker = new_broker()
    broker.start()
    broker.create_topic("t")
    # The broker creates the files one after another. All of them exist once a record is acknowledged.
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    producer.produce("t", value=b"first")
    assert producer.flush(60) == 0
    before = footprint(broker.directory / "t-0")
    held_by_the_broker = rf"process {broker.process_id} has locked it.*\.lock"
    with pytest.raises(tidelog.LockedError, match=held_by_the_broker):
        tidelog.open_log(broker.directory / "t-0")
    with pytest.raises(tidelog.LockedError, match=held_by_the_broker):
        tidelog.open_directory(broker.directory)
    with pytest.raises(tidelog.LockedError, match=held_by_the_broker):
        LogManager(LOCAL, [broker.directory]).startup()
    with pytest.raises(tidelog.LockedError, match=held_by_the_broker):
        recover_directory(LOCAL, broker.directory, RecoverOptions(now_ms=SYSTEM_CLOCK.now_ms()))
    assert footprint(broker.directory / "t-0") == before
    broker.stop()

    with tidelog.open_log(broker.directory / "t-0") as log:
        log.append(b"value")
        with pytest.raises(BrokerError, match=r"Failed to acquire lock on file \.lock"):
            broker.start()
    with tidelog.open_directory(broker.directory), pytest.raises(BrokerError, match="Failed to acquire lock on file"):
        broker.start()
    manager = LogManager(LOCAL, [broker.directory])
    manager.startup()
    with pytest.raises(BrokerError, match="Failed to acquire lock on file"):
        broker.start()
    manager.shutdown()
    broker.start()
    broker.stop()
