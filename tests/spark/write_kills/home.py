"""What a sink writes to, and a stream reads from; and what is found there after a death."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import tidelog
from cli.runner import run
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.directory_state import Condition
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions, RecoverPlan, plan_directory

TOPIC, PARTITIONS = "t", 3
BEFORE, JOB_ROWS, FILES = 5, 300, 2


class Home:
    """The topic ``t`` in ``logs`` is written to. The rows of its jobs count on; those of a stream are put into text
    files in ``source`` first, one for a task, for the query to find them.
    """

    def __init__(self, path: Path, logs: Path | None = None) -> None:
        """``logs``: a directory that has the topic; None: a new one, with some records."""
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
        """Of the next job."""
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
        """To be there from now on."""
        self.expected += [b"%d" % row for row in rows]

    def require_each_once(self) -> None:
        assert values(self.logs) == sorted(self.expected)

    def copy(self, name: str) -> Path:
        """Of ``logs``, as it is now."""
        return Path(shutil.copytree(self.logs, self.path / name))


def values_by_partition(logs: Path) -> dict[int, list[bytes]]:
    """Of the topic, in order; the offsets are dense."""
    found = {}
    with tidelog.open_directory(logs, read_only=True) as directory:
        for partition in directory.partitions(TOPIC):
            records = list(directory.log(TOPIC, partition.partition).records())
            assert [record.offset for record in records] == list(range(len(records)))
            found[partition.partition] = [record.value or b"" for record in records]
    return found


def values(logs: Path) -> list[bytes]:
    """Of the topic, sorted."""
    return sorted(value for part in values_by_partition(logs).values() for value in part)


def plan_of(logs: Path) -> RecoverPlan:
    """What a recovery would do."""
    return plan_directory(LOCAL, logs, RecoverOptions(now_ms=SYSTEM_CLOCK.now_ms()))


def require_nothing_left(logs: Path) -> None:
    """Nothing is wrong, and nothing is left of a commit."""
    run("verify", logs)
    plan = plan_of(logs)
    assert (plan.commit, plan.staged, plan.temporary) == (None, (), ())


def require_settled(logs: Path) -> None:
    """And the directory counts as stopped in order, as one does of which every partition was written to."""
    require_nothing_left(logs)
    plan = plan_of(logs)
    assert plan.condition is Condition.CLEAN
    assert all(partition.is_settled for partition in plan.partitions)
