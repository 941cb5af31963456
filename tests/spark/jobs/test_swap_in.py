"""The driver of a restore is killed during its swap: each log is then complete or absent."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tidelog
from cli.runner import rows as printed
from cli.runner import run as command
from log_maker import mark_clean, plain, write_segment
from tidelog.model import TopicPartition
from tidelog.spark.jobs.staging import new_staging, remove_staging
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL

PROGRAM = Path(__file__).with_name("dying_swap.py")
JOB = "0" * 16
WHOLE = {
    0: [],  # before the empty t-0 is removed
    1: [],  # before the staged t-0 arrives
    2: ["t-0"],  # before that is synced
    3: ["t-0"],  # before t-1 arrives, which did not exist
    4: ["t-0", "t-1"],
}
"""The restored logs after a death, by the step before which it happens."""
STEPS = len(WHOLE)


def make(directory: Path) -> list[Path]:
    """Make a directory with a log of its own, an empty ``t-0``, and two logs that tasks staged."""
    with tidelog.open_log(directory / "mine-0") as log:
        log.append(b"mine")
    with tidelog.open_log(directory / "t-0"):
        pass
    staged = [new_staging(directory, TopicPartition("t", number), JOB) for number in range(2)]
    for path in staged:
        write_segment(path, 7, [plain(7)])
    return staged


def swap(directory: Path, step: int, staged: list[Path]) -> int:
    return subprocess.run([sys.executable, PROGRAM, directory, str(step), *staged], timeout=200, check=False).returncode


def records(directory: Path) -> dict[str, list[int]]:
    found = {}
    for path in sorted(directory.glob("t-?")):
        with tidelog.open_log(path, read_only=True) as log:
            found[path.name] = [record.offset for record in log.records()]
    return {name: offsets for name, offsets in found.items() if offsets}


@pytest.mark.parametrize("step", sorted(WHOLE))
def test_killed_at_each_step(tmp_path: Path, step: int) -> None:
    staged = make(tmp_path)
    assert swap(tmp_path, step, staged) == -signal.SIGKILL
    expected = {name: list(range(7, 17)) for name in WHOLE[step]}
    assert records(tmp_path) == expected
    assert not CleanShutdownFile(LOCAL, tmp_path).exists()
    command("recover", tmp_path, "--apply")
    assert records(tmp_path) == expected
    assert {row["message"] for row in printed("verify", tmp_path)} == {"loads it as it is"}


def test_to_the_end(tmp_path: Path) -> None:
    staged = make(tmp_path)
    mark_clean(tmp_path)
    assert swap(tmp_path, STEPS, staged) == 0
    remove_staging(tmp_path, JOB)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["mine-0", "t-0", "t-1"]
    assert records(tmp_path) == {name: list(range(7, 17)) for name in ("t-0", "t-1")}
    assert CleanShutdownFile(LOCAL, tmp_path).exists()
    assert {row["message"] for row in printed("verify", tmp_path)} == {"loads it as it is"}
