"""A program that swaps staged logs into a directory as a restore's driver does, and kills itself on the way.

    python dying_swap.py DIRECTORY STEP STAGED...

STEP counts the file system's calls that rename or sync. The process kills itself before the call with that number. The
first staged log becomes ``t-0``, the next ``t-1`` and so on, each with offsets 7 to 16.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.spark.jobs import staging as module
from tidelog.storage.fs import LOCAL
from tidelog.storage.fs.local import LocalFileSystem
from tidelog.storage.manager.directory.log_directory import LogDirectory


class DyingFileSystem(LocalFileSystem):
    def __init__(self, step: int) -> None:
        super().__init__()
        self.steps_left = step

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def sync_dir(self, path: Path) -> None:
        self._step()
        super().sync_dir(path)

    def _step(self) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main(directory: str, step: str, *staged: str) -> None:
    home = LogDirectory(LOCAL, Path(directory))
    home.mark_open()
    vars(module)["LOCAL"] = DyingFileSystem(int(step))
    for number, path in enumerate(staged):
        module.swap_in(home, TopicPartition("t", number), Path(path), end_offset=17, job_id="0" * 16)
    home.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
