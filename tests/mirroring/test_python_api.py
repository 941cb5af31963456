"""``tidelog.mirror``: the options of the command in Python."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tidelog
from mirroring.source_and_copy import KEEPING, assert_equal, produce
from tidelog.mirroring.run.progress import MirrorProgress
from tidelog.testing import Broker


def test_it_copies_and_follows_until_it_is_stopped(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with Broker(tmp_path / "source", configs=KEEPING) as broker:
        broker.create_topic("orders")
        broker.create_topic("payments")
        produce(broker, "orders", [b"a"])
        done = tidelog.mirror(broker.bootstrap_servers, copy, topics="orders", groups=False, min_free=0)
        assert [(str(one.partition), one.log_end) for one in done.partitions] == [("orders-0", 1)]
        produce(broker, "orders", [b"b"])
        stop, seen = threading.Event(), list[MirrorProgress]()

        def on_progress(progress: MirrorProgress) -> None:
            seen.append(progress)
            if progress.copied_records:
                stop.set()

        done = tidelog.mirror(
            [broker.bootstrap_servers],
            copy,
            topics="orders",
            groups=False,
            follow=True,
            min_free=0,
            on_progress=on_progress,
            stop=stop,
        )
        assert done.is_complete
        assert (seen[-1].copied_records, seen[-1].lag, seen[-1].left_ms) == (1, 0, 0)
        assert_equal(broker.directory, copy, "orders-0")


def test_mistakes_are_config_errors(tmp_path: Path) -> None:
    with pytest.raises(tidelog.ConfigError, match=r"deleted='never' is neither"):
        tidelog.mirror("localhost:1", tmp_path, deleted="never")
    with pytest.raises(tidelog.ConfigError, match="is not HOST:PORT"):
        tidelog.mirror("localhost", tmp_path)
    with pytest.raises(tidelog.ConfigError, match="is not valid"):
        tidelog.mirror("localhost:1", tmp_path, topics="(")
