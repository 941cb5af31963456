"""The command is killed at random moments while it follows a source that is written. No batch is doubled or missing."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirroring.source_and_copy import KEEPING, PATIENCE_S, assert_equal, options, produce
from tidelog.mirroring.blocking import run_mirror
from tidelog.testing import Broker

PARTITIONS = 3
KILLS = 5
WITH_AN_END_THAT_HANGS = """
import asyncio, sys
from tidelog.cli.main import main
from tidelog.mirroring.target.mirror_directory import MirrorDirectory

async def close(self):
    print("closing", file=sys.stderr, flush=True)
    await asyncio.sleep(600)

MirrorDirectory.close = close
main()
"""


@contextmanager
def written(broker: Broker) -> Iterator[None]:
    """Produce into all partitions, turn by turn, until the block ends."""
    over = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for turn in range(10_000):
                if over.is_set():
                    break
                for partition in range(PARTITIONS):
                    produce(broker, "orders", [b"%0500d" % (turn * 20 + n) for n in range(20)], partition=partition)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE_S)
    assert not failures


def command(broker: Broker, copy: Path, *words: str) -> list[str]:
    servers = broker.bootstrap_servers
    own = ["--from", servers, "--topics", "orders", "--no-groups", "--min-free", "1MB"]
    return [sys.executable, "-m", "tidelog", "mirror", *own, str(copy), "--apply", *words]


def log_bytes(copy: Path) -> int:
    return sum(path.stat().st_size for path in copy.glob("orders-*/*.log"))


def test_kills_at_random_moments(tmp_path: Path) -> None:
    chance = random.Random(22)
    copy = tmp_path / "copy"
    with Broker(tmp_path / "source", configs=KEEPING) as broker:
        broker.create_topic("orders", PARTITIONS, {"segment.bytes": "1048576"})
        with written(broker):
            for _ in range(KILLS):
                wanted = log_bytes(copy) + chance.randrange(1, 200_000)
                with subprocess.Popen(command(broker, copy, "--follow"), stderr=subprocess.DEVNULL) as process:
                    while log_bytes(copy) < wanted:
                        assert process.poll() is None
                    process.send_signal(signal.SIGKILL)
        assert not (copy / ".kafka_cleanshutdown").exists()
        result = run_mirror(options(broker, copy, topics="orders", with_coordinators=False))
        assert result.is_complete
        assert_equal(broker.directory, copy, *(f"orders-{number}" for number in range(PARTITIONS)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("output", "expected"), [((), "3 of 3 partitions are complete"), (("--jsonl",), '"kind": "partition"')]
)
def test_a_signal_ends_following_cleanly(
    tmp_path: Path, number: signal.Signals, output: tuple[str, ...], expected: str
) -> None:
    copy = tmp_path / "copy"
    with Broker(tmp_path / "source", configs=KEEPING) as broker:
        broker.create_topic("orders", PARTITIONS)
        produce(broker, "orders", [b"a"])
        with subprocess.Popen(command(broker, copy, "--follow", *output), stdout=subprocess.PIPE, text=True) as process:
            while not log_bytes(copy):
                assert process.poll() is None
            process.send_signal(number)
            printed, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        assert expected in printed
    assert (copy / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("output", [(), ("--jsonl",)])
def test_a_second_signal_ends_it_like_a_kill(tmp_path: Path, number: signal.Signals, output: tuple[str, ...]) -> None:
    copy = tmp_path / "copy"
    with Broker(tmp_path / "source", configs=KEEPING) as broker:
        broker.create_topic("orders")
        produce(broker, "orders", [b"a"])
        arguments = [sys.executable, "-c", WITH_AN_END_THAT_HANGS, *command(broker, copy, "--follow", *output)[3:]]
        with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            while not log_bytes(copy):
                assert process.poll() is None
            process.send_signal(number)
            assert process.stderr is not None
            while "closing" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == -number
    assert not (copy / ".kafka_cleanshutdown").exists()
