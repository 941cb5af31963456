"""The directories that real brokers wrote: their names, what each holds, and how they are unpacked.

See tests/golden/README.md for what is in each set. Tests reach them through the fixtures of conftest.py:
``golden(FLIGHTS, "unclean")`` is shared and must not be changed (the end of the session checks that nobody did),
``golden_copy(FLIGHTS, "unclean")`` belongs to one test.
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
"""By release: small sets with something of everything that it stores."""

LARGE_SETS = (FLIGHTS, SCENARIOS)
KRAFT_SETS = (*LARGE_SETS, *EVERYTHING.values())
"""The sets that also have ``unclean`` and ``dump-clean``."""
SETS = (*KRAFT_SETS, FORMATS)

DIRECTORY = Path(__file__).resolve().parent / "golden"


def manifest(set_name: str) -> dict[str, Any]:
    """What a librdkafka consumer read: partition -> isolation level -> low, high, count, first, last, sha256."""
    loaded: dict[str, Any] = json.loads((DIRECTORY / set_name / "manifest.json").read_text())
    return loaded


def manifest_entries() -> list[tuple[str, str, str]]:
    """Every (set, partition, isolation level) there is a manifest entry for."""
    return [
        (set_name, partition, isolation)
        for set_name in SETS
        for partition, levels in manifest(set_name).items()
        for isolation in levels
    ]


def unpack(set_name: str, kind: str, target: Path) -> Path:
    """Unpack ``clean``, ``unclean`` or ``dump-clean`` of a set below ``target``; times of files are kept."""
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xzf", DIRECTORY / set_name / f"{kind}.tar.gz", "-C", target], check=True)
    return target / kind


def footprint(directory: Path) -> Mapping[str, tuple[int, int]]:
    """Every file and directory below ``directory`` with its size and modification time in ns."""
    return {
        str(path.relative_to(directory)): (status.st_size, status.st_mtime_ns)
        for path in sorted([directory, *directory.rglob("*")])
        for status in [path.stat()]
    }
