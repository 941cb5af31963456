"""``tidelog web`` as a process: its address, its end, its refusals, and a machine without the extra ``web``."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cli.runner import run
from log_maker import plain, write_segment

PATIENCE_S = 60
RUN = "from tidelog.cli.main import main; main()"
WITH_ENDLESS_WORK = """
import time
from tidelog.web.pages import cluster

def survey(_fs, _path, _names, advance):
    while True:
        advance(1)
        time.sleep(0.01)

cluster.survey_space = survey
"""
WITHOUT_THE_EXTRA = """
import sys
for name in ("starlette", "jinja2", "uvicorn", "fastavro"):
    sys.modules[name] = None
"""


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Write a log directory with the partition ``orders-0``."""
    path = tmp_path / "disk"
    write_segment(path / "orders-0", 0, [plain(0)])
    return path


class WebProcess:
    """A process of ``tidelog web``. ``address`` is in the first line that it prints."""

    def __init__(self, *arguments: object, code: str = RUN, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "web", *map(str, arguments)],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # a buffer would keep the lines after the first one from communicate()
            env={**os.environ, **environment},
        )
        assert self.process.stderr is not None
        self.first_line = self.process.stderr.readline().decode()

    @property
    def address(self) -> str:
        assert self.first_line.startswith("serving  http://"), self.first_line
        return urlsplit(self.first_line.split()[1]).netloc

    def connect(self) -> http.client.HTTPConnection:
        host, _, port = self.address.rpartition(":")
        return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=PATIENCE_S)

    def status(self, path: str = "/", **headers: str) -> int:
        """Return the status of a GET request."""
        connection = self.connect()
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def ended(self) -> tuple[int, str, str]:
        """Wait for the end. Return the exit code, and the rest of both outputs."""
        try:
            output, errors = self.process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError("the process did not end") from None
        return self.process.returncode, output.decode(), errors.decode()


@contextmanager
def web(*arguments: object, code: str = RUN, **environment: str) -> Iterator[WebProcess]:
    running = WebProcess(*arguments, code=code, **environment)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_where_it_says_until_a_signal(disk: Path, number: signal.Signals) -> None:
    with web(disk, "--bind", "127.0.0.1:0") as running:
        kept = running.connect()
        kept.request("GET", "/")  # a connection that stays open
        assert kept.getresponse().status in (200, 202)
        running.process.send_signal(number)
        assert running.ended() == (0, "", "")


def test_a_signal_ends_work_in_the_background(disk: Path) -> None:
    with web(disk, "--bind", "127.0.0.1:0", code=WITH_ENDLESS_WORK + RUN) as running:
        assert running.status("/") == 200  # the page without its sizes
        running.process.send_signal(signal.SIGTERM)
        assert running.ended()[0] == 0


def test_a_name_of_this_machine_and_ipv6(disk: Path) -> None:
    with web(disk, "--bind", "localhost:0") as running:
        assert running.address.startswith("localhost:")
        assert running.status() in (200, 202)
        assert running.status(Host="evil.example") == 421
    if socket.has_ipv6:
        with web(disk, "--bind", "[::1]:0") as running:
            assert running.address.startswith("[::1]:")
            assert running.status() in (200, 202)


def test_a_port_in_use(disk: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert f"{address} cannot be used: Address already in use" in run("web", disk, "--bind", address, code=2).stderr


@pytest.mark.parametrize("bind", ["", "8088", "localhost", "localhost:", ":8088", "localhost:x", "localhost:65536"])
def test_an_address_has_a_host_and_a_port(disk: Path, bind: str) -> None:
    assert "is not HOST:PORT" in run("web", disk, "--bind", bind, code=2).stderr


def test_an_address_that_is_not_this_machines(disk: Path) -> None:
    assert "cannot be used" in run("web", disk, "--bind", "192.0.2.1:0", "--token", "x", code=2).stderr
    assert "cannot be used" in run("web", disk, "--bind", "no.such.name.invalid:0", "--token", "x", code=2).stderr


@pytest.mark.parametrize("bind", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "no.such.name.invalid:0"])
def test_another_address_needs_a_token(disk: Path, bind: str) -> None:
    assert "can be reached from other machines: give a --token" in run("web", disk, "--bind", bind, code=2).stderr
    assert "The --token is empty" in run("web", disk, "--bind", bind, "--token", "", code=2).stderr


@pytest.mark.parametrize("is_option", [False, True])
def test_with_a_token_every_name_is_served(disk: Path, is_option: bool) -> None:
    option, environment = (["--token", "t"], {}) if is_option else ([], {"TIDELOG_WEB_TOKEN": "t"})
    with web(disk, "--bind", "0.0.0.0:0", *option, **environment) as running:
        assert running.status("/static/style.css", Host="broker7.example") == 200
        assert running.status("/", Host="broker7.example") == 401
        assert running.status("/", Host="broker7.example", Authorization="Bearer t") in (200, 202)


def test_a_directory_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no such file or directory" in run("web", tmp_path / "nothing", "--bind", "127.0.0.1:0", code=3).stderr
    assert "not a Kafka log directory" in run("web", tmp_path, "--bind", "127.0.0.1:0", code=3).stderr
    assert "Missing argument" in run("web", code=2).stderr


def test_without_the_extra_its_name_is_given(disk: Path) -> None:
    with web(disk, "--bind", "127.0.0.1:0", code=WITHOUT_THE_EXTRA + RUN) as running:
        code, output, errors = running.ended()
    assert (code, output) == (2, "")
    assert "pip install 'tidelog[web]'" in running.first_line + errors
    assert "Traceback" not in errors


def test_inspect_works_without_the_extra(disk: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_THE_EXTRA + RUN, "inspect", str(disk)]
    for url, word in (("/", "orders"), ("/logs/0/orders-0", "orders-0"), ("/logs/0/orders-0/records", "next offset")):
        done = subprocess.run([*command, "--page", url], capture_output=True, text=True, timeout=PATIENCE_S)
        assert (done.returncode, done.stderr) == (0, ""), url
        assert word in done.stdout
