"""A program for the live test: it reads the partitions of a live broker repeatedly and prevents every write.

``python live_reader.py SECONDS MOST_SECONDS PARTITION_DIRECTORY...`` reads each partition to its log end until the time
is over, or longer until it has read enough. Then it prints its counts as JSON. The values contain their offsets, so
every record is checked. A view is read several times, also after its segments were deleted. From the start of the
reading on, an audit hook raises an error for every call that could change a file, in any library.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tidelog.model import Isolation, OffsetOutOfRangeError
from tidelog.record.rows import iter_records
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView, Until

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate",
    "os.utime", "os.setxattr", "os.removexattr", "fcntl.lockf", "fcntl.flock", "shutil.rmtree", "shutil.move",
}  # fmt: skip
READS_OF_A_VIEW = 4
ENOUGH_READS = ENOUGH_SEGMENTS = 21


class ChangeError(Exception):
    """A call tried to change a file."""


def forbid_changes(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
        raise ChangeError(f"opened for writing: {arguments}")
    if event in CHANGES:
        raise ChangeError(f"{event}{arguments}")


def read_once(view: LogView, seen: Counter[str]) -> None:
    """Read all records. Each must contain the offset at which it was written."""
    start, previous = view.log_start, view.log_start - 1
    for chunk in view.columns(view.range(isolation=Isolation.LOG_END)):
        for record in iter_records(chunk.columns):
            if record.offset <= previous:
                raise AssertionError(f"offset {record.offset} after {previous} in {view.directory}")
            if record.value is None or int(record.value[:12]) != record.offset:
                raise AssertionError(f"offset {record.offset} of {view.directory} holds {record.value!r}")
            seen["gaps"] += record.offset - previous - 1
            previous = record.offset
            seen["records"] += 1
    seen["reads"] += 1
    if view.log_start > start:
        seen["log start moved under a read"] += 1


def is_enough(seen: Counter[str], files: set[str]) -> bool:
    """Return True if the log was read often, rolled and was compacted."""
    return seen["reads"] >= ENOUGH_READS and len(files) >= ENOUGH_SEGMENTS and seen["gaps"] > 0


def main() -> None:
    begun = time.monotonic()
    least_s, most_s = (float(word) for word in sys.argv[1:3])
    seen: Counter[str] = Counter()
    held: set[str] = set()
    files: set[str] = set()
    sys.addaudithook(forbid_changes)
    while (passed_s := time.monotonic() - begun) < least_s or (passed_s < most_s and not is_enough(seen, files)):
        for name in sys.argv[3:]:
            view = LogView(LOCAL, Path(name))
            held.add(str(view.condition))
            for _ in range(READS_OF_A_VIEW):
                try:
                    read_once(view, seen)
                except OffsetOutOfRangeError:
                    seen["log start passed the reader"] += 1
                    view.refresh()
            if view.end_offset(Until.HIGH_WATERMARK) > view.log_end:
                raise AssertionError("the high watermark is above the log end")
            files.update(f"{name}/{segment.base_offset}" for segment in view.state.listing.segments)
    print(json.dumps({**seen, "conditions": sorted(held), "segments": len(files)}))


if __name__ == "__main__":
    main()
