"""Spark's short-lived workers load few modules of tidelog, and the JVM reader's planner loads no PySpark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from log_maker import mark_clean, plain, write_segment
from spark.in_process import options_of

SCRIPT = """
import sys
from pyspark_tidelog import DefaultSource

def loaded(*rooms):
    return sorted(name for name in sys.modules if name.startswith(rooms))

source = DefaultSource({options})
schema = source.schema()
print(loaded("tidelog.kernel", "tidelog.record", "tidelog.storage.log", "tidelog.spark.write", "tidelog.spark.stream"))
reader = source.reader(schema)
print(sum(batch.num_rows for split in reader.partitions() for batch in reader.read(split)))
print(loaded("tidelog.storage.log.append", "tidelog.storage.manager", "tidelog.config.broker_keys",
             "tidelog.spark.write", "tidelog.spark.stream", "tidelog.spark.rows.partition_rows"))
"""

PLANNER_SCRIPT = """
import sys
from tidelog.spark.jvm.plan_server import PlanServer

server = PlanServer()
options = {options}
stream = server.reply(dict(id=1, request="stream_open", options=options))["result"]["stream"]
start = '{{"t": {{"0": 0}}}}'
for request in (
    dict(request="table", options=options),
    dict(request="plan", options=options, filters=[]),
    dict(request="stream_end", stream=stream, start=start, isLimited=False),
    dict(request="stream_plan", stream=stream, start=start, end='{{"t": {{"0": 10}}}}'),
):
    print(sorted(server.reply(dict(request, id=2))))
print(sorted(dict.fromkeys(name.partition(".")[0] for name in sys.modules if name.startswith(("py4j", "pya", "pys")))))
"""


def test_no_worker_loads_what_it_is_not_asked_for(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    mark_clean(tmp_path)
    script = SCRIPT.format(options=repr(options_of(tmp_path)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout == "[]\n10\n[]\n"


def test_the_planner_loads_neither_pyspark_nor_pyarrow(tmp_path: Path) -> None:
    """A session's first read waits for the planner's process."""
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    mark_clean(tmp_path)
    script = PLANNER_SCRIPT.format(options=repr(options_of(tmp_path)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout == "['id', 'result']\n" * 4 + "[]\n"
