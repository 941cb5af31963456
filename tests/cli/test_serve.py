"""``tidelog serve`` as a process: its printed address, its shutdown, its refusals."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.runner import run
from golden_sets import FORMATS
from server.harness import WireClient
from server.server_process import ANY_PORT, RUN, serving
from tidelog.protocol.api_key import ApiKey

ON_ANY_PORT = ("--override", f"listeners={ANY_PORT}")
WITH_A_STOP_THAT_HANGS = """
import asyncio, sys
from tidelog.server.broker import Broker

async def stop(self):
    print("stopping", file=sys.stderr, flush=True)
    await asyncio.sleep(3600)

Broker.stop = stop
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_where_it_says_and_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, *ON_ANY_PORT) as process:
        with WireClient(process.port) as client:
            assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0
        process.send_signal(number)
        assert process.ended()[0] == 0
    assert (tmp_path / "tidelog-data" / ".kafka_cleanshutdown").exists()


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, *ON_ANY_PORT, code=WITH_A_STOP_THAT_HANGS + RUN) as process:
        process.line_with("serving")
        process.send_signal(signal.SIGTERM)
        process.line_with("stopping")
        process.send_signal(signal.SIGTERM)
        assert process.ended()[0] == 128 + signal.SIGTERM


def test_a_properties_file_is_taken_and_its_mistakes_are_told(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(
        "process.roles=broker\nnode.id=1\nlisteners=SSL://:1\nnum.partitons=2\n"
    )
    with serving(tmp_path, "server.properties", "--override", "max.connections=x") as process:
        code, words = process.ended()
        assert "Invalid value x for configuration max.connections" in words
        assert code == 2
    with serving(tmp_path, "server.properties") as process:
        code, words = process.ended()
        assert "num.partitons is not a key of Kafka" in words
        assert "listener SSL needs a key" in words
        assert code == 2
    assert not (tmp_path / "tidelog-data").exists()


def test_a_directory_that_cannot_be_served_is_named_and_what_to_do(
    golden_copy: Callable[[str, str], Path], tmp_path: Path
) -> None:
    directory = golden_copy(FORMATS, "clean")
    with serving(tmp_path, *ON_ANY_PORT, "--override", f"log.dirs={directory}") as process:
        code, words = process.ended()
    assert code == 3
    assert f"`tidelog import {directory}` shows" in words
    assert "Traceback" not in words


@pytest.mark.parametrize("text", ["no-equals-sign", "=value"])
def test_an_override_is_a_key_and_a_value(text: str) -> None:
    assert "is not KEY=VALUE" in run("serve", "--override", text, code=2).stderr
