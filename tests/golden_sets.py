"""The golden directories, which real brokers wrote: their names, their content, and how to unpack them.

tests/golden/README.md lists the content of each set. Tests use the fixtures of conftest.py. ``golden(FLIGHTS,
"unclean")`` is shared and must not change, which the end of the session checks. ``golden_copy(FLIGHTS, "unclean")``
belongs to one test.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLIGHTS = "flights-kafka-4.1"
SCENARIOS = "scenarios-kafka-4.1"
FORMATS = "formats-v0-v1-kafka-3.9"

EVERYTHING = {release: f"everything-kafka-{release}" for release in ("4.2", "4.3", "4.4")}
"""A small set for each release, with an example of everything that the release stores."""

CLUSTER, UNCLEAN_ELECTION = "cluster-kafka-4.4", "unclean-election"
"""The set of three brokers and its only kind, with a directory for each broker: broker1, broker2 and broker3."""

ZOOKEEPER = "zookeeper-kafka-3.9"
"""The set of a broker with ZooKeeper: both log directories, and the znodes below the chroot."""

LARGE_SETS = (FLIGHTS, SCENARIOS)
KRAFT_SETS = (*LARGE_SETS, *EVERYTHING.values())
"""The sets that also have ``unclean`` and ``dump-clean``."""
SETS = (*KRAFT_SETS, FORMATS)

DIRECTORY = Path(__file__).resolve().parent / "golden"


def manifest(set_name: str) -> dict[str, Any]:
    """Return the reads of a librdkafka consumer.

    Shape: partition -> isolation level -> low, high, count, first, last, sha256.
    """
    loaded: dict[str, Any] = json.loads((DIRECTORY / set_name / "manifest.json").read_text())
    return loaded


def captured_znodes() -> dict[str, dict[str, Any]]:
    """Return the znodes of the set ZOOKEEPER after the broker's shutdown: path -> data (None for none), version."""
    loaded: dict[str, dict[str, Any]] = json.loads((DIRECTORY / ZOOKEEPER / "znodes.json").read_text())
    return loaded


def manifest_entries() -> list[tuple[str, str, str]]:
    """List every (set, partition, isolation level) that has a manifest entry."""
    return [
        (set_name, partition, isolation)
        for set_name in SETS
        for partition, levels in manifest(set_name).items()
        for isolation in levels
    ]


def unpack(set_name: str, kind: str, target: Path) -> Path:
    """Unpack ``clean``, ``unclean`` or ``dump-clean`` of a set below ``target``, with the files' modification times."""
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xzf", DIRECTORY / set_name / f"{kind}.tar.gz", "-C", target], check=True)
    return target / kind


def footprint(directory: Path) -> Mapping[str, tuple[int, int]]:
    """Map every file and directory below ``directory`` to its size in bytes and modification time in ns."""
    return {
        str(path.relative_to(directory)): (status.st_size, status.st_mtime_ns)
        for path in sorted([directory, *directory.rglob("*")])
        for status in [path.stat()]
    }
