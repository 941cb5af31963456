"""The log directories and partitions that a command line selects."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from cli.runner import rows, run
from conftest import GoldenFactory
from golden_sets import FLIGHTS, FORMATS, SCENARIOS
from tidelog.cli.progress import CancellableAdvance
from tidelog.cli.report import ExitCode
from tidelog.cli.targets import Target, each_target
from tidelog.model import CancelledError


def counted(*arguments: object, code: int = 0) -> set[str]:
    return {f"{row['topic']}-{row['partition']}" for row in rows("count", *arguments, "--headers-only", code=code)}


def test_names_choose_topics_and_partitions(golden: GoldenFactory) -> None:
    flights = golden(FLIGHTS)
    assert counted(flights, "flights-1", "airports") == {"flights-1", "airports-0"}
    assert counted(flights, "flights-?") == {f"flights-{number}" for number in range(4)}
    assert counted(flights, "flights-*") == {f"flights-{number}" for number in range(4)} | {
        "flights-eos-0",
        "flights-eos-1",
    }
    assert counted(flights, "--topic", "delays", "-t", "air*") == {"delays-0", "delays-1", "airports-0"}


def test_a_partition_directory_means_that_partition_only(golden: GoldenFactory) -> None:
    flights = golden(FLIGHTS)
    assert counted(flights / "flights-2") == {"flights-2"}
    assert counted(flights / "flights-2", flights / "airports-0") == {"flights-2", "airports-0"}
    assert counted(f"{flights}/flights-?") == {f"flights-{number}" for number in range(4)}
    assert len(counted(flights / "flights-2", flights)) == len(counted(flights))


def test_inside_a_partition_directory(golden: GoldenFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden(FLIGHTS) / "delays-1")
    assert counted(".") == {"delays-1"}


def test_a_name_wins_over_a_path_of_the_working_directory(
    golden: GoldenFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(golden(FLIGHTS))
    assert counted(".", "delays-0") == {"delays-0"}
    assert counted("delays-0", "delays-1") == {"delays-0", "delays-1"}


def test_several_directories_and_globs(golden: GoldenFactory, tmp_path: Path) -> None:
    for name, set_name in (("disk-1", FLIGHTS), ("disk-2", SCENARIOS), ("disk-3", FORMATS)):
        (tmp_path / name).symlink_to(golden(set_name))
    found = rows("count", f"{tmp_path}/disk-*", "airports", "plain", "v1-none")
    assert [(Path(row["directory"]).name, row["topic"]) for row in found] == [
        ("disk-1", "airports"),
        ("disk-2", "plain"),
        ("disk-2", "plain"),
        ("disk-2", "plain"),
        ("disk-3", "v1-none"),
    ]


def test_a_directory_twice_counts_once(golden: GoldenFactory) -> None:
    flights = golden(FLIGHTS)
    assert len(rows("count", flights, f"{flights}/../{flights.name}", "--topic", "airports")) == 1


def test_a_name_that_nothing_matches_is_named(golden: GoldenFactory) -> None:
    assert "'fligths'" in run("count", golden(FLIGHTS), "flights", "fligths", code=2).stderr


def test_directories_on_their_way_are_no_partitions(golden_copy: GoldenFactory) -> None:
    flights = golden_copy(FLIGHTS)
    leaving = flights / f"airports-0.{'0' * 32}-delete"
    (flights / "airports-0").rename(leaving)
    assert "airports-0" not in counted(flights)
    run("count", leaving, code=3)
    run("count", flights / "meta.properties", code=3)


def test_an_interruption_ends_the_directories_under_way(golden: GoldenFactory) -> None:
    advance = CancellableAdvance(lambda _bytes: None)
    started = threading.Event()

    def read_for_long(_target: Target) -> None:
        started.set()
        for _ in range(60_000):
            advance(1)
            time.sleep(0.001)

    def interrupt() -> None:
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        each_target([Target(path=golden(FLIGHTS))], read_for_long, ExitCode(), advance)
    thread.join()
    with pytest.raises(CancelledError):
        advance(1)
