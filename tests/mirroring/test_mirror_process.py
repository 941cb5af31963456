"""The command as a process: it is stopped and killed while it follows a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirroring.source_and_copy import KEEPING, assert_equal, batches, produce
from real_kafka.mirror_process import MirrorProcess
from tidelog.storage.checkpoint import CLEAN_SHUTDOWN_FILE
from tidelog.testing import Broker


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "source", configs=KEEPING) as broker:
        broker.create_topic("orders")
        produce(broker, "orders", [b"first"])
        yield broker


def test_sigterm_ends_it_cleanly_and_the_next_run_goes_on(source: Broker, tmp_path: Path) -> None:
    with MirrorProcess(tmp_path / "copy", source.bootstrap_servers) as mirror:
        mirror.follow()
        mirror.wait(lambda: has_records(mirror.copy))
        assert mirror.stop() == 0
        assert (mirror.copy / CLEAN_SHUTDOWN_FILE).exists()
        produce(source, "orders", [b"second"])
        assert mirror.run_once() == 0
    assert_equal(source.directory, tmp_path / "copy", "orders-0")


def test_sigkill_leaves_a_copy_that_the_next_run_completes(source: Broker, tmp_path: Path) -> None:
    with MirrorProcess(tmp_path / "copy", source.bootstrap_servers) as mirror:
        mirror.follow()
        mirror.wait(lambda: has_records(mirror.copy))
        mirror.kill()
        assert not (mirror.copy / CLEAN_SHUTDOWN_FILE).exists()
        produce(source, "orders", [b"second"])
        assert mirror.run_once() == 0
    assert_equal(source.directory, tmp_path / "copy", "orders-0")


def has_records(copy: Path) -> bool:
    return (copy / "orders-0").is_dir() and bool(batches(copy, "orders-0"))
