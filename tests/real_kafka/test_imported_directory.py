"""Kafka starts on a directory of Kafka 3.9 with ZooKeeper after ``tidelog import``, with the file that serve wrote."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.runner import run
from golden_sets import FORMATS, manifest
from real_kafka.broker import Broker
from served_records import served_entries
from server.server_process import serving
from tidelog.testing.broker.kept_port import keep_port

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class BrokerWithFile(Broker):
    """A broker that starts with a properties file from elsewhere."""

    file: Path

    def write_properties(self) -> Path:
        return self.file


def test_it_serves_the_old_formats(golden_copy: Callable[[str, str], Path], tmp_path: Path) -> None:
    directory = golden_copy(FORMATS, "clean")
    entries = {name: levels["read_uncommitted"] for name, levels in manifest(FORMATS).items()}
    run("import", directory, "--apply")
    with keep_port() as one, keep_port() as other:
        address, controller = (f"127.0.0.1:{place.getsockname()[1]}" for place in (one, other))
        settings = {
            "node.id": "7",
            "log.dirs": str(directory),
            "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}",
            "log.cleaner.dedupe.buffer.size": "8388608",
        }
        words = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
        with serving(tmp_path, *words) as process:
            file = Path(process.line_with("settings").split(maxsplit=1)[1].strip())
            assert served_entries(address, entries) == entries
            process.send_signal(signal.SIGTERM)
            assert process.ended()[0] == 0
        kafka = BrokerWithFile(directory, work=tmp_path / "work")
        kafka.file, kafka.bootstrap = file, address
        with kafka:
            kafka.start()
            assert served_entries(address, entries) == entries
            kafka.stop()
    assert file.parent == directory
