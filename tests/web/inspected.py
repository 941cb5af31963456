"""The directories over which all pages are tested: of four releases of Kafka, killed and clean, with and without
ZooKeeper, and of a cluster."""

from __future__ import annotations

from pathlib import Path

from conftest import GoldenFactory
from golden_sets import CLUSTER, EVERYTHING, FLIGHTS, FORMATS, SCENARIOS, UNCLEAN_ELECTION, ZOOKEEPER
from tidelog.runtime.clock import FixedClock

CLOCK = FixedClock(1_790_000_000_000)
"""A time after all records of the directories. Pages with ages are then the same in each request."""

DIRECTORIES = {
    "scenarios-clean": (SCENARIOS, "clean", ()),
    "everything-killed": (EVERYTHING["4.4"], "unclean", ()),
    "cluster": (CLUSTER, UNCLEAN_ELECTION, ("broker1", "broker2", "broker3")),
    "zookeeper": (ZOOKEEPER, "clean", ("disk1", "disk2")),
    "flights-killed": (FLIGHTS, "unclean", ()),
    "everything-clean": (EVERYTHING["4.4"], "clean", ()),
    "old-formats": (FORMATS, "clean", ()),
}


def log_dirs(golden: GoldenFactory, name: str) -> list[Path]:
    """Return the log directories of an entry of ``DIRECTORIES``."""
    set_name, kind, parts = DIRECTORIES[name]
    path = golden(set_name, kind)
    return [path / part for part in parts] if parts else [path]
