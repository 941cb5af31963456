"""A witness of compaction: every batch that the leaders of some topics have ever stored.

The witness makes a hard link to each new segment file of a leader. Kafka's cleaner and retention replace and remove
files and never rewrite them, so a link keeps the batches that consumers could fetch before a cleaning. A cleaned file
stays under its old name with ``.deleted`` for a minute, which is far longer than the witness needs to see it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException

from real_kafka.cluster import Cluster
from real_kafka.stored_batches import StoredBatch, batches_of_file

_INTERVAL_S = 0.1


class ServedBatches:
    """The links below ``root``, made by a thread while the context is open."""

    def __init__(self, cluster: Cluster, topics: Collection[str], root: Path) -> None:
        self._cluster = cluster
        self._topics = tuple(topics)
        self._root = root
        self._seen: set[tuple[str, int]] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="served-batches", daemon=True)

    def __enter__(self) -> ServedBatches:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def of(self, partition: str) -> dict[int, list[StoredBatch]]:
        """Return the batches of ``topic-partition`` by their last offset, which compaction keeps.

        An unclean election leaves batches that are no longer the leader's; their epochs differ.
        """
        found: defaultdict[int, dict[bytes, StoredBatch]] = defaultdict(dict)
        for path in (self._root / partition).glob("*.log"):
            for batch in batches_of_file(path):
                found[batch.row.last_offset].setdefault(batch.data, batch)
        return {last: list(batches.values()) for last, batches in found.items()}

    def _run(self) -> None:
        while not self._over.wait(_INTERVAL_S):
            self.link_new()
        self.link_new()

    def link_new(self) -> None:
        """Link the segment files that have appeared since the last call."""
        for topic in self._topics:
            try:
                partitions = self._cluster.partitions(topic)
            except KafkaException:
                continue  # no broker responded
            for number, state in partitions.items():
                if state.leader in self._cluster.brokers:
                    self._link(self._cluster.partition_directory(state.leader, topic, number))

    def _link(self, directory: Path) -> None:
        kept = self._root / directory.name
        kept.mkdir(parents=True, exist_ok=True)
        for path in directory.glob("*.log*"):
            try:
                inode = path.stat().st_ino
                if (directory.name, inode) not in self._seen:
                    (kept / f"{inode}.log").hardlink_to(path)
                    self._seen.add((directory.name, inode))
            except FileNotFoundError:
                continue  # the broker has renamed or removed it
