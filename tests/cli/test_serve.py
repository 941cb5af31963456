"""``tidelog serve`` as a process: where it says it is, how it ends, what it refuses."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.runner import run
from server.harness import PATIENCE_S, WireClient
from tidelog.protocol.api_key import ApiKey

RUN = "from tidelog.cli.main import main; main()"
RUN_WITH_A_STOP_THAT_HANGS = """
import asyncio, sys
from tidelog.server.broker import Broker

async def stop(self):
    print("stopping", file=sys.stderr, flush=True)
    await asyncio.sleep(3600)

Broker.stop = stop
"""


@contextmanager
def serving(*arguments: str, code: str = RUN, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """The command with these arguments behind ``serve``; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", *arguments], stderr=subprocess.PIPE, text=True, cwd=cwd
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_with(process: subprocess.Popen[str], word: str) -> str:
    """The next line on stderr that begins with ``word``."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(word):
            return line
    raise AssertionError(f"it ended without saying {word!r}: {process.wait()}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_where_it_says_and_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with serving("--override", "listeners=PLAINTEXT://127.0.0.1:0", cwd=tmp_path) as process:
        port = int(line_with(process, "serving").rsplit(":", 1)[1])
        with WireClient(port) as client:
            assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
    assert (tmp_path / "tidelog-data" / ".kafka_cleanshutdown").exists()


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    code = RUN_WITH_A_STOP_THAT_HANGS + RUN
    with serving("--override", "listeners=PLAINTEXT://127.0.0.1:0", code=code, cwd=tmp_path) as process:
        line_with(process, "serving")
        process.send_signal(signal.SIGTERM)
        line_with(process, "stopping")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM


def test_a_properties_file_is_taken_and_its_mistakes_are_told(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(
        "process.roles=broker\nnode.id=1\nlisteners=SSL://:1\nnum.partitons=2\n"
    )
    with serving("server.properties", "--override", "max.connections=x", cwd=tmp_path) as process:
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert "Invalid value x for configuration max.connections" in errors
        assert process.returncode == 2
    with serving("server.properties", cwd=tmp_path) as process:
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert "num.partitons is not a key of Kafka" in errors
        assert "SSL is SSL" in errors
        assert process.returncode == 2
    assert not (tmp_path / "tidelog-data").exists()


@pytest.mark.parametrize("text", ["no-equals-sign", "=value"])
def test_an_override_is_a_key_and_a_value(text: str) -> None:
    assert "is not KEY=VALUE" in run("serve", "--override", text, code=2).stderr
