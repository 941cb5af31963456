"""The target of a sink and the source of a stream, and checks of both after a death."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import tidelog
from cli.runner import run
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions, RecoverPlan, plan_directory

TOPIC, PARTITIONS = "t", 3
BEFORE, JOB_ROWS, FILES = 5, 300, 2


class Home:
    """A directory: jobs write to the topic ``t`` in its ``logs``.

    The rows of the jobs have consecutive numbers. A stream's rows are first put into text files in ``source``, one for
    each
    task, where the query finds them.
    """

    def __init__(self, path: Path, logs: Path | None = None) -> None:
        """Use ``logs``, which has the topic. If it is None, make a new log directory with some records."""
        self.path = path
        self.logs = path / "logs" if logs is None else logs
        self.expected: list[bytes] = []
        self._next = 0
        path.mkdir()
        if logs is None:
            with tidelog.open_directory(self.logs) as directory:
                for partition in range(PARTITIONS):
                    values = [b"before-%d-%d" % (partition, number) for number in range(BEFORE)]
                    directory.log(TOPIC, partition).append_batch(values)
                    self.expected += values

    def new_rows(self, sink: str) -> range:
        """Return the rows of the next job. Write a stream's rows to its source files."""
        rows = range(self._next, self._next + JOB_ROWS)
        self._next = rows.stop
        if sink == "stream":
            source = self.path / "source"
            source.mkdir(exist_ok=True)
            for number in range(FILES):
                text = "".join(f"{row}\n" for row in rows[number::FILES])
                (source / f"{rows.start}-{number}.txt").write_text(text)
        return rows

    def expect(self, rows: Iterable[int]) -> None:
        """Expect the rows in the topic from now on."""
        self.expected += [b"%d" % row for row in rows]

    def require_each_once(self) -> None:
        assert values(self.logs) == sorted(self.expected)

    def copy(self, name: str) -> Path:
        """Copy ``logs`` as it is now."""
        return Path(shutil.copytree(self.logs, self.path / name))


def values_by_partition(logs: Path) -> dict[int, list[bytes]]:
    """Return the topic's values by partition, sorted by offset. The offsets must be dense."""
    found = {}
    with tidelog.open_directory(logs, read_only=True) as directory:
        for partition in directory.partitions(TOPIC):
            records = list(directory.log(TOPIC, partition.partition).records())
            assert [record.offset for record in records] == list(range(len(records)))
            found[partition.partition] = [record.value or b"" for record in records]
    return found


def values(logs: Path) -> list[bytes]:
    """Return the topic's values, sorted."""
    return sorted(value for part in values_by_partition(logs).values() for value in part)


def plan_of(logs: Path) -> RecoverPlan:
    """Return the plan of a recovery."""
    return plan_directory(LOCAL, logs, RecoverOptions(now_ms=SYSTEM_CLOCK.now_ms()))


def require_nothing_left(logs: Path) -> None:
    """Check that nothing is wrong, and that no file of a commit remains."""
    run("verify", logs)
    plan = plan_of(logs)
    assert (plan.commit, plan.staged, plan.temporary) == (None, (), ())


def require_settled(logs: Path) -> None:
    """Check also that the directory counts as cleanly shut down, with every partition settled."""
    require_nothing_left(logs)
    plan = plan_of(logs)
    assert plan.condition is DirectoryCondition.CLEAN
    assert all(partition.is_settled for partition in plan.partitions)
