"""Streams whose worker or driver is killed: in the end the sink has each record once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_maker import mark_clean, plain, write_segment
from spark_jvm import plain_environment

SCRIPT = Path(__file__).with_name("dying_session.py")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("t-0", "t-1"):
        write_segment(tmp_path / "logs" / name, 0, [plain(10 * number) for number in range(10)])
    mark_clean(tmp_path / "logs")
    return tmp_path / "logs"


def sunk(sink: Path) -> Iterator[tuple[int, int]]:
    """Yield the rows that count for Spark's file sink. Its log omits files of uncommitted batches."""
    for log in sorted((sink / "_spark_metadata").glob("[0-9]*")):
        for line in log.read_text().splitlines()[1:]:
            path = Path(json.loads(line)["path"].removeprefix("file://"))
            for row in map(json.loads, path.read_text().splitlines()):
                yield row["partition"], row["offset"]


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("reader", ["jvm", "python"])
@pytest.mark.parametrize("offset", [5, 45], ids=["first-batch", "later-batch"])
@pytest.mark.parametrize(("point", "runs"), [("planned", 2), ("reading", 1), ("read", 2)])
def test_each_record_once(root: Path, tmp_path: Path, point: str, runs: int, offset: int, reader: str) -> None:
    environment = plain_environment()
    environment |= {"DYING_AT": point, "DYING_OFFSET": str(offset), "DYING_MARK": str(tmp_path / "died")}
    environment["PYTHONPATH"] = os.pathsep.join([str(SCRIPT.parents[1]), environment.get("PYTHONPATH", "")])
    command = [sys.executable, *map(str, (SCRIPT, root, tmp_path / "checkpoint", tmp_path / "sink", reader))]
    codes: list[int] = []
    while not codes or codes[-1] == -signal.SIGKILL:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, start_new_session=True, timeout=1000
        )
        codes.append(done.returncode)
    assert codes == [*[-signal.SIGKILL] * (runs - 1), 0], done.stderr[-4000:]
    assert (tmp_path / "died").exists()
    assert sorted(sunk(tmp_path / "sink")) == [(partition, number) for partition in (0, 1) for number in range(100)]
