"""The content of a log directory after a death in a sink, and the result of each possible next owner.

===================  ==========================================  ============================
death                rows that readers see                       rows after the next owner
===================  ==========================================  ============================
before the decision  none                                        none; staged files are waste
after the decision   in each partition all or none               all
===================  ==========================================  ============================
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import tidelog
from cli.runner import run
from spark.write_kills.home import Home, plan_of, require_settled, values, values_by_partition


def open_and_close(logs: Path) -> None:
    tidelog.open_directory(logs).close()


def recover(logs: Path) -> None:
    run("recover", logs, "--apply")


def require_all_or_nothing(home: Home, rows: Iterable[int], *, is_decided: bool) -> None:
    """Check the next owners on copies of ``home``."""
    run("verify", home.logs)
    wanted = sorted([*home.expected, *(b"%d" % row for row in rows if is_decided)])
    before = values_by_partition(home.logs)
    recovered = carried_out(home, recover)
    require_settled(recovered)
    opened = carried_out(home, open_and_close)
    assert plan_of(opened).commit is None
    assert values(recovered) == values(opened) == wanted
    after = values_by_partition(recovered)
    old = set(home.expected)
    for partition, found in before.items():
        none = [value for value in after[partition] if value in old]
        assert found in (none, after[partition])
    for copy in (recovered, opened):
        shutil.rmtree(copy)


def carried_out(home: Home, owner: Callable[[Path], None]) -> Path:
    copy = home.copy(owner.__name__)
    owner(copy)
    return copy
