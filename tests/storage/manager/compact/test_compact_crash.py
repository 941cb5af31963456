"""Interrupted compaction: a power cut before every call of the disk, and real kills at random moments.

The directory then loads as after a clean shutdown, and each log is unchanged or as a complete round left it.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from crash.crash_walk import CrashWalk
from dirty_directory import last_values, make_dirty, record_offsets, topic_settings
from log_maker import BASE_TIME
from tidelog.kernel import scan_batches
from tidelog.model import Isolation
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.compact.compact import compact_directory, compact_into
from tidelog.storage.manager.compact.compact_plan import CompactOptions
from tidelog.storage.manager.survey.setting_sources import SettingSources
from tidelog.testing import ManualClock, SimulatedDisk

AT = Path("/data")
CLOCK = ManualClock(BASE_TIME + 1_000_000)
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "2048", "min.cleanable.dirty.ratio": "0"}
OPTIONS = CompactOptions(sources=SettingSources(overrides=SETTINGS), clock=CLOCK, threads=1)

Contents = dict[str, bytes]
"""All batches of each log, by its name."""


@dataclass
class Story:
    """A disk whose logs must always be as they were before, or as they are in the end."""

    disk: SimulatedDisk
    ends: tuple[Contents, Contents]

    def promise(self) -> tuple[Contents, Contents]:
        return self.ends


def contents(fs: FileSystem, path: Path) -> Contents:
    """Load each log as a broker does after a clean shutdown, and return its batches."""
    assert fs.exists(path / ".kafka_cleanshutdown")
    found = {}
    for name in fs.list_names(path):
        if not name.startswith("t-"):
            continue
        log = PartitionLog.open(
            OpenRequest(fs=fs, directory=path / name, clock=CLOCK, config=LogConfig(), clean_shutdown=True)
        )
        assert log.loaded.recovered == ()
        found[name] = b"".join(
            bytes(chunk.buffer) for segment in log.segments for chunk in segment.chunks(0, verify_crc=True)
        )
        log.close_handlers()
    return found


def data_of(batches: bytes) -> list[tuple[int, int]]:
    """Return base offset and number of records of each non-empty data batch."""
    table = scan_batches(batches)
    kept = table.take(~table.is_control & (table.record_count > 0))
    return list(zip(kept.base_offset.tolist(), kept.record_count.tolist(), strict=True))


def one_or_the_other(path: Path, found: SimulatedDisk, ends: tuple[Contents, Contents]) -> None:
    before, after = ends
    for name, data in contents(found, path).items():
        assert data in (before[name], after[name]), name
    # A log whose checkpoint is behind is cleaned again. That removes the markers that the first clean emptied.
    assert compact_directory(found, path, OPTIONS).failures == ()
    assert {name: data_of(left) for name, left in contents(found, path).items()} == {
        name: data_of(wanted) for name, wanted in after.items()
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dirty") / "data"
    return make_dirty(root, partitions=2, batches=30, segment_bytes=2048)


def story(source: Path) -> Story:
    done = SimulatedDisk.load(source, AT)
    compact_directory(done, AT, OPTIONS)
    before = contents(SimulatedDisk.load(source, AT), AT)
    return Story(disk=SimulatedDisk.load(source, AT), ends=(before, contents(done, AT)))


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_the_power_gone_while_logs_are_compacted(source: Path, every: int) -> None:
    walk = CrashWalk[Story](states=2, every=every, examine=partial(one_or_the_other, AT))
    walk.run(story(source), lambda told: compact_directory(told.disk, AT, OPTIONS))
    assert walk.points > 100


def test_the_power_gone_while_a_copy_is_made(source: Path) -> None:
    """The source does not change. The copy is complete, or does not have its name yet."""
    copy = AT.with_name("copy")

    def examine(found: SimulatedDisk, ends: tuple[Contents, Contents]) -> None:
        assert contents(found, AT) == ends[0]
        if found.exists(copy):
            assert contents(found, copy) == ends[1]
        else:
            compact_into(found, AT, OPTIONS, output=copy)
            assert contents(found, copy) == ends[1]

    walk = CrashWalk[Story](states=2, every=61, examine=examine)
    walk.run(story(source), lambda told: compact_into(told.disk, AT, OPTIONS, output=copy))


class TestRealKills:
    """The command in a separate process, which a signal ends at a random moment."""

    @pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
    def test_killed(self, tmp_path: Path, seed: int) -> None:
        rng = random.Random(seed)
        path = make_dirty(tmp_path / "data", partitions=3, batches=200, segment_bytes=4096, seed=seed)
        values, before = last_values(path, Isolation.READ_COMMITTED), record_offsets(path)
        states = [before]
        for _ in range(3):
            self._end(path, signal.SIGKILL, rng.uniform(0.0, 0.15))
            states.append(record_offsets(path))
            assert last_values(path, Isolation.READ_COMMITTED) == values
        assert self._end(path, None, 0)[0] == 0
        after = record_offsets(path)
        assert last_values(path, Isolation.READ_COMMITTED) == values
        for state in states:
            assert all(state[name] in (before[name], after[name]) for name in before)

    def test_ctrl_c(self, tmp_path: Path) -> None:
        path = make_dirty(tmp_path / "data", partitions=3, batches=200, segment_bytes=4096)
        before = record_offsets(path)
        code, said = self._end(path, signal.SIGINT, 0.02)
        assert "Traceback" not in said
        assert (code, "Interrupted" in said) in ((130, True), (0, False)), said
        left = record_offsets(path)
        assert not [file for file in path.rglob("*") if file.suffix in (".cleaned", ".swap")]
        assert self._end(path, None, 0)[0] == 0
        after = record_offsets(path)
        assert all(left[name] in (before[name], after[name]) for name in before)

    @staticmethod
    def _end(path: Path, ended_by: signal.Signals | None, delay_s: float) -> tuple[int, str]:
        """Return the exit code and the output. The signal comes ``delay_s`` after the first cleaned file appears."""
        command = [sys.executable, "-m", "tidelog", "compact", str(path), "--apply", *topic_settings()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            if ended_by is not None:
                while process.poll() is None and not any(path.rglob("*.cleaned")):
                    time.sleep(0.001)
                time.sleep(delay_s)
                if process.poll() is None:
                    process.send_signal(ended_by)
            assert process.stdout is not None
            said = process.stdout.read()
            return process.wait(60), said
