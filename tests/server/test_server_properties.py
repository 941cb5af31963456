"""The properties file that a broker writes if it is started without a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.runner import run
from served_records import PATIENCE_S
from server.server_process import ANY_PORT, serving
from tidelog.server.server_properties import properties_text, write_properties
from tidelog.server.start_settings import StartSettings, load_start_config


def written(directory: Path, **overrides: str) -> Path:
    directory.mkdir(exist_ok=True)
    settings = {"log.dirs": str(directory), **{key.replace("_", "."): value for key, value in overrides.items()}}
    path = write_properties(load_start_config(None, settings))
    assert path is not None
    return path


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"listeners": "PLAINTEXT://localhost:9093"},
        {"listeners": "IN://:0,OUT://:9192", "listener_security_protocol_map": "IN:PLAINTEXT,OUT:PLAINTEXT"},
        {"listeners": "PLAINTEXT://:1,CONTROLLER://[::1]:7"},
        {"node_id": "7", "controller_quorum_voters": "7@localhost:9093"},
        {"log_message_timestamp_type": "LogAppendTime", "ssl_truststore_password": " \\a: =#! \u00e9"},
    ],
)
def test_it_says_what_the_broker_ran_with(tmp_path: Path, overrides: dict[str, str]) -> None:
    path = written(tmp_path / "data", **overrides)
    again = load_start_config(path, {})
    first = load_start_config(None, {key.replace("_", "."): value for key, value in overrides.items()})
    assert {key: setting.text for key, setting in again.static.items() if key != "log.dirs"} == {
        key: setting.text for key, setting in first.static.items() if key != "log.dirs"
    }
    assert again.log_dirs == (str(tmp_path / "data"),)
    assert StartSettings.of(again) == StartSettings.of(first)
    assert not again.warnings


def test_what_kafka_insists_on_is_in_it() -> None:
    lines = properties_text(load_start_config(None, {"log.dirs": "/data"})).splitlines()
    assert "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093" in lines
    assert "controller.quorum.bootstrap.servers=localhost:9093" in lines
    assert "inter.broker.listener.name=PLAINTEXT" in lines
    assert "log.dirs=/data" in lines
    other = properties_text(load_start_config(None, {"listeners": "PLAINTEXT://localhost:9093"}))
    assert "CONTROLLER://localhost:9094" in other


def test_only_its_owner_reads_it_and_it_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = written(tmp_path, ssl_key_password="secret")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "secret" in path.read_text()
    path.chmod(0o644)
    assert written(tmp_path) == path
    assert path.stat().st_mode & 0o777 == 0o600
    assert "secret" not in path.read_text()
    assert [found.name for found in tmp_path.iterdir()] == ["server.properties"]


def test_a_file_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("node.id=1\n")
    assert write_properties(load_start_config(None, {"log.dirs": str(tmp_path)})) is None
    assert path.read_text() == "node.id=1\n"


def test_nobody_waits_for_the_writer_of_a_pipe(tmp_path: Path) -> None:
    """The test uses its own process with a timeout, because a failure would block the whole test run."""
    os.mkfifo(tmp_path / "server.properties")
    config = f"load_start_config(None, {{'log.dirs': {str(tmp_path)!r}}})"
    code = (
        "from tidelog.server.start_settings import load_start_config\n"
        "from tidelog.server.server_properties import write_properties\n"
        f"write_properties({config})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "cannot open: it is not a regular file" in done.stderr
    assert (tmp_path / "server.properties").is_fifo()


def test_a_broker_without_a_file_says_where_it_is_and_another_starts_with_it(tmp_path: Path) -> None:
    with serving(tmp_path, "--override", f"listeners={ANY_PORT}") as process:
        path = Path(process.line_with("settings").split(maxsplit=1)[1].strip())
        first = process.line_with("cluster")
    assert path == tmp_path / "tidelog-data" / "server.properties"
    before = path.read_bytes()
    with serving(tmp_path, str(path)) as process:
        assert process.line_with("cluster") == first
    assert path.read_bytes() == before
    run("verify", tmp_path / "tidelog-data")
