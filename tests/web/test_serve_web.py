"""``tidelog serve --web`` as processes: the broker, its pages, and their ends."""

from __future__ import annotations

import base64
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.runner import run
from log_maker import batch
from server.harness import WireClient
from server.server_process import ANY_PORT, RUN, ServerProcess, serving
from tidelog.protocol.api_key import ApiKey
from tidelog.testing.broker.loop_thread import PATIENCE_S
from web.harness import Served

ON_ANY_PORT = ("--override", f"listeners={ANY_PORT}")
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="pass:word";'
USERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": JAAS,
}


@contextmanager
def served_pages(
    directory: Path, *arguments: str, web: str = "127.0.0.1:0", code: str = RUN
) -> Iterator[tuple[ServerProcess, Served]]:
    """Run a broker with pages. Requests wait until they are ready."""
    with serving(directory, *arguments, "--web", web, code=code) as process:
        served = Served(process.line_with("pages").split()[1].rstrip("/"))
        yield process, served


def overrides(settings: dict[str, str]) -> list[str]:
    return [word for key, text in settings.items() for word in ("--override", f"{key}={text}")]


def pages_of(process: ServerProcess) -> list[int]:
    """Return the ids of the processes of the pages, which are children of the broker."""
    children = Path(f"/proc/{process._process.pid}/task")
    found = [int(word) for task in children.iterdir() for word in (task / "children").read_text().split()]
    return [pid for pid in found if b"--from-broker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, "it never came to be"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def sleeps_within(pid: int, seconds: float) -> int:
    """Return how often the threads of a process have gone to sleep within some time."""

    def slept() -> int:
        texts = [(one / "status").read_text() for one in Path(f"/proc/{pid}/task").iterdir()]
        return sum(int(text.partition("nonvoluntary")[0].rsplit(":", 1)[1]) for text in texts)

    before = slept()
    time.sleep(seconds)
    return slept() - before


def test_the_pages_show_the_traffic_of_clients_and_end_with_the_broker(tmp_path: Path) -> None:
    with served_pages(tmp_path, *ON_ANY_PORT) as (process, served):
        process.line_with("serving")
        with WireClient(process.port, client_id="shop") as client:
            topic = {"name": "orders", "num_partitions": 1, "replication_factor": 1}
            client.call(ApiKey.CREATE_TOPICS, topics=[topic])
            part = {"index": 0, "records": batch(0, [b"v"] * 5)}
            topics = [{"name": "orders", "partition_data": [part]}]
            client.call(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=topics)
            found = served.ready("/broker.json").json
            assert found["facts"]["state"] == "running"
            rows = {row["api"]: row for row in found["sections"]["requests"]["rows"]}
            assert rows["Produce"]["count"] == 1
            (connection,) = found["sections"]["connections"]["rows"]
            assert (connection["client_id"], connection["requests"]) == ("shop", 2)
            assert "/broker" in served.ready("/").text
            assert served.ready("/index.json").json["facts"]["topics"] >= 1
            (pid,) = pages_of(process)
            assert os.getpriority(os.PRIO_PROCESS, pid) == 10
            assert os.sched_getscheduler(pid) == os.SCHED_BATCH
            assert served.get("/", Host="evil.example.org").status == 421
        process.send_signal(signal.SIGTERM)
        code, words = process.ended()
    assert code == 0
    assert "The process of the pages has ended" not in words
    assert not is_alive(pid)
    assert (tmp_path / "tidelog-data" / ".kafka_cleanshutdown").exists()


def test_pages_sleep_without_requests(tmp_path: Path) -> None:
    with served_pages(tmp_path, *ON_ANY_PORT) as (process, served):
        assert served.ready("/broker.json").status == 200
        (pid,) = pages_of(process)
        wait_for(lambda: sleeps_within(pid, 0.5) == 0)


def test_pages_that_are_killed_start_again(tmp_path: Path) -> None:
    with served_pages(tmp_path, *ON_ANY_PORT) as (process, served):
        assert served.ready("/broker.json").status == 200
        (first,) = pages_of(process)
        os.kill(first, signal.SIGKILL)
        assert served.ready("/broker.json").json["facts"]["state"] == "running", "the visitor waits meanwhile"
        (second,) = pages_of(process)
        assert first != second
        assert any("The process of the pages has ended: signal 9" in line for line in process.lines)


def test_pages_end_with_a_broker_that_is_killed(tmp_path: Path) -> None:
    with served_pages(tmp_path, *ON_ANY_PORT) as (process, served):
        assert served.ready("/broker.json").status == 200
        (pid,) = pages_of(process)
        process.kill()
        wait_for(lambda: not is_alive(pid))


def test_a_second_signal_ends_both(tmp_path: Path) -> None:
    with served_pages(tmp_path, *ON_ANY_PORT) as (process, served):
        assert served.ready("/broker.json").status == 200
        (pid,) = pages_of(process)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.ended()
        wait_for(lambda: not is_alive(pid))


def test_a_token_is_needed_and_not_among_the_arguments(tmp_path: Path) -> None:
    with served_pages(tmp_path, *ON_ANY_PORT, "--web-token", "sesame-17") as (process, served):
        assert served.ready("/").status == 401
        assert served.get("/broker.json", Authorization="Bearer wrong").status == 401
        assert served.get("/broker.json", Authorization="Bearer sesame-17").status == 200
        (pid,) = pages_of(process)
        assert b"sesame-17" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        wait_for(lambda: any("has given a wrong token" in line for line in process.lines))
        address = served.base
        assert (
            "state              running" in run("inspect", address, "--page", "/broker", "--token", "sesame-17").stdout
        )
        assert "a token is needed" in run("inspect", address, "--page", "/broker", code=2).stderr


def test_users_of_the_broker_sign_in(tmp_path: Path) -> None:
    arguments = [*overrides(USERS), "--web-users"]
    with served_pages(tmp_path, *arguments, web="0.0.0.0:0") as (process, served):
        local = Served(served.base.replace("0.0.0.0", "127.0.0.1"))
        assert local.ready("/").status == 401
        right = "Basic " + base64.b64encode(b"ann:pass:word").decode()
        wrong = "Basic " + base64.b64encode(b"ann:hunter2").decode()
        assert local.get("/broker.json", Authorization=right).status == 200
        assert local.get("/broker.json", Authorization=wrong).status == 401
        assert run("inspect", local.base, "--page", "/broker", "--user", "ann:pass:word", "--json").stdout
        refusal = next(line for line in process.lines if "A visitor of the pages" in line)
        assert "127.0.0.1" in refusal
        assert not any("hunter2" in line or "pass:word" in line or "ann" in line for line in process.lines)


def test_the_pages_exist_while_the_logs_are_recovered(tmp_path: Path) -> None:
    with served_pages(tmp_path, *ON_ANY_PORT) as (process, _):
        process.line_with("serving")
        process.kill()
    slow = """
import time
from tidelog.storage.manager.logs.loading import Loading
run = Loading.run

def slowly(self):
    self.remaining_logs = dict.fromkeys([directory.path for directory in self._directories], 7)
    time.sleep(600)

Loading.run = slowly
"""
    with served_pages(tmp_path, *ON_ANY_PORT, code=slow + RUN) as (process, served):
        wait_for(lambda: served.ready("/broker.json").json["sections"]["log_dirs"]["rows"] != [])
        found = served.ready("/broker.json").json
        assert found["facts"]["state"] == "starting"
        (row,) = found["sections"]["log_dirs"]["rows"]
        assert (row["state"], row["remaining_logs"]) == ("loading", 7)
        process.kill()


def test_a_controller_has_pages(tmp_path: Path) -> None:
    (tmp_path / "controller.properties").write_text(
        "process.roles=controller\nnode.id=100\ncontroller.listener.names=CONTROLLER\n"
        "listeners=CONTROLLER://127.0.0.1:0\ncontroller.quorum.bootstrap.servers=127.0.0.1:1\nlog.dirs=data\n"
    )
    with served_pages(tmp_path, "controller.properties") as (_, served):
        found = served.ready("/broker.json").json
        assert found["title"] == "Controller 100"
        assert found["facts"]["roles"] == ["controller"]
        assert "groups" not in found["sections"]
        assert [row["path"] for row in found["sections"]["log_dirs"]["rows"]] == ["data"]
        assert "/logs/0" in served.ready("/").text


def test_a_file_after_the_option_is_the_file_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("no.such.key=1\n")
    with serving(tmp_path, "--web", "server.properties") as process:
        code, words = process.ended()
    assert code == 2
    assert "no.such.key" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--web", "nonsense"], "is not HOST:PORT"),
        (["--web", "0.0.0.0:0"], "give --web-token TOKEN or --web-users"),
        (["--web", "192.0.2.1:0"], "give --web-token TOKEN or --web-users"),
        (["--web", "no-such-host.invalid:0", "--web-users"], "cannot be used"),
    ],
)
def test_a_wrong_address_ends_the_start(arguments: list[str], words: str, tmp_path: Path) -> None:
    del tmp_path
    assert words in run("serve", *ON_ANY_PORT, *arguments, code=2).stderr


def test_a_port_in_use_ends_the_start(tmp_path: Path) -> None:
    with served_pages(tmp_path, *ON_ANY_PORT) as (_, served):
        port = served.base.rpartition(":")[2]
        assert "cannot be used" in run("serve", *ON_ANY_PORT, "--web", f"127.0.0.1:{port}", code=2).stderr
