"""Make the golden set of a broker with ZooKeeper: ``make golden-zookeeper`` writes it again.

Kafka 3.9 writes the topics and settings of tests/real_kafka/zookeeper_cluster.py, and shuts down cleanly. In the
directory tests/golden/zookeeper-kafka-3.9, ``clean`` has its two log directories. ``znodes.json`` has the znodes below
the chroot afterwards, and ``live.json`` the znodes that ended with the broker. tests/golden/README.md describes the
files. The set is made once and then kept, like the others.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from golden_set import archive, sparse_copy

from golden_sets import DIRECTORY, ZOOKEEPER
from real_kafka.zookeeper_cluster import ZooKeeperBroker, ZooKeeperServer, captured, write_everything


def main() -> None:
    target = DIRECTORY / ZOOKEEPER
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, ZooKeeperServer(Path(name) / "zookeeper") as zookeeper:
        root = Path(name)
        directories = (root / "clean" / "disk1", root / "clean" / "disk2")
        with ZooKeeperBroker(zookeeper, directories, work=root / "work") as broker:
            broker.start()
            write_everything(broker)
            live = captured(broker.connect)
            broker.stop()
        left = captured(broker.connect)
        gone = {path: found for path, found in live.items() if path not in left}
        lines = {"znodes.json": left, "live.json": gone}
        for file, znodes in lines.items():
            (target / file).write_text(json.dumps(znodes, indent=0, ensure_ascii=False, sort_keys=True) + "\n")
        (root / "copy").mkdir()
        archive(sparse_copy(root / "clean", root / "copy" / "clean"), target / "clean.tar.gz")


if __name__ == "__main__":
    main()
