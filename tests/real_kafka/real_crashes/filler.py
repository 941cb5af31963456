"""Writers on a disk that becomes full: the process that fills the disk and then checks the log directories.

Run as a program, it reads its instructions as JSON from stdin and prints its results as JSON lines. Each case has a
copy of the log directory on the disk, writers in a forked process, and a moment at which the disk becomes full:

1. After ``fill_at`` steps the rest of the disk is filled, except ``left`` pages or files.
2. The writers continue for at most ``steps`` steps, each until its first error. Then comes a clean shutdown, or the
   process just ends.
3. On the full disk the log directory is read, copied elsewhere, and opened for writing, which may fail.
4. The space is freed, and in some cases ``recover`` runs. Then an owner opens the log directory, and everything is read
   and checked again.

``ledger`` has the rules that the log directory must satisfy.
"""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import tidelog
from real_kafka.real_crashes.ledger import Judge, Ledger
from real_kafka.real_crashes.scene import known_writers, settle, verify_sound
from real_kafka.real_crashes.writer import Writer, make_writers, open_all, report
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.recovery.directory_recovery import recover_directory
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions

PAGE_BYTES = 4096
DISK_BYTES = 16 << 20
DISK_FILES = 4000

Case = dict[str, Any]


class Disk:
    """A disk that becomes full in one of three ways: ``bytes``, files (``inodes``), or size of a file (``growth``).

    The first two need a small file system of their own, which a ballast fills. The last one limits the calling process,
    and
    is the only way if mounting is not allowed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ballast = root / "ballast"

    def fill(self, kind: str, left: int) -> None:
        """Fill the disk except ``left`` pages or files, or limit each file to ``left`` pages."""
        if kind == "growth":
            resource.setrlimit(resource.RLIMIT_FSIZE, (left * PAGE_BYTES, resource.RLIM_INFINITY))
            return
        self.ballast.mkdir()
        if kind == "inodes":
            made = 0
            with UntilFull():
                while True:
                    (self.ballast / str(made)).touch()
                    made += 1
            for number in range(min(left, made)):
                (self.ballast / str(number)).unlink()
            return
        with (self.ballast / "bytes").open("wb", buffering=0) as file:
            with UntilFull():
                while True:
                    file.write(bytes(PAGE_BYTES))
            file.truncate(max(0, file.tell() // PAGE_BYTES - left) * PAGE_BYTES)

    def free(self) -> None:
        shutil.rmtree(self.ballast, ignore_errors=True)


class UntilFull:
    """A context that ends without an error when the disk is full."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        return isinstance(error, OSError) and error.errno == errno.ENOSPC


def write_until_full(disk: Disk, case: Case, directory: Path) -> None:
    """Run the writers in their own process."""
    Writer.longest_pause_s = 0
    source = random.Random(case["seed"])
    if case["fill_at"] < 0:
        disk.fill(case["kind"], case["left"])
    try:
        opened = open_all(str(directory), case["properties"])
        writers = make_writers(opened, {"seed": case["seed"], "writers": case["writers"]})
        for writer in writers:
            writer.begin()
    except tidelog.TidelogError as error:
        report_full("open", error)
        return
    for _ in range(case["fill_at"]):
        source.choice(writers).step()
    if case["fill_at"] >= 0:
        disk.fill(case["kind"], case["left"])
    for _ in range(case["steps"]):
        if not writers:
            break
        writer = source.choice(writers)
        try:
            writer.step()
        except tidelog.TidelogError as error:
            report_full(writer.name, error)
            writers.remove(writer)
    if case["stops"]:
        report("closing")
        try:
            opened.close()
            report("closed")
        except tidelog.TidelogError as error:
            report_full("close", error)


def report_full(what: str, error: tidelog.TidelogError) -> None:
    report("full", what, type(error).__name__, error.message, error.path)


def in_process(work: Callable[[], None]) -> list[Any]:
    """Run ``work`` in a forked process that ends as if killed. Return its reports from a pipe, which is never full."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.dup2(writing, 1)
            work()
        except BaseException:
            report("failed", traceback.format_exc()[-3000:])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as reports:
        heard = [json.loads(line) for line in reports]
    assert os.waitpid(process, 0)[1] == 0, "the writers' process was ended by a signal"
    return heard


def run(disk: Disk, case: Case, template: Path, out: Path) -> dict[str, Any]:
    """Run a case and return its results. Raise AssertionError if the log directory violates a rule."""
    directory = disk.root / f"case-{case['number']}"
    shutil.copytree(template, directory)
    case["writers"] = known_writers(ledger := Ledger())
    reports = in_process(lambda: write_until_full(disk, case, directory))
    ledger.take(reports)
    judge = Judge(ledger, only_kills=False)
    try:
        with tidelog.open_directory(directory, read_only=True) as left:
            judge.look(left)
        shutil.copytree(directory, out / directory.name)
        reopened = in_process(lambda: reopen(disk, case, directory))
        ledger.take(reopened)
        with tidelog.open_directory(directory, read_only=True) as left:
            judge.look(left)
    finally:
        disk.free()
    if case["recovers"]:
        result = recover_directory(LOCAL, directory, RecoverOptions(now_ms=SYSTEM_CLOCK.now_ms()))
        assert not result.failures, result.failures
        verify_sound(directory)
        with tidelog.open_directory(directory, read_only=True) as recovered:
            judge.look(recovered)
    settle(directory, judge)
    with tidelog.open_directory(directory, read_only=True) as whole:
        judge.read_again(whole)
    shutil.rmtree(directory)
    full = [words[1:] for words in (*reports, *reopened) if words[0] == "full"]
    return {"kind": case["kind"], "full": full, "acknowledged": ledger.counts.acknowledged}


def reopen(disk: Disk, case: Case, directory: Path) -> None:
    """Open the log directory for writing on the full disk: it opens, or reports that the disk is full."""
    if case["kind"] == "growth":
        disk.fill(case["kind"], case["left"])
    try:
        opened = tidelog.open_directory(directory)
        for partition in opened.partitions():
            if not partition.topic.startswith("__"):
                opened.log(partition.topic, partition.partition)
        if case["stops"]:
            opened.close()
    except tidelog.TidelogError as error:
        report_full("reopen", error)


def mount(root: Path) -> None:
    """Mount a tmpfs at ``root`` in this process's mount namespace. Raise CalledProcessError if that is not allowed."""
    options = f"size={DISK_BYTES},nr_inodes={DISK_FILES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(root)], check=True, capture_output=True)


def main() -> None:
    orders = json.load(sys.stdin)
    root, template, out = (Path(orders[name]) for name in ("root", "template", "out"))
    if orders["is_mounted"]:
        mount(root)
    for case in orders["cases"]:
        try:
            result = run(Disk(root), case, template, out)
        except BaseException:
            result = {"failure": f"case {case['number']}: {traceback.format_exc()}"}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
