"""Writers on a disk that runs full: the process that fills it, and what it then makes of the directories.

Run as a program: it reads its orders as JSON from stdin and prints its results as JSON lines. Each case has a copy of
the log directory on the disk, writers in a forked process, and a moment at which the disk gets full under them:

1. ``fill_at`` steps are made; then the rest of the disk is taken away, but for ``left`` pages or files.
2. The writers go on, at most ``steps`` steps, each until its first error; then the directory is stopped in order, or
   the process just ends.
3. On the full disk the directory is read, copied elsewhere as it lies, and opened for writing, which may fail.
4. There is space again: ``recover``, or an owner that opens it, and everything is read and checked once more.

``ledger`` says what is asked of the directory.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import tidelog
from real_kafka.real_crashes.ledger import Judge, Ledger
from real_kafka.real_crashes.scene import known_writers, settle, verify_sound
from real_kafka.real_crashes.writer import Writer, make_writers, open_all, report
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.recovery.recover import recover_directory
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions

PAGE_BYTES = 4096
DISK_BYTES = 16 << 20
DISK_FILES = 4000

Case = dict[str, Any]


class Disk:
    """Runs full in three ways: of ``bytes``, of files (``inodes``), and of what one file may grow to (``growth``).

    The first two need a small file system of their own, which a ballast fills; the last one concerns the process that
    asks for it, and is the only one where nothing can be mounted.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ballast = root / "ballast"

    def fill(self, kind: str, left: int) -> None:
        """Up to ``left`` pages, files, or pages a file."""
        if kind == "growth":
            resource.setrlimit(resource.RLIMIT_FSIZE, (left * PAGE_BYTES, resource.RLIM_INFINITY))
            return
        self.ballast.mkdir()
        if kind == "inodes":
            made = 0
            with until_full():
                while True:
                    (self.ballast / str(made)).touch()
                    made += 1
            for number in range(min(left, made)):
                (self.ballast / str(number)).unlink()
            return
        with (self.ballast / "bytes").open("wb", buffering=0) as file:
            with until_full():
                while True:
                    file.write(bytes(PAGE_BYTES))
            file.truncate(max(0, file.tell() // PAGE_BYTES - left) * PAGE_BYTES)

    def free(self) -> None:
        shutil.rmtree(self.ballast, ignore_errors=True)


@contextmanager
def until_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def write_until_full(disk: Disk, case: Case, directory: Path) -> None:
    """The writers' process."""
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
    """What a forked process that does ``work`` reports, through a pipe, which is never full; it ends as if killed."""
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
    """One case; its results. AssertionError where the directory is not as it should be."""
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
    """Opened for writing while the disk is full: it opens, or says that the disk is full."""
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
    """A tmpfs at ``root``, in this process's mount namespace. CalledProcessError where that is not allowed."""
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
