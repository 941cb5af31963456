"""Make a golden set: ``make golden-set RELEASE=4.4.0`` writes tests/golden/everything-kafka-4.4 again.

A real broker of that release writes the log directories of tests/real_kafka/release_directory.py. It is killed
(``unclean``), started and shut down cleanly (``clean``). A consumer reads a copy of ``clean`` (``manifest.json``), and
Kafka's own tool dumps every file of it (``dump-clean``). tests/golden/README.md describes the files. A set is made once
and then kept: a new set differs in times, ids and the order of the clients' work.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from golden_sets import DIRECTORY
from real_kafka.broker import Broker
from real_kafka.java import NEWEST, TOOLS
from real_kafka.kafka_tools import KafkaTools
from real_kafka.release_directory import PARTITIONS, PROPERTIES, leave_directories
from served_records import served_entries

LEVELS = ("read_uncommitted", "read_committed")
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}


def main(release: str) -> None:
    target = DIRECTORY / f"everything-kafka-{release.rpartition('.')[0]}"
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        with Broker(root / "data", work=root / "work", properties=PROPERTIES, release=release) as broker:
            left = leave_directories(broker, root / "left")
            broker.start()
            levels = {level: served_entries(broker.bootstrap, PARTITIONS, isolation=level) for level in LEVELS}
        manifest = {name: {level: levels[level][name] for level in LEVELS} for name in PARTITIONS}
        (target / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
        clean = sparse_copy(left.clean[0], root / "clean")
        unclean = sparse_copy(left.unclean[0], root / "unclean")
        dumps = root / "dump-clean"
        dumps.mkdir()
        with KafkaTools("", release=TOOLS if release == NEWEST else release) as tools:
            for partition in partitions_of(clean):
                (dumps / f"{partition.name}.txt").write_text(dump(tools, partition), encoding="utf-8")
        for directory in (clean, unclean, dumps):
            archive(directory, target / f"{directory.name}.tar.gz")
    print(f"{target.name}: left at {left.written_ms} ms since 1970")


def partitions_of(directory: Path) -> Iterator[Path]:
    yield from sorted(entry for entry in directory.iterdir() if entry.is_dir())


def dump(tools: KafkaTools, partition: Path) -> str:
    """Return the tool's output for the files of a partition, with paths relative to the log directory."""
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
    files = [str(file) for file in sorted(partition.iterdir()) if file.suffix in kinds]
    decoder = DECODERS.get(partition.name.rpartition("-")[0])
    switches = ["--deep-iteration", "--print-data-log", *([decoder] if decoder else [])]
    done = tools.run("kafka-dump-log", *switches, "--files", ",".join(files))
    if done.code:
        raise SystemExit(f"kafka-dump-log failed on {partition}: {done.err}")
    return done.out.replace(f"{partition.parent}/", "")


def sparse_copy(directory: Path, target: Path) -> Path:
    """Copy ``directory``. Zeros become holes, because a preallocated index would fill 10 MiB of each test's disk."""
    subprocess.run(["cp", "--archive", "--sparse=always", directory, target], check=True)
    return target


def archive(directory: Path, file: Path) -> None:
    """Write ``directory`` as a gzipped tar, in which sparse files (preallocated indexes) take no room."""
    command = ["tar", "--sparse", "--owner=0", "--group=0", "-C", str(directory.parent), "-czf", str(file)]
    subprocess.run([*command, directory.name], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
