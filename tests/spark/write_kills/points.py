"""The points of a sink at which a process dies, and the order that names one of them.

=========  ===============================================================  =============
point      progress so far                                                  process
=========  ===============================================================  =============
staging    half of a task's first write to a staged file is written         a task
staged     a task has staged all its rows, and not reported them yet        a task
asked      every task has reported, and Spark asks for the commit           the commit
decided    the commit is decided, and nothing is renamed                    the commit
renaming   one partition has its files, and another has not                 the commit
recording  all is renamed; the batch is not recorded, or its intent is      the commit
           not removed if it has no number
committed  our commit has returned, and Spark does not know it yet          the commit
=========  ===============================================================  =============

Tasks and commits have Python workers, processes that Spark starts. An order is a file. The first process at its point
removes it, so Spark's repetitions live.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tidelog.storage.fs.local import LocalFileSystem
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.manager.staged.sink_checkpoint import SINK_CHECKPOINT
from tidelog.storage.manager.staged.staged_commit import INTENT_FILE, StagedName

POINTS = ("staging", "staged", "asked", "decided", "renaming", "recording", "committed")
TASKS = POINTS[: POINTS.index("asked")]
DECIDED = POINTS[POINTS.index("decided") :]
"""The points from which on the rows will be in the log, whichever process dies."""


def give_order(path: Path, who: str, point: str, *, driver_group: int) -> None:
    """Order a death at ``point``. The table shows the values of ``who``:

    ============  ==============================================================================
    worker        a worker of the tasks: the process at the point, or all that have staged and wait
    commit        the worker that commits
    driver        the driver, with the process at the point and all others
    driver alone  the driver; the process at the point goes on until it notices
    ============  ==============================================================================
    """
    path.write_text(json.dumps({"point": point, "who": who, "driver_group": driver_group}))
    _staged_by(path).unlink(missing_ok=True)


def note_staging(order: Path) -> None:
    """Record this process as a task's worker."""
    with _staged_by(order).open("a") as file:
        file.write(f"{os.getpid()}\n")


def reached(path: Path, point: str) -> None:
    """Kill a process if the order at ``path`` names this point and was not carried out yet."""
    try:
        order = json.loads(path.read_text())
        if order["point"] != point:
            return
        path.unlink()
    except FileNotFoundError:
        return
    match order["who"]:
        case "worker" if point not in TASKS:
            for worker in set(_staged_by(path).read_text().split()):
                os.kill(int(worker), signal.SIGKILL)
        case "worker" | "commit":
            os.kill(os.getpid(), signal.SIGKILL)
        case "driver alone":
            os.killpg(order["driver_group"], signal.SIGKILL)
        case "driver":
            os.killpg(order["driver_group"], signal.SIGKILL)
            os.killpg(os.getpgrp(), signal.SIGKILL)


def _staged_by(order: Path) -> Path:
    return order.with_name("staged-by")


@contextmanager
def dying_files(order: Path) -> Iterator[None]:
    """Patch the file system so that its calls reach their points."""
    pwrite, rename, remove = LocalFile.pwrite, LocalFileSystem.rename, LocalFileSystem.remove
    adopting: list[Path] = []

    def dying_pwrite(file: LocalFile, data: Any, position: int) -> int:
        if StagedName.parse(file.path.name):
            with memoryview(data).cast("B") as view:
                pwrite(file, view[: len(view) // 2], position)
            reached(order, "staging")
        return pwrite(file, data, position)

    def dying_rename(fs: LocalFileSystem, source: Path, target: Path) -> None:
        if StagedName.parse(source.name):
            if adopting and adopting[-1] != target.parent:
                reached(order, "renaming")
            adopting.append(target.parent)
        if target.name == SINK_CHECKPOINT:
            reached(order, "recording")
        rename(fs, source, target)
        if target.name == INTENT_FILE:
            reached(order, "decided")

    def dying_remove(fs: LocalFileSystem, path: Path, *, missing_ok: bool = False) -> None:
        if path.name == INTENT_FILE:
            reached(order, "recording")
        remove(fs, path, missing_ok=missing_ok)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalFile, "pwrite", dying_pwrite)
        patch.setattr(LocalFileSystem, "rename", dying_rename)
        patch.setattr(LocalFileSystem, "remove", dying_remove)
        yield
