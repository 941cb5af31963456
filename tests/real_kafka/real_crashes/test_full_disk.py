"""A real file system becomes full under writers. After space is freed, a real Kafka serves the log directories.

If this process may mount one, a tmpfs is filled with bytes or files. In any case files are kept from growing
(RLIMIT_FSIZE). Each case draws the moment, the remaining space in pages or files, and the next steps; see ``filler``.
Twenty cases run here, a thousand in `make soak`.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from real_kafka.broker import Broker
from real_kafka.conftest import BrokerFactory
from real_kafka.real_crashes import filler
from real_kafka.real_crashes.scene import TOPICS, hurried_properties, made_by_kafka
from real_kafka.real_crashes.served import ISOLATIONS, Records, read_by_kafka, read_by_tidelog
from real_kafka.real_crashes.writer import PARTITIONS
from tidelog.model import TopicPartition
from tidelog.storage.checkpoint import RECOVERY_POINT_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY

pytestmark = pytest.mark.kafka

NAMESPACES = (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"])
MOST_LEFT = {"bytes": 25, "inodes": 7, "growth": 25}
"""The most remaining pages, files, or pages of a file."""
REASONS = {
    "bytes": "no space left on the disk",
    "inodes": "no space left on the disk",
    "growth": "the file would grow past what the file system allows",
}
CHECKPOINTS = {"leader-epoch-checkpoint.tmp", "recovery-point-offset-checkpoint.tmp"}
LATER = ("refuses writes because", "offline", "No log directories available")
"""Words in errors of later operations on a log or directory with a failed write. The log file has the reason."""
SERVED = 6
"""The number of log directories whose partitions one Kafka serves at once."""


def draw(number: int, properties: Path, *, is_mounted: bool) -> filler.Case:
    source = random.Random(f"case {number}")
    kind = source.choice(["bytes", "bytes", "bytes", "inodes", "growth"]) if is_mounted else "growth"
    return {
        "number": number,
        "seed": number,
        "kind": kind,
        "left": source.randint(0, MOST_LEFT[kind]),
        "fill_at": source.choice([-1, 0, *range(1, 80)]),
        "properties": str(properties) if source.random() < 0.3 else None,
        "steps": source.choice([0, 3, 12, 50, 400, 400]),
        "stops": source.random() < 0.5,
        "recovers": source.random() < 0.5,
    }


def mounting(root: Path) -> list[str] | None:
    """Return the prefix for a command that mounts a private tmpfs, or None if that is not allowed."""
    for namespace in NAMESPACES:
        try:
            done = subprocess.run([*namespace, "mount", "-t", "tmpfs", "tmpfs", str(root)], capture_output=True)
        except FileNotFoundError:
            continue
        if done.returncode == 0:
            return namespace
    return None


def run_cases(numbers: Iterable[int], work: Path, template: Path) -> Counter[str]:
    """Count the kinds of files that errors named. ``work`` receives each log directory as it was on the full disk."""
    prefix = mounting(work)
    cases = [draw(number, hurried_properties(work), is_mounted=prefix is not None) for number in numbers]
    orders = {
        "root": str(work / "disk"),
        "template": str(template),
        "out": str(work),
        "is_mounted": prefix is not None,
        "cases": cases,
    }
    (work / "disk").mkdir()
    command = [*(prefix or ()), sys.executable, filler.__file__]
    done = subprocess.run(command, input=json.dumps(orders), stdout=subprocess.PIPE, text=True, check=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    failures = [result["failure"] for result in results if "failure" in result]
    assert not failures, "\n".join(failures)
    assert len(results) == len(cases)
    assert sum(result["acknowledged"] for result in results) > 10 * len(results)
    named: Counter[str] = Counter()
    for result in results:
        for _, error, message, path in result["full"]:
            assert str(work / "disk") in f"{message} {path}", (error, message, path)
            is_later = any(later in message for later in LATER)
            assert is_later or REASONS[result["kind"]] in message, (error, message)
            if path is not None and not is_later:
                named[file_kind(Path(path))] += 1
    print(len(results), "cases; what the full disk stopped:", dict(named.most_common()))
    return named


def file_kind(path: Path) -> str:
    """Return the suffix of a partition's file, the name of another file, or ``directory`` for a partition."""
    if path.stem.isdigit():
        return path.suffix
    return "directory" if path.name[-1].isdigit() else path.name


def served_by_kafka(broker: Broker, directories: list[Path]) -> None:
    """Check that Kafka serves the directories' partitions, as partitions of its topics with their recovery points."""
    expected: dict[str, Records] = {isolation: {} for isolation in ISOLATIONS}
    points: dict[TopicPartition, int] = {}
    for number, directory in enumerate(directories):
        names = {
            f"{topic}-{partition}": f"{topic}-{number * PARTITIONS + partition}"
            for topic in TOPICS
            for partition in range(PARTITIONS)
        }
        for theirs, ours in names.items():
            shutil.rmtree(broker.directory / ours, ignore_errors=True)
            shutil.copytree(directory / theirs, broker.directory / ours)
        for isolation in ISOLATIONS:
            records = read_by_tidelog(directory, isolation)
            expected[isolation] |= {ours: records[theirs] for theirs, ours in names.items()}
        for partition, point in OffsetCheckpoint.read(LOCAL, directory / RECOVERY_POINT_CHECKPOINT).items():
            if partition.directory_name in names:
                points[TopicPartition.from_directory_name(names[partition.directory_name])] = point
    OffsetCheckpoint.write(LOCAL, broker.directory / RECOVERY_POINT_CHECKPOINT, points)
    (broker.directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    broker.start()
    for isolation in ISOLATIONS:
        assert read_by_kafka(broker.bootstrap, expected[isolation], isolation) == expected[isolation]
    broker.stop()


def template_of(broker: Broker, work: Path) -> Path:
    """Copy the broker's directory with only the partitions that the writers use."""
    template = Path(shutil.copytree(broker.directory, work / "template"))
    for partition in template.iterdir():
        if partition.is_dir() and not partition.name.startswith("__") and not partition.name.endswith(("-0", "-1")):
            shutil.rmtree(partition)
    for index in (template / METADATA_DIRECTORY).glob("*index"):
        index.unlink()  # Kafka 4.4 leaves them preallocated, which is more than the disk can hold
    return template


def run(broker: Broker, work: Path, numbers: range) -> Counter[str]:
    """Run the cases, and let Kafka serve some of their log directories."""
    made_by_kafka(broker, partitions=SERVED * PARTITIONS)
    named = run_cases(numbers, work, template_of(broker, work))
    some = numbers[:: -(-len(numbers) // SERVED)]
    served_by_kafka(broker, [work / f"case-{number}" for number in some])
    return named


def test_a_tmpfs_can_be_filled_here(tmp_path: Path) -> None:
    if mounting(tmp_path) is None:
        pytest.skip("no tmpfs: `unshare --mount` and `mount` are not allowed here; files are only kept from growing")


def test_nothing_acknowledged_is_lost_on_a_full_disk(new_broker: BrokerFactory, tmp_path: Path) -> None:
    run(new_broker(), tmp_path, range(20))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("block", range(1, 11))
def test_nothing_acknowledged_is_lost_on_many_full_disks(new_broker: BrokerFactory, tmp_path: Path, block: int) -> None:
    """Each block includes a failure on every kind of file that can run out of space."""
    named = run(new_broker(), tmp_path, range(block * 100, block * 100 + 100))
    if mounting(tmp_path) is not None:
        assert named.keys() >= {".log", ".index", ".timeindex", ".txnindex", ".snapshot", *CHECKPOINTS}
