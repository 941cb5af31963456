"""The planner's process: its requests, its replies, and its end."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from log_maker import mark_clean, plain, write_segment
from spark.in_process import options_of
from tidelog.spark.jvm.plan_server import PlanServer, Request
from tidelog.spark.read.table_columns import Mode


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write ``t-0`` with offsets 0 to 200 in two segments."""
    for base in (0, 100):
        write_segment(tmp_path / "t-0", base, [plain(base + 10 * number) for number in range(10)])
    mark_clean(tmp_path)
    return tmp_path


def ask(server: PlanServer, name: str, **fields: Any) -> Any:
    reply = server.reply({"id": 7, "request": name, **fields})
    assert reply["id"] == 7
    assert "error" not in reply, reply["error"]
    return json.loads(json.dumps(reply["result"]))


def test_a_table_tells_who_reads_it(root: Path) -> None:
    server = PlanServer()
    for mode in Mode:
        table = ask(server, "table", options=options_of(root, mode=mode))
        assert table["onlyPython"] == (None if mode is Mode.RECORDS else f"mode {mode}")
    assert ask(server, "table", options=options_of("s3://backup/logs"))["addresses"] == ["s3://backup/logs"]
    assert ask(server, "table", options=options_of(root, columns="value,offset"))["columns"] == ["value", "offset"]
    asked: tuple[dict[str, str], ...] = (
        {},
        {"verifyChecksums": "true"},
        {"verifyChecksums": "false"},
        {"onCorrupt": "skip"},
    )
    trusts = [ask(server, "table", options=options_of(root, **given))["trustsHeaders"] for given in asked]
    assert trusts == [True, False, True, False]


def test_a_plan_is_files_bytes_and_offsets(root: Path) -> None:
    filters = [{"kind": "GreaterThanOrEqual", "column": "offset", "value": 150}]
    plan = ask(PlanServer(), "plan", options=options_of(root), filters=filters)
    [task] = plan["tasks"]
    [piece] = task["pieces"]
    assert (piece["topic"], piece["partition"], piece["start"], piece["end"]) == ("t", 0, 150, 200)
    size = len(plain(0))
    assert piece["segments"] == [
        {"file": f"{100:020d}.log", "baseOffset": 100, "endOffset": 200, "endPosition": 10 * size}
    ]
    assert 0 < piece["position"] <= 5 * size
    assert piece["position"] % size == 0
    assert plan["settings"]["onCorrupt"] == "fail"


def test_a_timestamp_filter_is_in_microseconds(root: Path) -> None:
    filters = [{"kind": "GreaterThan", "column": "timestamp", "value": 5_999}]
    assert ask(PlanServer(), "plan", options=options_of(root), filters=filters)["settings"]["minTimestampMs"] == 5


def test_an_error_is_the_sentence_of_the_python_reader(root: Path) -> None:
    server = PlanServer()
    reply = server.reply({"id": 1, "request": "plan", "options": options_of(root, subscribe="nope"), "filters": []})
    assert reply["error"].startswith(f"nope not found in {root}; set failOnDataLoss to false")
    assert server.reply({"id": 2, "request": "nothing"})["error"] == "KeyError: 'nothing'"


def test_a_stream_has_positions_as_the_python_reader_writes_them(root: Path) -> None:
    server = PlanServer()
    options = options_of(root, startingOffsets="earliest", maxOffsetsPerTrigger=50)
    opened = ask(server, "stream_open", options=options)
    assert opened["maxOffsets"] == 50
    stream = opened["stream"]
    start = ask(server, "stream_initial", stream=stream)
    assert start == '{"t": {"0": 0}}'
    found = ask(server, "stream_end", stream=stream, start=start, isLimited=True)
    assert found == {"end": '{"t": {"0": 50}}', "latest": '{"t": {"0": 200}}'}
    [task] = ask(server, "stream_plan", stream=stream, start=start, end=found["end"])["tasks"]
    assert [(piece["start"], piece["end"]) for piece in task["pieces"]] == [(0, 50)]
    assert ask(server, "stream_plan", stream=stream, start=start, end=start) == {"tasks": []}
    ask(server, "stream_close", stream=stream)
    assert "error" in server.reply({"id": 1, "request": "stream_initial", "stream": stream})


def test_a_long_plan_delays_no_other_request() -> None:
    """The reply to the second request lets the first one end."""

    class Blocking(PlanServer):
        second_is_done = threading.Event()

        def reply(self, request: Request) -> dict[str, Any]:
            if request["id"] == 1:
                assert self.second_is_done.wait(60), "the second request waits for the first"
            return {"id": request["id"], "result": None}

    class Replies(StringIO):
        def write(self, text: str) -> int:
            if json.loads(text)["id"] == 2:
                Blocking.second_is_done.set()
            else:
                all_done.set()
            return super().write(text)

    all_done = threading.Event()
    replies = Replies()
    Blocking().serve(['{"id": 1}', '{"id": 2}'], replies)
    assert all_done.wait(60)
    assert [json.loads(line)["id"] for line in replies.getvalue().splitlines()] == [2, 1]


def test_the_process_serves_until_its_input_ends(root: Path) -> None:
    request = {"id": 3, "request": "table", "options": options_of(root)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tidelog.spark.jvm.plan_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps(request), file=process.stdin, flush=True)
    assert json.loads(process.stdout.readline())["id"] == 3
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0
